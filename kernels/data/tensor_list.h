// TensorList: a list of tensors as one value, which travels through a graph in a variant.
//
// A list is a value: an op that changes one makes a list of its own, and does so in place when
// nobody else holds the old one, so that a loop that pushes n tensors costs n, not n².
#ifndef TANDEM_KERNELS_DATA_TENSOR_LIST_H_
#define TANDEM_KERNELS_DATA_TENSOR_LIST_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "core/tensor/shape.h"
#include "core/tensor/tensor.h"
#include "core/tensor/variant.h"

namespace tandem::data {

// Threads: as for any value; those who share one only read it.
class TensorList final : public VariantValue {
 public:
  // The longest list that an op makes at once, of elements that are not set yet (Reserve, SetItem).
  // It keeps a wrong number from taking all memory.
  static constexpr int64_t kMaxReserved = int64_t{1} << 24;
  static constexpr int32_t kNoLimit = -1;

  TensorList(DataType dtype, PartialShape element_shape, int32_t max_elements = kNoLimit)
      : dtype(dtype), element_shape(std::move(element_shape)), max_elements(max_elements) {}

  absl::string_view TypeName() const override { return "tensorflow::TensorList"; }
  std::string DebugString() const override {
    return absl::StrCat("list of ", elements.size(), " ", DataTypeName(dtype),
                        element_shape.DebugString());
  }
  // An element that is not set stays so: it counts as zeros.
  absl::StatusOr<RefPtr<VariantValue>> ZerosLike(ZerosLikeFunction zeros_like) const override;
  // InvalidArgument: the lists differ in length or type, or elements in shape.
  absl::StatusOr<RefPtr<VariantValue>> Add(const VariantValue& other,
                                           AddFunction add) const override;

  const DataType dtype;
  const PartialShape element_shape;  // All elements fit it.
  const int32_t max_elements;
  // An invalid tensor is an element that is not set; it is read as zeros.
  std::vector<Tensor> elements;
};

}  // namespace tandem::data

#endif  // TANDEM_KERNELS_DATA_TENSOR_LIST_H_
