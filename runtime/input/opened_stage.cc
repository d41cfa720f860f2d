#include "runtime/input/opened_stage.h"

#include <cassert>
#include <map>

#include "absl/strings/str_join.h"
#include "core/base/status.h"
#include "core/tensor/tensor_proto.h"
#include "proto/input.pb.h"
#include "runtime/device/out_of_memory.h"

namespace tandem::data {
namespace {

struct Kind {
  int inputs;
  OpenFunction open;
};

// Filled before main() only, so it needs no lock.
std::map<std::string, Kind>& Kinds() {
  static auto* const kinds = new std::map<std::string, Kind>;
  return *kinds;
}

}  // namespace

bool RegisterStage(absl::string_view kind, int inputs, OpenFunction open) {
  const bool is_new = Kinds().emplace(std::string(kind), Kind{inputs, open}).second;
  assert(is_new);
  return is_new;
}

absl::StatusOr<OpenedStagePtr> OpenNewStage(const Stage& stage) {
  const auto found = Kinds().find(stage.kind());
  if (found == Kinds().end()) {
    return errors::InvalidArgument(
        "the pipeline has a stage of unknown kind '", stage.kind(), "'; known are ",
        absl::StrJoin(Kinds(), ", ",
                      [](std::string* out, const auto& kind) { out->append(kind.first); }));
  }
  if (static_cast<int>(stage.inputs().size()) != found->second.inputs) {
    return errors::InvalidArgument(stage.kind(), ": has ", stage.inputs().size(),
                                   " inputs, expected ", found->second.inputs);
  }
  // Tables of small files are read here, whole.
  return CatchOutOfMemory([&] { return found->second.open(stage); });
}

absl::Status Pass::NextRows(int64_t, std::vector<int64_t>*) {
  return errors::Internal("a stage without rows was asked for rows");
}

absl::Status CheckState(const InputState& state, absl::string_view kind, int numbers, int inputs) {
  if (state.kind() != kind) {
    return errors::InvalidArgument("the state is of a stage '", state.kind(),
                                   "' where this pipeline has '", kind,
                                   "'; restore it into the pipeline that saved it");
  }
  if (state.numbers_size() != numbers || state.inputs_size() != inputs) {
    return BadState(kind,
                    absl::StrCat("has ", state.numbers_size(), " numbers and ", state.inputs_size(),
                                 " inputs, expected ", numbers, " and ", inputs));
  }
  return absl::OkStatus();
}

absl::Status BadState(absl::string_view kind, absl::string_view what) {
  return errors::InvalidArgument("the state of stage '", kind, "' ", what,
                                 "; restore it into the pipeline that saved it");
}

absl::Status SaveElement(const absl::StatusOr<Element>& element, InputElement* proto) {
  if (!element.ok()) {
    proto->set_error_code(element.status().raw_code());
    proto->set_error_message(std::string(element.status().message()));
    return absl::OkStatus();
  }
  for (const Tensor& tensor : *element) {
    TANDEM_RETURN_IF_ERROR(TensorToProto(tensor, proto->add_tensors(), TensorProtoForm::kContent));
  }
  return absl::OkStatus();
}

absl::Status LoadElement(const InputElement& proto, absl::StatusOr<Element>* element) {
  if (proto.error_code() != 0) {
    *element =
        absl::Status(static_cast<absl::StatusCode>(proto.error_code()), proto.error_message());
    return absl::OkStatus();
  }
  Element tensors;
  for (const tensorflow::TensorProto& in : proto.tensors()) {
    TANDEM_ASSIGN_OR_RETURN(Tensor tensor, TensorFromProto(in));
    tensors.push_back(std::move(tensor));
  }
  *element = std::move(tensors);
  return absl::OkStatus();
}

}  // namespace tandem::data
