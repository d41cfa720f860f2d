// SignatureInfo: what a signature of a SavedModel takes and gives.
#ifndef TANDEM_RUNTIME_SAVED_MODEL_SIGNATURE_INFO_H_
#define TANDEM_RUNTIME_SAVED_MODEL_SIGNATURE_INFO_H_

#include <map>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "core/tensor/dtype.h"
#include "core/tensor/shape.h"
#include "core/tensor/tensor.h"

namespace tensorflow {
class SignatureDef;
}  // namespace tensorflow

namespace tandem {

// An input or output.
struct SignatureTensor {
  std::string name;           // What callers call it.
  DataType dtype = kFloat32;  // Before the graph is read kInvalid may stand for "as it has it".
  PartialShape shape;
  std::string tensor;  // "node:0" in the graph.
};

struct SignatureInfo {
  std::string name;
  std::string method;  // "tensorflow/serving/predict", or anything else.
  // In the order of the names.
  std::vector<SignatureTensor> inputs;
  std::vector<SignatureTensor> outputs;
  // Values of inputs that a caller may leave out.
  std::map<std::string, Tensor> defaults;
};

// A sparse tensor "x" becomes "x/indices", "x/values" and "x/dense_shape"; a value "x" of several
// tensors "x/0", "x/1" and so on. InvalidArgument: a shape or default that is none, or a tensor
// without a name.
absl::StatusOr<SignatureInfo> ReadSignature(const std::string& name,
                                            const tensorflow::SignatureDef& signature);

}  // namespace tandem

#endif  // TANDEM_RUNTIME_SAVED_MODEL_SIGNATURE_INFO_H_
