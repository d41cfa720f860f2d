#include <cstdio>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "core/base/status.h"
#include "core/io/npy.h"
#include "nlohmann/json.hpp"
#include "runtime/checkpoint/checkpoint.h"
#include "runtime/checkpoint/folder.h"
#include "runtime/checkpoint/write.h"
#include "tools/cli/checkpoint_diff.h"
#include "tools/cli/command.h"
#include "tools/cli/tensor_text.h"
#include "tools/cli/text_table.h"
#include "tools/cli/training_notes.h"

namespace tandem::cli {
namespace {

using Json = nlohmann::json;

constexpr char kHelp[] =
    "tandem checkpoint ls|show|verify|diff|convert PATH… [OPTION…]\n\n"
    "Looks into checkpoints, as TensorFlow, Keras and Tandem write them. A PATH is the prefix of\n"
    "one ('run/ckpt-100', whose files are run/ckpt-100.index and run/ckpt-100.data-…), one of "
    "these\n"
    "files, or a folder, which stands for the newest good one in it: newer ones that are damaged "
    "are\n"
    "passed over, with a line that says why.\n\n"
    "Beside the tensors of a program Tandem keeps notes of a training ('_tandem/…': where it "
    "stands "
    "in\n"
    "its data, for instance; show PATH tells what they say), and TensorFlow 2 a graph of objects. "
    "Both are read, verified and "
    "copied,\n"
    "but no tensors of the program, so they are counted apart and listed only with --all.\n\n"
    "  ls PATH           the tensors: name, type, shape, bytes, and the variable of the program\n"
    "                    where a graph of objects tells it\n"
    "  show PATH         the training that wrote it: steps, optimizer, results of the epochs\n"
    "  show PATH NAME    the values of one tensor, by its name, its variable's, or the path of "
    "its\n"
    "                    object, as in 'model/_functional/_operations/1/_kernel' (Keras 3)\n"
    "  verify PATH       reads everything and compares the checksums; fails when one differs. Of "
    "a\n"
    "                    folder the newest one, good or not\n"
    "  diff PATH PATH    what only one of them has, and which types, shapes and values differ; "
    "fails\n"
    "                    when any do\n"
    "  convert PATH TO   writes the same tensors under another prefix, or under the same name into "
    "a\n"
    "                    folder; those that were saved in parts become whole\n\n"
    "  --max_values=N    show: the most values (default 1000)\n"
    "  --save=FILE       show: writes the tensor to a .npy file instead\n"
    "  --all             ls: notes, too; verify: all checkpoints of the folder\n"
    "  --tolerance=X     diff: numbers that differ by no more are equal (default 0: bit for bit)\n"
    "  --shards=N        convert: into how many data files (default 1)\n"
    "  --overwrite       convert: even if TO is there\n"
    "  --json            for programs\n\n"
    "Examples:\n"
    "  tandem checkpoint ls run/checkpoints\n"
    "  tandem checkpoint show run/checkpoints\n"
    "  tandem checkpoint show run/checkpoints dense/kernel --save=kernel.npy\n"
    "  tandem checkpoint verify --all run/checkpoints && echo whole\n"
    "  tandem checkpoint diff run/ckpt-100 run/ckpt-200 --tolerance=1e-6\n"
    "  tandem checkpoint convert run/checkpoints moved/model --shards=4\n";

void Print(const Json& json) {
  // Names and strings need not be UTF-8.
  std::printf("%s\n", json.dump(2, ' ', false, Json::error_handler_t::replace).c_str());
}

Json ShapeJson(const Shape& shape) {
  return std::vector<int64_t>(shape.dims().begin(), shape.dims().end());
}

// Index and sizes only; what is read later is checked then.
absl::StatusOr<std::unique_ptr<Checkpoint>> Open(const std::string& path) {
  Checkpoint::Options options;
  options.verify = false;
  return Checkpoint::Open(path, options);
}

// The bytes of a tensor, whole or in parts.
int64_t BytesOf(const BundleEntry& entry) {
  if (entry.slices.empty()) return entry.size;
  return entry.shape.num_elements() * static_cast<int64_t>(StoredElementBytes(entry.dtype));
}

// The names of a checkpoint by what they are.
struct Contents {
  int64_t tensors = 0;
  int64_t notes = 0;
};
Contents ContentsOf(const BundleReader& bundle) {
  Contents contents;
  for (const std::string& name : bundle.Names()) {
    if (!IsBookkeeping(name)) {
      ++contents.tensors;
    } else if (absl::StartsWith(name, kNotePrefix)) {
      ++contents.notes;
    }
  }
  return contents;
}

// "12 tensors, and 8 notes of a training".
std::string ContentsText(const Contents& contents) {
  std::string text = Plural(contents.tensors, "tensor");
  if (contents.notes > 0) {
    absl::StrAppend(&text, ", and ", Plural(contents.notes, "note"), " of a training");
  }
  return text;
}

absl::Status List(const Arguments& arguments, const std::vector<std::string>& paths) {
  TANDEM_ASSIGN_OR_RETURN(const std::unique_ptr<Checkpoint> checkpoint, Open(paths[0]));
  const BundleReader& bundle = checkpoint->bundle();
  const Contents contents = ContentsOf(bundle);
  std::map<std::string, std::string> variables;
  if (checkpoint->objects() != nullptr) {
    for (const ObjectGraph::Attribute& attribute : checkpoint->objects()->Attributes()) {
      variables[attribute.key] = attribute.full_name;
    }
  }
  std::vector<std::string> columns = {"NAME", "TYPE", "SHAPE", "BYTES"};
  if (!variables.empty()) columns.push_back("VARIABLE");
  TextTable table(columns);
  Json tensors = Json::array();
  int64_t total = 0;
  const bool all = arguments.Has("all");
  for (const std::string& name : all ? bundle.Names() : checkpoint->Names()) {
    const BundleEntry& entry = *bundle.Find(name);
    const int64_t bytes = BytesOf(entry);
    total += bytes;
    Json json = {{"name", name},
                 {"dtype", DataTypeName(entry.dtype)},
                 {"shape", ShapeJson(entry.shape)},
                 {"bytes", bytes}};
    std::vector<std::string> cells = {name, DataTypeName(entry.dtype), entry.shape.DebugString(),
                                      absl::StrCat(bytes)};
    if (!variables.empty()) {
      const std::string& variable = variables[name];
      cells.push_back(variable);
      if (!variable.empty()) json["variable"] = variable;
    }
    if (!entry.slices.empty()) json["parts"] = entry.slices.size();
    table.AddRow(std::move(cells));
    tensors.push_back(std::move(json));
  }
  if (arguments.Has("json")) {
    Print({{"prefix", checkpoint->prefix()},
           {"shards", bundle.num_shards()},
           {"bytes", total},
           {"notes", contents.notes},
           {"tensors", tensors}});
    return absl::OkStatus();
  }
  const bool some_hidden = !all && contents.notes > 0;
  std::printf("%s%s: %s%s, %s, %s\n", table.ToString().c_str(), checkpoint->prefix().c_str(),
              ContentsText(contents).c_str(), some_hidden ? " (--all shows them)" : "",
              Plural(total, "byte").c_str(), Plural(bundle.num_shards(), "shard").c_str());
  return absl::OkStatus();
}

absl::Status ShowTraining(const Arguments& arguments, const std::string& path) {
  TANDEM_ASSIGN_OR_RETURN(const std::unique_ptr<Checkpoint> checkpoint, Open(path));
  const absl::StatusOr<TrainingNotes> notes = ReadTrainingNotes(*checkpoint);
  if (absl::IsFailedPrecondition(notes.status())) {
    return errors::InvalidArgument(
        "the checkpoint '", checkpoint->prefix(),
        "' has no notes of a training; name the tensor to show (ls lists "
        "them)");
  }
  if (!notes.ok()) return notes.status();
  if (arguments.Has("json")) {
    Json json = TrainingJson(*notes);
    json["prefix"] = checkpoint->prefix();
    Print(json);
    return absl::OkStatus();
  }
  std::printf("%s: %s", checkpoint->prefix().c_str(), TrainingText(*notes).c_str());
  return absl::OkStatus();
}

absl::Status Show(const Arguments& arguments, const std::vector<std::string>& paths) {
  if (paths.size() == 1) return ShowTraining(arguments, paths[0]);
  int64_t max_values = 1000;
  if (arguments.Has("max_values") &&
      (!absl::SimpleAtoi(arguments.Last("max_values"), &max_values) || max_values < 0)) {
    return errors::InvalidArgument("--max_values=", arguments.Last("max_values"),
                                   ": expected a number, 0 or more");
  }
  TANDEM_ASSIGN_OR_RETURN(const std::unique_ptr<Checkpoint> checkpoint, Open(paths[0]));
  TANDEM_ASSIGN_OR_RETURN(const std::string name, checkpoint->Resolve(paths[1]));
  TANDEM_ASSIGN_OR_RETURN(const Tensor tensor, checkpoint->bundle().Read(name));
  if (arguments.Has("save")) return WriteNpy(arguments.Last("save"), tensor);
  if (arguments.Has("json")) {
    Print({{"prefix", checkpoint->prefix()},
           {"name", name},
           {"dtype", DataTypeName(tensor.dtype())},
           {"shape", ShapeJson(tensor.shape())},
           {"values", TensorJson(tensor)}});
    return absl::OkStatus();
  }
  std::printf("%s: %s%s\n%s", name.c_str(), DataTypeName(tensor.dtype()).c_str(),
              tensor.shape().DebugString().c_str(), TensorText(tensor, max_values).c_str());
  return absl::OkStatus();
}

// What is wrong with a checkpoint: of each damaged tensor what, or of the whole.
struct Verified {
  Contents contents;
  int shards = 0;
  std::vector<std::pair<std::string, absl::Status>> damaged;
};
Verified VerifyOne(const std::string& prefix) {
  Verified result;
  BundleReaderOptions options;
  options.parallel_for = IdleCores();
  const auto reader = BundleReader::Open(PosixFileSystem(), prefix, options);
  if (!reader.ok()) {
    result.damaged.emplace_back("", reader.status());
    return result;
  }
  result.shards = (*reader)->num_shards();
  result.contents = ContentsOf(**reader);
  for (const std::string& name : (*reader)->Names()) {
    const absl::Status status = (*reader)->Verify(name);
    if (!status.ok()) result.damaged.emplace_back(name, status);
  }
  return result;
}

absl::Status Verify(const Arguments& arguments, const std::vector<std::string>& paths) {
  TANDEM_ASSIGN_OR_RETURN(CheckpointCandidates candidates,
                          CheckpointsAt(PosixFileSystem(), paths[0]));
  if (!arguments.Has("all")) candidates.prefixes.resize(1);
  TextTable table({"CHECKPOINT", "TENSORS", "NOTES", "SHARDS", "DAMAGED", "RESULT"});
  Json checkpoints = Json::array();
  std::string reasons;
  size_t bad = 0;
  for (const std::string& prefix : candidates.prefixes) {
    const Verified verified = VerifyOne(prefix);
    const bool good = verified.damaged.empty();
    if (!good) ++bad;
    Json damage = Json::array();
    for (const auto& [name, status] : verified.damaged) {
      damage.push_back({{"tensor", name}, {"error", std::string(status.message())}});
      absl::StrAppend(&reasons, status.message(), "\n");
    }
    table.AddRow({prefix, absl::StrCat(verified.contents.tensors),
                  absl::StrCat(verified.contents.notes), absl::StrCat(verified.shards),
                  absl::StrCat(verified.damaged.size()), good ? "good" : "DAMAGED"});
    checkpoints.push_back({{"prefix", prefix},
                           {"tensors", verified.contents.tensors},
                           {"notes", verified.contents.notes},
                           {"shards", verified.shards},
                           {"good", good},
                           {"damage", damage}});
  }
  if (arguments.Has("json")) {
    Print({{"checkpoints", checkpoints}, {"good", bad == 0}});
  } else {
    std::printf("%s%s", table.ToString().c_str(), reasons.c_str());
  }
  if (bad == 0) return absl::OkStatus();
  return errors::DataLoss(bad, " of ", candidates.prefixes.size(), " checkpoints ",
                          bad == 1 ? "is" : "are", " damaged");
}

absl::Status Copy(const Checkpoint& from, const std::string& to, int shards) {
  // One is in memory at a time.
  std::vector<LazyTensor> tensors;
  for (const std::string& name : from.bundle().Names()) {
    tensors.push_back({name, BytesOf(*from.bundle().Find(name)),
                       [&from, name] { return from.bundle().Read(name); }});
  }
  return WriteCheckpointLazily(PosixFileSystem(), to, tensors, shards);
}

// A folder stands for the same name in it; as for reading, a prefix with this name comes first.
std::string ConvertTarget(FileSystem* files, const std::string& from, const std::string& to) {
  if (files->Stat(BundleIndexPath(to)).ok()) return to;
  const absl::StatusOr<FileInfo> info = files->Stat(to);
  const bool is_folder = absl::EndsWith(to, "/") || (info.ok() && info->is_directory);
  return is_folder ? JoinPath(to, FileNameOf(from)) : to;
}

absl::Status Convert(const Arguments& arguments, const std::vector<std::string>& paths) {
  int shards = 1;
  if (arguments.Has("shards") && !absl::SimpleAtoi(arguments.Last("shards"), &shards)) {
    return errors::InvalidArgument("--shards=", arguments.Last("shards"), ": expected a number");
  }
  TANDEM_ASSIGN_OR_RETURN(const std::unique_ptr<Checkpoint> checkpoint, Open(paths[0]));
  FileSystem* const files = PosixFileSystem();
  const std::string to = ConvertTarget(files, checkpoint->prefix(), paths[1]);
  if (!arguments.Has("overwrite") && files->Stat(BundleIndexPath(to)).ok()) {
    return errors::AlreadyExists("there is a checkpoint '", to,
                                 "'; choose another prefix, or say --overwrite");
  }
  const Contents contents = ContentsOf(checkpoint->bundle());
  TANDEM_RETURN_IF_ERROR(Copy(*checkpoint, to, shards));
  TANDEM_ASSIGN_OR_RETURN(BundleIndex index, ReadBundleIndex(files, to));
  if (index.num_shards != shards) {
    // Files of as many shards were there, and were replaced by a checkpoint that has one more. Now
    // their names are free.
    TANDEM_ASSIGN_OR_RETURN(const std::unique_ptr<Checkpoint> written, Open(to));
    TANDEM_RETURN_IF_ERROR(Copy(*written, to, shards));
    TANDEM_ASSIGN_OR_RETURN(index, ReadBundleIndex(files, to));
  }
  if (arguments.Has("json")) {
    Print({{"from", checkpoint->prefix()},
           {"to", to},
           {"tensors", contents.tensors},
           {"notes", contents.notes},
           {"shards", index.num_shards}});
  } else {
    std::printf("%s: %s, in %s, from %s\n", to.c_str(), ContentsText(contents).c_str(),
                Plural(index.num_shards, "shard").c_str(), checkpoint->prefix().c_str());
  }
  return absl::OkStatus();
}

absl::Status Diff(const Arguments& arguments, const std::vector<std::string>& paths) {
  double tolerance = 0;
  if (arguments.Has("tolerance") &&
      (!absl::SimpleAtod(arguments.Last("tolerance"), &tolerance) || !(tolerance >= 0))) {
    return errors::InvalidArgument("--tolerance=", arguments.Last("tolerance"),
                                   ": expected a number, 0 or more");
  }
  TANDEM_ASSIGN_OR_RETURN(const std::unique_ptr<Checkpoint> first, Open(paths[0]));
  TANDEM_ASSIGN_OR_RETURN(const std::unique_ptr<Checkpoint> second, Open(paths[1]));
  TANDEM_ASSIGN_OR_RETURN(const CheckpointDiff diff, DiffCheckpoints(*first, *second, tolerance));
  TextTable table({"TENSOR", "DIFFERENCE"});
  Json differences = Json::array();
  for (const CheckpointDifference& difference : diff.differences) {
    table.AddRow({difference.name, DifferenceText(difference)});
    differences.push_back(DifferenceJson(difference));
  }
  const bool equal = diff.differences.empty();
  if (arguments.Has("json")) {
    Print({{"first", first->prefix()},
           {"second", second->prefix()},
           {"tensors", diff.compared},
           {"equal", equal},
           {"differences", differences}});
  } else if (equal) {
    std::printf("%s: equal\n", Plural(diff.compared, "tensor").c_str());
  } else {
    std::printf("%s", table.ToString().c_str());
  }
  if (equal) return absl::OkStatus();
  return errors::FailedPrecondition(diff.differences.size(), " of ", diff.compared,
                                    " tensors differ between '", first->prefix(), "' and '",
                                    second->prefix(), "'");
}

struct Action {
  const char* name;
  size_t fewest_paths;  // How many words it takes.
  size_t most_paths;
  const char* wants;  // What they are.
  absl::Status (*run)(const Arguments& arguments, const std::vector<std::string>& paths);
};

constexpr Action kActions[] = {
    {"ls", 1, 1, "a checkpoint", List},
    {"show", 1, 2, "a checkpoint, and perhaps a tensor", Show},
    {"verify", 1, 1, "a checkpoint", Verify},
    {"diff", 2, 2, "two checkpoints", Diff},
    {"convert", 2, 2, "a checkpoint and a new prefix", Convert},
};

absl::Status Run(const std::vector<std::string>& words) {
  TANDEM_ASSIGN_OR_RETURN(const Arguments arguments,
                          Arguments::Parse(words, {"max_values", "save", "tolerance", "shards"},
                                           {"json", "all", "overwrite"}));
  std::vector<std::string> paths = arguments.positional();
  for (const Action& action : kActions) {
    if (paths.empty() || paths[0] != action.name) continue;
    paths.erase(paths.begin());
    if (paths.size() < action.fewest_paths || paths.size() > action.most_paths) {
      return errors::InvalidArgument(action.name, " names ", action.wants,
                                     "; see tandem checkpoint --help");
    }
    return action.run(arguments, paths);
  }
  return errors::InvalidArgument(
      "says what to do first: ls, show, verify, diff or convert; see tandem checkpoint --help");
}

}  // namespace

const Command kCheckpointCommand = {"checkpoint", "lists, shows, checks and converts checkpoints",
                                    kHelp, Run};

}  // namespace tandem::cli
