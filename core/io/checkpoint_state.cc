#include "core/io/checkpoint_state.h"

#include <filesystem>
#include <system_error>

#include "absl/algorithm/container.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "core/base/status.h"
#include "core/base/text_proto.h"
#include "core/io/bundle.h"
#include "google/protobuf/text_format.h"
#include "proto/checkpoint_state.pb.h"

namespace tandem {
namespace {

// A hundred thousand checkpoints with long paths.
constexpr int64_t kMaxFileBytes = int64_t{32} << 20;

// As the file has it: a path from the folder on, or an absolute one.
std::string ToFile(const std::string& folder, const std::string& prefix) {
  namespace fs = std::filesystem;
  if (prefix.empty()) return prefix;
  std::error_code error;  // Without a working directory paths stay as they are.
  const fs::path path = fs::absolute(prefix, error).lexically_normal();
  const fs::path base = fs::absolute(JoinPath(folder, "."), error).lexically_normal();
  if (error) return prefix;
  const std::string relative = path.lexically_relative(base.parent_path()).string();
  if (relative.empty() || absl::StartsWith(relative, "..")) return path.string();
  return relative;
}

}  // namespace

std::string CheckpointStatePath(absl::string_view folder) { return JoinPath(folder, "checkpoint"); }

absl::StatusOr<CheckpointState> ReadCheckpointState(FileSystem* files, const std::string& folder) {
  const std::string path = CheckpointStatePath(folder);
  TANDEM_ASSIGN_OR_RETURN(const std::string text, ReadRegularFile(files, path, kMaxFileBytes));
  tensorflow::CheckpointState proto;
  if (const absl::Status parsed = ParseTextProto(text, &proto); !parsed.ok()) {
    return errors::DataLoss(path, ": ", parsed.message(),
                            "; a CheckpointState as text is expected");
  }
  CheckpointState state;
  for (int i = 0; i < proto.all_model_checkpoint_paths_size(); ++i) {
    const bool dated = i < proto.all_model_checkpoint_timestamps_size();
    state.all.push_back({JoinPath(folder, proto.all_model_checkpoint_paths(i)),
                         dated ? proto.all_model_checkpoint_timestamps(i) : 0});
  }
  if (!proto.model_checkpoint_path().empty()) {
    state.latest = JoinPath(folder, proto.model_checkpoint_path());
  }
  state.last_preserved_timestamp = proto.last_preserved_timestamp();
  return state;
}

absl::Status WriteCheckpointState(FileSystem* files, const std::string& folder,
                                  const CheckpointState& state) {
  const std::string path = CheckpointStatePath(folder);
  tensorflow::CheckpointState proto;
  proto.set_model_checkpoint_path(ToFile(folder, state.latest));
  const bool dated =
      absl::c_any_of(state.all, [](const auto& checkpoint) { return checkpoint.timestamp != 0; });
  for (const CheckpointState::Checkpoint& checkpoint : state.all) {
    proto.add_all_model_checkpoint_paths(ToFile(folder, checkpoint.prefix));
    if (dated) proto.add_all_model_checkpoint_timestamps(checkpoint.timestamp);
  }
  proto.set_last_preserved_timestamp(state.last_preserved_timestamp);
  std::string text;
  if (!google::protobuf::TextFormat::PrintToString(proto, &text)) {
    return errors::InvalidArgument(path,
                                   ": the paths of the checkpoints cannot be written as text");
  }
  return WriteFileAtomically(files, path, text);
}

absl::StatusOr<std::string> LatestCheckpoint(FileSystem* files, const std::string& folder) {
  TANDEM_ASSIGN_OR_RETURN(const CheckpointState state, ReadCheckpointState(files, folder));
  const std::string path = CheckpointStatePath(folder);
  if (state.latest.empty()) return errors::NotFound(path, ": names no checkpoint");
  const absl::Status status = files->Stat(BundleIndexPath(state.latest)).status();
  if (!status.ok()) return WithContext(status, absl::StrCat(path, ": names a checkpoint"));
  return state.latest;
}

}  // namespace tandem
