#include "strategies/parameter_server/partition.h"

#include <algorithm>
#include <utility>

#include "core/tensor/tensor.h"

namespace tandem::parameter_server {
namespace {

// A number of the type of ids.
Tensor Number(DataType dtype, int64_t value) {
  return dtype == kInt64 ? Tensor::Scalar<int64_t>(value)
                         : Tensor::Scalar<int32_t>(static_cast<int32_t>(value));
}

Tensor Numbers(DataType dtype, const std::vector<int64_t>& values) {
  if (dtype == kInt64) return Tensor::Vector<int64_t>(values);
  return Tensor::Vector<int32_t>(std::vector<int32_t>(values.begin(), values.end()));
}

}  // namespace

int64_t NumParts(const PartitionOptions& options, DataType dtype, const Shape& shape) {
  if (options.min_part_bytes < 0 || shape.rank() < 1 || shape.dim(0) < 2) return 1;
  const int64_t bytes = shape.num_elements() * static_cast<int64_t>(DataTypeSize(dtype));
  int64_t parts = options.most_parts;
  if (options.min_part_bytes > 0) parts = std::min(parts, bytes / options.min_part_bytes);
  if (options.max_part_bytes > 0) {
    // Whole rows: those that fit into a part, or one that is larger than that.
    const int64_t row = std::max<int64_t>(1, bytes / shape.dim(0));
    const int64_t most_rows = std::max<int64_t>(1, options.max_part_bytes / row);
    parts = std::max(parts, (shape.dim(0) + most_rows - 1) / most_rows);
  }
  return std::clamp<int64_t>(parts, 1, shape.dim(0));
}

Partition::Partition(int64_t rows, int parts, bool spread)
    : rows_(rows), spread_(spread && parts > 1) {
  const int64_t least = rows / parts;
  const int64_t longer = rows % parts;
  int64_t first = 0;
  for (int64_t p = 0; p < parts; ++p) {
    const int64_t count = least + (p < longer ? 1 : 0);
    parts_.push_back(spread_ ? Part{p, parts, count} : Part{first, 1, count});
    first += count;
  }
}

Output Partition::Join(const Scope& scope, const std::vector<Output>& parts) const {
  if (parts.size() == 1) return parts[0];
  InputList inputs;
  if (!spread_) {
    inputs.assign(parts.begin(), parts.end());
    inputs.emplace_back(scope.Constant(Tensor::Scalar<int32_t>(0)));
    return scope.Call("ConcatV2", inputs);
  }
  for (const Part& part : parts_) {
    // No constant: it would be a table of its own.
    inputs.emplace_back(scope.Call(
        "Range", {Number(kInt32, part.first), Number(kInt32, rows_), Number(kInt32, part.stride)}));
  }
  inputs.insert(inputs.end(), parts.begin(), parts.end());
  return scope.Call("DynamicStitch", inputs, {{"N", num_parts()}});
}

std::vector<Output> Partition::Split(const Scope& scope, const Output& whole) const {
  if (parts_.size() == 1) return {whole};
  std::vector<Output> results;
  if (!spread_) {
    std::vector<int64_t> sizes;
    for (const Part& part : parts_) sizes.push_back(part.rows);
    results = scope.CallMulti("SplitV",
                              {whole, Tensor::Vector<int64_t>(sizes), Tensor::Scalar<int32_t>(0)},
                              {{"num_split", num_parts()}});
  } else {
    for (int p = 0; p < num_parts(); ++p) results.push_back(Slice(scope, whole, p));
  }
  results.resize(parts_.size());  // After an error of the scope.
  return results;
}

Output Partition::Slice(const Scope& scope, const Output& whole, int part) const {
  if (parts_.size() == 1) return whole;
  const Part& rows = parts_[static_cast<size_t>(part)];
  const int64_t end = spread_ ? rows_ : rows.first + rows.rows;
  return scope.Call("StridedSlice",
                    {whole, Tensor::Vector<int64_t>({rows.first}), Tensor::Vector<int64_t>({end}),
                     Tensor::Vector<int64_t>({rows.stride})});
}

std::pair<Output, Output> Partition::Locate(const Scope& scope, const Output& ids) const {
  const DataType dtype = RemoveReference(ids.dtype());
  const int64_t parts = num_parts();
  Output part;
  Output local;
  if (spread_) {
    part = scope.Call("FloorMod", {ids, Number(dtype, parts)});
    local = scope.Call("FloorDiv", {ids, Number(dtype, parts)});
    if (dtype != kInt32) part = scope.Call("Cast", {part}, {{"DstT", kInt32}});
    return {part, local};
  }
  const int64_t least = rows_ / parts;
  const int64_t longer = rows_ % parts;
  part = scope.Call("FloorDiv", {ids, Number(dtype, least + 1)});
  // The greater one is right: the first counts behind the longer parts too few, this before their
  // end.
  const Output behind = scope.Call("Sub", {ids, Number(dtype, longer)});
  part = scope.Call("Maximum", {part, scope.Call("FloorDiv", {behind, Number(dtype, least)})});
  part = scope.Call("Minimum", {part, Number(dtype, parts - 1)});
  part = scope.Call("Maximum", {part, Number(dtype, 0)});
  std::vector<int64_t> firsts;
  for (const Part& rows : parts_) firsts.push_back(rows.first);
  const Output first =
      scope.Call("GatherV2", {Numbers(dtype, firsts), part, Tensor::Scalar<int32_t>(0)});
  local = scope.Call("Sub", {ids, first});
  if (dtype != kInt32) part = scope.Call("Cast", {part}, {{"DstT", kInt32}});
  return {part, local};
}

Partition::Route Partition::Divide(const Scope& scope, const Output& ids) const {
  const auto [part, local] = Locate(scope, ids);
  const Output count = scope.Call("Size", {ids}, {{"out_type", kInt32}});
  const Output all = scope.Call("Range", {Number(kInt32, 0), count, Number(kInt32, 1)});
  const AttrMap attrs = {{"num_partitions", num_parts()}};
  Route route;
  route.ids = scope.CallMulti("DynamicPartition", {local, part}, attrs);
  route.positions = scope.CallMulti("DynamicPartition", {all, part}, attrs);
  route.ids.resize(parts_.size());
  route.positions.resize(parts_.size());
  return route;
}

std::vector<Gradient> Partition::SplitSparse(const Scope& scope, const Gradient& gradient) const {
  if (parts_.size() == 1) return {gradient};
  const auto [part, local] = Locate(scope, gradient.indices);
  const AttrMap attrs = {{"num_partitions", num_parts()}};
  std::vector<Output> ids = scope.CallMulti("DynamicPartition", {local, part}, attrs);
  std::vector<Output> values = scope.CallMulti("DynamicPartition", {gradient.values, part}, attrs);
  ids.resize(parts_.size());
  values.resize(parts_.size());
  std::vector<Gradient> parts;
  for (size_t p = 0; p < parts_.size(); ++p) {
    parts.emplace_back(values[p], ids[p], gradient.dense_shape);
  }
  return parts;
}

}  // namespace tandem::parameter_server
