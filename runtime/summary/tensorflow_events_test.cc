// The same values, logged by TensorFlow (testdata/make_events.py) and by a LogWriter, give the same
// events.
#include <cmath>
#include <limits>
#include <map>
#include <numeric>
#include <utility>

#include "core/io/event.h"
#include "core/io/image.h"
#include "core/io/testing/faulty_file_system.h"
#include "core/tensor/tensor_proto.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "proto/event.pb.h"
#include "proto/hparams_plugin_data.pb.h"
#include "runtime/summary/log_writer.h"

namespace tandem {
namespace {

constexpr char kTensorFlowFile[] = "runtime/summary/testdata/tensorflow.tfevents";

std::vector<tensorflow::Event> Events(FileSystem* files, const std::string& path) {
  std::vector<tensorflow::Event> events;
  const auto reader = EventReader::Open(files, path);
  EXPECT_TRUE(reader.ok()) << reader.status();
  if (!reader.ok()) return events;
  for (tensorflow::Event event;;) {
    const absl::StatusOr<bool> read = (*reader)->Read(&event);
    EXPECT_TRUE(read.ok()) << read.status();
    if (!read.ok() || !*read) return events;
    events.push_back(event);
  }
}

// By tag and step.
using Values = std::map<std::pair<std::string, int64_t>, tensorflow::Summary::Value>;
Values ValuesOf(const std::vector<tensorflow::Event>& events) {
  Values values;
  for (const tensorflow::Event& event : events) {
    for (const tensorflow::Summary::Value& value : event.summary().value()) {
      values[{value.tag(), event.step()}] = value;
    }
  }
  return values;
}

template <typename T>
Tensor Counting(Shape shape, T first, T step) {
  Tensor tensor = Tensor::Zeros(DataTypeOf<T>(), std::move(shape));
  T next = first;
  for (T& element : tensor.MutableElements<T>()) {
    element = next;
    next = static_cast<T>(next + step);
  }
  return tensor;
}

class TensorFlowEvents : public ::testing::Test {
 protected:
  void SetUp() override {
    theirs_ = Events(PosixFileSystem(), kTensorFlowFile);
    LogWriterOptions options;
    options.files = &files_;
    const auto log = *LogWriter::Open("/run", options);
    ASSERT_TRUE(log->WriteHyperparameters(
                       {{"rate", 0.25}, {"optimizer", "adam"}, {"nesterov", true}}, "run1")
                    .ok());
    ASSERT_TRUE(log->WriteScalar(1, "loss", 0.5, "The *mean*.").ok());
    ASSERT_TRUE(log->WriteScalar(2, "loss", std::nan("")).ok());
    ASSERT_TRUE(log->WriteScalar(3, "loss", -std::numeric_limits<double>::infinity()).ok());
    ASSERT_TRUE(log->WriteHistogram(4, "weights", Counting<float>({100}, 0, 0.125f)).ok());
    ASSERT_TRUE(log->WriteHistogram(4, "equal", Tensor::Vector<float>({2.5f, 2.5f})).ok());
    ASSERT_TRUE(log->WriteImages(5, "ramp", Counting<uint8_t>({1, 3, 4, 1}, 0, 1)).ok());
    Tensor floats = Tensor::Zeros(kFloat32, {2, 1, 2, 3});
    for (int i = 0; i < 12; ++i) {
      floats.MutableElements<float>()[static_cast<size_t>(i)] =
          static_cast<float>(-0.5 + 2.0 * i / 11);
    }
    ASSERT_TRUE(log->WriteImages(5, "floats", floats).ok());
    ASSERT_TRUE(log->WriteText(6, "note", "**bold** ä").ok());
    ASSERT_TRUE(
        log->WriteText(6, "table", Tensor::FromValues<std::string>({2, 2}, {"a", "b", "c", "d"}))
            .ok());
    ASSERT_TRUE(log->Close().ok());
    ours_ = Events(&files_, log->path());
  }

  FaultyFileSystem files_;
  std::vector<tensorflow::Event> theirs_, ours_;
};

TEST_F(TensorFlowEvents, BeginAlike) {
  ASSERT_FALSE(theirs_.empty());
  ASSERT_FALSE(ours_.empty());
  EXPECT_EQ(ours_[0].file_version(), theirs_[0].file_version());
  EXPECT_EQ(ours_[0].source_metadata().writer(), theirs_[0].source_metadata().writer());
}

TEST_F(TensorFlowEvents, HaveTheSameTagsStepsAndMetadata) {
  const Values theirs = ValuesOf(theirs_), ours = ValuesOf(ours_);
  EXPECT_EQ(ours.size(), theirs.size());
  for (const auto& [key, value] : theirs) {
    ASSERT_EQ(ours.count(key), 1u) << key.first << " in step " << key.second;
    const tensorflow::SummaryMetadata& metadata = ours.at(key).metadata();
    EXPECT_EQ(metadata.plugin_data().plugin_name(), value.metadata().plugin_data().plugin_name());
    // TensorBoard's own writer leaves it to the reader, who goes by the plugin then.
    EXPECT_NE(metadata.data_class(), tensorflow::DATA_CLASS_UNKNOWN) << key.first;
    EXPECT_EQ(metadata.summary_description(), value.metadata().summary_description());
    if (metadata.plugin_data().plugin_name() == "hparams") continue;  // It has the time.
    EXPECT_EQ(metadata.plugin_data().content(), value.metadata().plugin_data().content())
        << key.first;
  }
}

TEST_F(TensorFlowEvents, HaveTheSameValues) {
  const Values theirs = ValuesOf(theirs_), ours = ValuesOf(ours_);
  for (const auto& [key, value] : theirs) {
    ASSERT_EQ(ours.count(key), 1u) << key.first;
    // All of these is in the metadata.
    if (value.metadata().plugin_data().plugin_name() == "hparams") continue;
    const absl::StatusOr<Tensor> expected = TensorFromProto(value.tensor());
    const absl::StatusOr<Tensor> found = TensorFromProto(ours.at(key).tensor());
    ASSERT_TRUE(expected.ok() && found.ok()) << expected.status() << found.status();
    ASSERT_EQ(found->dtype(), expected->dtype()) << key.first;
    ASSERT_EQ(found->shape().DebugString(), expected->shape().DebugString()) << key.first;
    if (value.metadata().plugin_data().plugin_name() == "images") {
      const auto a = expected->Elements<std::string>(), b = found->Elements<std::string>();
      for (size_t i = 0; i < a.size(); ++i) {
        if (i < 2) {
          EXPECT_EQ(b[i], a[i]) << "a size";
          continue;
        }
        // Packed differently, perhaps.
        const auto image = DecodePng(a[i]), our_image = DecodePng(b[i]);
        ASSERT_TRUE(image.ok() && our_image.ok());
        EXPECT_EQ(our_image->shape(), image->shape());
        EXPECT_THAT(our_image->Elements<uint8_t>(),
                    ::testing::ElementsAreArray(image->Elements<uint8_t>()));
      }
    } else if (expected->dtype() == kString) {
      EXPECT_THAT(found->Elements<std::string>(),
                  ::testing::ElementsAreArray(expected->Elements<std::string>()));
    } else if (expected->dtype() == kFloat64) {
      // Edges are computed in another order there.
      EXPECT_THAT(found->Elements<double>(),
                  ::testing::Pointwise(::testing::DoubleNear(1e-6), expected->Elements<double>()));
    } else {
      EXPECT_THAT(found->Elements<float>(), ::testing::Pointwise(::testing::NanSensitiveFloatEq(),
                                                                 expected->Elements<float>()));
    }
  }
}

TEST_F(TensorFlowEvents, HaveTheSameHyperparameters) {
  const std::pair<std::string, int64_t> key = {"_hparams_/session_start_info", 0};
  tensorboard::hparams::HParamsPluginData theirs, ours;
  ASSERT_TRUE(theirs.ParseFromString(ValuesOf(theirs_).at(key).metadata().plugin_data().content()));
  ASSERT_TRUE(ours.ParseFromString(ValuesOf(ours_).at(key).metadata().plugin_data().content()));
  EXPECT_EQ(ours.session_start_info().group_name(), "run1");
  EXPECT_EQ(ours.session_start_info().group_name(), theirs.session_start_info().group_name());
  const auto& expected = theirs.session_start_info().hparams();
  const auto& found = ours.session_start_info().hparams();
  ASSERT_EQ(found.size(), expected.size());
  for (const auto& [name, value] : expected) {
    ASSERT_EQ(found.count(name), 1u) << name;
    EXPECT_EQ(found.at(name).SerializeAsString(), value.SerializeAsString()) << name;
  }
}

}  // namespace
}  // namespace tandem
