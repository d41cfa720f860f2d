#include "runtime/collective/label.h"

#include <algorithm>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "runtime/collective/algorithm.h"

namespace tandem::collective {
namespace {

constexpr size_t kDims = 4;

struct Packed {
  uint8_t kind = 0;
  uint8_t reduction = 0;
  uint8_t dtype = 0;
  uint8_t rank = 0;
  uint32_t algorithm = 0;
  int32_t root = 0;
  uint32_t layout = 0;
  int64_t count = 0;
  int64_t dims[kDims] = {};
};
static_assert(sizeof(Packed) == sizeof(transport::Label));

Packed Unpack(const transport::Label& label) {
  Packed packed;
  std::memcpy(&packed, label.bytes.data(), sizeof(packed));
  return packed;
}

}  // namespace

transport::Label MakeLabel(const LabelFields& fields) {
  Packed packed;
  packed.kind = static_cast<uint8_t>(fields.kind);
  packed.reduction = static_cast<uint8_t>(fields.reduction);
  packed.dtype = static_cast<uint8_t>(fields.dtype);
  packed.rank = static_cast<uint8_t>(fields.dims.size());
  packed.algorithm = fields.algorithm;
  packed.root = fields.root;
  packed.layout = fields.layout;
  packed.count = fields.count;
  for (size_t i = 0; i < std::min(kDims, fields.dims.size()); ++i) {
    packed.dims[i] = fields.dims[i];
  }
  transport::Label label;
  std::memcpy(label.bytes.data(), &packed, sizeof(packed));
  return label;
}

uint32_t HashNumbers(uint32_t hash, const std::vector<int64_t>& numbers) {
  for (const int64_t number : numbers) {
    for (int shift = 0; shift < 64; shift += 8) {
      hash = (hash ^ static_cast<uint8_t>(static_cast<uint64_t>(number) >> shift)) * 0x01000193;
    }
  }
  return hash * 31 + static_cast<uint32_t>(numbers.size());
}

std::string DescribeLabel(const transport::Label& label) {
  const Packed packed = Unpack(label);
  const Kind kind = static_cast<Kind>(packed.kind);
  std::string text = KindName(kind);
  if (kind == Kind::kBarrier) return text;
  if (kind == Kind::kAllReduce || kind == Kind::kReduce || kind == Kind::kReduceScatter) {
    absl::StrAppend(&text, " (", ReductionName(static_cast<Reduction>(packed.reduction)), ")");
  }
  absl::StrAppend(&text, " of ", DataTypeName(static_cast<DataType>(packed.dtype)));
  const size_t shown = std::min<size_t>(kDims, packed.rank);
  absl::StrAppend(&text, "[", absl::StrJoin(packed.dims, packed.dims + shown, ","),
                  packed.rank > kDims ? ",…" : "", "]");
  if (kind == Kind::kReduce || kind == Kind::kBroadcast) {
    absl::StrAppend(&text, " with root ", packed.root);
  }
  absl::StrAppend(&text, " by ", AlgorithmName(packed.algorithm));
  return text;
}

std::string DescribeDifference(const transport::Label& a, const transport::Label& b) {
  const Packed x = Unpack(a);
  const Packed y = Unpack(b);
  if (x.layout != y.layout) {
    return "; they name other members, or other counts for each member";
  }
  if (x.count != y.count) return absl::StrCat("; ", x.count, " and ", y.count, " values");
  return "";
}

}  // namespace tandem::collective
