// Stage: one step of an input pipeline as a value: a kind, attributes, and the stages that it reads
// from. Dataset (dataset.h) builds them; kinds are registered in opened_stage.h.
//
// Threads    any: a stage never changes.
// Ownership  stages share their inputs, and nobody owns a stage alone.
#ifndef TANDEM_RUNTIME_INPUT_STAGE_H_
#define TANDEM_RUNTIME_INPUT_STAGE_H_

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "core/base/mutex.h"
#include "core/tensor/tensor.h"

namespace tandem {

class InputStage;

namespace data {

class OpenedStage;
class Stage;
using StagePtr = std::shared_ptr<const Stage>;

// One of the lists is used; a single value is a list of one, a bool is 0 or 1.
struct Attr {
  std::vector<int64_t> ints;
  std::vector<std::string> strings;
  std::vector<Tensor> tensors;

  static Attr Int(int64_t value) { return {.ints = {value}}; }
  static Attr String(std::string value) { return {.strings = {std::move(value)}}; }
};

class Stage {
 public:
  // Sorted, so that equal stages become equal messages.
  using Attrs = std::map<std::string, Attr>;

  Stage(std::string kind, Attrs attrs, std::vector<StagePtr> inputs)
      : kind_(std::move(kind)), attrs_(std::move(attrs)), inputs_(std::move(inputs)) {}

  const std::string& kind() const { return kind_; }
  const Attrs& attrs() const { return attrs_; }
  const std::vector<StagePtr>& inputs() const { return inputs_; }

  // Attributes. InvalidArgument, with kind and name: missing, or not exactly one value.
  absl::StatusOr<int64_t> Int(absl::string_view name) const;
  absl::StatusOr<std::string> String(absl::string_view name) const;
  // InvalidArgument: missing. The result lives as long as the stage.
  absl::StatusOr<const Attr*> List(absl::string_view name) const;

  // Checks the attributes, opens the inputs, loads what a source keeps in memory. The result is
  // kept, so that all passes over a data set and all pipelines that begin with this stage load its
  // files once. InvalidArgument: an unknown kind, wrong attributes; and what the kind refuses.
  absl::StatusOr<std::shared_ptr<const OpenedStage>> Open() const;

 private:
  const std::string kind_;
  const Attrs attrs_;
  const std::vector<StagePtr> inputs_;

  mutable Mutex mu_;
  mutable std::shared_ptr<const OpenedStage> opened_ ABSL_GUARDED_BY(mu_);
};

// As a message, and back. InvalidArgument: a tensor that does not parse or is too large for a
// message, more than kMaxStageDepth stages in a row.
inline constexpr int kMaxStageDepth = 64;
absl::Status StageToProto(const Stage& stage, InputStage* proto);
absl::StatusOr<StagePtr> StageFromProto(const InputStage& proto);

}  // namespace data
}  // namespace tandem

#endif  // TANDEM_RUNTIME_INPUT_STAGE_H_
