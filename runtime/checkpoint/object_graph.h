// ObjectGraph: the objects of a Python program (models, layers, optimizers) as a checkpoint of
// TensorFlow 2 or Keras has them, and which tensor is whose.
//
// A path goes from the root by the names of children: "model/layers/0/_kernel"; "/" and "." inside
// of a name are written ".S" and "..". A slot of an optimizer is
// "PATH OF VARIABLE/.OPTIMIZER_SLOT/PATH OF OPTIMIZER/NAME OF SLOT". A path may end with
// "/.ATTRIBUTES/NAME"; else it means the attribute VARIABLE_VALUE, or the only one that there is.
//
// Threads: any; does not change.
#ifndef TANDEM_RUNTIME_CHECKPOINT_OBJECT_GRAPH_H_
#define TANDEM_RUNTIME_CHECKPOINT_OBJECT_GRAPH_H_

#include <map>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"

namespace tandem {

// The name of the tensor that holds it: a scalar string.
inline constexpr char kObjectGraphName[] = "_CHECKPOINTABLE_OBJECT_GRAPH";

class ObjectGraph {
 public:
  struct Attribute {
    std::string name;       // "VARIABLE_VALUE"
    std::string full_name;  // The name of the variable in its program; may be empty.
    std::string key;        // The name of the tensor in the checkpoint.
  };

  // DataLoss: not a serialized TrackableObjectGraph, or one whose references lead nowhere.
  static absl::StatusOr<ObjectGraph> Parse(absl::string_view bytes);

  // The name of the tensor at a path. NotFound says how far the path leads, and what is there.
  absl::StatusOr<std::string> Find(absl::string_view path) const;
  // All attributes, object by object.
  std::vector<Attribute> Attributes() const;

 private:
  struct Slot {
    int variable = 0;
    std::string name;
    int slot_variable = 0;
  };
  struct Object {
    std::map<std::string, int, std::less<>> children;
    std::vector<Attribute> attributes;
    std::vector<Slot> slots;
  };

  absl::StatusOr<int> FindObject(absl::Span<const absl::string_view> names,
                                 absl::string_view path) const;
  absl::StatusOr<int> FindSlot(int variable, int optimizer, absl::string_view slot,
                               absl::string_view path) const;

  std::vector<Object> objects_;  // The first is the root.
};

}  // namespace tandem

#endif  // TANDEM_RUNTIME_CHECKPOINT_OBJECT_GRAPH_H_
