// OpCall: what the generated wrappers (kernels/ops.h) are made of. It is here, and not generated
// with each of them, so that hundreds of wrappers stay quick to compile.
#ifndef TANDEM_CORE_GRAPH_OP_CALL_H_
#define TANDEM_CORE_GRAPH_OP_CALL_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/types/optional.h"
#include "core/graph/scope.h"

namespace tandem {

// One node in the making: inputs and attributes, then Finish, then the outputs, all in the order of
// the op's signature. Errors go to the scope.
class OpCall {
 public:
  OpCall(const Scope& scope, const char* op) : scope_(scope), op_(op) {}

  void Add(const Input& input) { inputs_.push_back(input); }
  // A list; its length is the attribute `number`.
  void AddRepeated(const InputList& list, const char* number);
  // A list; the types of its tensors are the attribute `types`.
  void AddTyped(const InputList& list, const char* types);

  void Set(const char* name, bool value);
  void Set(const char* name, int64_t value);
  void Set(const char* name, float value);
  void Set(const char* name, const std::string& value);
  void Set(const char* name, DataType value);
  void Set(const char* name, const PartialShape& value);
  void Set(const char* name, const Tensor& value);
  void Set(const char* name, const FunctionRef& value);
  void Set(const char* name, const std::vector<bool>& value);
  void Set(const char* name, const std::vector<int64_t>& value);
  void Set(const char* name, const std::vector<float>& value);
  void Set(const char* name, const std::vector<std::string>& value);
  void Set(const char* name, const std::vector<DataType>& value);
  void Set(const char* name, const std::vector<PartialShape>& value);
  void Set(const char* name, const std::vector<Tensor>& value);
  void Set(const char* name, const std::vector<FunctionRef>& value);
  // Nothing leaves the attribute to the op's default.
  void Set(const char* name, const absl::optional<Tensor>& value);
  void Set(const char* name, const absl::optional<FunctionRef>& value);

  // Adds the node. Null after an error.
  Node* Finish();

  // The next output argument of the signature: a single tensor, or a list. Invalid, or empty, after
  // an error.
  Output NextOutput();
  std::vector<Output> NextOutputs();

 private:
  const Scope& scope_;
  const char* const op_;
  InputList inputs_;
  AttrMap attrs_;
  Node* node_ = nullptr;
  size_t next_arg_ = 0;
  int next_output_ = 0;
};

}  // namespace tandem

#endif  // TANDEM_CORE_GRAPH_OP_CALL_H_
