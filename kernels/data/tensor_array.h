// TensorArray: the array of tensors that TensorFlow 1's loops write and read by index.
//
// Each element is written once and, as a rule, read once: reading frees it. The array of an array's
// gradients, of which there may be several, under names, is different: what is written twice is
// added, and what was never written is read as zeros.
#ifndef TANDEM_KERNELS_DATA_TENSOR_ARRAY_H_
#define TANDEM_KERNELS_DATA_TENSOR_ARRAY_H_

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "core/base/mutex.h"
#include "core/tensor/resource_handle.h"
#include "core/tensor/tensor.h"

namespace tandem::data {

// Threads: any.
class TensorArray final : public Resource {
 public:
  struct Options {
    std::string name;
    DataType dtype = DataType::kInvalid;
    PartialShape element_shape = PartialShape::Unknown();
    bool is_dynamic = false;            // Writing behind the end makes it longer.
    bool clears_after_read = true;      // An element can be read once.
    bool has_identical_shapes = false;  // The first element's shape is that of all.
  };
  // Fresh memory, of the device whose kernel asks.
  using Allocate = absl::FunctionRef<absl::StatusOr<Tensor>(const Shape& shape)>;

  // More elements than this are refused, so that a wrong number does not take all memory.
  static constexpr int64_t kMaxSize = int64_t{1} << 24;

  // InvalidArgument and ResourceExhausted: `size` is negative, or too large.
  static absl::StatusOr<RefPtr<TensorArray>> Create(Options options, int64_t size);

  // All below: InvalidArgument when the array is closed, or holds another type than `dtype`.

  // InvalidArgument: an index outside, an element that was written or read before, another type or
  // shape than is wanted.
  absl::Status Write(int64_t index, Tensor value, Allocate allocate);
  // InvalidArgument: an index outside, an element that was cleared, or was never written and whose
  // shape is not known.
  absl::StatusOr<Tensor> Read(DataType dtype, int64_t index, Allocate allocate);
  absl::StatusOr<int64_t> Size() const;
  // What is known of the shapes of all elements, with what `shape` says. InvalidArgument: the two
  // contradict each other.
  absl::StatusOr<PartialShape> ElementShape(DataType dtype, const PartialShape& shape) const;
  // Frees all elements; closing again changes nothing.
  void Close();

  // The array of the gradients from `source`, made by the first who asks. From then on this array
  // keeps its size. Elements have the shape of this array's, behind `prefix`.
  absl::StatusOr<RefPtr<TensorArray>> Gradients(const std::string& source, const Shape& prefix);

  const std::string& name() const { return options_.name; }
  DataType dtype() const { return options_.dtype; }
  bool is_dynamic() const;
  std::string DebugString() const override;

 private:
  struct Element {
    Tensor value;
    PartialShape shape = PartialShape::Unknown();  // Of zeros that stand for it.
    bool written = false;
    bool read = false;
    bool cleared = false;
  };

  TensorArray(Options options, int64_t size, bool is_gradient)
      : options_(std::move(options)),
        is_gradient_(is_gradient),
        element_shape_(options_.element_shape),
        is_dynamic_(options_.is_dynamic),
        elements_(static_cast<size_t>(size)) {}

  absl::Status CheckOpen() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  absl::Status CheckType(DataType dtype) const;
  absl::Status AddTo(Element& element, const Tensor& value, int64_t index, Allocate allocate)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  absl::StatusOr<Tensor> Zeros(const Element& element, int64_t index, Allocate allocate) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  const Options options_;  // As the array began.
  const bool is_gradient_;
  mutable Mutex mu_;
  PartialShape element_shape_ ABSL_GUARDED_BY(mu_);
  bool is_dynamic_ ABSL_GUARDED_BY(mu_);
  std::vector<Element> elements_ ABSL_GUARDED_BY(mu_);
  bool closed_ ABSL_GUARDED_BY(mu_) = false;
  std::map<std::string, RefPtr<TensorArray>> gradients_ ABSL_GUARDED_BY(mu_);
};

}  // namespace tandem::data

#endif  // TANDEM_KERNELS_DATA_TENSOR_ARRAY_H_
