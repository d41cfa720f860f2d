#include "core/io/tensor_slice.h"

#include <algorithm>
#include <cstring>
#include <utility>
#include <vector>

#include "absl/numeric/bits.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "core/base/status.h"
#include "proto/tensor_slice.pb.h"

namespace tandem {
namespace {

bool IsExtent(const TensorSlice::Extent& extent) {
  if (extent.length == TensorSlice::kWhole) return extent.start == 0;
  return extent.start >= 0 && extent.length >= 0;
}

// Numbers of any size such that the order of the bytes is that of the numbers.

void AppendOrderedUnsigned(uint64_t value, std::string* out) {
  const int bytes = (64 - absl::countl_zero(value) + 7) / 8;
  out->push_back(static_cast<char>(bytes));
  for (int i = bytes; i-- > 0;) out->push_back(static_cast<char>(value >> (8 * i)));
}

// Big-endian, in the fewest bytes of which seven bits each are enough; as many leading bits as
// there are bytes are inverted, which tells the sign and the length.
void AppendOrderedSigned(int64_t value, std::string* out) {
  const uint64_t bits = static_cast<uint64_t>(value);
  const int significant = 64 - absl::countl_zero(value < 0 ? ~bits : bits);
  const int bytes = significant / 7 + 1;
  for (int i = 0; i < bytes; ++i) {
    const int shift = 8 * (bytes - 1 - i);
    const unsigned sign = value < 0 ? 0xff : 0;
    const unsigned byte = shift >= 64 ? sign : static_cast<unsigned>(bits >> shift & 0xff);
    const int inverted = std::clamp(bytes - 8 * i, 0, 8);
    out->push_back(static_cast<char>(byte ^ (0xff00u >> inverted & 0xff)));
  }
}

}  // namespace

absl::StatusOr<TensorSlice> TensorSlice::Parse(absl::string_view text) {
  const auto error = [&] {
    return errors::InvalidArgument("'", text,
                                   "' is no slice; expected 'start,length' or '-' for "
                                   "each dimension, joined by ':', as in '0,2:-'");
  };
  TensorSlice slice;
  if (text.empty()) return slice;
  for (const absl::string_view part : absl::StrSplit(text, ':')) {
    Extent extent;
    if (part != "-") {
      const std::pair<absl::string_view, absl::string_view> numbers =
          absl::StrSplit(part, absl::MaxSplits(',', 1));
      if (!absl::SimpleAtoi(numbers.first, &extent.start) ||
          !absl::SimpleAtoi(numbers.second, &extent.length) || extent.length < 0 ||
          !IsExtent(extent)) {
        return error();
      }
    }
    if (slice.rank() == kMaxRank) return error();
    slice.extents_.push_back(extent);
  }
  return slice;
}

absl::StatusOr<TensorSlice> TensorSlice::FromProto(const tensorflow::TensorSliceProto& proto) {
  TensorSlice slice;
  for (const auto& extent_proto : proto.extent()) {
    Extent extent;
    extent.start = extent_proto.start();
    if (extent_proto.has_length_hack_case() != extent_proto.HAS_LENGTH_HACK_NOT_SET) {
      extent.length = extent_proto.length();
    }
    if (!IsExtent(extent) || slice.rank() == kMaxRank) {
      return errors::InvalidArgument("a slice with start ", extent.start, " and length ",
                                     extent.length, " in dimension ", slice.rank(),
                                     "; expected numbers that are not negative, in at most ",
                                     kMaxRank, " dimensions");
    }
    slice.extents_.push_back(extent);
  }
  return slice;
}

void TensorSlice::ToProto(tensorflow::TensorSliceProto* proto) const {
  proto->Clear();
  for (const Extent& extent : extents_) {
    auto* const extent_proto = proto->add_extent();
    if (extent.length == kWhole) continue;
    extent_proto->set_start(extent.start);
    extent_proto->set_length(extent.length);
  }
}

std::string TensorSlice::DebugString() const {
  return absl::StrJoin(extents_, ":", [](std::string* out, const Extent& extent) {
    if (extent.length == kWhole) {
      out->push_back('-');
    } else {
      absl::StrAppend(out, extent.start, ",", extent.length);
    }
  });
}

absl::StatusOr<TensorSlice> TensorSlice::Resolve(const Shape& full) const {
  TensorSlice resolved = *this;
  bool fits = rank() == full.rank();
  for (int i = 0; fits && i < rank(); ++i) {
    Extent& extent = resolved.extents_[static_cast<size_t>(i)];
    if (extent.length == kWhole) extent.length = full.dim(i);
    fits = extent.start <= full.dim(i) && extent.length <= full.dim(i) - extent.start;
  }
  if (fits) return resolved;
  return errors::InvalidArgument("the slice '", DebugString(),
                                 "' does not lie within a tensor of shape ", full.DebugString());
}

Shape TensorSlice::shape() const {
  Shape::Dims dims;
  for (const Extent& extent : extents_) dims.push_back(extent.length);
  return Shape(dims);
}

absl::optional<TensorSlice> TensorSlice::Intersection(const TensorSlice& other) const {
  TensorSlice common = *this;
  for (size_t i = 0; i < extents_.size(); ++i) {
    const Extent& a = extents_[i];
    const Extent& b = other.extents_[i];
    const int64_t start = std::max(a.start, b.start);
    const int64_t end = std::min(a.start + a.length, b.start + b.length);
    if (start >= end) return absl::nullopt;
    common.extents_[i] = {start, end - start};
  }
  return common;
}

absl::StatusOr<ShapeAndSlice> ParseShapeAndSlice(absl::string_view text) {
  ShapeAndSlice result;
  if (text.empty()) return result;
  result.whole = false;
  const std::vector<absl::string_view> parts = absl::StrSplit(text, ' ');
  Shape::Dims dims;
  for (size_t i = 0; i + 1 < parts.size(); ++i) {
    int64_t size = 0;
    if (!absl::SimpleAtoi(parts[i], &size)) {
      return errors::InvalidArgument("'", text,
                                     "' is no shape and slice; expected sizes and a "
                                     "slice, as in '4 5 0,2:-'");
    }
    dims.push_back(size);
  }
  TANDEM_ASSIGN_OR_RETURN(result.full, Shape::FromDims(dims));
  TANDEM_ASSIGN_OR_RETURN(result.slice, TensorSlice::Parse(parts.back()));
  const absl::Status fits = result.slice.Resolve(result.full).status();
  if (!fits.ok()) return WithContext(fits, absl::StrCat("'", text, "'"));
  return result;
}

std::string TensorSliceKey(absl::string_view name, const TensorSlice& slice) {
  std::string key;
  AppendOrderedUnsigned(0, &key);
  for (const char c : name) {
    key.push_back(c);
    if (c == '\0') key.push_back('\xff');
    if (c == '\xff') key.push_back('\0');
  }
  key.push_back('\0');
  key.push_back('\1');
  AppendOrderedUnsigned(static_cast<uint64_t>(slice.rank()), &key);
  for (const TensorSlice::Extent& extent : slice.extents()) {
    AppendOrderedSigned(extent.start, &key);
    AppendOrderedSigned(extent.length, &key);
  }
  return key;
}

void CopyCommonPart(const Tensor& from, const TensorSlice& from_slice, const TensorSlice& to_slice,
                    Tensor* to) {
  const absl::optional<TensorSlice> common = from_slice.Intersection(to_slice);
  if (!common.has_value()) return;
  const int rank = common->rank();
  // What lies together in both: all dimensions from `run` on, which cover theirs wholly except for
  // the first.
  int run = rank;
  int64_t run_elements = 1;
  bool together = true;
  while (run > 0 && together) {
    --run;
    const size_t i = static_cast<size_t>(run);
    run_elements *= common->extents()[i].length;
    together = common->extents()[i] == from_slice.extents()[i] &&
               common->extents()[i] == to_slice.extents()[i];
  }
  const size_t width = DataTypeSize(from.dtype());
  Shape::Dims index(static_cast<size_t>(rank), 0);  // Within `common`, of the run's first element.
  for (;;) {
    int64_t from_offset = 0;
    int64_t to_offset = 0;
    for (size_t i = 0; i < index.size(); ++i) {
      const int64_t at = common->extents()[i].start + index[i];
      from_offset =
          from_offset * from_slice.extents()[i].length + at - from_slice.extents()[i].start;
      to_offset = to_offset * to_slice.extents()[i].length + at - to_slice.extents()[i].start;
    }
    if (IsTriviallyCopyable(from.dtype())) {
      std::memcpy(static_cast<char*>(to->mutable_data()) + static_cast<size_t>(to_offset) * width,
                  static_cast<const char*>(from.data()) + static_cast<size_t>(from_offset) * width,
                  static_cast<size_t>(run_elements) * width);
    } else if (from.dtype() == kString) {
      std::copy_n(from.Elements<std::string>().begin() + from_offset, run_elements,
                  to->MutableElements<std::string>().begin() + to_offset);
    } else if (from.dtype() == kVariant) {
      std::copy_n(from.Elements<Variant>().begin() + from_offset, run_elements,
                  to->MutableElements<Variant>().begin() + to_offset);
    }
    int dim = run;
    while (dim > 0) {
      const size_t i = static_cast<size_t>(dim - 1);
      if (++index[i] < common->extents()[i].length) break;
      index[i] = 0;
      --dim;
    }
    if (dim == 0) return;
  }
}

}  // namespace tandem
