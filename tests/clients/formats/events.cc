#include <cstdio>
#include <memory>

#include "core/base/status.h"
#include "core/io/event.h"
#include "core/io/histogram.h"
#include "core/io/summary.h"
#include "google/protobuf/util/json_util.h"
#include "proto/config.pb.h"
#include "proto/graph.pb.h"
#include "proto/step_stats.pb.h"
#include "tests/clients/formats/command.h"
#include "tests/clients/formats/tensors_file.h"

namespace tandem::formats {
namespace {

using Value = tensorflow::Summary::Value;

tensorflow::GraphDef SmallGraph() {
  tensorflow::GraphDef graph;
  graph.mutable_versions()->set_producer(21);
  auto* x = graph.add_node();
  x->set_name("x");
  x->set_op("Placeholder");
  (*x->mutable_attr())["dtype"].set_type(tensorflow::DT_FLOAT);
  auto* y = graph.add_node();
  y->set_name("y");
  y->set_op("Square");
  y->add_input("x");
  (*y->mutable_attr())["T"].set_type(tensorflow::DT_FLOAT);
  return graph;
}

// FOLDER TENSORS: all that a run can log. TENSORS has "weights" for the histograms, "pictures" for
// the images.
absl::Status WriteEvents(const std::vector<std::string>& words) {
  TANDEM_ASSIGN_OR_RETURN(const NamedTensors tensors, ReadTensors(words[1]));
  if (tensors.size() != 2) return errors::InvalidArgument("expected weights and pictures");
  const Tensor& weights = tensors[0].second;
  const Tensor& pictures = tensors[1].second;
  TANDEM_ASSIGN_OR_RETURN(const auto writer, EventWriter::Open(PosixFileSystem(), words[0]));
  TANDEM_RETURN_IF_ERROR(writer->WriteGraph(SmallGraph()));
  const absl::Time start = absl::FromUnixSeconds(1'700'000'000);
  TANDEM_RETURN_IF_ERROR(writer->WriteSummary(
      0, {RunStartSummary({{"rate", 0.25}, {"optimizer", "adam"}, {"nesterov", true}}, start)}));
  for (int64_t step = 0; step < 20; ++step) {
    TANDEM_ASSIGN_OR_RETURN(Value loss,
                            ScalarSummary("loss", 1.0f / static_cast<float>(step + 1), "The loss"));
    TANDEM_ASSIGN_OR_RETURN(Value rate, ScalarSummary("train/rate", 0.5f));
    TANDEM_RETURN_IF_ERROR(writer->WriteSummary(step, {loss, rate}));
  }
  TANDEM_ASSIGN_OR_RETURN(Value equal, HistogramSummary("weights", weights, 10));
  Histogram histogram;
  TANDEM_RETURN_IF_ERROR(histogram.AddTensor(weights));
  TANDEM_ASSIGN_OR_RETURN(Value own, HistogramSummary("weights/edges", histogram));
  TANDEM_ASSIGN_OR_RETURN(Value images, ImageSummary("pictures", pictures));
  TANDEM_ASSIGN_OR_RETURN(Value text, TextSummary("notes", "**bold** \xc3\xa4"));
  TANDEM_RETURN_IF_ERROR(writer->WriteSummary(20, {equal, own, images, text}));
  tensorflow::RunMetadata metadata;
  metadata.mutable_step_stats()->add_dev_stats()->set_device("/device:CPU:0");
  TANDEM_RETURN_IF_ERROR(writer->WriteRunMetadata(20, "step 20", metadata));
  TANDEM_RETURN_IF_ERROR(
      writer->WriteSummary(20, {RunEndSummary(RunStatus::kSuccess, start + absl::Seconds(9))}));
  return writer->Close();
}

// FILE: prints each event as a line of JSON.
absl::Status ReadEvents(const std::vector<std::string>& words) {
  TANDEM_ASSIGN_OR_RETURN(const auto reader, EventReader::Open(PosixFileSystem(), words[0]));
  for (;;) {
    tensorflow::Event event;
    TANDEM_ASSIGN_OR_RETURN(const bool found, reader->Read(&event));
    if (!found) return absl::OkStatus();
    google::protobuf::util::JsonPrintOptions options;
    options.preserve_proto_field_names = true;
    std::string json;
    if (!google::protobuf::util::MessageToJsonString(event, &json, options).ok()) {
      return errors::Internal("an event does not become JSON");
    }
    std::printf("%s\n", json.c_str());
  }
}

constexpr Command kCommands[] = {
    {"write_events", "FOLDER TENSORS", 2, WriteEvents},
    {"read_events", "FILE", 1, ReadEvents},
};

}  // namespace

const absl::Span<const Command> kEventCommands = kCommands;

}  // namespace tandem::formats
