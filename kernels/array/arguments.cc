#include "kernels/array/arguments.h"

#include "core/base/status.h"

namespace tandem::array {

int64_t Product(absl::Span<const int64_t> dims, int begin, int end) {
  // Beside a size of 0 the others may have a product that does not fit. Nothing is done with it
  // then.
  uint64_t product = 1;
  for (int i = begin; i < end; ++i) product *= static_cast<uint64_t>(dims[static_cast<size_t>(i)]);
  return static_cast<int64_t>(product);
}

absl::optional<Ints> KnownInts(const ShapeContext& c, int i) {
  const absl::optional<Tensor> value = c.InputValue(i);
  if (!value.has_value()) return absl::nullopt;
  absl::StatusOr<Ints> ints = IntsArgument(*value, "");
  if (!ints.ok()) return absl::nullopt;
  return *std::move(ints);
}

int64_t MultiplySizes(int64_t a, int64_t b) {
  if (a == 0 || b == 0) return 0;
  if (a < 0 || b < 0) return PartialShape::kUnknownDim;
  int64_t product;
  return __builtin_mul_overflow(a, b, &product) ? PartialShape::kUnknownDim : product;
}

absl::StatusOr<int64_t> AddSizes(int64_t a, int64_t b) {
  if (a < 0 || b < 0) return PartialShape::kUnknownDim;
  int64_t sum;
  if (__builtin_add_overflow(a, b, &sum)) {
    return errors::InvalidArgument("the sum of sizes ", a, " and ", b, " is too large");
  }
  return sum;
}

absl::StatusOr<int64_t> MergeSizes(int64_t a, int64_t b) {
  if (a < 0) return b;
  if (b < 0 || a == b) return a;
  return errors::InvalidArgument("sizes ", a, " and ", b, " differ");
}

PartialShape Subshape(const PartialShape& shape, int begin, int end) {
  return PartialShape(
      shape.dims().subspan(static_cast<size_t>(begin), static_cast<size_t>(end - begin)));
}

PartialShape Concatenate(const PartialShape& a, const PartialShape& b) {
  if (!a.has_rank() || !b.has_rank()) return PartialShape::Unknown();
  PartialShape result = a;
  for (const int64_t size : b.dims()) result.AddDim(size);
  return result;
}

PartialShape WithoutDim(const PartialShape& shape, int dim) {
  return Concatenate(Subshape(shape, 0, dim), Subshape(shape, dim + 1, shape.rank()));
}

PartialShape WithDim(const PartialShape& shape, int at, int64_t size) {
  PartialShape result = Subshape(shape, 0, at);
  result.AddDim(size);
  return Concatenate(result, Subshape(shape, at, shape.rank()));
}

}  // namespace tandem::array
