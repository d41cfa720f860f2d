#include "core/io/summary.h"

#include <cmath>

#include "core/io/image.h"
#include "core/tensor/tensor_proto.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "proto/hparams_plugin_data.pb.h"

namespace tandem {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Matcher;
using ::testing::Not;
using Value = tensorflow::Summary::Value;

void ExpectPlugin(const absl::StatusOr<Value>& value, const char* tag, const char* plugin,
                  tensorflow::DataClass data_class) {
  ASSERT_TRUE(value.ok()) << value.status();
  EXPECT_EQ(value->tag(), tag);
  EXPECT_EQ(value->metadata().plugin_data().plugin_name(), plugin);
  EXPECT_EQ(value->metadata().data_class(), data_class);
  EXPECT_TRUE(value->has_tensor());
}

std::string TensorText(const Value& value) {
  const absl::StatusOr<Tensor> tensor = TensorFromProto(value.tensor());
  return tensor.ok() ? tensor->DebugString(100) : tensor.status().ToString();
}

void ExpectError(const absl::StatusOr<Value>& value, const Matcher<std::string>& message) {
  EXPECT_EQ(value.status().code(), absl::StatusCode::kInvalidArgument) << value.status();
  EXPECT_THAT(std::string(value.status().message()), message);
}

TEST(Summary, AScalarIsOneFloatInTheFormOfTheFastLoader) {
  const absl::StatusOr<Value> value = ScalarSummary("loss", 0.5f, "mean");
  ExpectPlugin(value, "loss", "scalars", tensorflow::DATA_CLASS_SCALAR);
  EXPECT_EQ(value->tensor().dtype(), tensorflow::DT_FLOAT);
  EXPECT_EQ(value->tensor().tensor_shape().dim_size(), 0);
  ASSERT_EQ(value->tensor().float_val_size(), 1);
  EXPECT_EQ(value->tensor().float_val(0), 0.5f);
  EXPECT_EQ(value->metadata().summary_description(), "mean");
  EXPECT_TRUE(std::isnan(ScalarSummary("loss", NAN)->tensor().float_val(0)));
}

TEST(Summary, AHistogramIsATensorOfEdgesAndCounts) {
  const Tensor values = Tensor::Vector<float>({1, 2, 3});
  const absl::StatusOr<Value> value = HistogramSummary("weights", values, 2);
  ExpectPlugin(value, "weights", "histograms", tensorflow::DATA_CLASS_TENSOR);
  EXPECT_EQ(TensorText(*value),
            Tensor::FromValues<double>({2, 3}, {1, 2, 1, 2, 3, 2}).DebugString(100));
  EXPECT_EQ(TensorFromProto(HistogramSummary("w", values)->tensor())->shape(), Shape({30, 3}));

  Histogram histogram = *Histogram::WithLimits({0, 2, 4});
  ASSERT_TRUE(histogram.AddTensor(values).ok());
  const absl::StatusOr<Value> counted = HistogramSummary("weights", histogram);
  ExpectPlugin(counted, "weights", "histograms", tensorflow::DATA_CLASS_TENSOR);
  EXPECT_EQ(TensorText(*counted),
            Tensor::FromValues<double>({2, 3}, {1, 2, 1, 2, 3, 2}).DebugString(100));
  ExpectError(HistogramSummary("weights", Tensor::Vector<float>({1, INFINITY})),
              AllOf(HasSubstr("histogram 'weights'"), HasSubstr("element 1")));
}

TEST(Summary, ImagesAreWidthHeightAndPngFiles) {
  Tensor images = Tensor::Zeros(kUint8, {5, 2, 3, 1});
  for (uint8_t i = 0; i < 30; ++i) images.MutableElements<uint8_t>()[i] = i;
  const absl::StatusOr<Value> value = ImageSummary("digits", images, 2);
  ExpectPlugin(value, "digits", "images", tensorflow::DATA_CLASS_BLOB_SEQUENCE);
  // Not in tensor_content, which the fast loader does not read for strings.
  ASSERT_EQ(value->tensor().string_val_size(), 4);
  EXPECT_EQ(value->tensor().tensor_shape().dim(0).size(), 4);
  EXPECT_EQ(value->tensor().string_val(0), "3");
  EXPECT_EQ(value->tensor().string_val(1), "2");
  EXPECT_EQ(DecodePng(value->tensor().string_val(3))->DebugString(),
            Tensor::FromValues<uint8_t>({2, 3, 1}, {6, 7, 8, 9, 10, 11}).DebugString());
}

TEST(Summary, FloatsFrom0To1BecomePixels) {
  const Tensor images = Tensor::FromValues<float>({1, 1, 6, 1}, {0, 1, 0.5f, -1, 7, NAN});
  const absl::StatusOr<Value> value = ImageSummary("x", images);
  ASSERT_TRUE(value.ok()) << value.status();
  // tf.image.convert_image_dtype gives 127 for 0.5.
  EXPECT_EQ(DecodePng(value->tensor().string_val(2))->DebugString(),
            Tensor::FromValues<uint8_t>({1, 6, 1}, {0, 255, 127, 0, 255, 0}).DebugString());
  EXPECT_TRUE(ImageSummary("x", Tensor::Zeros(kFloat16, {1, 2, 2, 3})).ok());
  EXPECT_TRUE(ImageSummary("x", Tensor::Zeros(kUint16, {1, 2, 2, 4})).ok());
  EXPECT_EQ(ImageSummary("x", Tensor::Zeros(kUint8, {0, 2, 2, 4}))->tensor().string_val_size(), 2);
}

TEST(Summary, TextIsATensorOfStrings) {
  const absl::StatusOr<Value> value = TextSummary("notes", "*hello*");
  ExpectPlugin(value, "notes", "text", tensorflow::DATA_CLASS_TENSOR);
  EXPECT_EQ(TensorText(*value), Tensor::Scalar<std::string>("*hello*").DebugString());
  const Tensor table = Tensor::FromValues<std::string>({2, 2}, {"a", "b", "c", "d"});
  EXPECT_EQ(TensorText(*TextSummary("notes", table)), table.DebugString(100));
}

TEST(Summary, HyperparametersAreInTheMetadata) {
  const absl::Time time = absl::FromUnixSeconds(1000);
  const Value start = RunStartSummary(
      {{"rate", 0.1}, {"layers", 3}, {"name", "adam"}, {"on", true}}, time, "group");
  ExpectPlugin(start, "_hparams_/session_start_info", "hparams", tensorflow::DATA_CLASS_TENSOR);
  tensorboard::hparams::HParamsPluginData data;
  ASSERT_TRUE(data.ParseFromString(start.metadata().plugin_data().content()));
  const auto& values = data.session_start_info().hparams();
  EXPECT_EQ(values.size(), 4u);
  EXPECT_EQ(values.at("rate").number_value(), 0.1);
  EXPECT_EQ(values.at("layers").number_value(), 3);
  EXPECT_EQ(values.at("name").string_value(), "adam");
  EXPECT_TRUE(values.at("on").has_bool_value());
  EXPECT_EQ(data.session_start_info().group_name(), "group");
  EXPECT_EQ(data.session_start_info().start_time_secs(), 1000);

  const Value end = RunEndSummary(RunStatus::kFailure, time);
  ExpectPlugin(end, "_hparams_/session_end_info", "hparams", tensorflow::DATA_CLASS_TENSOR);
  ASSERT_TRUE(data.ParseFromString(end.metadata().plugin_data().content()));
  EXPECT_EQ(data.session_end_info().status(), tensorboard::hparams::STATUS_FAILURE);

  const Value experiment =
      ExperimentSummary({{"rate", "of learning", {0.1, 0.2}}, {"name", "", {"adam"}}, {"any"}},
                        {{"loss", "validation", "Loss"}}, time);
  ExpectPlugin(experiment, "_hparams_/experiment", "hparams", tensorflow::DATA_CLASS_TENSOR);
  ASSERT_TRUE(data.ParseFromString(experiment.metadata().plugin_data().content()));
  ASSERT_EQ(data.experiment().hparam_infos_size(), 3);
  EXPECT_EQ(data.experiment().hparam_infos(0).type(), tensorboard::hparams::DATA_TYPE_FLOAT64);
  EXPECT_EQ(data.experiment().hparam_infos(0).domain_discrete().values_size(), 2);
  EXPECT_EQ(data.experiment().hparam_infos(1).type(), tensorboard::hparams::DATA_TYPE_STRING);
  EXPECT_FALSE(data.experiment().hparam_infos(2).has_domain_discrete());
  EXPECT_EQ(data.experiment().metric_infos(0).name().group(), "validation");
}

TEST(Summary, BytesThatAreNotUtf8AreReplaced) {
  const auto tag = [](const std::string& tag) { return ScalarSummary(tag, 1)->tag(); };
  for (const char* good :
       {"a", "\xc3\xa4", "\xe2\x82\xac", "\xf0\x9f\x98\x80", "\xed\x9f\xbf", "\xf4\x8f\xbf\xbf"}) {
    EXPECT_EQ(tag(good), good);
  }
  EXPECT_EQ(tag("a\xff z"), "a\xef\xbf\xbd z");
  for (const char* bad :
       {"\x80", "\xc3", "\xe2\x82", "\xc0\x80", "\xe0\x80\x80", "\xed\xa0\x80", "\xf0\x80\x80\x80",
        "\xf4\x90\x80\x80", "\xf8\x88\x80\x80\x80", "\xc3z"}) {
    EXPECT_THAT(tag(bad), HasSubstr("\xef\xbf\xbd")) << bad;
  }
  const Value start = RunStartSummary({{"\xff", "\xff"}}, absl::UnixEpoch());
  EXPECT_THAT(start.metadata().plugin_data().content(), Not(HasSubstr("\xff")));
}

TEST(Summary, WhatCannotBeShownIsRefused) {
  ExpectError(ScalarSummary("", 1), HasSubstr("tag"));
  ExpectError(ImageSummary("x", Tensor::Zeros(kUint8, {2, 2, 3})),
              AllOf(HasSubstr("images 'x'"), HasSubstr("[2,2,3]")));
  ExpectError(ImageSummary("x", Tensor()), HasSubstr("images 'x'"));
  ExpectError(ImageSummary("x", Tensor::Zeros(kUint8, {1, 2, 2, 5})), HasSubstr("[2,2,5]"));
  ExpectError(ImageSummary("x", Tensor::Zeros(kInt32, {1, 2, 2, 3})), HasSubstr("int32"));
  ExpectError(TextSummary("x", Tensor::Scalar(1.f)), HasSubstr("float32"));
  ExpectError(TextSummary("x", Tensor()), HasSubstr("no tensor"));
}

}  // namespace
}  // namespace tandem
