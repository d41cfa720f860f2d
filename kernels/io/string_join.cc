// StringJoin: strings at the same place joined, with a separator; scalars stand at every place.
#include <string>

#include "core/base/status.h"
#include "core/kernel/factories.h"
#include "core/op/registry.h"
#include "core/op/shape_context.h"

namespace tandem::io {
namespace {

absl::Status JoinShape(ShapeContext& c) {
  PartialShape result({});
  for (int i = 0; i < c.num_inputs(); ++i) {
    const PartialShape& shape = c.input(i);
    if (!shape.has_rank()) return c.SetOutput(0, PartialShape::Unknown());
    if (shape.rank() == 0) continue;
    if (result.rank() == 0) {
      result = shape;
    } else {
      TANDEM_ASSIGN_OR_RETURN(result, result.MergeWith(shape));
    }
  }
  return c.SetOutput(0, result);
}

class JoinKernel final : public Kernel {
 public:
  absl::Status Init(KernelInit& init) {
    separator_ = init.Attr<std::string>("separator");
    return absl::OkStatus();
  }

  absl::Status Compute(KernelContext& c) override {
    Shape shape;
    for (int i = 0; i < c.num_inputs(); ++i) {
      const Shape& input = c.input(i).shape();
      if (input.IsScalar()) continue;
      if (shape.IsScalar()) shape = input;
      if (shape != input) {
        return errors::InvalidArgument("input ", i, " has shape ", input.DebugString(),
                                       ", one before it ", shape.DebugString(),
                                       "; all that are no scalars must have one shape");
      }
    }
    TANDEM_ASSIGN_OR_RETURN(Tensor * output, c.AllocateOutput(0, shape));
    const auto joined = output->MutableElements<std::string>();
    for (int i = 0; i < c.num_inputs(); ++i) {
      const Tensor& input = c.input(i);
      const auto pieces = input.Elements<std::string>();
      for (size_t j = 0; j < joined.size(); ++j) {
        if (i > 0) joined[j].append(separator_);
        joined[j].append(pieces[input.shape().IsScalar() ? 0 : j]);
      }
    }
    return absl::OkStatus();
  }

 private:
  std::string separator_;
};

TANDEM_OP("StringJoin")
    .Inputs("inputs:N*string")
    .Outputs("output:string")
    .Attrs("N:int>=0; separator:string=\"\"")
    .Shape(JoinShape)
    .NotDifferentiable()
    .HostMemory({"inputs", "output"})
    .Cpu(Make<JoinKernel>());

}  // namespace
}  // namespace tandem::io
