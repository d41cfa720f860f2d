#include "runtime/saved_model/files.h"

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "core/base/status.h"
#include "core/base/text_proto.h"
#include "core/io/file.h"
#include "google/protobuf/io/zero_copy_stream_impl_lite.h"
#include "proto/saved_model.pb.h"

namespace tandem {
namespace {

constexpr char kBinaryName[] = "saved_model.pb";
constexpr char kTextName[] = "saved_model.pbtxt";
constexpr char kPiecesName[] = "saved_model.cpb";
constexpr int64_t kVersion = 1;

// Gives a parser the bytes of a file, so that they are not in memory beside the message.
class FileBytes final : public google::protobuf::io::CopyingInputStream {
 public:
  explicit FileBytes(const RandomAccessFile& file) : file_(file) {}

  int Read(void* buffer, int size) override {
    const absl::StatusOr<size_t> read =
        file_.Read(offset_, absl::MakeSpan(static_cast<char*>(buffer), static_cast<size_t>(size)));
    if (!read.ok()) {
      status_ = read.status();
      return -1;
    }
    offset_ += static_cast<int64_t>(*read);
    return static_cast<int>(*read);
  }
  const absl::Status& status() const { return status_; }

 private:
  const RandomAccessFile& file_;
  int64_t offset_ = 0;
  absl::Status status_;
};

absl::Status ParseBinaryFile(const std::string& path, tensorflow::SavedModel* model) {
  TANDEM_ASSIGN_OR_RETURN(const std::unique_ptr<RandomAccessFile> file,
                          PosixFileSystem()->OpenToRead(path));
  TANDEM_ASSIGN_OR_RETURN(const int64_t size, file->Size());
  FileBytes bytes(*file);
  google::protobuf::io::CopyingInputStreamAdaptor stream(&bytes, 1 << 20);
  if (model->ParseFromZeroCopyStream(&stream)) return absl::OkStatus();
  TANDEM_RETURN_IF_ERROR(bytes.status());
  return errors::InvalidArgument("SavedModel '", path, "': its ", size,
                                 " bytes are no SavedModel; the file is damaged or cut off");
}

absl::Status Parse(const std::string& path, bool is_text, const std::string& contents,
                   tensorflow::SavedModel* model) {
  if (is_text) {
    return WithContext(ParseTextProto(contents, model), absl::StrCat("SavedModel '", path, "'"));
  }
  if (!model->ParseFromString(contents)) {
    return errors::InvalidArgument("SavedModel '", path, "': its ", contents.size(),
                                   " bytes are no SavedModel; the file is damaged or cut off");
  }
  return absl::OkStatus();
}

std::string TagsText(const std::vector<std::string>& tags) {
  return tags.empty() ? "no tags" : absl::StrJoin(tags, ", ");
}

}  // namespace

absl::Status ReadSavedModel(const std::string& folder, tensorflow::SavedModel* model) {
  FileSystem* const files = PosixFileSystem();
  const auto exists = [&](const char* name) { return files->Stat(JoinPath(folder, name)).ok(); };
  // The binary form counts when there are both, as in TensorFlow.
  const bool is_text = !exists(kBinaryName) && exists(kTextName);
  if (!is_text && !exists(kBinaryName)) {
    const absl::StatusOr<FileInfo> info = files->Stat(folder);
    if (!info.ok()) return info.status();
    if (!info->is_directory) {
      return errors::InvalidArgument("'", folder, "' is a file; a SavedModel is a folder with ",
                                     kBinaryName, " in it");
    }
    if (exists(kPiecesName)) {
      return errors::Unimplemented("SavedModel '", JoinPath(folder, kPiecesName),
                                   "': SavedModels in pieces are not read. TensorFlow writes it as "
                                   "one file when it loads this one and saves it again: "
                                   "tf.saved_model.save(m := tf.saved_model.load(OLD), NEW, "
                                   "signatures=m.signatures), or when it saves without "
                                   "experimental_image_format in the first place");
    }
    return errors::NotFound("there is no SavedModel in '", folder, "': it has neither ",
                            kBinaryName, " nor ", kTextName);
  }
  const std::string path = JoinPath(folder, is_text ? kTextName : kBinaryName);
  if (is_text) {
    TANDEM_ASSIGN_OR_RETURN(const std::string contents, ReadRegularFile(files, path));
    TANDEM_RETURN_IF_ERROR(Parse(path, is_text, contents, model));
  } else {
    TANDEM_RETURN_IF_ERROR(ParseBinaryFile(path, model));
  }
  if (model->meta_graphs().empty()) {
    return errors::InvalidArgument("SavedModel '", path, "': there is no graph in it");
  }
  if (model->saved_model_schema_version() > kVersion || model->saved_model_schema_version() < 0) {
    return errors::InvalidArgument("SavedModel '", path, "' is of version ",
                                   model->saved_model_schema_version(), "; version ", kVersion,
                                   " is read");
  }
  return absl::OkStatus();
}

std::string TagsText(const tensorflow::MetaGraphDef& meta_graph) {
  const auto& tags = meta_graph.meta_info_def().tags();
  return TagsText(std::vector<std::string>(tags.begin(), tags.end()));
}

absl::StatusOr<tensorflow::MetaGraphDef*> FindMetaGraph(const std::string& folder,
                                                        const std::set<std::string>& tags,
                                                        tensorflow::SavedModel* model) {
  tensorflow::MetaGraphDef* found = nullptr;
  std::vector<std::string> there;
  for (tensorflow::MetaGraphDef& meta_graph : *model->mutable_meta_graphs()) {
    const auto& its = meta_graph.meta_info_def().tags();
    there.push_back(absl::StrCat("(", TagsText(meta_graph), ")"));
    if (std::set<std::string>(its.begin(), its.end()) != tags) continue;
    if (found != nullptr) {
      return errors::InvalidArgument("SavedModel '", folder, "': several graphs have the tags (",
                                     TagsText(meta_graph), ")");
    }
    found = &meta_graph;
  }
  if (found != nullptr) return found;
  return errors::NotFound("SavedModel '", folder, "': no graph has exactly the tags (",
                          TagsText(std::vector<std::string>(tags.begin(), tags.end())), "); there ",
                          there.size() == 1 ? "is " : "are ", absl::StrJoin(there, ", "));
}

absl::StatusOr<std::vector<tensorflow::AssetFileDef>> AssetsOf(
    const tensorflow::MetaGraphDef& meta_graph) {
  std::vector<tensorflow::AssetFileDef> assets(meta_graph.asset_file_def().begin(),
                                               meta_graph.asset_file_def().end());
  const auto collection = meta_graph.collection_def().find("saved_model_assets");
  if (!assets.empty() || collection == meta_graph.collection_def().end()) return assets;
  for (const google::protobuf::Any& any : collection->second.any_list().value()) {
    tensorflow::AssetFileDef asset;
    if (!any.UnpackTo(&asset)) {
      return errors::InvalidArgument("the collection saved_model_assets holds a ", any.type_url(),
                                     "; AssetFileDefs are expected");
    }
    assets.push_back(std::move(asset));
  }
  return assets;
}

std::string InitializerOf(const tensorflow::MetaGraphDef& meta_graph) {
  if (const auto signature = meta_graph.signature_def().find(kInitSignature);
      signature != meta_graph.signature_def().end()) {
    const auto output = signature->second.outputs().find(kInitSignature);
    if (output != signature->second.outputs().end() && !output->second.name().empty()) {
      return output->second.name();
    }
  }
  for (const char* const name : {"saved_model_main_op", "legacy_init_op"}) {
    const auto collection = meta_graph.collection_def().find(name);
    if (collection == meta_graph.collection_def().end()) continue;
    const auto& nodes = collection->second.node_list().value();
    if (!nodes.empty() && !nodes[0].empty()) return nodes[0];
  }
  return "";
}

bool IsSavedModel(const std::string& path) {
  FileSystem* const files = PosixFileSystem();
  const absl::StatusOr<FileInfo> info = files->Stat(path);
  if (!info.ok()) return false;
  if (info->is_directory) {
    return files->Stat(JoinPath(path, kBinaryName)).ok() ||
           files->Stat(JoinPath(path, kTextName)).ok();
  }
  const absl::StatusOr<std::string> contents = ReadRegularFile(files, path);
  if (!contents.ok()) return false;
  for (const bool is_text : {false, true}) {
    tensorflow::SavedModel model;
    if (Parse(path, is_text, *contents, &model).ok() && !model.meta_graphs().empty() &&
        model.meta_graphs(0).has_graph_def()) {
      return true;
    }
  }
  return false;
}

std::string VariablesPrefix(const std::string& folder) {
  return JoinPath(folder, "variables/variables");
}

absl::StatusOr<std::string> AssetPath(const std::string& folder, const std::string& name) {
  const std::vector<absl::string_view> parts = absl::StrSplit(name, '/');
  const bool leaves = absl::c_any_of(
      parts, [](absl::string_view part) { return part.empty() || part == "." || part == ".."; });
  if (leaves || name.find('\0') != std::string::npos) {
    return errors::InvalidArgument("SavedModel '", folder, "': the asset '", name,
                                   "' would not lie in the folder of the assets");
  }
  std::string path = JoinPath(JoinPath(folder, "assets"), name);
  const absl::StatusOr<FileInfo> info = PosixFileSystem()->Stat(path);
  if (!info.ok()) {
    return WithContext(info.status(), absl::StrCat("SavedModel '", folder, "': asset"));
  }
  if (!info->is_regular && !info->is_directory) {
    return errors::FailedPrecondition("SavedModel '", folder, "': the asset '", name,
                                      "' is a pipe or a device; a file is expected");
  }
  return path;
}

}  // namespace tandem
