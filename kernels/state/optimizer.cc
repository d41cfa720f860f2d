#include "kernels/state/optimizer.h"

#include <algorithm>
#include <utility>

#include "kernels/array/elements.h"
#include "kernels/array/rows.h"
#include "kernels/common/half.h"

namespace tandem::state {
namespace {

using array::ElementAt;

bool IsVariable(const ArgDef& arg) { return arg.is_ref || arg.type == kResource; }
bool IsGradient(const ArgDef& arg) { return arg.name == "grad" || arg.name == "delta"; }
bool IsIndices(const ArgDef& arg) { return arg.name == "indices"; }

}  // namespace

absl::Status UpdateKernel::InitLayout(KernelInit& init, DataType compute_type,
                                      double nanoseconds_per_element) {
  dtype_ = init.Attr<DataType>("T");
  compute_type_ = compute_type;
  cost_ = nanoseconds_per_element;
  const std::vector<ArgDef>& inputs = init.op().inputs;
  for (int i = 0; i < static_cast<int>(inputs.size()); ++i) {
    const ArgDef& arg = inputs[static_cast<size_t>(i)];
    if (IsVariable(arg)) {
      ++num_variables_;
    } else if (IsGradient(arg)) {
      gradient_ = i;
    } else if (IsIndices(arg)) {
      indices_ = i;
    } else {
      scalars_.push_back(i);
    }
  }
  if (num_variables_ > kMaxUpdateVariables || scalars_.size() > kMaxUpdateScalars ||
      gradient_ < 0) {
    return errors::Internal("op ", init.op().name, " is not laid out as an update of variables");
  }
  return absl::OkStatus();
}

absl::Status UpdateKernel::ReadScalars(KernelContext& c, void* scalars) const {
  for (size_t i = 0; i < scalars_.size(); ++i) {
    const Tensor& scalar = c.input(scalars_[i]);
    if (!scalar.shape().IsScalar()) {
      return errors::InvalidArgument("input ", scalars_[i], " must be a scalar; it has shape ",
                                     scalar.shape().DebugString());
    }
    if (dtype_ == kFloat16) {
      static_cast<float*>(scalars)[i] = static_cast<float>(scalar.ScalarValue<Float16>());
    } else if (dtype_ == kBfloat16) {
      static_cast<float*>(scalars)[i] = static_cast<float>(scalar.ScalarValue<Bfloat16>());
    } else {
      array::CopyElements(dtype_, ElementAt(dtype_, scalars, static_cast<int64_t>(i)),
                          scalar.data(), 1);
    }
  }
  return absl::OkStatus();
}

absl::Status UpdateKernel::CheckValues(KernelContext& c,
                                       absl::Span<const VariableInput> variables) const {
  for (const VariableInput& variable : variables) {
    const Tensor& value = LockedValue(variable);
    if (!value.is_valid()) return variable.NotInitialized(absl::StatusCode::kFailedPrecondition);
    if (value.shape() != LockedValue(variables[0]).shape()) {
      return errors::InvalidArgument(
          "variable '", variable.name, "' has shape ", value.shape().DebugString(), " and '",
          variables[0].name, "' has shape ", LockedValue(variables[0]).shape().DebugString(),
          "; an optimizer's variables must have one shape");
    }
  }
  const Shape& shape = LockedValue(variables[0]).shape();
  Shape wanted = shape;
  if (indices_ >= 0) {
    const Shape& indices = c.input(indices_).shape();
    if (!indices.IsVector()) {
      return errors::InvalidArgument("indices must be a vector; they have shape ",
                                     indices.DebugString());
    }
    if (shape.rank() < 1) {
      return errors::InvalidArgument("variable '", variables[0].name,
                                     "' is a scalar; a sparse update needs rows");
    }
    absl::InlinedVector<int64_t, 4> dims(shape.dims().begin(), shape.dims().end());
    dims[0] = indices.dim(0);
    TANDEM_ASSIGN_OR_RETURN(wanted, Shape::FromDims(dims));
  }
  if (c.input(gradient_).shape() != wanted) {
    return errors::InvalidArgument(
        "the gradient has shape ", c.input(gradient_).shape().DebugString(), "; variable '",
        variables[0].name, "' of shape ", shape.DebugString(), " wants ", wanted.DebugString());
  }
  return absl::OkStatus();
}

absl::Status UpdateKernel::Compute(KernelContext& c) {
  absl::InlinedVector<VariableInput, kMaxUpdateVariables> variables;
  for (int i = 0; i < num_variables_; ++i) {
    TANDEM_ASSIGN_OR_RETURN(VariableInput variable,
                            GetVariable(c, i, absl::StatusCode::kFailedPrecondition));
    TANDEM_RETURN_IF_ERROR(CheckType(variable, dtype_));
    for (const VariableInput& other : variables) {
      if (other.variable == variable.variable) {
        return errors::InvalidArgument("variable '", variable.name,
                                       "' is given twice; an optimizer's variables are distinct");
      }
    }
    variables.push_back(std::move(variable));
  }
  alignas(16) char scalars[kMaxUpdateScalars * 16];
  TANDEM_RETURN_IF_ERROR(WithLocks(variables, [&]() -> absl::Status {
    TANDEM_RETURN_IF_ERROR(CheckValues(c, variables));
    TANDEM_RETURN_IF_ERROR(ReadScalars(c, scalars));
    return indices_ >= 0 ? ApplySparse(c, variables, scalars) : ApplyDense(c, variables, scalars);
  }));
  if (c.num_outputs() > 0) c.SetOutputReference(0, variables[0].variable);
  return absl::OkStatus();
}

absl::Status UpdateKernel::ApplyDense(KernelContext& c, absl::Span<const VariableInput> variables,
                                      const void* scalars) const {
  absl::InlinedVector<Overwrite, kMaxUpdateVariables> targets;
  Pointers pointers;
  for (size_t i = 0; i < variables.size(); ++i) {
    Tensor& value = LockedValue(variables[i]);
    TANDEM_ASSIGN_OR_RETURN(Overwrite target, Overwrite::Begin(c, value));
    pointers.before[i] = static_cast<const char*>(value.data());
    pointers.after[i] = static_cast<char*>(target.data());
    targets.push_back(std::move(target));
  }
  pointers.gradient = static_cast<const char*>(c.input(gradient_).data());
  c.parallel().For(c.input(gradient_).num_elements(), cost_, [&](int64_t begin, int64_t end) {
    ApplyAt(pointers, begin, begin, scalars, end - begin);
  });
  for (size_t i = 0; i < variables.size(); ++i) targets[i].Commit(LockedValue(variables[i]));
  return absl::OkStatus();
}

absl::Status UpdateKernel::ApplySparse(KernelContext& c, absl::Span<const VariableInput> variables,
                                       const void* scalars) const {
  const Tensor& indices = c.input(indices_);
  const int64_t limit = LockedValue(variables[0]).shape().dim(0);
  std::vector<int64_t> rows(static_cast<size_t>(indices.num_elements()));
  array::ReadIndices(indices, 0, indices.num_elements(), rows.data());
  for (size_t i = 0; i < rows.size(); ++i) {
    if (rows[i] >= 0 && rows[i] < limit) continue;
    return errors::InvalidArgument("index ", rows[i], " (number ", i, " of ", rows.size(),
                                   ") lies outside [0, ", limit, "), the rows of variable '",
                                   variables[0].name, "'");
  }
  if (rows.empty()) return absl::OkStatus();
  Pointers pointers;
  for (size_t i = 0; i < variables.size(); ++i) {
    Tensor& value = LockedValue(variables[i]);
    TANDEM_RETURN_IF_ERROR(MakeSole(c, value));
    pointers.after[i] = static_cast<char*>(value.mutable_data());
    pointers.before[i] = pointers.after[i];
  }
  pointers.gradient = static_cast<const char*>(c.input(gradient_).data());
  const int64_t row_size = LockedValue(variables[0]).num_elements() / limit;
  ForEachRow(c.parallel(), rows, 10 + cost_ * static_cast<double>(row_size),
             [&](int64_t i, int64_t row) {
               ApplyAt(pointers, row * row_size, i * row_size, scalars, row_size);
             });
  return absl::OkStatus();
}

void UpdateKernel::ApplyAt(const Pointers& pointers, int64_t var_offset, int64_t grad_offset,
                           const void* scalars, int64_t n) const {
  Pointers at;
  for (size_t i = 0; i < static_cast<size_t>(num_variables_); ++i) {
    at.before[i] = ElementAt(dtype_, static_cast<const void*>(pointers.before[i]), var_offset);
    at.after[i] = ElementAt(dtype_, static_cast<void*>(pointers.after[i]), var_offset);
  }
  at.gradient = ElementAt(dtype_, static_cast<const void*>(pointers.gradient), grad_offset);
  if (dtype_ == compute_type_) {
    Apply(at, scalars, n);
  } else if (dtype_ == kFloat16) {
    ApplyInFloat<Float16>(at, scalars, n);
  } else {
    ApplyInFloat<Bfloat16>(at, scalars, n);
  }
}

// Block by block, so that the float copies stay in the first-level cache.
template <typename Small>
void UpdateKernel::ApplyInFloat(const Pointers& pointers, const void* scalars, int64_t n) const {
  alignas(64) float values[kMaxUpdateVariables][kHalfBlock];
  alignas(64) float gradient[kHalfBlock];
  Pointers block;
  for (size_t v = 0; v < static_cast<size_t>(num_variables_); ++v) {
    block.after[v] = reinterpret_cast<char*>(values[v]);
    block.before[v] = block.after[v];
  }
  block.gradient = reinterpret_cast<const char*>(gradient);
  for (int64_t first = 0; first < n; first += kHalfBlock) {
    const int64_t count = std::min(kHalfBlock, n - first);
    for (size_t v = 0; v < static_cast<size_t>(num_variables_); ++v) {
      ToFloat(reinterpret_cast<const Small*>(pointers.before[v]) + first, values[v], count);
    }
    ToFloat(reinterpret_cast<const Small*>(pointers.gradient) + first, gradient, count);
    Apply(block, scalars, count);
    for (size_t v = 0; v < static_cast<size_t>(num_variables_); ++v) {
      FromFloat(values[v], reinterpret_cast<Small*>(pointers.after[v]) + first, count);
    }
  }
}

absl::Status UpdateShape(ShapeContext& c) {
  PartialShape variable;
  PartialShape gradient;
  PartialShape indices;
  bool sparse = false;
  for (int i = 0; i < c.num_inputs(); ++i) {
    const ArgDef& arg = c.op().inputs[static_cast<size_t>(i)];
    if (IsVariable(arg)) {
      TANDEM_RETURN_IF_ERROR(CheckHandleType(c, i, c.Attr<DataType>("T")));
      TANDEM_ASSIGN_OR_RETURN(variable, variable.MergeWith(VariableShapeOf(c, i)));
    } else if (IsGradient(arg)) {
      gradient = c.input(i);
    } else if (IsIndices(arg)) {
      sparse = true;
      TANDEM_RETURN_IF_ERROR(c.RequireRank(i, 1));
      indices = c.input(i);
    } else {
      TANDEM_RETURN_IF_ERROR(c.RequireRank(i, 0));
    }
  }
  if (!sparse) {
    TANDEM_ASSIGN_OR_RETURN(variable, variable.MergeWith(gradient));
  } else if (variable.has_rank() && variable.rank() > 0) {
    PartialShape wanted = variable;
    wanted.SetDim(0, indices.has_rank() ? indices.dim(0) : PartialShape::kUnknownDim);
    TANDEM_RETURN_IF_ERROR(wanted.MergeWith(gradient).status());
  }
  return c.num_outputs() > 0 ? c.SetOutput(0, std::move(variable)) : absl::OkStatus();
}

}  // namespace tandem::state
