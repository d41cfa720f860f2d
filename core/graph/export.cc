#include "core/graph/export.h"

#include "absl/strings/match.h"
#include "core/base/status.h"
#include "core/graph/attr_proto.h"
#include "core/graph/import.h"
#include "core/graph/travelling_op.h"
#include "google/protobuf/io/coded_stream.h"
#include "google/protobuf/io/zero_copy_stream_impl_lite.h"
#include "proto/graph.pb.h"

namespace tandem {
namespace {

constexpr char kInternalOp[] =
    "the op is internal and stays in this process; export the graph before it is optimized";

}  // namespace

absl::Status NodeToProto(const Node& node, const ExportOptions& options, tensorflow::NodeDef* def) {
  if (!options.internal_ops && absl::StartsWith(node.type(), "_Tandem") &&
      !IsTravellingOp(node.type())) {
    return WithNode(errors::FailedPrecondition(kInternalOp), node);
  }
  def->set_name(node.name());
  def->set_op(node.type());
  def->set_device(options.placed_devices ? node.device() : node.requested_device());
  for (int i = 0; i < node.num_inputs(); ++i) {
    const Output input = node.input(i);
    if (!input.valid()) {
      return WithNode(errors::FailedPrecondition("input ", i, " is not connected"), node);
    }
    def->add_input(input.name());
  }
  for (const Node* control : node.control_inputs()) {
    def->add_input(absl::StrCat("^", control->name()));
  }
  for (const auto& [name, value] : node.attrs()) {
    const absl::Status status = AttrToProto(value, &(*def->mutable_attr())[name]);
    if (!status.ok()) {
      return WithNode(WithContext(status, absl::StrCat("attribute '", name, "'")), node);
    }
  }
  return absl::OkStatus();
}

void LibraryToProto(const FunctionLibrary& library, tensorflow::FunctionDefLibrary* def) {
  for (const std::string& name : library.Names()) {
    const auto function = library.Find(name);
    if (function == nullptr) continue;
    *def->add_function() = *function;
    const std::string gradient = library.FindGradient(name);
    if (gradient.empty()) continue;
    tensorflow::GradientDef* const entry = def->add_gradient();
    entry->set_function_name(name);
    entry->set_gradient_func(gradient);
  }
}

absl::Status ExportGraphDef(const Graph& graph, const ExportOptions& options,
                            tensorflow::GraphDef* def) {
  def->Clear();
  for (int id = 0; id < graph.id_limit(); ++id) {
    const Node* const node = graph.node(id);
    if (node == nullptr) continue;
    TANDEM_RETURN_IF_ERROR(NodeToProto(*node, options, def->add_node()));
  }
  def->mutable_versions()->set_producer(kGraphVersion);
  def->mutable_versions()->set_min_consumer(kMinGraphConsumer);
  LibraryToProto(graph.functions(), def->mutable_library());
  for (const tensorflow::FunctionDef& function : def->library().function()) {
    for (const tensorflow::NodeDef& node : function.node_def()) {
      if (options.internal_ops || !absl::StartsWith(node.op(), "_Tandem") ||
          IsTravellingOp(node.op())) {
        continue;
      }
      return errors::FailedPrecondition("function '", function.signature().name(), "': node '",
                                        node.name(), "' (", node.op(), "): ", kInternalOp);
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<tensorflow::GraphDef> ExportGraphDef(const Graph& graph,
                                                    const ExportOptions& options) {
  tensorflow::GraphDef def;
  TANDEM_RETURN_IF_ERROR(ExportGraphDef(graph, options, &def));
  return def;
}

std::string DeterministicBytes(const google::protobuf::MessageLite& message) {
  std::string bytes;
  {
    google::protobuf::io::StringOutputStream stream(&bytes);
    google::protobuf::io::CodedOutputStream coded(&stream);
    coded.SetSerializationDeterministic(true);
    message.SerializePartialToCodedStream(&coded);
  }
  return bytes;
}

}  // namespace tandem
