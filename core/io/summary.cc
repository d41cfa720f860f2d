#include "core/io/summary.h"

#include <algorithm>
#include <utility>

#include "core/base/status.h"
#include "core/base/utf8.h"
#include "core/io/image.h"
#include "core/tensor/tensor_proto.h"
#include "proto/hparams_plugin_data.pb.h"
#include "proto/plugin_data.pb.h"

namespace tandem {
namespace {

using Value = tensorflow::Summary::Value;

// `text` with U+FFFD for every byte that is not UTF-8: readers give up a whole file for one.
std::string Utf8(absl::string_view text) {
  std::string result;
  while (!text.empty()) {
    const size_t size = Utf8CharacterBytes(text);
    absl::StrAppend(&result, size > 0 ? text.substr(0, size) : "\xef\xbf\xbd");
    text.remove_prefix(std::max<size_t>(size, 1));
  }
  return result;
}

// A value without its tensor. Every version of a plugin's data is 0, but TensorFlow leaves no
// content empty that has other fields.
template <typename PluginData>
Value NewValue(absl::string_view tag, const char* plugin, const PluginData& data,
               tensorflow::DataClass data_class, absl::string_view description) {
  Value value;
  value.set_tag(Utf8(tag));
  tensorflow::SummaryMetadata& metadata = *value.mutable_metadata();
  metadata.mutable_plugin_data()->set_plugin_name(plugin);
  metadata.mutable_plugin_data()->set_content(data.SerializeAsString());
  metadata.set_summary_description(Utf8(description));
  metadata.set_data_class(data_class);
  return value;
}

absl::Status CheckTag(absl::string_view tag) {
  if (tag.empty()) return errors::InvalidArgument("a summary needs a tag; found none");
  return absl::OkStatus();
}

template <typename T>
Tensor FloatsTo8Bits(const Tensor& floats, Tensor bytes) {
  std::transform(floats.Elements<T>().begin(), floats.Elements<T>().end(),
                 bytes.MutableElements<uint8_t>().begin(), [](T element) {
                   const auto value = static_cast<float>(element);
                   // NaN is black. TensorFlow scales by 255.5 and cuts off.
                   return value > 0 ? static_cast<uint8_t>(std::min(value * 255.5f, 255.f))
                                    : uint8_t{0};
                 });
  return bytes;
}

absl::StatusOr<Tensor> ImagePixels(const Tensor& image) {
  if (image.dtype() == kUint8 || image.dtype() == kUint16) return image;
  TANDEM_ASSIGN_OR_RETURN(Tensor bytes, Tensor::Create(kUint8, image.shape()));
  if (image.dtype() == kFloat32) return FloatsTo8Bits<float>(image, std::move(bytes));
  if (image.dtype() == kFloat64) return FloatsTo8Bits<double>(image, std::move(bytes));
  if (image.dtype() == kFloat16) return FloatsTo8Bits<Float16>(image, std::move(bytes));
  if (image.dtype() == kBfloat16) return FloatsTo8Bits<Bfloat16>(image, std::move(bytes));
  return errors::InvalidArgument("images are uint8, uint16 or floating; found ",
                                 DataTypeName(image.dtype()));
}

google::protobuf::Value ValueOf(const HyperparameterValue& value) {
  google::protobuf::Value result;
  if (const bool* const flag = absl::get_if<bool>(&value.value())) result.set_bool_value(*flag);
  if (const double* const number = absl::get_if<double>(&value.value())) {
    result.set_number_value(*number);
  }
  if (const std::string* const text = absl::get_if<std::string>(&value.value())) {
    result.set_string_value(Utf8(*text));
  }
  return result;
}

double Seconds(absl::Time time) { return absl::ToDoubleSeconds(time - absl::UnixEpoch()); }

Value HyperparameterSummary(absl::string_view tag,
                            const tensorboard::hparams::HParamsPluginData& data) {
  Value value = NewValue(tag, "hparams", data, tensorflow::DATA_CLASS_TENSOR, "");
  // All is in the metadata; readers expect a tensor nevertheless.
  value.mutable_tensor()->set_dtype(tensorflow::DT_FLOAT);
  value.mutable_tensor()->mutable_tensor_shape();
  value.mutable_tensor()->add_float_val(0);
  return value;
}

}  // namespace

absl::StatusOr<Value> ScalarSummary(absl::string_view tag, float value,
                                    absl::string_view description) {
  TANDEM_RETURN_IF_ERROR(CheckTag(tag));
  Value result = NewValue(tag, "scalars", tensorboard::ScalarPluginData(),
                          tensorflow::DATA_CLASS_SCALAR, description);
  // The fast loader reads no other type, and one entry only.
  result.mutable_tensor()->set_dtype(tensorflow::DT_FLOAT);
  result.mutable_tensor()->mutable_tensor_shape();
  result.mutable_tensor()->add_float_val(value);
  return result;
}

absl::StatusOr<Value> HistogramSummary(absl::string_view tag, const Tensor& values, int64_t buckets,
                                       absl::string_view description) {
  TANDEM_RETURN_IF_ERROR(CheckTag(tag));
  const absl::StatusOr<Tensor> rows = HistogramBuckets(values, buckets);
  if (!rows.ok()) return WithContext(rows.status(), absl::StrCat("histogram '", tag, "'"));
  Value result = NewValue(tag, "histograms", tensorboard::HistogramPluginData(),
                          tensorflow::DATA_CLASS_TENSOR, description);
  TANDEM_RETURN_IF_ERROR(TensorToProto(*rows, result.mutable_tensor()));
  return result;
}

absl::StatusOr<Value> HistogramSummary(absl::string_view tag, const Histogram& histogram,
                                       absl::string_view description) {
  TANDEM_RETURN_IF_ERROR(CheckTag(tag));
  Value result = NewValue(tag, "histograms", tensorboard::HistogramPluginData(),
                          tensorflow::DATA_CLASS_TENSOR, description);
  TANDEM_RETURN_IF_ERROR(TensorToProto(histogram.ToTensor(), result.mutable_tensor()));
  return result;
}

absl::StatusOr<Value> ImageSummary(absl::string_view tag, const Tensor& images, int max_images,
                                   absl::string_view description) {
  TANDEM_RETURN_IF_ERROR(CheckTag(tag));
  const std::string context = absl::StrCat("images '", tag, "'");
  if (!images.is_valid() || images.shape().rank() != 4) {
    return errors::InvalidArgument(context, ": expected [count, height, width, channels]; found ",
                                   images.DebugString(0));
  }
  Value result = NewValue(tag, "images", tensorboard::ImagePluginData(),
                          tensorflow::DATA_CLASS_BLOB_SEQUENCE, description);
  tensorflow::TensorProto& tensor = *result.mutable_tensor();
  tensor.set_dtype(tensorflow::DT_STRING);
  tensor.add_string_val(absl::StrCat(images.shape().dim(2)));
  tensor.add_string_val(absl::StrCat(images.shape().dim(1)));
  const int64_t count = std::min<int64_t>(images.shape().dim(0), std::max(max_images, 0));
  for (int64_t i = 0; i < count; ++i) {
    Shape shape = images.shape();
    shape.RemoveDim(0);
    absl::StatusOr<Tensor> pixels = images.Slice(i, i + 1).Reshaped(std::move(shape));
    if (pixels.ok()) pixels = ImagePixels(*pixels);
    if (!pixels.ok()) return WithContext(pixels.status(), context);
    absl::StatusOr<std::string> png = EncodePng(*pixels);
    if (!png.ok()) return WithContext(png.status(), context);
    tensor.add_string_val(*std::move(png));
  }
  tensor.mutable_tensor_shape()->add_dim()->set_size(2 + count);
  return result;
}

absl::StatusOr<Value> TextSummary(absl::string_view tag, absl::string_view text,
                                  absl::string_view description) {
  return TextSummary(tag, Tensor::Scalar<std::string>(Utf8(text)), description);
}

absl::StatusOr<Value> TextSummary(absl::string_view tag, const Tensor& text,
                                  absl::string_view description) {
  TANDEM_RETURN_IF_ERROR(CheckTag(tag));
  if (text.dtype() != kString) {
    return errors::InvalidArgument("text '", tag, "': expected a tensor of strings; found ",
                                   text.is_valid() ? DataTypeName(text.dtype()) : "no tensor");
  }
  Value result = NewValue(tag, "text", tensorboard::TextPluginData(), tensorflow::DATA_CLASS_TENSOR,
                          description);
  TANDEM_RETURN_IF_ERROR(TensorToProto(text, result.mutable_tensor()));
  return result;
}

Value RunStartSummary(const Hyperparameters& values, absl::Time start, absl::string_view group) {
  tensorboard::hparams::HParamsPluginData data;
  tensorboard::hparams::SessionStartInfo& info = *data.mutable_session_start_info();
  for (const auto& [name, value] : values) (*info.mutable_hparams())[Utf8(name)] = ValueOf(value);
  info.set_group_name(Utf8(group));
  info.set_start_time_secs(Seconds(start));
  return HyperparameterSummary("_hparams_/session_start_info", data);
}

Value RunEndSummary(RunStatus status, absl::Time end) {
  tensorboard::hparams::HParamsPluginData data;
  tensorboard::hparams::SessionEndInfo& info = *data.mutable_session_end_info();
  info.set_status(static_cast<tensorboard::hparams::Status>(status));
  info.set_end_time_secs(Seconds(end));
  return HyperparameterSummary("_hparams_/session_end_info", data);
}

Value ExperimentSummary(const std::vector<ExperimentHyperparameter>& hyperparameters,
                        const std::vector<ExperimentMetric>& metrics, absl::Time created) {
  namespace hparams = tensorboard::hparams;
  constexpr hparams::DataType kTypes[] = {hparams::DATA_TYPE_BOOL, hparams::DATA_TYPE_FLOAT64,
                                          hparams::DATA_TYPE_STRING};  // In the variant's order.
  hparams::HParamsPluginData data;
  hparams::Experiment& experiment = *data.mutable_experiment();
  experiment.set_time_created_secs(Seconds(created));
  for (const ExperimentHyperparameter& hyperparameter : hyperparameters) {
    hparams::HParamInfo& info = *experiment.add_hparam_infos();
    info.set_name(Utf8(hyperparameter.name));
    info.set_description(Utf8(hyperparameter.description));
    for (const HyperparameterValue& value : hyperparameter.domain) {
      info.set_type(kTypes[value.value().index()]);
      *info.mutable_domain_discrete()->add_values() = ValueOf(value);
    }
  }
  for (const ExperimentMetric& metric : metrics) {
    hparams::MetricInfo& info = *experiment.add_metric_infos();
    info.mutable_name()->set_tag(Utf8(metric.tag));
    info.mutable_name()->set_group(Utf8(metric.subfolder));
    info.set_display_name(Utf8(metric.display_name));
  }
  return HyperparameterSummary("_hparams_/experiment", data);
}

}  // namespace tandem
