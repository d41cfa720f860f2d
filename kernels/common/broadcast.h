// Broadcasting (NumPy's rule) of up to three inputs over one output, for elementwise kernels.
//
// A BroadcastPlan collapses dimensions: neighbours in which every input either runs on or stays
// become one. So most uses have one or two dimensions, whatever the rank.
//
// A kernel needs one loop over contiguous memory for each type, and no variants of it for
// broadcasting: ForEachBlock cuts the output into blocks and hands over, for each input, a pointer
// to as many elements one after the other. Where an input is broadcast they are first copied into
// a small buffer that stays in the first-level cache, which costs little beside memory traffic.
//
//   TANDEM_ASSIGN_OR_RETURN(auto plan, BroadcastPlan::Make({&x.shape(), &y.shape()}));
//   plan.ForEachBlock({x.data(), y.data()}, {4, 4}, 0, plan.num_elements(),
//                     [&](const void* const* in, int64_t first, int64_t n) {
//                       Add(in[0], in[1], z + first, n);
//                     });
//
// Threads: a plan does not change once it is made.
#ifndef TANDEM_KERNELS_COMMON_BROADCAST_H_
#define TANDEM_KERNELS_COMMON_BROADCAST_H_

#include <array>
#include <cstdint>
#include <initializer_list>

#include "absl/container/inlined_vector.h"
#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "core/tensor/shape.h"

namespace tandem {

class BroadcastPlan {
 public:
  static constexpr int kMaxInputs = 3;

  // InvalidArgument: the shapes do not broadcast (the message holds them), or the output would have
  // too many elements.
  static absl::StatusOr<BroadcastPlan> Make(std::initializer_list<const Shape*> inputs);

  const Shape& output_shape() const { return output_shape_; }
  int64_t num_elements() const { return output_shape_.num_elements(); }
  // True when input `i` has an element of its own for each element of the output.
  bool IsFull(int i) const { return full_[static_cast<size_t>(i)]; }

  // The collapsed dimensions, outermost first: at least one, each with its size and, for each
  // input, a stride in elements. The innermost stride is 0 or 1.
  int rank() const { return static_cast<int>(sizes_.size()); }
  int64_t size(int dimension) const { return sizes_[static_cast<size_t>(dimension)]; }
  int64_t stride(int input, int dimension) const {
    return strides_[static_cast<size_t>(input)][static_cast<size_t>(dimension)];
  }

  using Block = absl::FunctionRef<void(const void* const* inputs, int64_t first, int64_t n)>;
  // Calls `block` for pieces that together are the elements [begin, end) of the output.
  // REQUIRES: elements of trivially copyable types of 1, 2, 4, 8 or 16 bytes; `inputs` and
  // `element_sizes` have an entry for each input. An input that is full may be the output's memory.
  void ForEachBlock(std::initializer_list<const void*> inputs,
                    std::initializer_list<size_t> element_sizes, int64_t begin, int64_t end,
                    Block block) const;

  // Which element of input `i` goes to element `index` of the output. Slow: for strings and
  // handles.
  int64_t InputIndex(int i, int64_t index) const;

 private:
  struct Gathered;

  const char* Gather(int input, const char* data, size_t size, int64_t first, int64_t n,
                     Gathered* to) const;

  Shape output_shape_;
  int num_inputs_ = 0;
  std::array<bool, kMaxInputs> full_{};
  // Inputs whose innermost row is the same for all outer places.
  std::array<bool, kMaxInputs> periodic_{};
  absl::InlinedVector<int64_t, 4> sizes_;
  std::array<absl::InlinedVector<int64_t, 4>, kMaxInputs> strides_;
};

}  // namespace tandem

#endif  // TANDEM_KERNELS_COMMON_BROADCAST_H_
