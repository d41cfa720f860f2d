#include "core/graph/known_values.h"

#include <algorithm>
#include <vector>

namespace tandem {
namespace {

// Shape functions run once for each node that is added; a chain of size arithmetic is followed only
// so far, so that building a graph stays linear.
constexpr int kMaxDepth = 16;
// And so many values in all: a chain of concatenations names exponentially many.
constexpr int kMaxVisits = 256;

Tensor IntTensor(DataType dtype, absl::Span<const int64_t> values, bool scalar) {
  Tensor result(dtype, scalar ? Shape() : Shape({static_cast<int64_t>(values.size())}));
  for (size_t i = 0; i < values.size(); ++i) {
    if (dtype == kInt64) {
      result.MutableElements<int64_t>()[i] = values[i];
    } else {
      result.MutableElements<int32_t>()[i] = static_cast<int32_t>(values[i]);
    }
  }
  return result;
}

bool IsIdentity(const Node& node) {
  return node.Is("Identity") || node.Is("StopGradient") || node.Is("PreventGradient");
}

absl::optional<Tensor> Known(const Output& output, int depth) {
  if (!output.valid() || depth > kMaxDepth) return absl::nullopt;
  const Node& node = *output.node;
  if (node.Is("Const")) {
    const Tensor* value = node.Attr<Tensor>("value");
    return value == nullptr ? absl::nullopt : absl::optional<Tensor>(*value);
  }
  if (IsIdentity(node)) return Known(node.input(0), depth + 1);
  if (node.num_inputs() == 0 || output.index >= node.num_inputs()) return absl::nullopt;
  const Output source = node.input(output.index);
  if (!source.valid()) return absl::nullopt;
  const PartialShape& shape = source.shape();
  if (node.Is("Rank") && shape.has_rank()) {
    return IntTensor(kInt32, {static_cast<int64_t>(shape.rank())}, true);
  }
  if (!shape.IsFullyDefined()) return absl::nullopt;
  if (node.Is("Shape") || node.Is("ShapeN")) return IntTensor(output.dtype(), shape.dims(), false);
  if (node.Is("Size")) {
    int64_t count = 1;
    for (const int64_t size : shape.dims()) count *= size;
    return IntTensor(output.dtype(), {count}, true);
  }
  return absl::nullopt;
}

std::vector<int64_t> ToInts(const Tensor& tensor) {
  std::vector<int64_t> values;
  if (tensor.dtype() == kInt32) {
    for (const int32_t value : tensor.Elements<int32_t>()) values.push_back(value);
  } else if (tensor.dtype() == kInt64) {
    for (const int64_t value : tensor.Elements<int64_t>()) values.push_back(value);
  }
  return values;
}

// A scalar of a vector of sizes: its value, or -1.
int64_t KnownSize(const Output& output, int depth, int& visits);

PartialShape KnownSizes(const Output& output, int depth, int& visits) {
  if (!output.valid() || depth > kMaxDepth || ++visits > kMaxVisits) {
    return PartialShape::Unknown();
  }
  const DataType dtype = RemoveReference(output.dtype());
  if (dtype != kInt32 && dtype != kInt64) return PartialShape::Unknown();
  if (const absl::optional<Tensor> value = Known(output, depth)) {
    std::vector<int64_t> sizes = ToInts(*value);
    for (int64_t& size : sizes) size = std::max<int64_t>(size, PartialShape::kUnknownDim);
    return PartialShape(sizes);
  }
  const Node& node = *output.node;
  if (node.Is("Shape") || node.Is("ShapeN")) return node.input(output.index).shape();
  if (IsIdentity(node) || node.Is("Cast")) return KnownSizes(node.input(0), depth + 1, visits);
  if (node.Is("Pack")) {
    PartialShape sizes({});
    for (const Output& input : node.inputs()) sizes.AddDim(KnownSize(input, depth + 1, visits));
    return sizes;
  }
  if (node.Is("ConcatV2")) {
    PartialShape sizes({});
    for (int i = 0; i + 1 < node.num_inputs(); ++i) {
      const PartialShape part = KnownSizes(node.input(i), depth + 1, visits);
      if (!part.has_rank()) return PartialShape::Unknown();
      for (const int64_t size : part.dims()) sizes.AddDim(size);
      if (sizes.rank() > kMaxRank) return PartialShape::Unknown();
    }
    return sizes;
  }
  if (node.Is("StridedSlice")) {
    const PartialShape source = KnownSizes(node.input(0), depth + 1, visits);
    const absl::optional<Tensor> begin = Known(node.input(1), depth + 1);
    const absl::optional<Tensor> end = Known(node.input(2), depth + 1);
    const absl::optional<Tensor> step = Known(node.input(3), depth + 1);
    const auto mask = [&](const char* name) { return *node.Attr<int64_t>(name); };
    if (!source.has_rank() || !begin || !end || !step || begin->num_elements() != 1 ||
        ToInts(*step) != std::vector<int64_t>{1} || mask("ellipsis_mask") != 0 ||
        mask("new_axis_mask") != 0 || mask("shrink_axis_mask") != 0) {
      return PartialShape::Unknown();
    }
    const int64_t rank = source.rank();
    const auto clamp = [&](int64_t i) {
      return std::clamp<int64_t>(i < 0 ? i + rank : i, 0, rank);
    };
    const int64_t first = mask("begin_mask") != 0 ? 0 : clamp(ToInts(*begin)[0]);
    const int64_t last = mask("end_mask") != 0 ? rank : clamp(ToInts(*end)[0]);
    PartialShape sizes({});
    for (int64_t i = first; i < last; ++i) sizes.AddDim(source.dim(static_cast<int>(i)));
    return sizes;
  }
  return PartialShape::Unknown();
}

int64_t KnownSize(const Output& output, int depth, int& visits) {
  if (const absl::optional<Tensor> value = Known(output, depth)) {
    const std::vector<int64_t> values = ToInts(*value);
    if (values.size() == 1) return std::max<int64_t>(values[0], PartialShape::kUnknownDim);
  }
  if (!output.valid() || !output.node->Is("StridedSlice")) return PartialShape::kUnknownDim;
  // shape(x)[i]: one element taken out of a vector of sizes.
  const Node& node = *output.node;
  const absl::optional<Tensor> begin = Known(node.input(1), depth + 1);
  if (*node.Attr<int64_t>("shrink_axis_mask") != 1 || !begin || begin->num_elements() != 1) {
    return PartialShape::kUnknownDim;
  }
  const PartialShape source = KnownSizes(node.input(0), depth + 1, visits);
  if (!source.has_rank()) return PartialShape::kUnknownDim;
  const std::vector<int64_t> position = ToInts(*begin);
  if (position.size() != 1) return PartialShape::kUnknownDim;
  const int64_t i = position[0] < 0 ? position[0] + source.rank() : position[0];
  return i < 0 || i >= source.rank() ? PartialShape::kUnknownDim : source.dim(static_cast<int>(i));
}

}  // namespace

absl::optional<Tensor> KnownValue(const Output& output) { return Known(output, 0); }

PartialShape KnownShapeValue(const Output& output) {
  int visits = 0;
  const PartialShape sizes = KnownSizes(output, 0, visits);
  // A vector of more sizes than a shape can have is no shape.
  return sizes.has_rank() && sizes.rank() > kMaxRank ? PartialShape::Unknown() : sizes;
}

}  // namespace tandem
