// Histograms: how the values of a tensor are spread, as TensorBoard shows it. Two forms:
//
//   Histogram          counts values between fixed edges and can go on counting; it becomes a
//                      HistogramProto. TensorFlow's edges are 0, ±1e-12·1.1^n up to 1e20, and
//                      ±DBL_MAX: about 10 % wide, whatever the size of the values.
//   HistogramBuckets   cuts the range of the values at hand into equal buckets: a float64 tensor
//                      [buckets, 3] of left edge, right edge and count, as tf.summary.histogram of
//                      TensorFlow 2 makes it.
//
// Threads: one at a time for each object; functions may be called from any thread.
#ifndef TANDEM_CORE_IO_HISTOGRAM_H_
#define TANDEM_CORE_IO_HISTOGRAM_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "core/tensor/tensor.h"

namespace tensorflow {
class HistogramProto;
}  // namespace tensorflow

namespace tandem {

class Histogram {
 public:
  // With TensorFlow's edges.
  Histogram();

  // `limits`: the right edge of each bucket; values below the first are in the first bucket, those
  // from the last one on in the last. InvalidArgument: none, one that is NaN, or not increasing.
  static absl::StatusOr<Histogram> WithLimits(std::vector<double> limits);

  // InvalidArgument: as above, a count that is negative or not finite, or another number of counts
  // than of limits.
  static absl::StatusOr<Histogram> FromProto(const tensorflow::HistogramProto& proto);

  // Bucket i holds the values in [limits()[i - 1], limits()[i]). InvalidArgument, and nothing is
  // counted: the value is not finite.
  absl::Status Add(double value);
  // All elements of a tensor of real numbers or bools. InvalidArgument, and nothing is counted:
  // another type, or an element that is not finite (the first is named).
  absl::Status AddTensor(const Tensor& values);
  // InvalidArgument: the limits differ.
  absl::Status Merge(const Histogram& other);

  double num() const { return num_; }
  double sum() const { return sum_; }
  double sum_squares() const { return sum_squares_; }
  // Of no values: the largest double, and the lowest.
  double min() const { return min_; }
  double max() const { return max_; }
  absl::Span<const double> limits() const { return *limits_; }
  absl::Span<const double> counts() const { return counts_; }

  // A run of empty buckets becomes one, as TensorFlow writes it; no values are one empty bucket.
  void ToProto(tensorflow::HistogramProto* proto) const;

  // [buckets, 3] from the first bucket that is not empty to the last, of left edge, right edge and
  // count; the outer edges are min() and max(), and runs of empty buckets are one.
  Tensor ToTensor() const;

 private:
  explicit Histogram(std::shared_ptr<const std::vector<double>> limits);
  void AddFinite(double value);
  // `bucket` and the one behind it are empty.
  bool RunOfEmptyBucketsGoesOn(size_t bucket) const;

  // Shared: there are over 1500 of TensorFlow's.
  std::shared_ptr<const std::vector<double>> limits_;
  std::vector<double> counts_;
  double min_;
  double max_;
  double num_ = 0;
  double sum_ = 0;
  double sum_squares_ = 0;
};

// TensorFlow's number of buckets.
inline constexpr int64_t kDefaultHistogramBuckets = 30;

// The last bucket is closed on the right. Where all values are equal they are in the last bucket,
// and all edges are that value. No values: all zeros. InvalidArgument: a tensor that is not of real
// numbers or bools, an element that is not finite, a negative number of buckets or more than a
// million.
absl::StatusOr<Tensor> HistogramBuckets(const Tensor& values,
                                        int64_t buckets = kDefaultHistogramBuckets);

// For callers who log what may diverge.
struct FiniteElements {
  Tensor values;         // float64, a vector, in the order of the elements.
  int64_t left_out = 0;  // Elements that are infinite or not a number.
};
// InvalidArgument: a tensor that is not of real numbers or bools.
absl::StatusOr<FiniteElements> TakeFinite(const Tensor& values);

}  // namespace tandem

#endif  // TANDEM_CORE_IO_HISTOGRAM_H_
