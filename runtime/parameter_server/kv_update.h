// What a KvStore (kvstore.h) does on the server with what is pushed: updaters, and forms in which
// gradients travel. Both are plug-ins that put nodes into the graph of a key.
//
//   KvUpdater decay;
//   decay.dense = [](KvUpdateScope& s, const Output& gradient) {
//     const Output step = s.scope().Call("Mul", {gradient, 0.1f});
//     s.Run(s.scope().AddNode("AssignSubVariableOp", {s.value(), step}));
//   };
#ifndef TANDEM_RUNTIME_PARAMETER_SERVER_KV_UPDATE_H_
#define TANDEM_RUNTIME_PARAMETER_SERVER_KV_UPDATE_H_

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "core/base/mutex.h"
#include "core/graph/scope.h"
#include "core/tensor/tensor.h"
#include "proto/graph.pb.h"
#include "proto/parameter_server.pb.h"

namespace tandem::parameter_server {

// The value of a key, or of a part of one, where it is updated.
class KvUpdateScope {
 public:
  KvUpdateScope(Scope scope, Output value, DataType dtype, Shape shape,
                std::function<Output(const std::string&, float)> slot)
      : scope_(std::move(scope)),
        value_(value),
        dtype_(dtype),
        shape_(std::move(shape)),
        slot_(std::move(slot)) {}

  const Scope& scope() const { return scope_; }
  const Output& value() const { return value_; }  // The variable's handle.
  DataType dtype() const { return dtype_; }
  const Shape& shape() const { return shape_; }
  // The handle of another variable of this type and shape, which begins with `initial` everywhere.
  // The same for all who ask for the name.
  Output Slot(const std::string& name, float initial) { return slot_(name, initial); }
  // The update runs this node. Null, after an error of the scope, is ignored.
  void Run(Node* node) {
    if (node != nullptr) updates_.push_back(node);
  }
  const std::vector<Node*>& updates() const { return updates_; }

 private:
  const Scope scope_;
  const Output value_;
  const DataType dtype_;
  const Shape shape_;
  const std::function<Output(const std::string&, float)> slot_;
  std::vector<Node*> updates_;
};

struct KvUpdater {
  // Adds the nodes of an update by a gradient of the value's type and shape.
  std::function<void(KvUpdateScope& scope, const Output& gradient)> dense;
  // The same of some rows, which may come several times: values [n, …] and int64 indices [n].
  // Empty: rows cannot be pushed.
  std::function<void(KvUpdateScope& scope, const Output& values, const Output& indices)> rows;
  // What the gradients of all workers become in one update: SUM or MEAN.
  Combination combination = SUM;
};

KvUpdater AssignUpdater();  // What is pushed is the value. Of several workers the mean is.
KvUpdater SumUpdater();     // It is added.
KvUpdater SgdUpdater(double learning_rate);
KvUpdater AdagradUpdater(double learning_rate, double initial_accumulator = 0.1);

// A form in which dense float32 gradients travel. Threads: any.
class KvCompression {
 public:
  virtual ~KvCompression() = default;

  // A gradient as it is sent: uint8[1, bytes]. `part` names what it is the gradient of: what its
  // form loses is kept for the next one.
  virtual absl::StatusOr<Tensor> Encode(const std::string& part, const Tensor& gradient) = 0;
  // Adds what makes the sum of those that came, uint8[n, bytes], of the type and shape of `like`.
  virtual Output DecodeSum(const Scope& scope, const Output& payloads,
                           const Output& like) const = 0;
};

// By the name of a codec (kernels/collective/gradient_codec.h): "float16", "bfloat16", "2bit",
// "topk:0.01". InvalidArgument: there is none of the name.
absl::StatusOr<std::unique_ptr<KvCompression>> NewKvCompression(absl::string_view codec);

// What a server is given for a key, or a part of one. Programs: "init" takes the value, "push" a
// gradient (if compressed, uint8[?,?]), "push_rows" values and indices; "pull" gives the value,
// "pull_rows" takes indices, int64[?].
struct KvGraph {
  tensorflow::GraphDef graph;
  std::vector<Program> programs;
  std::vector<Variable> variables;
};

// `compression` may be null. InvalidArgument: the updater's nodes do not fit the value; a type that
// cannot be compressed.
absl::StatusOr<KvGraph> MakeKvGraph(DataType dtype, const Shape& shape, const KvUpdater& updater,
                                    const KvCompression* compression);

}  // namespace tandem::parameter_server

#endif  // TANDEM_RUNTIME_PARAMETER_SERVER_KV_UPDATE_H_
