#include "strategies/nn/attention.h"

#include <cmath>
#include <string>
#include <utility>

#include "strategies/nn/dropout_mask.h"
#include "strategies/nn/layer_call.h"

namespace tandem::nn {
namespace {

class Attention {
 public:
  Attention(const LayerCall& call, const MultiHeadAttentionOptions& options)
      : call_(call), scope_(call.scope()), options_(options) {}

  absl::StatusOr<Output> Build() {
    TANDEM_RETURN_IF_ERROR(Check());
    const std::vector<Output>& inputs = call_.inputs();
    const Output query = inputs[0];
    const Output value = inputs.size() > 1 ? inputs[1] : query;
    const Output key = inputs.size() > 2 ? inputs[2] : value;
    const int64_t value_dim = options_.value_dim > 0 ? options_.value_dim : options_.key_dim;
    TANDEM_ASSIGN_OR_RETURN(const Output q, Project("query", query, options_.key_dim));
    TANDEM_ASSIGN_OR_RETURN(const Output k, Project("key", key, options_.key_dim));
    TANDEM_ASSIGN_OR_RETURN(const Output v, Project("value", value, value_dim));
    TANDEM_RETURN_IF_ERROR(scope_.status());
    const float scale = static_cast<float>(1 / std::sqrt(static_cast<double>(options_.key_dim)));
    const bool keeps_all = options_.dropout == 0 || (!call_.options().training &&
                                                     options_.dropout > 0 && options_.dropout < 1);
    if (call_.options().fused && keeps_all) return FromHeads(Fused(q, k, v, scale), value_dim);
    const Output scores = scope_.Call(
        "BatchMatMulV2",
        {scope_.Call("Mul", {ToHeads(q, options_.key_dim), scale}), ToHeads(k, options_.key_dim)},
        {{"adj_y", true}});
    const Output weights = scope_.Call("Softmax", {Masked(scores)});
    TANDEM_RETURN_IF_ERROR(scope_.status());
    TANDEM_ASSIGN_OR_RETURN(const Output kept, Drop(call_, options_.dropout, weights));
    const Output y = scope_.Call("BatchMatMulV2", {kept, ToHeads(v, value_dim)});
    const Output joined = scope_.Call("Transpose", {y, Tensor::Vector<int32_t>({0, 2, 1, 3})});
    return FromHeads(joined, value_dim);
  }

 private:
  absl::Status Check() const {
    TANDEM_RETURN_IF_ERROR(call_.RequirePositive("num_heads", options_.num_heads));
    TANDEM_RETURN_IF_ERROR(call_.RequirePositive("key_dim", options_.key_dim));
    if (options_.value_dim < 0 || options_.output_dim < 0) {
      return call_.Error("value_dim is ", options_.value_dim, " and output_dim ",
                         options_.output_dim, "; they must be positive, or 0 for the default");
    }
    constexpr const char* kNames[] = {"query", "value", "key", "mask"};
    const auto shape_of = [&](size_t i) { return call_.inputs()[i].shape(); };
    for (size_t i = 0; i < call_.inputs().size(); ++i) {
      const DataType wanted = i == 3 ? kBool : kFloat32;
      if (RemoveReference(call_.inputs()[i].dtype()) != wanted) {
        return call_.Error("the ", kNames[i], " has the type ",
                           DataTypeName(call_.inputs()[i].dtype()), "; it must be ",
                           DataTypeName(wanted));
      }
      if (!shape_of(i).has_rank() || shape_of(i).rank() != 3 || (i < 3 && shape_of(i).dim(2) < 0)) {
        return call_.Error("the ", kNames[i], " has the shape ", shape_of(i).DebugString(),
                           "; it must be ",
                           i == 3 ? "[batch, query steps, key steps]"
                                  : "[batch, steps, features] with features that are known");
      }
    }
    // Sizes that have to be equal: (input, axis) and (input, axis).
    constexpr int kPairs[][4] = {{0, 0, 1, 0}, {1, 0, 2, 0}, {1, 1, 2, 1},
                                 {0, 0, 3, 0}, {0, 1, 3, 1}, {2, 1, 3, 2}};
    for (const auto& [a, a_axis, b, b_axis] : kPairs) {
      if (static_cast<size_t>(b) >= call_.inputs().size()) continue;
      const PartialShape a_shape = shape_of(static_cast<size_t>(a));
      const PartialShape b_shape = shape_of(static_cast<size_t>(b));
      if (a_shape.dim(a_axis) < 0 || b_shape.dim(b_axis) < 0 ||
          a_shape.dim(a_axis) == b_shape.dim(b_axis)) {
        continue;
      }
      return call_.Error("the ", kNames[a], " has the shape ", a_shape.DebugString(), " and the ",
                         kNames[b], " ", b_shape.DebugString(), "; size ", a_axis,
                         " of the former and size ", b_axis, " of the latter must be equal");
    }
    return absl::OkStatus();
  }

  // [batch, steps, features] to [batch, steps, num_heads · size].
  absl::StatusOr<Output> Project(const std::string& role, Output x, int64_t size) const {
    const int64_t features = x.shape().dim(2);
    TANDEM_ASSIGN_OR_RETURN(const Shape all,
                            call_.ShapeOf(role + "/bias", {options_.num_heads, size}));
    const int64_t width = all.num_elements();
    TANDEM_ASSIGN_OR_RETURN(const Shape shape,
                            call_.ShapeOf(role + "/kernel", {features, options_.num_heads, size}));
    TANDEM_ASSIGN_OR_RETURN(const Output kernel,
                            call_.Variable(role + "/kernel", shape, options_.kernel_initializer,
                                           Fans{features, width}));
    Output y = scope_.Call("MatMul", {ReshapeLike(scope_, x, x, 0, {-1, features}),
                                      ReshapeLike(scope_, kernel, kernel, 0, {features, width})});
    if (options_.use_bias) {
      TANDEM_ASSIGN_OR_RETURN(const Output bias,
                              call_.Variable(role + "/bias", all, options_.bias_initializer));
      y = scope_.Call("BiasAdd", {y, ReshapeLike(scope_, bias, bias, 0, {width})});
    }
    return ReshapeLike(scope_, y, x, 2, {width});
  }

  // [batch, steps, num_heads · size] to [batch, num_heads, steps, size].
  Output ToHeads(Output x, int64_t size) const {
    x = ReshapeLike(scope_, x, x, 2, {options_.num_heads, size});
    return scope_.Call("Transpose", {x, Tensor::Vector<int32_t>({0, 2, 1, 3})});
  }

  // [batch, steps, num_heads · width], all in one op.
  Output Fused(Output q, Output k, Output v, float scale) const {
    std::vector<Output> inputs = {q, k, v};
    if (call_.inputs().size() == 4) inputs.push_back(call_.inputs()[3]);
    return scope_.Call("_TandemAttention", InputList(inputs.begin(), inputs.end()),
                       {{"M", static_cast<int64_t>(inputs.size()) - 3},
                        {"heads", options_.num_heads},
                        {"scale", scale},
                        {"causal", options_.causal}});
  }

  // [batch, steps, num_heads · size], or with the two apart, to [batch, steps, output_dim].
  absl::StatusOr<Output> FromHeads(Output joined, int64_t size) const {
    const Output query = call_.input();
    const int64_t outputs = options_.output_dim > 0 ? options_.output_dim : query.shape().dim(2);
    const int64_t width = options_.num_heads * size;
    TANDEM_ASSIGN_OR_RETURN(const Shape shape, call_.ShapeOf("attention_output/kernel",
                                                             {options_.num_heads, size, outputs}));
    TANDEM_ASSIGN_OR_RETURN(const Output kernel,
                            call_.Variable("attention_output/kernel", shape,
                                           options_.kernel_initializer, Fans{width, outputs}));
    Output y = scope_.Call("MatMul", {ReshapeLike(scope_, joined, joined, 0, {-1, width}),
                                      ReshapeLike(scope_, kernel, kernel, 0, {width, outputs})});
    if (options_.use_bias) {
      TANDEM_ASSIGN_OR_RETURN(
          const Output bias,
          call_.Variable("attention_output/bias", Shape({outputs}), options_.bias_initializer));
      y = scope_.Call("BiasAdd", {y, bias});
    }
    return ReshapeLike(scope_, y, query, 2, {outputs});
  }

  // Scores [batch, heads, queries, keys], very low where a query must not see a key.
  Output Masked(Output scores) const {
    Output visible;
    if (options_.causal) {
      const Output matrix = SizesOf(scope_, scores, 2, 4);
      visible =
          scope_.Call("MatrixBandPart", {scope_.Call("Fill", {matrix, Tensor::Scalar(true)}),
                                         Tensor::Scalar<int64_t>(-1), Tensor::Scalar<int64_t>(0)});
    }
    if (call_.inputs().size() == 4) {
      const Output given =
          scope_.Call("ExpandDims", {call_.inputs()[3], Tensor::Scalar<int32_t>(1)});
      visible = visible.valid() ? scope_.Call("LogicalAnd", {visible, given}) : given;
    }
    if (!visible.valid()) return scores;
    // Not minus infinity: a query that sees nothing shall give numbers.
    return scope_.Call("SelectV2", {visible, scores, -1e9f});
  }

  const LayerCall& call_;
  const Scope& scope_;
  const MultiHeadAttentionOptions& options_;
};

}  // namespace

LayerPtr MultiHeadAttention(MultiHeadAttentionOptions options) {
  return MakeLayer("multi_head_attention",
                   [options = std::move(options)](const LayerCall& call) {
                     return Attention(call, options).Build();
                   },
                   {.max_inputs = 4, .floating_point = false});
}

}  // namespace tandem::nn
