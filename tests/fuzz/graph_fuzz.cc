// GraphDefs, as text and as bytes, with all of Tandem's ops; and tensors as messages.
#include "core/base/text_proto.h"
#include "core/graph/export.h"
#include "core/graph/import.h"
#include "core/tensor/tensor_proto.h"
#include "proto/graph.pb.h"
#include "tests/fuzz/target.h"

namespace tandem {
namespace {

void Import(const tensorflow::GraphDef& def) {
  ImportOptions options;
  options.max_tensor_bytes = size_t{16} << 20;
  const absl::StatusOr<Graph> graph = ImportGraphDef(def, options);
  if (!graph.ok()) {
    TANDEM_FUZZ_CHECK(!graph.status().message().empty(), "a message");
    return;
  }
  const absl::StatusOr<tensorflow::GraphDef> exported = ExportGraphDef(*graph);
  if (!exported.ok()) return;
  const absl::StatusOr<Graph> again = ImportGraphDef(*exported, options);
  TANDEM_FUZZ_CHECK(again.ok(), again.status().ToString());
}

void Fuzz(FuzzInput input) {
  const std::string all(input.rest());
  tensorflow::GraphDef def;
  if (def.ParseFromString(all)) Import(def);
  def.Clear();
  if (ParseTextProto(all, &def).ok()) Import(def);

  tensorflow::TensorProto message;
  if (message.ParseFromString(all)) {
    const absl::StatusOr<Tensor> tensor = TensorFromProto(message, size_t{1} << 20);
    tensorflow::TensorProto written;
    if (tensor.ok() && tensor->dtype() != kVariant) {
      TANDEM_FUZZ_CHECK(TensorToProto(*tensor, &written).ok(), tensor->DebugString());
      TANDEM_FUZZ_CHECK(TensorFromProto(written).ok(), tensor->DebugString());
    }
  }
}

}  // namespace
}  // namespace tandem

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  tandem::Fuzz({data, size});
  return 0;
}
