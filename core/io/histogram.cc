#include "core/io/histogram.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "core/base/status.h"
#include "proto/summary.pb.h"

namespace tandem {
namespace {

using Limits = std::shared_ptr<const std::vector<double>>;

constexpr double kLargest = std::numeric_limits<double>::max();
constexpr int64_t kMaxBuckets = 1'000'000;

const Limits& TensorFlowLimits() {
  static const Limits* const limits = [] {
    std::vector<double> positive;
    // Multiplied step by step, so that the edges are TensorFlow's to the last bit.
    for (double limit = 1e-12; limit < 1e20; limit *= 1.1) positive.push_back(limit);
    positive.push_back(kLargest);
    std::vector<double> all;
    for (auto limit = positive.rbegin(); limit != positive.rend(); ++limit) all.push_back(-*limit);
    all.push_back(0);
    all.insert(all.end(), positive.begin(), positive.end());
    return new Limits(std::make_shared<const std::vector<double>>(std::move(all)));
  }();
  return *limits;
}

absl::Status CheckLimits(absl::Span<const double> limits) {
  if (limits.empty()) return errors::InvalidArgument("a histogram has no buckets");
  for (size_t i = 0; i < limits.size(); ++i) {
    if (!std::isnan(limits[i]) && (i == 0 || limits[i - 1] < limits[i])) continue;
    return errors::InvalidArgument("limit ", i, " of a histogram is ", limits[i],
                                   "; expected limits that increase",
                                   i == 0 ? absl::AlphaNum("") : absl::AlphaNum(", from "),
                                   i == 0 ? std::string() : absl::StrCat(limits[i - 1]));
  }
  return absl::OkStatus();
}

template <typename T>
std::vector<double> AsDoubles(const Tensor& tensor) {
  std::vector<double> values;
  values.reserve(static_cast<size_t>(tensor.num_elements()));
  for (const T value : tensor.Elements<T>()) values.push_back(static_cast<double>(value));
  return values;
}

absl::StatusOr<std::vector<double>> RealNumbers(const Tensor& tensor) {
  switch (tensor.dtype()) {
    case kFloat32:
      return AsDoubles<float>(tensor);
    case kFloat64:
      return AsDoubles<double>(tensor);
    case kFloat16:
      return AsDoubles<Float16>(tensor);
    case kBfloat16:
      return AsDoubles<Bfloat16>(tensor);
    case kInt8:
      return AsDoubles<int8_t>(tensor);
    case kInt16:
      return AsDoubles<int16_t>(tensor);
    case kInt32:
      return AsDoubles<int32_t>(tensor);
    case kInt64:
      return AsDoubles<int64_t>(tensor);
    case kUint8:
      return AsDoubles<uint8_t>(tensor);
    case kUint16:
      return AsDoubles<uint16_t>(tensor);
    case kUint32:
      return AsDoubles<uint32_t>(tensor);
    case kUint64:
      return AsDoubles<uint64_t>(tensor);
    case kBool:
      return AsDoubles<bool>(tensor);
    default:
      return errors::InvalidArgument("a histogram counts real numbers; found a tensor of type ",
                                     DataTypeName(tensor.dtype()));
  }
}

absl::StatusOr<std::vector<double>> FiniteNumbers(const Tensor& tensor) {
  TANDEM_ASSIGN_OR_RETURN(std::vector<double> values, RealNumbers(tensor));
  const auto bad = [](double value) { return !std::isfinite(value); };
  const auto first = std::find_if(values.begin(), values.end(), bad);
  if (first != values.end()) {
    return errors::InvalidArgument(
        "a histogram counts finite numbers; element ", first - values.begin(), " of ",
        DataTypeName(tensor.dtype()), tensor.shape().DebugString(), " is ", *first, ", and ",
        std::count_if(first, values.end(), bad), " in all are not finite");
  }
  return values;
}

struct Row {
  double left;
  double right;
  double count;
};

Tensor TensorOf(const std::vector<Row>& rows) {
  Tensor tensor(kFloat64, {static_cast<int64_t>(rows.size()), 3});
  double* out = tensor.MutableElements<double>().data();
  for (const Row& row : rows) {
    *out++ = row.left;
    *out++ = row.right;
    *out++ = row.count;
  }
  return tensor;
}

}  // namespace

Histogram::Histogram() : Histogram(TensorFlowLimits()) {}

Histogram::Histogram(Limits limits)
    : limits_(std::move(limits)), counts_(limits_->size()), min_(kLargest), max_(-kLargest) {}

absl::StatusOr<Histogram> Histogram::WithLimits(std::vector<double> limits) {
  TANDEM_RETURN_IF_ERROR(CheckLimits(limits));
  return Histogram(std::make_shared<const std::vector<double>>(std::move(limits)));
}

absl::StatusOr<Histogram> Histogram::FromProto(const tensorflow::HistogramProto& proto) {
  if (proto.bucket_size() != proto.bucket_limit_size()) {
    return errors::InvalidArgument("a histogram has ", proto.bucket_limit_size(), " limits and ",
                                   proto.bucket_size(), " counts; expected as many of both");
  }
  for (int i = 0; i < proto.bucket_size(); ++i) {
    if (std::isfinite(proto.bucket(i)) && proto.bucket(i) >= 0) continue;
    return errors::InvalidArgument("count ", i, " of a histogram is ", proto.bucket(i));
  }
  TANDEM_ASSIGN_OR_RETURN(
      Histogram histogram,
      WithLimits(std::vector<double>(proto.bucket_limit().begin(), proto.bucket_limit().end())));
  histogram.counts_.assign(proto.bucket().begin(), proto.bucket().end());
  histogram.min_ = proto.min();
  histogram.max_ = proto.max();
  histogram.num_ = proto.num();
  histogram.sum_ = proto.sum();
  histogram.sum_squares_ = proto.sum_squares();
  return histogram;
}

void Histogram::AddFinite(double value) {
  const auto above = std::upper_bound(limits_->begin(), limits_->end(), value);
  const auto bucket = std::min(above, limits_->end() - 1) - limits_->begin();
  counts_[static_cast<size_t>(bucket)] += 1;
  min_ = std::min(min_, value);
  max_ = std::max(max_, value);
  num_ += 1;
  sum_ += value;
  sum_squares_ += value * value;
}

absl::Status Histogram::Add(double value) {
  if (!std::isfinite(value)) {
    return errors::InvalidArgument("a histogram counts finite numbers; found ", value);
  }
  AddFinite(value);
  return absl::OkStatus();
}

absl::Status Histogram::AddTensor(const Tensor& values) {
  TANDEM_ASSIGN_OR_RETURN(const std::vector<double> numbers, FiniteNumbers(values));
  for (const double value : numbers) AddFinite(value);
  return absl::OkStatus();
}

absl::Status Histogram::Merge(const Histogram& other) {
  if (limits_ != other.limits_ && *limits_ != *other.limits_) {
    return errors::InvalidArgument("histograms of different buckets (", limits_->size(), " and ",
                                   other.limits_->size(), ") cannot be merged");
  }
  for (size_t i = 0; i < counts_.size(); ++i) counts_[i] += other.counts_[i];
  min_ = std::min(min_, other.min_);
  max_ = std::max(max_, other.max_);
  num_ += other.num_;
  sum_ += other.sum_;
  sum_squares_ += other.sum_squares_;
  return absl::OkStatus();
}

bool Histogram::RunOfEmptyBucketsGoesOn(size_t bucket) const {
  return counts_[bucket] == 0 && bucket + 1 < counts_.size() && counts_[bucket + 1] == 0;
}

void Histogram::ToProto(tensorflow::HistogramProto* proto) const {
  proto->Clear();
  proto->set_min(min_);
  proto->set_max(max_);
  proto->set_num(num_);
  proto->set_sum(sum_);
  proto->set_sum_squares(sum_squares_);
  for (size_t i = 0; i < counts_.size(); ++i) {
    if (RunOfEmptyBucketsGoesOn(i)) continue;
    proto->add_bucket_limit((*limits_)[i]);
    proto->add_bucket(counts_[i]);
  }
}

Tensor Histogram::ToTensor() const {
  const auto filled = [](double count) { return count > 0; };
  const auto first = std::find_if(counts_.begin(), counts_.end(), filled) - counts_.begin();
  const auto end = counts_.rend() - std::find_if(counts_.rbegin(), counts_.rend(), filled);
  std::vector<Row> rows;
  double left = min_;
  for (auto i = static_cast<size_t>(first); i < static_cast<size_t>(end); ++i) {
    if (RunOfEmptyBucketsGoesOn(i)) continue;
    rows.push_back({left, (*limits_)[i], counts_[i]});
    left = (*limits_)[i];
  }
  if (!rows.empty()) rows.back().right = max_;
  return TensorOf(rows);
}

absl::StatusOr<FiniteElements> TakeFinite(const Tensor& values) {
  TANDEM_ASSIGN_OR_RETURN(std::vector<double> numbers, RealNumbers(values));
  const auto end = std::remove_if(numbers.begin(), numbers.end(),
                                  [](double value) { return !std::isfinite(value); });
  FiniteElements finite;
  finite.left_out = numbers.end() - end;
  numbers.erase(end, numbers.end());
  finite.values = Tensor::Vector<double>(absl::MakeConstSpan(numbers));
  return finite;
}

absl::StatusOr<Tensor> HistogramBuckets(const Tensor& values, int64_t buckets) {
  if (buckets < 0 || buckets > kMaxBuckets) {
    return errors::InvalidArgument("expected 0 to ", kMaxBuckets, " buckets; found ", buckets);
  }
  TANDEM_ASSIGN_OR_RETURN(const std::vector<double> numbers, FiniteNumbers(values));
  std::vector<Row> rows(static_cast<size_t>(buckets));
  if (numbers.empty() || rows.empty()) return TensorOf(rows);

  const auto [low, high] = std::minmax_element(numbers.begin(), numbers.end());
  const double width = (*high - *low) / static_cast<double>(buckets);
  // Edges that do not differ, or a range that is no double: one bucket holds all.
  const bool flat = !(width > 0) || !std::isfinite(width);
  for (size_t i = 0; i < rows.size(); ++i) {
    rows[i].left = flat ? *low : *low + static_cast<double>(i) * width;
    rows[i].right = flat ? *high : *low + static_cast<double>(i + 1) * width;
  }
  rows.back().right = *high;
  if (flat) {
    rows.back().count = static_cast<double>(numbers.size());
    return TensorOf(rows);
  }
  const auto last = static_cast<double>(buckets - 1);
  for (const double value : numbers) {
    const double bucket = std::min(std::floor((value - *low) / width), last);
    rows[static_cast<size_t>(bucket)].count += 1;
  }
  return TensorOf(rows);
}

}  // namespace tandem
