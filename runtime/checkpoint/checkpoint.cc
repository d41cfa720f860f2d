#include "runtime/checkpoint/checkpoint.h"

#include "absl/algorithm/container.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "core/base/log.h"
#include "core/base/status.h"
#include "core/op/registry.h"
#include "runtime/checkpoint/folder.h"

namespace tandem {
bool IsBookkeeping(absl::string_view name) {
  return name == kObjectGraphName || absl::StartsWith(name, kNotePrefix);
}

absl::StatusOr<std::unique_ptr<Checkpoint>> Checkpoint::Open(const std::string& path,
                                                             const Options& options) {
  return OpenAccepted(path, options, [](const Checkpoint&) { return absl::OkStatus(); });
}

absl::StatusOr<std::unique_ptr<Checkpoint>> Checkpoint::OpenAccepted(
    const std::string& path, const Options& options,
    absl::FunctionRef<absl::Status(const Checkpoint&)> accept) {
  TANDEM_ASSIGN_OR_RETURN(const CheckpointCandidates candidates,
                          CheckpointsAt(options.files, path));
  std::vector<PassedOver> passed_over;
  for (const std::string& prefix : candidates.prefixes) {
    absl::StatusOr<std::unique_ptr<Checkpoint>> checkpoint = OpenPrefix(prefix, options);
    absl::Status status = checkpoint.status();
    if (status.ok()) {
      status = accept(**checkpoint);
      if (!status.ok() && !absl::IsDataLoss(status) && !absl::IsUnknown(status)) return status;
    }
    if (status.ok()) {
      (*checkpoint)->passed_over_ = std::move(passed_over);
      return checkpoint;
    }
    if (!candidates.is_folder) return status;
    TANDEM_LOG(Warning) << "checkpoint '" << prefix << "' is passed over: " << status.message();
    passed_over.emplace_back(prefix, std::move(status));
  }
  std::string reasons;
  for (const auto& [prefix, status] : passed_over) {
    absl::StrAppend(&reasons, "\n  ", FileNameOf(prefix), ": ", status.message());
  }
  return errors::DataLoss("none of the ", passed_over.size(), " checkpoints in the folder '", path,
                          "' can be loaded:", reasons);
}

absl::StatusOr<std::unique_ptr<Checkpoint>> Checkpoint::OpenPrefix(const std::string& prefix,
                                                                   const Options& options) {
  BundleReaderOptions reader_options;
  reader_options.parallel_for = IdleCores();
  TANDEM_ASSIGN_OR_RETURN(std::unique_ptr<BundleReader> reader,
                          BundleReader::Open(options.files, prefix, reader_options));
  std::unique_ptr<Checkpoint> checkpoint(new Checkpoint(std::move(reader)));
  TANDEM_RETURN_IF_ERROR(checkpoint->ReadObjects());
  if (options.verify) TANDEM_RETURN_IF_ERROR(checkpoint->Verify());
  return checkpoint;
}

absl::Status Checkpoint::ReadObjects() {
  const BundleEntry* const entry = reader_->Find(kObjectGraphName);
  if (entry == nullptr) return absl::OkStatus();
  if (entry->dtype != kString || !entry->shape.IsScalar()) {
    return errors::DataLoss("checkpoint '", prefix(), "': ", kObjectGraphName, " is ",
                            DataTypeName(entry->dtype), entry->shape.DebugString(),
                            ", expected a single string");
  }
  TANDEM_ASSIGN_OR_RETURN(const Tensor bytes, reader_->Read(kObjectGraphName));
  absl::StatusOr<ObjectGraph> objects = ObjectGraph::Parse(bytes.ScalarValue<std::string>());
  if (!objects.ok()) {
    return WithContext(objects.status(), absl::StrCat("checkpoint '", prefix(), "'"));
  }
  objects_ = *std::move(objects);
  for (const ObjectGraph::Attribute& attribute : objects_->Attributes()) {
    if (attribute.full_name.empty()) continue;
    const auto [known, added] = keys_by_full_name_.emplace(attribute.full_name, attribute.key);
    if (!added && known->second != attribute.key) known->second.clear();
  }
  return absl::OkStatus();
}

std::vector<std::string> Checkpoint::Names() const {
  std::vector<std::string> names = reader_->Names();
  names.erase(std::remove_if(names.begin(), names.end(), IsBookkeeping), names.end());
  return names;
}

absl::StatusOr<std::string> Checkpoint::Resolve(absl::string_view name) const {
  if (reader_->Find(name) != nullptr) return std::string(name);
  const auto by_full_name = keys_by_full_name_.find(name);
  std::string objects_say;
  if (by_full_name != keys_by_full_name_.end()) {
    if (!by_full_name->second.empty()) return by_full_name->second;
    objects_say = "; several objects have this name, so give the path of one";
  }
  if (objects_.has_value()) {
    absl::StatusOr<std::string> key = objects_->Find(name);
    if (key.ok()) return key;
    absl::StrAppend(&objects_say, "; ", key.status().message());
  }
  std::vector<std::string> names = Names();
  for (const auto& [full_name, key] : keys_by_full_name_) names.push_back(full_name);
  return errors::NotFound("the checkpoint '", prefix(), "' has no tensor '", name, "'", objects_say,
                          DidYouMean(name, names));
}

absl::StatusOr<Tensor> Checkpoint::Read(absl::string_view name) const {
  TANDEM_ASSIGN_OR_RETURN(const std::string key, Resolve(name));
  return reader_->Read(key);
}

absl::Status Checkpoint::Verify() const { return reader_->VerifyAll(); }

}  // namespace tandem
