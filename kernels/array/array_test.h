// Shorthand for the tests of this folder.
#ifndef TANDEM_KERNELS_ARRAY_ARRAY_TEST_H_
#define TANDEM_KERNELS_ARRAY_ARRAY_TEST_H_

#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "kernels/testing/op_runner.h"

namespace tandem::array {

using ::testing::HasSubstr;
using Tensors = std::vector<Tensor>;

// 0, 1, 2, …: one sees where each element went.
inline Tensor Counting(Shape shape) {
  Tensor tensor(kFloat32, std::move(shape));
  float next = 0;
  for (float& value : tensor.MutableElements<float>()) value = next++;
  return tensor;
}

inline Tensor Ints32(std::initializer_list<int32_t> values) {
  return Tensor::Vector<int32_t>(values);
}

// All outputs, or none when the op fails (which the test then reports).
inline Tensors Evaluate(const std::string& op, Tensors inputs, AttrMap attrs = {}) {
  absl::StatusOr<Tensors> outputs = tandem::testing::RunOp(op, std::move(inputs), std::move(attrs));
  EXPECT_TRUE(outputs.ok()) << op << ": " << outputs.status();
  return outputs.ok() ? *std::move(outputs) : Tensors(8);
}

// How the op fails, with inputs that shape functions know nothing of, so that the kernel has to
// notice, and with constants, so that they do. Both have to fail in the same way.
inline absl::Status Failure(const std::string& op, const Tensors& inputs,
                            const AttrMap& attrs = {}) {
  const absl::Status kernel = tandem::testing::RunOp(op, inputs, attrs, false).status();
  const absl::Status shapes = tandem::testing::RunOp(op, inputs, attrs, true).status();
  EXPECT_EQ(kernel.code(), shapes.code()) << kernel << "\n" << shapes;
  return kernel;
}

// "shape | elements".
inline std::string Text(const Tensor& tensor) {
  if (!tensor.is_valid()) return "no tensor";
  const std::string all = tensor.DebugString(1000);
  const size_t equals = all.find(" =");
  std::string elements = equals == std::string::npos ? "" : all.substr(equals + 2);
  return tensor.shape().DebugString() + " |" + elements;
}

}  // namespace tandem::array

#endif  // TANDEM_KERNELS_ARRAY_ARRAY_TEST_H_
