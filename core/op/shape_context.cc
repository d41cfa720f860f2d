#include "core/op/shape_context.h"

#include <algorithm>

namespace tandem {

std::string ShapeContext::InputName(int i) const {
  // Arguments after a repeated one have no fixed place: the number alone has to do.
  for (size_t arg = 0; arg < op_.inputs.size() && arg <= static_cast<size_t>(i); ++arg) {
    if (!op_.inputs[arg].number_attr.empty() || !op_.inputs[arg].type_list_attr.empty()) break;
    if (arg == static_cast<size_t>(i)) return absl::StrCat("'", op_.inputs[arg].name, "'");
  }
  return absl::StrCat(i);
}

absl::StatusOr<PartialShape> ShapeContext::InputAsShape(int i) const {
  TANDEM_RETURN_IF_ERROR(RequireRank(i, 1));
  const absl::optional<Tensor> value = values_.constant(i);
  if (!value.has_value()) {
    PartialShape shape = values_.as_shape(i);
    if (!shape.has_rank() && input(i).has_rank() && input(i).dim(0) >= 0 &&
        input(i).dim(0) <= kMaxRank) {
      return PartialShape::UnknownOfRank(static_cast<int>(input(i).dim(0)));
    }
    return shape;
  }
  std::vector<int64_t> dims;
  if (value->dtype() == kInt32) {
    for (const int32_t size : value->Elements<int32_t>()) dims.push_back(size);
  } else if (value->dtype() == kInt64) {
    for (const int64_t size : value->Elements<int64_t>()) dims.push_back(size);
  } else {
    return errors::InvalidArgument("input ", InputName(i), " is a shape of type ",
                                   DataTypeName(value->dtype()), "; int32 or int64 is wanted");
  }
  return PartialShape::FromDims(dims);
}

absl::optional<int64_t> ShapeContext::InputAsInt(int i) const {
  const absl::optional<Tensor> value = values_.constant(i);
  if (!value.has_value() || value->num_elements() != 1) return absl::nullopt;
  if (value->dtype() == kInt32) return value->ScalarValue<int32_t>();
  if (value->dtype() == kInt64) return value->ScalarValue<int64_t>();
  if (value->dtype() == kInt16) return value->ScalarValue<int16_t>();
  return absl::nullopt;
}

absl::Status ShapeContext::RequireRank(int i, int rank) const {
  if (!input(i).has_rank() || input(i).rank() == rank) return absl::OkStatus();
  return errors::InvalidArgument("input ", InputName(i), " has shape ", input(i).DebugString(),
                                 "; it must have rank ", rank);
}

absl::Status ShapeContext::RequireRankAtLeast(int i, int rank) const {
  if (!input(i).has_rank() || input(i).rank() >= rank) return absl::OkStatus();
  return errors::InvalidArgument("input ", InputName(i), " has shape ", input(i).DebugString(),
                                 "; it must have at least rank ", rank);
}

absl::StatusOr<int> ShapeContext::ResolveAxis(int64_t axis, int rank) {
  if (axis < -rank || axis >= rank) {
    return errors::InvalidArgument("axis ", axis, " lies outside [", -rank, ", ", rank,
                                   "), the axes of a tensor of rank ", rank);
  }
  return static_cast<int>(axis < 0 ? axis + rank : axis);
}

absl::Status UnknownShape(ShapeContext& c) {
  for (int i = 0; i < c.num_outputs(); ++i) {
    TANDEM_RETURN_IF_ERROR(c.SetOutput(i, PartialShape::Unknown()));
  }
  return absl::OkStatus();
}

absl::Status NoOutputs(ShapeContext&) { return absl::OkStatus(); }

absl::Status ScalarShape(ShapeContext& c) {
  for (int i = 0; i < c.num_outputs(); ++i) {
    TANDEM_RETURN_IF_ERROR(c.SetOutput(i, PartialShape(Shape::Scalar())));
  }
  return absl::OkStatus();
}

absl::Status UnchangedShape(ShapeContext& c) {
  for (int i = 0; i < c.num_outputs(); ++i) {
    TANDEM_RETURN_IF_ERROR(c.SetOutput(i, c.input(0)));
    if (!c.input_info(0).handle.empty()) c.SetOutputHandle(i, c.input_info(0).handle);
  }
  return absl::OkStatus();
}

absl::Status MergedShape(ShapeContext& c) {
  PartialShape shape;
  for (int i = 0; i < c.num_inputs(); ++i) {
    TANDEM_ASSIGN_OR_RETURN(shape, shape.MergeWith(c.input(i)));
  }
  for (int i = 0; i < c.num_outputs(); ++i) {
    TANDEM_RETURN_IF_ERROR(c.SetOutput(i, shape));
  }
  return absl::OkStatus();
}

absl::StatusOr<PartialShape> BroadcastShapes(const PartialShape& a, const PartialShape& b) {
  if (!a.has_rank() || !b.has_rank()) return PartialShape::Unknown();
  const int rank = std::max(a.rank(), b.rank());
  PartialShape result = PartialShape::UnknownOfRank(rank);
  for (int i = 0; i < rank; ++i) {
    const int in_a = i - (rank - a.rank());
    const int in_b = i - (rank - b.rank());
    const int64_t size_a = in_a < 0 ? 1 : a.dim(in_a);
    const int64_t size_b = in_b < 0 ? 1 : b.dim(in_b);
    constexpr int64_t kUnknown = PartialShape::kUnknownDim;
    if (size_a == size_b || size_b == 1) {
      result.SetDim(i, size_a);
    } else if (size_a == 1) {
      result.SetDim(i, size_b);
    } else if (size_a == kUnknown || size_b == kUnknown) {
      // The known one is not 1, so the other has to be equal to it, or 1.
      result.SetDim(i, size_a == kUnknown ? size_b : size_a);
    } else {
      return errors::InvalidArgument("shapes ", a.DebugString(), " and ", b.DebugString(),
                                     " do not broadcast: sizes ", size_a, " and ", size_b,
                                     " differ and neither is 1");
    }
  }
  return result;
}

absl::Status BroadcastShape(ShapeContext& c) {
  TANDEM_ASSIGN_OR_RETURN(PartialShape shape, BroadcastShapes(c.input(0), c.input(1)));
  return c.SetOutput(0, std::move(shape));
}

}  // namespace tandem
