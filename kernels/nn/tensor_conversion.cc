#include "kernels/nn/tensor_conversion.h"

#include <cstring>

#include "core/base/status.h"
#include "kernels/nn/vector_math.h"

namespace tandem {

absl::StatusOr<Tensor> ToFloat(KernelContext& c, const Tensor& values) {
  if (values.dtype() == kFloat32) return values;
  TANDEM_ASSIGN_OR_RETURN(Tensor floats, c.AllocateTemporary(kFloat32, values.shape()));
  float* const to = floats.MutableElements<float>().data();
  c.parallel().For(values.num_elements(), 0.5, [&](int64_t begin, int64_t end) {
    if (values.dtype() == kFloat16) {
      ToCompute(values.Elements<Float16>().data() + begin, to + begin, end - begin);
    } else {
      ToCompute(values.Elements<Bfloat16>().data() + begin, to + begin, end - begin);
    }
  });
  return floats;
}

void FromFloat(const Tensor& values, Tensor& result, ParallelRunner& parallel) {
  if (result.dtype() == kFloat32) return;
  const float* const from = values.Elements<float>().data();
  parallel.For(values.num_elements(), 0.5, [&](int64_t begin, int64_t end) {
    if (result.dtype() == kFloat16) {
      FromCompute(from + begin, result.MutableElements<Float16>().data() + begin, end - begin);
    } else {
      FromCompute(from + begin, result.MutableElements<Bfloat16>().data() + begin, end - begin);
    }
  });
}

void SetZero(Tensor& tensor) {
  if (tensor.num_bytes() > 0) std::memset(tensor.mutable_data(), 0, tensor.num_bytes());
}

}  // namespace tandem
