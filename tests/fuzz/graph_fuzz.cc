// GraphDefs, as text and as bytes, with all of Tandem's ops; and tensors as messages.
#include "core/base/text_proto.h"
#include "core/graph/export.h"
#include "core/graph/import.h"
#include "core/graph/missing_op.h"
#include "core/tensor/tensor_proto.h"
#include "proto/graph.pb.h"
#include "tests/fuzz/target.h"

namespace tandem {
namespace {

// As a server takes it from a client: what is not known stays.
void ImportForServer(const tensorflow::GraphDef& def) {
  ImportOptions options;
  options.max_tensor_bytes = size_t{16} << 20;
  options.keep_unknown_ops = true;
  absl::StatusOr<Graph> graph = ImportGraphDef(def, options);
  if (!graph.ok()) return;
  options.inputs_from_graph = true;
  options.prefix = "again";
  // The same once more finds the inputs of the first, and takes more of what those that are not
  // known give.
  const absl::Status extended = ImportInto(&*graph, def, options);
  TANDEM_FUZZ_CHECK(extended.ok() || !extended.message().empty(), "a message");
  const absl::Status missing = CheckNoMissingOps(*graph);
  TANDEM_FUZZ_CHECK(missing.ok() || absl::IsNotFound(missing), missing.ToString());
}

void Import(const tensorflow::GraphDef& def) {
  ImportForServer(def);
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
