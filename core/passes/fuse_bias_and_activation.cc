#include "core/passes/fuse_bias_and_activation.h"

#include <string>
#include <utility>
#include <vector>

#include "absl/algorithm/container.h"
#include "core/base/status.h"
#include "core/passes/rewrite.h"

namespace tandem {
namespace {

constexpr absl::string_view kActivations[] = {"Relu",      "Relu6", "Elu",
                                              "LeakyRelu", "Tanh",  "Sigmoid"};

bool ChannelsLast(const Node& node) {
  const std::string* const format = node.Attr<std::string>("data_format");
  return format == nullptr || *format == "NHWC";
}

int64_t Size(const PartialShape& shape, int i) {
  return shape.has_rank() && i < shape.rank() ? shape.dim(i) : PartialShape::kUnknownDim;
}

// How many columns or channels the product is known to have. -1: it is not known.
int64_t ColumnsOf(const Node& product) {
  const PartialShape& b = product.input(1).shape();
  if (product.Is("Conv2D")) return Size(b, 3);
  return Size(b, *product.Attr<bool>("transpose_b") ? 0 : 1);
}

bool CanBeFused(const Node& product) {
  if (product.Is("MatMul")) return true;
  // An image without channels has a convolution, of zeros, but none that is fused.
  return product.Is("Conv2D") && Size(product.input(1).shape(), 2) > 0;
}

// The bias that `node` adds to each row or pixel of `product`; invalid when it does something else.
Output BiasOf(const Node& node, const Node& product) {
  if (node.Is("BiasAdd") || node.Is("BiasAddV1")) {
    const bool same_channels = product.Is("MatMul") || ChannelsLast(node) == ChannelsLast(product);
    return node.input(0).node == &product && same_channels ? node.input(1) : Output();
  }
  if (!node.Is("Add") && !node.Is("AddV2")) return Output();
  // A sum may broadcast either way. It is one of a bias when it surely does not here.
  const Output bias = node.input(node.input(0).node == &product ? 1 : 0);
  const bool is_vector = bias.shape().has_rank() && bias.shape().rank() == 1;
  if (!is_vector || !ChannelsLast(product)) return Output();
  return bias.shape().dim(0) >= 0 && bias.shape().dim(0) == ColumnsOf(product) ? bias : Output();
}

// The op that computes `product` with a bias, with its attributes but for the fused ones.
NodeSpec SpecFor(const Node& product) {
  NodeSpec spec;
  const DataType dtype = *product.Attr<DataType>("T");
  const char* const for_product[] = {"transpose_a", "transpose_b"};
  const char* const for_convolution[] = {"strides",     "padding",   "explicit_paddings",
                                         "data_format", "dilations", "use_cudnn_on_gpu"};
  const auto copy = [&](absl::Span<const char* const> names) {
    for (const char* name : names) {
      const auto found = product.attrs().find(name);
      if (found != product.attrs().end()) spec.attrs[name] = found->second;
    }
  };
  if (product.Is("MatMul")) {
    spec.op = "_FusedMatMul";
    copy(for_product);
  } else {
    spec.op = "_FusedConv2D";
    copy(for_convolution);
    spec.attrs["TArgs"] = std::vector<DataType>{dtype};
    spec.attrs["num_host_args"] = 0;
  }
  spec.attrs["T"] = dtype;
  spec.attrs["num_args"] = 1;
  return spec;
}

}  // namespace

absl::Status FuseBiasAndActivation(Graph& graph) {
  std::vector<Node*> replaced;
  for (Node* product : graph.nodes()) {
    if (!CanBeFused(*product)) continue;
    Node* const sum = OnlyConsumer(*product);
    if (sum == nullptr || sum->device() != product->device()) continue;
    const Output bias = BiasOf(*sum, *product);
    if (!bias.valid()) continue;
    NodeSpec spec = SpecFor(*product);
    if (!HasKernelBeside(*product, graph, spec.op, spec.attrs)) continue;

    std::vector<Node*> members = {product, sum};
    std::vector<std::string> fused_ops = {"BiasAdd"};
    Node* const next = OnlyConsumer(*sum);
    if (next != nullptr && absl::c_linear_search(kActivations, next->type()) &&
        next->device() == product->device()) {
      members.push_back(next);
      fused_ops.push_back(next->type());
      if (next->Is("LeakyRelu")) spec.attrs["leakyrelu_alpha"] = *next->Attr<float>("alpha");
    }
    spec.attrs["fused_ops"] = std::move(fused_ops);
    spec.inputs = {product->input(0), product->input(1), bias};
    TANDEM_RETURN_IF_ERROR(PutInPlaceOf(members, members.back(), std::move(spec), graph).status());
    replaced.insert(replaced.end(), members.begin(), members.end());
  }
  graph.RemoveNodes(replaced);
  return absl::OkStatus();
}

}  // namespace tandem
