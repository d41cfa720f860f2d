// Values for TensorBoard: scalars, histograms, images, text and hyperparameters, in the form that
// TensorFlow 2 writes and that TensorBoard's fast loader needs, each with the metadata of its
// plugin. An EventWriter (core/io/event.h) puts them into a file.
//
// Values with one tag in one folder are one series; slashes in a tag make groups. A description is
// Markdown; only that of a tag's first value counts.
//
// Tags, descriptions and names are UTF-8; other bytes become U+FFFD, since a reader would give up
// the file for one.
//
// Errors: InvalidArgument for an empty tag and for what the plugin cannot show.
//
// Threads: all functions may be called from any thread.
#ifndef TANDEM_CORE_IO_SUMMARY_H_
#define TANDEM_CORE_IO_SUMMARY_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "core/io/histogram.h"
#include "core/io/hyperparameters.h"
#include "core/tensor/tensor.h"
#include "proto/summary.pb.h"

namespace tandem {

// The value may be infinite or NaN: TensorBoard marks such points.
absl::StatusOr<tensorflow::Summary::Value> ScalarSummary(absl::string_view tag, float value,
                                                         absl::string_view description = "");

// Of a tensor, in equal buckets; of a histogram, in its own. The tensor must be one that
// HistogramBuckets takes: elements that are not finite are an error, so a caller who logs what may
// diverge goes on without.
absl::StatusOr<tensorflow::Summary::Value> HistogramSummary(
    absl::string_view tag, const Tensor& values, int64_t buckets = kDefaultHistogramBuckets,
    absl::string_view description = "");
absl::StatusOr<tensorflow::Summary::Value> HistogramSummary(absl::string_view tag,
                                                            const Histogram& histogram,
                                                            absl::string_view description = "");

// `images`: [count, height, width, channels] with 1 to 4 channels; uint8, uint16, or floats of
// which 0 is black and 1 is full (others are cut off there). The first `max_images` are kept, as
// PNG.
absl::StatusOr<tensorflow::Summary::Value> ImageSummary(absl::string_view tag, const Tensor& images,
                                                        int max_images = 3,
                                                        absl::string_view description = "");

// Markdown in UTF-8. A vector or matrix of strings is shown as a table.
absl::StatusOr<tensorflow::Summary::Value> TextSummary(absl::string_view tag,
                                                       absl::string_view text,
                                                       absl::string_view description = "");
absl::StatusOr<tensorflow::Summary::Value> TextSummary(absl::string_view tag, const Tensor& text,
                                                       absl::string_view description = "");

// The page of hyperparameters compares runs. Each run's folder has a start, with the values, and an
// end; its metrics are scalars that it writes anyhow. The folder above may have an experiment,
// which says what to compare; without one all that the runs have is compared.
// Runs with one `group` are repetitions with equal values; without, each is for itself.
tensorflow::Summary::Value RunStartSummary(const Hyperparameters& values, absl::Time start,
                                           absl::string_view group = "");
tensorflow::Summary::Value RunEndSummary(RunStatus status, absl::Time end);

struct ExperimentHyperparameter {
  std::string name;
  std::string description;
  // Of one type: the values that it may have. Empty: any.
  std::vector<HyperparameterValue> domain;
};
struct ExperimentMetric {
  std::string tag;
  // The folder below the run's in which the scalars are: "", "validation".
  std::string subfolder;
  std::string display_name;
};
tensorflow::Summary::Value ExperimentSummary(
    const std::vector<ExperimentHyperparameter>& hyperparameters,
    const std::vector<ExperimentMetric>& metrics, absl::Time created);

}  // namespace tandem

#endif  // TANDEM_CORE_IO_SUMMARY_H_
