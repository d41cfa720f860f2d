#include "runtime/input/dataset.h"

#include "core/base/status.h"
#include "proto/input.pb.h"
#include "runtime/input/feature_attrs.h"
#include "runtime/input/opened_stage.h"
#include "runtime/threads/run_tokens.h"

namespace tandem::data {
namespace {

Dataset Source(std::string kind, Stage::Attrs attrs) {
  return Dataset(
      std::make_shared<const Stage>(std::move(kind), std::move(attrs), std::vector<StagePtr>()));
}

Stage::Attrs ImageAttrs(const ImageOptions& options) {
  return {{"height", Attr::Int(options.height)},
          {"width", Attr::Int(options.width)},
          {"channels", Attr::Int(options.channels)},
          {"dtype", Attr::Int(static_cast<int64_t>(options.dtype))},
          {"threads", Attr::Int(options.threads)}};
}

}  // namespace

Dataset Dataset::Then(std::string kind, Stage::Attrs attrs) const {
  return Dataset(std::make_shared<const Stage>(std::move(kind), std::move(attrs),
                                               std::vector<StagePtr>{stage_}));
}

Dataset Dataset::FromTensors(std::vector<Tensor> tensors) {
  return Source("FromTensors", {{"tensors", {.tensors = std::move(tensors)}}});
}

Dataset Dataset::Range(int64_t start, int64_t stop, int64_t step) {
  return Source(
      "Range", {{"start", Attr::Int(start)}, {"stop", Attr::Int(stop)}, {"step", Attr::Int(step)}});
}

Dataset Dataset::Idx(std::vector<std::string> paths) {
  return Source("Idx", {{"paths", {.strings = std::move(paths)}}});
}

Dataset Dataset::TextLines(std::vector<std::string> paths) {
  return Source("TextLines", {{"paths", {.strings = std::move(paths)}}});
}

Dataset Dataset::Csv(std::vector<std::string> paths, CsvOptions options) {
  Attr types;
  for (const DataType type : options.types) types.ints.push_back(static_cast<int64_t>(type));
  Attr has_default;
  Attr defaults;
  for (Tensor& tensor : options.defaults) {
    has_default.ints.push_back(tensor.is_valid());
    if (tensor.is_valid()) defaults.tensors.push_back(std::move(tensor));
  }
  return Source("Csv", {{"paths", {.strings = std::move(paths)}},
                        {"types", std::move(types)},
                        {"header", Attr::Int(options.header)},
                        {"delimiter", Attr::String(std::string(1, options.delimiter))},
                        {"quotes", Attr::Int(options.quotes)},
                        {"columns", {.strings = std::move(options.columns)}},
                        {"has_default", std::move(has_default)},
                        {"defaults", std::move(defaults)},
                        {"missing", Attr::String(std::move(options.missing))}});
}

Dataset Dataset::Records(std::vector<std::string> paths, RecordsOptions options) {
  Attr compression;
  if (options.compression) {
    compression.strings.emplace_back(CompressionName(*options.compression));
  }
  return Source("Records", {{"paths", {.strings = std::move(paths)}},
                            {"compression", std::move(compression)},
                            {"skip_damaged", Attr::Int(options.skip_damaged)}});
}

Dataset Dataset::Npy(std::vector<std::string> paths) {
  return Source("Npy", {{"paths", {.strings = std::move(paths)}}});
}

Dataset Dataset::Npz(std::string path, std::vector<std::string> names) {
  return Source(
      "Npz", {{"paths", Attr::String(std::move(path))}, {"names", {.strings = std::move(names)}}});
}

Dataset Dataset::Files(std::vector<std::string> patterns) {
  return Source("Files", {{"patterns", {.strings = std::move(patterns)}}});
}

Dataset Dataset::ImageFiles(std::string directory) {
  return Source("ImageFiles", {{"directory", Attr::String(std::move(directory))}});
}

Dataset Dataset::Shuffle(int64_t buffer, uint64_t seed, ShuffleOptions options) const {
  return Then("Shuffle", {{"buffer", Attr::Int(buffer)},
                          {"seed", Attr::Int(static_cast<int64_t>(seed))},
                          {"reshuffle", Attr::Int(options.reshuffle)}});
}

Dataset Dataset::Map(std::string function, MapOptions options) const {
  return Then("Map", {{"function", Attr::String(std::move(function))},
                      {"threads", Attr::Int(options.threads)}});
}

Dataset Dataset::ParseExamples(std::vector<FeatureSpec> features, MapOptions options) const {
  Stage::Attrs attrs{{"threads", Attr::Int(options.threads)}};
  AddFeatureAttrs("", features, &attrs);
  return Then("ParseExamples", std::move(attrs));
}

Dataset Dataset::ParseSequenceExamples(std::vector<FeatureSpec> context,
                                       std::vector<FeatureSpec> feature_lists,
                                       MapOptions options) const {
  Stage::Attrs attrs{{"threads", Attr::Int(options.threads)}};
  AddFeatureAttrs("context_", context, &attrs);
  AddFeatureAttrs("list_", feature_lists, &attrs);
  return Then("ParseSequenceExamples", std::move(attrs));
}

Dataset Dataset::DecodeImages(ImageOptions options) const {
  return Then("DecodeImages", ImageAttrs(options));
}

Dataset Dataset::ReadImages(ImageOptions options) const {
  return Then("ReadImages", ImageAttrs(options));
}

Dataset Dataset::Batch(int64_t n, bool drop_remainder) const {
  return Then("Batch", {{"size", Attr::Int(n)}, {"drop_remainder", Attr::Int(drop_remainder)}});
}

Dataset Dataset::PaddedBatch(int64_t n, PaddedBatchOptions options) const {
  // Each shape is its rank and then its sizes.
  Attr shapes;
  for (const std::vector<int64_t>& shape : options.shapes) {
    shapes.ints.push_back(static_cast<int64_t>(shape.size()));
    shapes.ints.insert(shapes.ints.end(), shape.begin(), shape.end());
  }
  return Then("PaddedBatch", {{"size", Attr::Int(n)},
                              {"drop_remainder", Attr::Int(options.drop_remainder)},
                              {"shapes", std::move(shapes)},
                              {"values", {.tensors = std::move(options.values)}}});
}

Dataset Dataset::Repeat(int64_t count) const {
  return Then("Repeat", {{"count", Attr::Int(count)}});
}

Dataset Dataset::Shard(int64_t n, int64_t i) const {
  return Then("Shard", {{"shards", Attr::Int(n)}, {"index", Attr::Int(i)}});
}

Dataset Dataset::Take(int64_t count) const { return Then("Take", {{"count", Attr::Int(count)}}); }

Dataset Dataset::Skip(int64_t count) const { return Then("Skip", {{"count", Attr::Int(count)}}); }

Dataset Dataset::Interleave(std::string function, InterleaveOptions options) const {
  return Then("Interleave", {{"function", Attr::String(std::move(function))},
                             {"cycle", Attr::Int(options.cycle)},
                             {"block", Attr::Int(options.block)}});
}

Dataset Dataset::InterleaveFiles(const Dataset& each, InterleaveOptions options) const {
  return Dataset(std::make_shared<const Stage>(
      "InterleaveFiles",
      Stage::Attrs{{"cycle", Attr::Int(options.cycle)}, {"block", Attr::Int(options.block)}},
      std::vector<StagePtr>{stage_, each.stage_}));
}

Dataset Dataset::Prefetch(int64_t n) const { return Then("Prefetch", {{"size", Attr::Int(n)}}); }

Dataset Dataset::Cache() const { return Then("Cache", {}); }

absl::StatusOr<std::unique_ptr<Iterator>> Dataset::Open(uint64_t iteration) const {
  ScopedRunToken token;
  TANDEM_ASSIGN_OR_RETURN(OpenedStagePtr stage, stage_->Open());
  return Iterator::Begin(std::move(stage), iteration);
}

absl::StatusOr<int64_t> Dataset::Cardinality() const {
  ScopedRunToken token;
  TANDEM_ASSIGN_OR_RETURN(const OpenedStagePtr stage, stage_->Open());
  return stage->cardinality();
}

absl::StatusOr<std::string> Dataset::Serialize() const {
  InputStage proto;
  TANDEM_RETURN_IF_ERROR(StageToProto(*stage_, &proto));
  std::string bytes;
  if (!proto.SerializeToString(&bytes)) {
    return errors::InvalidArgument(
        "the pipeline is larger than a message can be (2 GiB); keep its tensors in files");
  }
  return bytes;
}

absl::StatusOr<Dataset> Dataset::Parse(absl::string_view bytes) {
  InputStage proto;
  if (bytes.size() > size_t{INT32_MAX} ||
      !proto.ParseFromArray(bytes.data(), static_cast<int>(bytes.size()))) {
    return errors::InvalidArgument("the ", bytes.size(), " bytes are not an input pipeline");
  }
  TANDEM_ASSIGN_OR_RETURN(StagePtr stage, StageFromProto(proto));
  return Dataset(std::move(stage));
}

Dataset Mnist(std::string directory, MnistOptions options) {
  return Source("Mnist",
                {{"directory", Attr::String(std::move(directory))},
                 {"split", Attr::String(options.split == MnistSplit::kTrain ? "train" : "test")},
                 {"label_type", Attr::Int(static_cast<int64_t>(options.label_type))}});
}

}  // namespace tandem::data
