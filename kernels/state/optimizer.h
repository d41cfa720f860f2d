// What the updates of all optimizers share: they change variables from a gradient, element by
// element.
//
// An optimizer is a rule, a small class with the formula; everything else is here: finding and
// locking the variables (by reference or by handle), checks, memory, threads, small floats, and
// rows by index for sparse gradients. So the dense and the sparse op, by reference and by handle,
// are one rule.
//
//   struct GradientDescent {
//     static constexpr double kNanosecondsPerElement = 0.3;
//     absl::Status Init(KernelInit&) { return absl::OkStatus(); }
//     // Variables and scalars in the order of the op's inputs.
//     template <typename T>
//     void operator()(const UpdateBlock<T>& b) const {
//       const T rate = b.scalars[0];
//       const T* var = b.before[0]; T* new_var = b.after[0]; …
//       for (int64_t i = 0; i < b.n; ++i) new_var[i] = var[i] - rate * b.gradient[i];
//     }
//   };
//   TANDEM_OP("ApplyGradientDescent")….Cpu(UpdateByRule<GradientDescent>());
//
// Memory: a value that nobody else holds is overwritten; of another the new value goes to fresh
// memory in the same pass, so that what was read before stays as it was without a copy. Errors:
// nothing is changed when an op fails.
#ifndef TANDEM_KERNELS_STATE_OPTIMIZER_H_
#define TANDEM_KERNELS_STATE_OPTIMIZER_H_

#include <array>
#include <complex>
#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "core/base/status.h"
#include "core/kernel/factories.h"
#include "core/kernel/kernel.h"
#include "core/op/shape_context.h"
#include "kernels/state/number_types.h"
#include "kernels/state/variables.h"

namespace tandem::state {

inline constexpr int kMaxUpdateVariables = 4;
inline constexpr int kMaxUpdateScalars = 8;

// `n` elements of every variable: what they are and where the new values go. before[i] may be
// after[i], and overlaps nothing else.
template <typename T>
struct UpdateBlock {
  std::array<const T*, kMaxUpdateVariables> before{};
  std::array<T*, kMaxUpdateVariables> after{};
  const T* gradient = nullptr;
  const T* scalars = nullptr;
  int64_t n = 0;
};

class UpdateKernel : public Kernel {
 public:
  absl::Status Compute(KernelContext& c) override;

 protected:
  // Finds out from the op's arguments what is what. `compute_type` is the type that Apply computes
  // in.
  absl::Status InitLayout(KernelInit& init, DataType compute_type, double nanoseconds_per_element);

 private:
  struct Pointers {
    std::array<const char*, kMaxUpdateVariables> before{};
    std::array<char*, kMaxUpdateVariables> after{};
    const char* gradient = nullptr;
  };

  // Updates `n` elements. Scalars are of the compute type, the rest too.
  virtual void Apply(const Pointers& pointers, const void* scalars, int64_t n) const = 0;
  // The same for elements of dtype_, from element `var_offset` and gradient element `grad_offset`
  // on.
  void ApplyAt(const Pointers& pointers, int64_t var_offset, int64_t grad_offset,
               const void* scalars, int64_t n) const;
  template <typename Small>
  void ApplyInFloat(const Pointers& pointers, const void* scalars, int64_t n) const;

  absl::Status ReadScalars(KernelContext& c, void* scalars) const;
  // REQUIRES: the variables are locked.
  absl::Status CheckValues(KernelContext& c, absl::Span<const VariableInput> variables) const;
  absl::Status ApplyDense(KernelContext& c, absl::Span<const VariableInput> variables,
                          const void* scalars) const;
  absl::Status ApplySparse(KernelContext& c, absl::Span<const VariableInput> variables,
                           const void* scalars) const;

  DataType dtype_ = DataType::kInvalid;
  DataType compute_type_ = DataType::kInvalid;
  int num_variables_ = 0;
  int gradient_ = -1;
  int indices_ = -1;  // Dense when there are none.
  std::vector<int> scalars_;
  double cost_ = 1;

  template <typename Rule, typename T>
  friend class RuleKernel;
};

template <typename Rule, typename T>
class RuleKernel final : public UpdateKernel {
 public:
  absl::Status Init(KernelInit& init) {
    TANDEM_RETURN_IF_ERROR(rule_.Init(init));
    return InitLayout(init, DataTypeOf<T>(), Rule::kNanosecondsPerElement);
  }

 private:
  void Apply(const Pointers& pointers, const void* scalars, int64_t n) const override {
    UpdateBlock<T> block;
    for (size_t i = 0; i < kMaxUpdateVariables; ++i) {
      block.before[i] = reinterpret_cast<const T*>(pointers.before[i]);
      block.after[i] = reinterpret_cast<T*>(pointers.after[i]);
    }
    block.gradient = reinterpret_cast<const T*>(pointers.gradient);
    block.scalars = static_cast<const T*>(scalars);
    block.n = n;
    rule_(block);
  }

  Rule rule_;
};

// The kernel of an optimizer for float16, bfloat16, float32 and float64.
template <typename Rule>
KernelDef UpdateByRealRule() {
  KernelDef def;
  def.types = {{"T", {kFloat32, kFloat64, kFloat16, kBfloat16}}};
  def.factory = [](KernelInit& init) -> absl::StatusOr<std::unique_ptr<Kernel>> {
    if (init.Attr<DataType>("T") == kFloat64) return MakeKernel<RuleKernel<Rule, double>>(init);
    return MakeKernel<RuleKernel<Rule, float>>(init);
  };
  return def;
}

// The same and complex types.
template <typename Rule>
KernelDef UpdateByRule() {
  KernelDef def = UpdateByRealRule<Rule>();
  def.types[0].second.push_back(kComplex64);
  def.types[0].second.push_back(kComplex128);
  def.factory = [real = def.factory](KernelInit& init) -> absl::StatusOr<std::unique_ptr<Kernel>> {
    const DataType dtype = init.Attr<DataType>("T");
    if (dtype == kComplex64) return MakeKernel<RuleKernel<Rule, std::complex<float>>>(init);
    if (dtype == kComplex128) return MakeKernel<RuleKernel<Rule, std::complex<double>>>(init);
    return real(init);
  };
  return def;
}

// Variables and gradient have one shape (a sparse gradient one row for each index), all else is
// scalar.
absl::Status UpdateShape(ShapeContext& c);

// The attributes that all these ops have; more may follow.
#define TANDEM_UPDATE_ATTRS "T:type" TANDEM_NUMBER_TYPES "; use_locking:bool=False"
#define TANDEM_SPARSE_UPDATE_ATTRS \
  "T:type" TANDEM_NUMBER_TYPES "; Tindices:type{int32,int64}; use_locking:bool=False"

}  // namespace tandem::state

#endif  // TANDEM_KERNELS_STATE_OPTIMIZER_H_
