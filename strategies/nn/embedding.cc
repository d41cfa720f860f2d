#include "strategies/nn/embedding.h"

#include <utility>

#include "strategies/nn/layer_call.h"

namespace tandem::nn {

LayerPtr Embedding(EmbeddingOptions options) {
  return MakeLayer(
      "embedding",
      [options = std::move(options)](const LayerCall& call) -> absl::StatusOr<Output> {
        TANDEM_RETURN_IF_ERROR(call.RequirePositive("input_dim", options.input_dim));
        TANDEM_RETURN_IF_ERROR(call.RequirePositive("output_dim", options.output_dim));
        const DataType dtype = RemoveReference(call.input().dtype());
        if (dtype != kInt32 && dtype != kInt64) {
          return call.Error("its input has the type ", DataTypeName(dtype),
                            "; it must be int32 or int64");
        }
        TANDEM_ASSIGN_OR_RETURN(
            const Shape shape, call.ShapeOf("embeddings", {options.input_dim, options.output_dim}));
        TANDEM_ASSIGN_OR_RETURN(
            const StrategyVariable* table,
            call.Table("embeddings", shape, options.embeddings_initializer, options.spread_rows));
        return call.replica().Lookup(*table, call.input(), call.scope());
      },
      {.floating_point = false});
}

}  // namespace tandem::nn
