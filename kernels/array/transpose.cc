// Transpose, ConjugateTranspose and InvertPermutation.
#include <complex>
#include <vector>

#include "absl/strings/str_join.h"
#include "core/base/status.h"
#include "core/op/gradient_context.h"
#include "core/op/registry.h"
#include "core/op/shape_context.h"
#include "kernels/array/arguments.h"
#include "kernels/array/elements.h"
#include "kernels/array/gradient_helpers.h"
#include "kernels/array/strided_copy.h"

namespace tandem::array {
namespace {

absl::Status CheckPermutation(absl::Span<const int64_t> perm) {
  const int64_t count = static_cast<int64_t>(perm.size());
  std::vector<bool> seen(perm.size(), false);
  for (const int64_t p : perm) {
    if (p < 0 || p >= count) {
      return errors::InvalidArgument("[", absl::StrJoin(perm, ","), "] is no permutation: ", p,
                                     " lies outside [0, ", count, ")");
    }
    if (seen[static_cast<size_t>(p)]) {
      return errors::InvalidArgument("[", absl::StrJoin(perm, ","), "] is no permutation: ", p,
                                     " occurs twice");
    }
    seen[static_cast<size_t>(p)] = true;
  }
  return absl::OkStatus();
}

absl::Status TransposeShape(ShapeContext& c) {
  TANDEM_RETURN_IF_ERROR(c.RequireRank(1, 1));
  const PartialShape& x = c.input(0);
  const absl::optional<Ints> perm = KnownInts(c, 1);
  int64_t rank = x.has_rank() ? x.rank() : PartialShape::kUnknownDim;
  if (c.input(1).has_rank()) {
    absl::StatusOr<int64_t> merged = MergeSizes(rank, c.input(1).dim(0));
    if (!merged.ok()) {
      return errors::InvalidArgument("'perm' has ", c.input(1).dim(0),
                                     " elements for an input of shape ", x.DebugString(),
                                     "; one for each dimension is wanted");
    }
    rank = *merged;
  }
  if (rank < 0) return c.SetOutput(0, PartialShape::Unknown());
  if (rank > kMaxRank) return errors::InvalidArgument("'perm' has ", rank, " elements");
  if (perm.has_value()) TANDEM_RETURN_IF_ERROR(CheckPermutation(*perm));
  PartialShape output = PartialShape::UnknownOfRank(static_cast<int>(rank));
  if (x.has_rank()) {
    for (int i = 0; i < x.rank(); ++i) {
      if (perm.has_value()) {
        output.SetDim(i, x.dim(static_cast<int>((*perm)[static_cast<size_t>(i)])));
      } else if (x.rank() == 1) {
        output.SetDim(i, x.dim(i));
      }
    }
  }
  return c.SetOutput(0, std::move(output));
}

absl::Status Transpose(KernelContext& c) {
  const Tensor& x = c.input(0);
  TANDEM_ASSIGN_OR_RETURN(const Ints perm, VectorArgument(c.input(1), "perm"));
  if (perm.size() != static_cast<size_t>(x.shape().rank())) {
    return errors::InvalidArgument("'perm' has ", perm.size(), " elements for an input of shape ",
                                   x.shape().DebugString(), " of rank ", x.shape().rank());
  }
  TANDEM_RETURN_IF_ERROR(CheckPermutation(perm));
  Ints sizes;
  for (const int64_t p : perm) sizes.push_back(x.shape().dim(static_cast<int>(p)));
  TANDEM_ASSIGN_OR_RETURN(Shape shape, Shape::FromDims(sizes));

  // Moving dimensions of size 1 moves no elements.
  int64_t previous = -1;
  bool moves = false;
  for (size_t i = 0; i < perm.size(); ++i) {
    if (sizes[i] == 1) continue;
    moves = moves || perm[i] < previous;
    previous = perm[i];
  }
  if (!moves || x.num_elements() == 0) {
    TANDEM_ASSIGN_OR_RETURN(Tensor output, c.TakeInput(0).Reshaped(std::move(shape)));
    c.SetOutput(0, std::move(output));
    return absl::OkStatus();
  }
  const auto from_strides = Strides(x.shape().dims());
  const auto to_strides = Strides(sizes);
  LoopDims dims;
  for (size_t i = 0; i < perm.size(); ++i) {
    dims.push_back({sizes[i], to_strides[i], from_strides[static_cast<size_t>(perm[i])]});
  }
  TANDEM_ASSIGN_OR_RETURN(Tensor * output, c.AllocateOutput(0, std::move(shape)));
  CopyStrided(c.parallel(), x.dtype(), output->mutable_data(), x.data(), std::move(dims));
  return absl::OkStatus();
}

template <typename T>
absl::Status ConjugatedTranspose(KernelContext& c) {
  const Tensor input = c.input(0);
  TANDEM_RETURN_IF_ERROR(Transpose(c));
  Slot& slot = c.params().outputs[0];
  Tensor transposed = std::move(slot.value);
  // A transposition that moves nothing shares its input's memory.
  const absl::Span<const std::complex<T>> from = transposed.Elements<std::complex<T>>();
  Tensor* output = &transposed;
  if (transposed.SharesBufferWith(input)) {
    TANDEM_ASSIGN_OR_RETURN(output, c.AllocateOutput(0, transposed.shape()));
  } else {
    slot.value = transposed;
    output = &slot.value;
  }
  const absl::Span<std::complex<T>> to = output->MutableElements<std::complex<T>>();
  c.parallel().For(static_cast<int64_t>(to.size()), 0.5, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      to[static_cast<size_t>(i)] = std::conj(from[static_cast<size_t>(i)]);
    }
  });
  return absl::OkStatus();
}

absl::Status ConjugateTranspose(KernelContext& c) {
  switch (c.input(0).dtype()) {
    case kComplex64:
      return ConjugatedTranspose<float>(c);
    case kComplex128:
      return ConjugatedTranspose<double>(c);
    default:
      return Transpose(c);
  }
}

// The inverse of input 1: a constant where that is one, so that the gradient's shape is known.
Output InversePermutation(GradientContext& g) {
  const absl::optional<Ints> perm = ConstantInts(g.input(1));
  if (!perm.has_value() || !CheckPermutation(*perm).ok()) {
    return g.Call("InvertPermutation", {g.input(1)});
  }
  Ints inverse(perm->size());
  for (size_t i = 0; i < perm->size(); ++i) {
    inverse[static_cast<size_t>((*perm)[i])] = static_cast<int64_t>(i);
  }
  return IntVector(g, RemoveReference(g.input(1).dtype()), inverse);
}

absl::Status TransposeGradient(GradientContext& g) {
  g.SetInputGradient(0, g.Call("Transpose", {g.OutputGradient(0), InversePermutation(g)}));
  return absl::OkStatus();
}

absl::Status ConjugateTransposeGradient(GradientContext& g) {
  g.SetInputGradient(0, g.Call("ConjugateTranspose", {g.OutputGradient(0), InversePermutation(g)}));
  return absl::OkStatus();
}

// --- InvertPermutation

absl::Status PermutationShape(ShapeContext& c) {
  TANDEM_RETURN_IF_ERROR(c.RequireRank(0, 1));
  return UnchangedShape(c);
}

template <typename T>
absl::Status Invert(KernelContext& c) {
  const absl::Span<const T> x = c.input(0).Elements<T>();
  TANDEM_ASSIGN_OR_RETURN(Tensor * output, c.AllocateOutput(0, c.input(0).shape()));
  const absl::Span<T> y = output->MutableElements<T>();
  for (T& value : y) value = -1;
  for (size_t i = 0; i < x.size(); ++i) {
    if (x[i] < 0 || static_cast<size_t>(x[i]) >= x.size()) {
      return errors::InvalidArgument("x[", i, "] is ", x[i], ", outside [0, ", x.size(),
                                     "); a permutation is wanted");
    }
    T& inverse = y[static_cast<size_t>(x[i])];
    if (inverse != -1) {
      return errors::InvalidArgument("x[", i, "] is ", x[i], ", and so is x[", inverse,
                                     "]; a permutation is wanted");
    }
    inverse = static_cast<T>(i);
  }
  return absl::OkStatus();
}

absl::Status InvertPermutation(KernelContext& c) {
  if (!c.input(0).shape().IsVector()) {
    return errors::InvalidArgument("a permutation of shape ", c.input(0).shape().DebugString(),
                                   " is to be inverted; a vector is wanted");
  }
  return c.input(0).dtype() == kInt64 ? Invert<int64_t>(c) : Invert<int32_t>(c);
}

TANDEM_OP("Transpose")
    .Inputs("x:T, perm:Tperm")
    .Outputs("y:T")
    .Attrs("T:type; Tperm:type{int32,int64}=int32")
    .Shape(TransposeShape)
    .Gradient(TransposeGradient)
    .HostMemory({"perm"})
    .Cpu(ForTypes("T", AllTypes(), Function(Transpose)));

TANDEM_OP("ConjugateTranspose")
    .Inputs("x:T, perm:Tperm")
    .Outputs("y:T")
    .Attrs("T:type; Tperm:type{int32,int64}=int32")
    .Shape(TransposeShape)
    .Gradient(ConjugateTransposeGradient)
    .HostMemory({"perm"})
    .Cpu(ForTypes("T", AllTypes(), Function(ConjugateTranspose)));

TANDEM_OP("InvertPermutation")
    .Inputs("x:T")
    .Outputs("y:T")
    .Attrs("T:type{int32,int64}=int32")
    .Shape(PermutationShape)
    .NotDifferentiable()
    .HostMemory({"x", "y"})
    .Cpu(Function(InvertPermutation));

}  // namespace
}  // namespace tandem::array
