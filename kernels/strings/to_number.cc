// StringToNumber: what each string says, as a number.
#include <string>

#include "core/base/status.h"
#include "core/base/utf8.h"
#include "core/kernel/factories.h"
#include "core/op/registry.h"
#include "core/op/shape_context.h"
#include "kernels/strings/parse_number.h"

namespace tandem::strings {
namespace {

template <typename T>
class ToNumberKernel final : public Kernel {
 public:
  absl::Status Compute(KernelContext& c) override {
    const auto strings = c.input(0).Elements<std::string>();
    TANDEM_ASSIGN_OR_RETURN(Tensor * output, c.AllocateOutput(0, c.input(0).shape()));
    const auto numbers = output->MutableElements<T>();
    for (size_t i = 0; i < strings.size(); ++i) {
      if (ParseNumber(strings[i], &numbers[i])) continue;
      return errors::InvalidArgument("element ", i, ", ", QuotedText(strings[i]), ", is no ",
                                     DataTypeName(DataTypeOf<T>()));
    }
    return absl::OkStatus();
  }
};

TANDEM_OP("StringToNumber")
    .Inputs("string_tensor:string")
    .Outputs("output:out_type")
    .Attrs("out_type:type{float32,float64,int32,int64,uint32,uint64}=float32")
    .Shape(UnchangedShape)
    .NotDifferentiable()
    .HostMemory({"string_tensor"})
    .Cpu(ByType<ToNumberKernel, float, double, int32_t, int64_t, uint32_t, uint64_t>("out_type"));

}  // namespace
}  // namespace tandem::strings
