#include "tools/cli/checkpoint_diff.h"

#include <cmath>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/base/status.h"

namespace tandem::cli {
namespace {

using Kind = CheckpointDifference::Kind;

std::string TypeAndShape(const BundleEntry* entry) {
  if (entry == nullptr) return "";
  return absl::StrCat(DataTypeName(entry->dtype), entry->shape.DebugString());
}

}  // namespace

absl::StatusOr<CheckpointDiff> DiffCheckpoints(const Checkpoint& first, const Checkpoint& second,
                                               double tolerance) {
  std::set<std::string> names;
  for (const Checkpoint* checkpoint : {&first, &second}) {
    for (std::string& name : checkpoint->Names()) names.insert(std::move(name));
  }
  CheckpointDiff diff;
  diff.compared = static_cast<int64_t>(names.size());
  for (const std::string& name : names) {
    const BundleEntry* const a = first.bundle().Find(name);
    const BundleEntry* const b = second.bundle().Find(name);
    CheckpointDifference difference;
    difference.name = name;
    difference.first = TypeAndShape(a);
    difference.second = TypeAndShape(b);
    if (a == nullptr || b == nullptr) {
      difference.kind = b == nullptr ? Kind::kOnlyInFirst : Kind::kOnlyInSecond;
    } else if (difference.first != difference.second) {
      difference.kind = Kind::kTypeOrShape;
    } else {
      TANDEM_ASSIGN_OR_RETURN(const Tensor x, first.bundle().Read(name));
      TANDEM_ASSIGN_OR_RETURN(const Tensor y, second.bundle().Read(name));
      difference.elements = x.num_elements();
      difference.values = CompareTensors(x, y);
      const TensorDifference& values = difference.values;
      if (values.elements == 0 || (values.largest.has_value() && *values.largest <= tolerance)) {
        // Without a tolerance -0 and 0 differ, as do two NaN of different bits.
        if (values.elements == 0 || tolerance > 0) continue;
      }
    }
    diff.differences.push_back(std::move(difference));
  }
  return diff;
}

std::string DifferenceText(const CheckpointDifference& difference) {
  switch (difference.kind) {
    case Kind::kOnlyInFirst:
      return absl::StrCat("only in the first, ", difference.first);
    case Kind::kOnlyInSecond:
      return absl::StrCat("only in the second, ", difference.second);
    case Kind::kTypeOrShape:
      return absl::StrCat(difference.first, " in the first, ", difference.second, " in the second");
    case Kind::kValues:
      break;
  }
  const absl::optional<double>& largest = difference.values.largest;
  return absl::StrCat(difference.values.elements, " of ", difference.elements, " elements",
                      largest.has_value() ? absl::StrCat(", by up to ", *largest) : std::string());
}

nlohmann::json DifferenceJson(const CheckpointDifference& difference) {
  nlohmann::json json = {{"name", difference.name}};
  if (!difference.first.empty()) json["first"] = difference.first;
  if (!difference.second.empty()) json["second"] = difference.second;
  if (difference.kind != Kind::kValues) return json;
  json["elements"] = difference.elements;
  json["different"] = difference.values.elements;
  if (difference.values.largest.has_value()) {
    // JSON knows no infinity.
    json["largest"] = std::isinf(*difference.values.largest)
                          ? nlohmann::json("Infinity")
                          : nlohmann::json(*difference.values.largest);
  }
  return json;
}

}  // namespace tandem::cli
