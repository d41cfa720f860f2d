#include "runtime/input/stage.h"

#include "core/base/status.h"
#include "core/tensor/tensor_proto.h"
#include "proto/input.pb.h"
#include "runtime/input/opened_stage.h"

namespace tandem::data {
namespace {

absl::Status ToProto(const Stage& stage, int depth, InputStage* proto) {
  if (depth > kMaxStageDepth) {
    return errors::InvalidArgument("a pipeline of more than ", kMaxStageDepth,
                                   " stages in a row cannot be serialized");
  }
  proto->Clear();
  proto->set_kind(stage.kind());
  for (const auto& [name, attr] : stage.attrs()) {
    InputAttr* const out = proto->add_attrs();
    out->set_name(name);
    for (const int64_t value : attr.ints) out->add_ints(value);
    for (const std::string& value : attr.strings) out->add_strings(value);
    for (const Tensor& value : attr.tensors) {
      TANDEM_RETURN_IF_ERROR(
          WithContext(TensorToProto(value, out->add_tensors(), TensorProtoForm::kContent),
                      absl::StrCat("stage ", stage.kind(), ", attribute '", name, "'")));
    }
  }
  for (const StagePtr& input : stage.inputs()) {
    TANDEM_RETURN_IF_ERROR(ToProto(*input, depth + 1, proto->add_inputs()));
  }
  return absl::OkStatus();
}

absl::StatusOr<StagePtr> FromProto(const InputStage& proto, int depth) {
  if (depth > kMaxStageDepth) {
    return errors::InvalidArgument("the message has more than ", kMaxStageDepth,
                                   " stages in a row");
  }
  Stage::Attrs attrs;
  for (const InputAttr& in : proto.attrs()) {
    Attr attr;
    attr.ints.assign(in.ints().begin(), in.ints().end());
    attr.strings.assign(in.strings().begin(), in.strings().end());
    for (const tensorflow::TensorProto& value : in.tensors()) {
      absl::StatusOr<Tensor> tensor = TensorFromProto(value);
      if (!tensor.ok()) {
        return WithContext(tensor.status(),
                           absl::StrCat("stage ", proto.kind(), ", attribute '", in.name(), "'"));
      }
      attr.tensors.push_back(*std::move(tensor));
    }
    if (!attrs.emplace(in.name(), std::move(attr)).second) {
      return errors::InvalidArgument("stage ", proto.kind(), " has attribute '", in.name(),
                                     "' twice");
    }
  }
  std::vector<StagePtr> inputs;
  for (const InputStage& in : proto.inputs()) {
    TANDEM_ASSIGN_OR_RETURN(StagePtr input, FromProto(in, depth + 1));
    inputs.push_back(std::move(input));
  }
  return std::make_shared<const Stage>(proto.kind(), std::move(attrs), std::move(inputs));
}

}  // namespace

absl::StatusOr<const Attr*> Stage::List(absl::string_view name) const {
  const auto found = attrs_.find(std::string(name));
  if (found == attrs_.end()) {
    return errors::InvalidArgument(kind_, ": attribute '", name, "' is missing");
  }
  return &found->second;
}

absl::StatusOr<int64_t> Stage::Int(absl::string_view name) const {
  TANDEM_ASSIGN_OR_RETURN(const Attr* const attr, List(name));
  if (attr->ints.size() != 1) {
    return errors::InvalidArgument(kind_, ": attribute '", name, "' has ", attr->ints.size(),
                                   " integers, expected one");
  }
  return attr->ints[0];
}

absl::StatusOr<std::string> Stage::String(absl::string_view name) const {
  TANDEM_ASSIGN_OR_RETURN(const Attr* const attr, List(name));
  if (attr->strings.size() != 1) {
    return errors::InvalidArgument(kind_, ": attribute '", name, "' has ", attr->strings.size(),
                                   " strings, expected one");
  }
  return attr->strings[0];
}

absl::StatusOr<std::shared_ptr<const OpenedStage>> Stage::Open() const {
  {
    MutexLock lock(mu_);
    if (opened_) return opened_;
  }
  // Outside the lock, since a holder of a run token may not wait for another thread. Two threads
  // that open a stage at the same time both load it; the first one's is kept.
  TANDEM_ASSIGN_OR_RETURN(std::shared_ptr<const OpenedStage> opened, OpenNewStage(*this));
  MutexLock lock(mu_);
  if (!opened_) opened_ = std::move(opened);
  return opened_;
}

absl::Status StageToProto(const Stage& stage, InputStage* proto) {
  return ToProto(stage, 1, proto);
}

absl::StatusOr<StagePtr> StageFromProto(const InputStage& proto) { return FromProto(proto, 1); }

}  // namespace tandem::data
