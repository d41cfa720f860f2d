#include "runtime/input/feature_attrs.h"

#include "core/base/status.h"

namespace tandem::data {
namespace {

// Numbers of each feature in the attribute "numbers", before the sizes of its shape.
enum Number { kDtype, kForm, kSplitsDtype, kAllowMissing, kHasDefault, kRank, kNumbers };

std::string Name(absl::string_view prefix, absl::string_view name) {
  return absl::StrCat(prefix, name);
}

}  // namespace

void AddFeatureAttrs(absl::string_view prefix, absl::Span<const FeatureSpec> features,
                     Stage::Attrs* attrs) {
  Attr& keys = (*attrs)[Name(prefix, "keys")];
  Attr& numbers = (*attrs)[Name(prefix, "numbers")];
  Attr& defaults = (*attrs)[Name(prefix, "defaults")];
  for (const FeatureSpec& feature : features) {
    keys.strings.push_back(feature.key);
    const bool has_default = feature.default_value.is_valid();
    for (const int64_t number :
         {static_cast<int64_t>(feature.dtype), static_cast<int64_t>(feature.form),
          static_cast<int64_t>(feature.splits_dtype), int64_t{feature.allow_missing},
          int64_t{has_default}, int64_t{feature.shape.rank()}}) {
      numbers.ints.push_back(number);
    }
    numbers.ints.insert(numbers.ints.end(), feature.shape.dims().begin(),
                        feature.shape.dims().end());
    if (has_default) defaults.tensors.push_back(feature.default_value);
  }
}

absl::StatusOr<std::vector<FeatureSpec>> FeaturesFromAttrs(absl::string_view prefix,
                                                           const Stage& stage) {
  TANDEM_ASSIGN_OR_RETURN(const Attr* const keys, stage.List(Name(prefix, "keys")));
  TANDEM_ASSIGN_OR_RETURN(const Attr* const numbers, stage.List(Name(prefix, "numbers")));
  TANDEM_ASSIGN_OR_RETURN(const Attr* const defaults, stage.List(Name(prefix, "defaults")));
  absl::Span<const int64_t> left = absl::MakeConstSpan(numbers->ints);
  size_t next_default = 0;
  std::vector<FeatureSpec> features;
  for (const std::string& key : keys->strings) {
    const auto wrong = [&](absl::string_view what) {
      return errors::InvalidArgument(stage.kind(), ": the description of feature '", key, "' ",
                                     what);
    };
    if (left.size() < kNumbers || left[kRank] < 0 ||
        left.size() - kNumbers < static_cast<uint64_t>(left[kRank])) {
      return wrong("is cut off");
    }
    if (left[kForm] < 0 || left[kForm] > static_cast<int64_t>(FeatureSpec::Form::kRagged)) {
      return wrong(absl::StrCat("has form ", left[kForm]));
    }
    FeatureSpec feature;
    feature.key = key;
    feature.dtype = static_cast<DataType>(left[kDtype]);
    feature.form = static_cast<FeatureSpec::Form>(left[kForm]);
    feature.splits_dtype = static_cast<DataType>(left[kSplitsDtype]);
    feature.allow_missing = left[kAllowMissing] != 0;
    absl::StatusOr<Shape> shape =
        Shape::FromDims(left.subspan(kNumbers, static_cast<size_t>(left[kRank])));
    if (!shape.ok()) return wrong(absl::StrCat("has a bad shape: ", shape.status().message()));
    feature.shape = *std::move(shape);
    if (left[kHasDefault] != 0) {
      if (next_default == defaults->tensors.size()) return wrong("lacks its default");
      feature.default_value = defaults->tensors[next_default++];
    }
    left.remove_prefix(kNumbers + static_cast<size_t>(feature.shape.rank()));
    features.push_back(std::move(feature));
  }
  return features;
}

}  // namespace tandem::data
