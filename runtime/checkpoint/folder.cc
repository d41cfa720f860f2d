#include "runtime/checkpoint/folder.h"

#include <algorithm>
#include <filesystem>
#include <system_error>

#include "absl/algorithm/container.h"
#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "core/base/log.h"
#include "core/base/status.h"
#include "core/io/bundle.h"
#include "core/io/checkpoint_state.h"

namespace tandem {
namespace {

constexpr absl::string_view kIndexEnding = ".index";
constexpr absl::string_view kDataMark = ".data-";
// The mark of TemporaryPath in core/io/file.h.
constexpr absl::string_view kTemporaryMark = ".tempstate";

bool AllDigits(absl::string_view text) {
  return !text.empty() && absl::c_all_of(text, [](char c) { return c >= '0' && c <= '9'; });
}

absl::optional<int> Number(absl::string_view digits) {
  int number = 0;
  if (!AllDigits(digits) || !absl::SimpleAtoi(digits, &number)) return absl::nullopt;
  return number;
}

// "ckpt.data-00001-of-00004": the prefix's name and what follows it.
struct ParsedDataName {
  absl::string_view name;
  int shard = 0;
  int num_shards = 0;
};
absl::optional<ParsedDataName> ParseDataName(absl::string_view file) {
  const size_t mark = file.rfind(kDataMark);
  if (mark == absl::string_view::npos) return absl::nullopt;
  const std::vector<absl::string_view> numbers =
      absl::StrSplit(file.substr(mark + kDataMark.size()), "-of-");
  if (numbers.size() != 2) return absl::nullopt;
  const absl::optional<int> shard = Number(numbers[0]);
  const absl::optional<int> count = Number(numbers[1]);
  if (!shard.has_value() || !count.has_value()) return absl::nullopt;
  return ParsedDataName{file.substr(0, mark), *shard, *count};
}

// `prefix` if it lies in `folder`, else the file of the same name in it.
std::string Inside(const std::string& folder, const std::string& prefix) {
  namespace fs = std::filesystem;
  std::error_code error;
  const fs::path base = fs::absolute(JoinPath(folder, "."), error).lexically_normal();
  const fs::path path = fs::absolute(prefix, error).lexically_normal();
  const std::string relative = path.lexically_relative(base.parent_path()).string();
  if (!error && !relative.empty() && relative != ".." && !absl::StartsWith(relative, "../")) {
    return prefix;
  }
  return JoinPath(folder, FileNameOf(prefix));
}

bool IsCheckpointOf(absl::string_view file, absl::string_view name) {
  return absl::ConsumePrefix(&file, name) && absl::ConsumePrefix(&file, "-") && AllDigits(file);
}

// "ckpt-1.index" for "ckpt-1.index.tempstate0a1b"; a name without such an ending as it is.
absl::string_view WithoutTemporaryEnding(absl::string_view file) {
  const size_t mark = file.rfind(kTemporaryMark);
  if (mark == absl::string_view::npos) return file;
  const absl::string_view number = file.substr(mark + kTemporaryMark.size());
  const bool is_number =
      !number.empty() && absl::c_all_of(number, [](char c) { return absl::ascii_isxdigit(c); });
  return is_number ? file.substr(0, mark) : file;
}

void LogUnlessGone(const absl::Status& status) {
  if (status.ok() || absl::IsNotFound(status)) return;
  TANDEM_LOG(Warning) << "a leftover of a former run stays: " << status.message();
}

}  // namespace

absl::optional<int64_t> CheckpointStep(absl::string_view prefix) {
  const absl::string_view name = FileNameOf(prefix);
  const size_t dash = name.rfind('-');
  int64_t step = 0;
  if (dash == absl::string_view::npos || !AllDigits(name.substr(dash + 1)) ||
      !absl::SimpleAtoi(name.substr(dash + 1), &step)) {
    return absl::nullopt;
  }
  return step;
}

absl::StatusOr<std::vector<std::string>> CheckpointsNewestFirst(FileSystem* files,
                                                                const std::string& folder) {
  TANDEM_ASSIGN_OR_RETURN(const std::vector<std::string> names, files->ListDirectory(folder));
  std::vector<std::string> prefixes;
  const auto add = [&](const std::string& prefix) {
    if (!prefix.empty() && !absl::c_linear_search(prefixes, prefix)) prefixes.push_back(prefix);
  };
  const absl::StatusOr<CheckpointState> state = ReadCheckpointState(files, folder);
  if (state.ok()) {
    if (!state->latest.empty()) add(Inside(folder, state->latest));
    for (auto it = state->all.rbegin(); it != state->all.rend(); ++it) {
      add(Inside(folder, it->prefix));
    }
  } else if (!absl::IsNotFound(state.status())) {
    TANDEM_LOG(Warning) << "the names of the files decide which checkpoint is the newest, since "
                        << state.status().message();
  }
  std::vector<std::string> unlisted;
  for (absl::string_view name : names) {
    if (absl::ConsumeSuffix(&name, kIndexEnding)) unlisted.push_back(JoinPath(folder, name));
  }
  std::stable_sort(unlisted.begin(), unlisted.end(), [](const auto& a, const auto& b) {
    return CheckpointStep(a).value_or(-1) > CheckpointStep(b).value_or(-1);
  });
  for (const std::string& prefix : unlisted) add(prefix);
  return prefixes;
}

absl::StatusOr<CheckpointCandidates> CheckpointsAt(FileSystem* files, const std::string& path) {
  absl::string_view prefix = path;
  const absl::string_view file = FileNameOf(path);
  const absl::optional<ParsedDataName> data = ParseDataName(file);
  if (data.has_value()) {
    prefix.remove_suffix(file.size() - data->name.size());
  } else {
    absl::ConsumeSuffix(&prefix, kIndexEnding);
  }
  if (files->Stat(BundleIndexPath(prefix)).ok())
    return CheckpointCandidates{{std::string(prefix)}, false};
  const absl::StatusOr<FileInfo> info = files->Stat(path);
  if (!info.ok() && !absl::IsNotFound(info.status())) return info.status();
  if (!info.ok() || !info->is_directory) {
    return errors::NotFound("there is no checkpoint '", path, "': neither the file '",
                            BundleIndexPath(prefix), "' nor a folder");
  }
  TANDEM_ASSIGN_OR_RETURN(std::vector<std::string> prefixes, CheckpointsNewestFirst(files, path));
  if (prefixes.empty())
    return errors::NotFound("there is no checkpoint in the folder '", path, "'");
  return CheckpointCandidates{std::move(prefixes), true};
}

absl::StatusOr<std::vector<DataFileName>> DataFilesOf(FileSystem* files,
                                                      const std::string& prefix) {
  const std::string folder = DirectoryOf(prefix);
  absl::StatusOr<std::vector<std::string>> names = files->ListDirectory(folder);
  if (absl::IsNotFound(names.status())) names = std::vector<std::string>();
  if (!names.ok()) return names.status();
  std::vector<DataFileName> result;
  for (const std::string& name : *names) {
    const absl::optional<ParsedDataName> data = ParseDataName(name);
    if (!data.has_value() || data->name != FileNameOf(prefix)) continue;
    result.push_back({JoinPath(folder, name), data->shard, data->num_shards});
  }
  return result;
}

absl::Status RemoveCheckpoint(FileSystem* files, const std::string& prefix) {
  // TensorFlow 1 keeps the graph of a checkpoint beside it.
  for (const std::string& path : {BundleIndexPath(prefix), absl::StrCat(prefix, ".meta")}) {
    const absl::Status removed = files->Remove(path);
    if (!removed.ok() && !absl::IsNotFound(removed)) return removed;
  }
  TANDEM_ASSIGN_OR_RETURN(const std::vector<DataFileName> data, DataFilesOf(files, prefix));
  if (data.empty()) return absl::OkStatus();
  // After a crash of the machine there may be data without an index, but no index without data.
  TANDEM_RETURN_IF_ERROR(files->SyncDirectory(DirectoryOf(prefix)));
  for (const DataFileName& file : data) TANDEM_RETURN_IF_ERROR(files->Remove(file.path));
  return absl::OkStatus();
}

std::string PartsFolder(absl::string_view prefix) { return absl::StrCat(prefix, "_temp"); }

absl::Status RemovePartsFolder(FileSystem* files, const std::string& folder) {
  const absl::StatusOr<std::vector<std::string>> names = files->ListDirectory(folder);
  if (absl::IsNotFound(names.status())) return absl::OkStatus();
  if (!names.ok()) return names.status();
  for (const std::string& name : *names) {
    if (!absl::StartsWith(name, "part-")) {
      return errors::FailedPrecondition("'", folder,
                                        "', where parts of checkpoints are written, "
                                        "holds '",
                                        name, "'; move it away");
    }
  }
  for (const std::string& name : *names) {
    TANDEM_RETURN_IF_ERROR(files->Remove(JoinPath(folder, name)));
  }
  return files->RemoveDirectory(folder);
}

void RemoveLeftovers(FileSystem* files, const std::string& folder, absl::string_view name) {
  const absl::StatusOr<std::vector<std::string>> names = files->ListDirectory(folder);
  if (!names.ok()) return LogUnlessGone(names.status());
  for (const std::string& file : *names) {
    const std::string path = JoinPath(folder, file);
    absl::string_view prefix = file;
    if (absl::ConsumeSuffix(&prefix, "_temp") && IsCheckpointOf(prefix, name)) {
      LogUnlessGone(RemovePartsFolder(files, path));
      continue;
    }
    const absl::string_view complete = WithoutTemporaryEnding(file);
    const bool temporary = complete.size() < file.size();
    prefix = complete;
    const absl::optional<ParsedDataName> data = ParseDataName(complete);
    if (data.has_value()) prefix = data->name;
    const bool ours = complete == FileNameOf(CheckpointStatePath(folder)) ||
                      ((data.has_value() || absl::ConsumeSuffix(&prefix, kIndexEnding)) &&
                       IsCheckpointOf(prefix, name));
    const bool orphan =
        data.has_value() && !absl::c_linear_search(*names, absl::StrCat(prefix, kIndexEnding));
    if (ours && (temporary || orphan)) LogUnlessGone(files->Remove(path));
  }
}

}  // namespace tandem
