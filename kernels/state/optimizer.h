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
// An op may also update many variables in one go. Its arguments are those of the single op, in the
// same order, with lists ("N*") in the places of variables and gradient; scalars are shared:
//
//   TANDEM_OP("_TandemApplyManyGradientDescent")
//       .Inputs("var:N*resource, alpha:T, delta:N*T")….Cpu(UpdateByRule<GradientDescent>());
//
// The result is that of N single ops, bit for bit; the loop over all elements of all variables is
// split over threads at once, so that small variables cost next to nothing. Variables are locked
// some tens at a time.
//
// Memory: a value that nobody else holds is overwritten; of another the new value goes to fresh
// memory in the same pass, so that what was read before stays as it was without a copy. Errors:
// nothing is changed when an op fails; of many variables, those before the one that fails may be.
#ifndef TANDEM_KERNELS_STATE_OPTIMIZER_H_
#define TANDEM_KERNELS_STATE_OPTIMIZER_H_

#include <array>
#include <complex>
#include <cstdint>
#include <vector>

#include "absl/container/inlined_vector.h"
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
  // An argument of the op: one input, or a list with an input for each member. How long lists are
  // is seen when the kernel runs: a session may give one kernel to plans that update different
  // numbers of variables.
  struct Argument {
    int lists_before = 0;
    int singles_before = 0;
    bool is_list = false;

    int Input(int member, int count) const {
      return lists_before * count + singles_before + (is_list ? member : 0);
    }
  };
  struct Pointers {
    std::array<const char*, kMaxUpdateVariables> before{};
    std::array<char*, kMaxUpdateVariables> after{};
    const char* gradient = nullptr;
  };
  // A variable with its slots, locked, as one of several: `first` is the number of elements of
  // those before it.
  struct Part {
    Pointers pointers;
    int64_t first = 0;
  };
  // Finds out from the op's arguments what is what. `compute_type` is the type that Apply computes
  // in.
  absl::Status InitLayout(KernelInit& init, DataType compute_type, double nanoseconds_per_element);

  // Puts the scalars, as numbers of the compute type, into `scalars`. On other devices than the CPU
  // they stay where they are.
  virtual absl::Status ReadScalars(KernelContext& c, int count, void* scalars) const;
  // Updates all parts, of `elements` elements together. `scalars`: what ReadScalars made.
  virtual absl::Status UpdateParts(KernelContext& c, int count, absl::Span<const Part> parts,
                                   int64_t elements, const void* scalars) const;

  const std::vector<Argument>& scalar_arguments() const { return scalars_; }

 private:
  using Variables = absl::InlinedVector<VariableInput, kMaxUpdateVariables>;

  // Updates `n` elements. Scalars are of the compute type, the rest too. Not called of a class with
  // an UpdateParts of its own.
  virtual void Apply(const Pointers& pointers, const void* scalars, int64_t n) const {}
  // The same for elements of dtype_, from element `var_offset` and gradient element `grad_offset`
  // on.
  void ApplyAt(const Pointers& pointers, int64_t var_offset, int64_t grad_offset,
               const void* scalars, int64_t n) const;
  template <typename Small>
  void ApplyInFloat(const Pointers& pointers, const void* scalars, int64_t n) const;

  // How many variables, each with its slots, are updated.
  int CountMembers(const KernelContext& c) const;
  const Tensor& Gradient(const KernelContext& c, int member, int count) const {
    return c.input(gradient_.Input(member, count));
  }
  // Puts the variables of members from `first` on into the list, as many as are locked at once.
  absl::Status GatherVariables(KernelContext& c, int first, int count, Variables& variables) const;
  // REQUIRES, for the following: the variables are locked. They are those of whole members.
  absl::Status CheckValues(KernelContext& c, int member, int count,
                           absl::Span<const VariableInput> variables) const;
  absl::Status ApplyDense(KernelContext& c, int first, int count,
                          absl::Span<const VariableInput> variables, const void* scalars) const;
  absl::Status ApplySparse(KernelContext& c, absl::Span<const VariableInput> variables,
                           const void* scalars) const;

  DataType dtype_ = DataType::kInvalid;
  DataType compute_type_ = DataType::kInvalid;
  int num_lists_ = 0;
  int num_singles_ = 0;
  int num_variables_ = 0;  // Of each member. They are the op's first arguments.
  Argument gradient_;
  int indices_ = -1;  // Dense when there are none.
  std::vector<Argument> scalars_;
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
#define TANDEM_UPDATE_MANY_ATTRS "N:int>=1; " TANDEM_UPDATE_ATTRS
#define TANDEM_SPARSE_UPDATE_ATTRS \
  "T:type" TANDEM_NUMBER_TYPES "; Tindices:type{int32,int64}; use_locking:bool=False"

}  // namespace tandem::state

#endif  // TANDEM_KERNELS_STATE_OPTIMIZER_H_
