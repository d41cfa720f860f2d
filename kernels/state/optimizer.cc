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

// As many variables as are locked at once. So readers of the first one need not wait for all the
// others, and the thread sanitizer, which follows 64 locks of a thread, can do so.
constexpr size_t kMaxLockedVariables = 48;

absl::Span<const VariableInput> VariablesOf(int member, absl::Span<const VariableInput> variables,
                                            int num_variables) {
  return variables.subspan(static_cast<size_t>(member * num_variables),
                           static_cast<size_t>(num_variables));
}

}  // namespace

absl::Status UpdateKernel::InitLayout(KernelInit& init, DataType compute_type,
                                      double nanoseconds_per_element) {
  dtype_ = init.Attr<DataType>("T");
  compute_type_ = compute_type;
  cost_ = nanoseconds_per_element;
  bool has_gradient = false;
  for (const ArgDef& arg : init.op().inputs) {
    const Argument argument{num_lists_, num_singles_, !arg.number_attr.empty()};
    (argument.is_list ? num_lists_ : num_singles_)++;
    if (IsVariable(arg)) {
      ++num_variables_;
    } else if (IsGradient(arg)) {
      gradient_ = argument;
      has_gradient = true;
    } else if (IsIndices(arg)) {
      indices_ = argument.Input(0, 1);
    } else {
      scalars_.push_back(argument);
    }
  }
  // The lists are the variables and the gradient, or there are none.
  const bool lists_fit = num_lists_ == 0 || num_lists_ == num_variables_ + 1;
  if (num_variables_ > kMaxUpdateVariables || scalars_.size() > kMaxUpdateScalars ||
      !has_gradient || !lists_fit || (num_lists_ > 0 && indices_ >= 0)) {
    return errors::Internal("op ", init.op().name, " is not laid out as an update of variables");
  }
  return absl::OkStatus();
}

int UpdateKernel::CountMembers(const KernelContext& c) const {
  return num_lists_ == 0 ? 1 : (c.num_inputs() - num_singles_) / num_lists_;
}

absl::Status UpdateKernel::ReadScalars(KernelContext& c, int count, void* scalars) const {
  for (size_t i = 0; i < scalars_.size(); ++i) {
    const int input = scalars_[i].Input(0, count);
    const Tensor& scalar = c.input(input);
    if (!scalar.shape().IsScalar()) {
      return errors::InvalidArgument("input ", input, " must be a scalar; it has shape ",
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

absl::Status UpdateKernel::CheckValues(KernelContext& c, int member, int count,
                                       absl::Span<const VariableInput> variables) const {
  const Tensor& first = LockedValue(variables[0]);
  for (const VariableInput& variable : variables) {
    const Tensor& value = LockedValue(variable);
    if (!value.is_valid()) return variable.NotInitialized(absl::StatusCode::kFailedPrecondition);
    if (value.shape() != first.shape()) {
      return errors::InvalidArgument("variable '", variable.name(), "' has shape ",
                                     value.shape().DebugString(), " and '", variables[0].name(),
                                     "' has shape ", first.shape().DebugString(),
                                     "; an optimizer's variables must have one shape");
    }
  }
  const Shape& shape = first.shape();
  Shape wanted = shape;
  if (indices_ >= 0) {
    const Shape& indices = c.input(indices_).shape();
    if (!indices.IsVector()) {
      return errors::InvalidArgument("indices must be a vector; they have shape ",
                                     indices.DebugString());
    }
    if (shape.rank() < 1) {
      return errors::InvalidArgument("variable '", variables[0].name(),
                                     "' is a scalar; a sparse update needs rows");
    }
    absl::InlinedVector<int64_t, 4> dims(shape.dims().begin(), shape.dims().end());
    dims[0] = indices.dim(0);
    TANDEM_ASSIGN_OR_RETURN(wanted, Shape::FromDims(dims));
  }
  const Tensor& gradient = Gradient(c, member, count);
  if (gradient.shape() != wanted) {
    return errors::InvalidArgument("the gradient has shape ", gradient.shape().DebugString(),
                                   "; variable '", variables[0].name(), "' of shape ",
                                   shape.DebugString(), " wants ", wanted.DebugString());
  }
  return absl::OkStatus();
}

absl::Status UpdateKernel::GatherVariables(KernelContext& c, int first, int count,
                                           Variables& variables) const {
  for (int member = first; member < count; ++member) {
    const size_t begin = variables.size();
    if (begin + static_cast<size_t>(num_variables_) > kMaxLockedVariables) break;
    bool is_locked_already = false;
    for (int i = 0; i < num_variables_; ++i) {
      const int input = num_lists_ > 0 ? i * count + member : i;
      TANDEM_ASSIGN_OR_RETURN(VariableInput variable,
                              GetVariable(c, input, absl::StatusCode::kFailedPrecondition));
      TANDEM_RETURN_IF_ERROR(CheckType(variable, dtype_));
      for (size_t other = 0; other < variables.size(); ++other) {
        if (variables[other].variable != variable.variable) continue;
        if (other >= begin) {
          return errors::InvalidArgument("variable '", variable.name(),
                                         "' is given twice; an optimizer's variables are distinct");
        }
        is_locked_already = true;
      }
      variables.push_back(std::move(variable));
    }
    if (is_locked_already) {
      // The member comes again when the others are done.
      variables.resize(begin);
      break;
    }
  }
  return absl::OkStatus();
}

absl::Status UpdateKernel::Compute(KernelContext& c) {
  const int count = CountMembers(c);
  alignas(16) char scalars[kMaxUpdateScalars * 16];
  Variables variables;
  for (int first = 0; first < count;) {
    variables.clear();
    TANDEM_RETURN_IF_ERROR(GatherVariables(c, first, count, variables));
    const int members = static_cast<int>(variables.size()) / num_variables_;
    TANDEM_RETURN_IF_ERROR(WithLocks(variables, [&]() -> absl::Status {
      for (int i = 0; i < members; ++i) {
        TANDEM_RETURN_IF_ERROR(
            CheckValues(c, first + i, count, VariablesOf(i, variables, num_variables_)));
      }
      TANDEM_RETURN_IF_ERROR(ReadScalars(c, count, scalars));
      return indices_ >= 0 ? ApplySparse(c, variables, scalars)
                           : ApplyDense(c, first, count, variables, scalars);
    }));
    first += members;
  }
  if (c.num_outputs() > 0) c.SetOutputReference(0, variables[0].variable);
  return absl::OkStatus();
}

absl::Status UpdateKernel::ApplyDense(KernelContext& c, int first, int count,
                                      absl::Span<const VariableInput> variables,
                                      const void* scalars) const {
  absl::InlinedVector<Overwrite, kMaxUpdateVariables> targets;
  absl::InlinedVector<Part, 1> parts;
  int64_t elements = 0;
  const int members = static_cast<int>(variables.size()) / num_variables_;
  for (int member = 0; member < members; ++member) {
    const Tensor& gradient = Gradient(c, first + member, count);
    if (gradient.num_elements() == 0) continue;
    Part part;
    part.first = elements;
    size_t i = 0;
    for (const VariableInput& variable : VariablesOf(member, variables, num_variables_)) {
      Tensor& value = LockedValue(variable);
      TANDEM_ASSIGN_OR_RETURN(Overwrite target, Overwrite::Begin(c, value));
      part.pointers.before[i] = static_cast<const char*>(value.data());
      part.pointers.after[i] = static_cast<char*>(target.data());
      targets.push_back(std::move(target));
      ++i;
    }
    part.pointers.gradient = static_cast<const char*>(gradient.data());
    parts.push_back(part);
    elements += gradient.num_elements();
  }
  TANDEM_RETURN_IF_ERROR(UpdateParts(c, count, parts, elements, scalars));
  auto target = targets.begin();
  for (int member = 0; member < members; ++member) {
    if (Gradient(c, first + member, count).num_elements() == 0) continue;
    for (const VariableInput& variable : VariablesOf(member, variables, num_variables_)) {
      (target++)->Commit(LockedValue(variable));
    }
  }
  return absl::OkStatus();
}

absl::Status UpdateKernel::UpdateParts(KernelContext& c, int, absl::Span<const Part> parts,
                                       int64_t elements, const void* scalars) const {
  c.parallel().For(elements, cost_, [&](int64_t begin, int64_t end) {
    // The last part that begins at `begin` or before it.
    auto part = std::upper_bound(parts.begin(), parts.end(), begin,
                                 [](int64_t at, const Part& p) { return at < p.first; }) -
                1;
    for (; begin < end; ++part) {
      const int64_t part_end = part + 1 == parts.end() ? elements : (part + 1)->first;
      const int64_t n = std::min(part_end, end) - begin;
      ApplyAt(part->pointers, begin - part->first, begin - part->first, scalars, n);
      begin += n;
    }
  });
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
                                   variables[0].name(), "'");
  }
  if (rows.empty()) return absl::OkStatus();
  Pointers pointers;
  for (size_t i = 0; i < variables.size(); ++i) {
    Tensor& value = LockedValue(variables[i]);
    TANDEM_RETURN_IF_ERROR(MakeSole(c, value));
    pointers.after[i] = static_cast<char*>(value.mutable_data());
    pointers.before[i] = pointers.after[i];
  }
  pointers.gradient = static_cast<const char*>(Gradient(c, 0, 1).data());
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
