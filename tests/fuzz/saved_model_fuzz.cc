// SavedModels: the file alone, and as if nothing had to be restored, so that the graph is run.
#include <filesystem>
#include <fstream>

#include "absl/strings/match.h"
#include "proto/saved_model.pb.h"
#include "runtime/saved_model/saved_model.h"
#include "tests/fuzz/target.h"

namespace tandem {
namespace {

// One for the process; its contents change with each input.
const std::string& Folder() {
  static const std::string folder = [] {
    const char* const parent = std::getenv("TEST_TMPDIR");
    std::string name = absl::StrCat(parent == nullptr ? "/tmp" : parent, "/saved_model_XXXXXX");
    TANDEM_FUZZ_CHECK(mkdtemp(name.data()) != nullptr, name);
    return name;
  }();
  return folder;
}

void RunSignatures(const SavedModel& model) {
  RunOptions options;
  options.timeout = absl::Milliseconds(500);  // What was changed may be when a loop ends.
  for (const std::string& name : model.signature_names()) {
    Session::Feeds inputs;
    for (const SignatureTensor& input : model.signature(name).info()->inputs) {
      std::vector<int64_t> dims;
      if (input.shape.has_rank()) {
        for (const int64_t dim : input.shape.dims()) dims.push_back(dim < 0 || dim > 20 ? 1 : dim);
      }
      int64_t elements = 1;
      for (const int64_t dim : dims) elements *= elements > 1000 ? 1 : dim;
      const bool fits = IsSupported(input.dtype) && elements <= 1000 && dims.size() < 8;
      if (fits) inputs.emplace_back(input.name, Tensor(input.dtype, Shape(dims)));
    }
    const auto outputs = model.signature(name).Run(inputs, options);
    TANDEM_FUZZ_CHECK(outputs.ok() || !outputs.status().message().empty(), name);
  }
}

void Load(const std::string& bytes) {
  std::ofstream(JoinPath(Folder(), "saved_model.pb"), std::ios::binary) << bytes;
  const auto model = SavedModel::Load(Folder());
  if (model.ok()) return RunSignatures(**model);
  TANDEM_FUZZ_CHECK(absl::StrContains(model.status().message(), Folder()),
                    model.status().ToString());
}

void Fuzz(FuzzInput input) {
  const std::string all(input.rest());
  Load(all);
  tensorflow::SavedModel message;
  if (!message.ParseFromString(all)) return;
  for (tensorflow::MetaGraphDef& graph : *message.mutable_meta_graphs()) {
    graph.clear_saver_def();
    graph.clear_asset_file_def();
    graph.clear_collection_def();
  }
  Load(message.SerializeAsString());
}

}  // namespace
}  // namespace tandem

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  tandem::Fuzz({data, size});
  return 0;
}
