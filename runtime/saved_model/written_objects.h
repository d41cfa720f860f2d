// The objects of a SavedModel that is written: what tf.saved_model.load makes of it. Variables hang
// in a tree that follows their names ("dense/kernel" is the attribute `kernel` of the attribute
// `dense`), signatures in the root's `signatures`.
#ifndef TANDEM_RUNTIME_SAVED_MODEL_WRITTEN_OBJECTS_H_
#define TANDEM_RUNTIME_SAVED_MODEL_WRITTEN_OBJECTS_H_

#include <map>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "core/tensor/tensor.h"
#include "proto/saved_object_graph.pb.h"
#include "runtime/saved_model/exported_function.h"

namespace tandem {

class WrittenObjects {
 public:
  WrittenObjects();

  // InvalidArgument: the name is malformed, or its place is taken.
  absl::Status AddVariable(const std::string& name, DataType dtype, const Shape& shape,
                           bool trainable);
  // In the order of MetaGraphDef's assets.
  absl::Status AddAsset();
  // After all variables and assets. `bound`: the numbers, as they were added (variables first, then
  // assets), of what the function captures.
  absl::Status AddSignature(const std::string& name, const ExportedFunction& function,
                            const std::vector<int>& bound);

  const tensorflow::SavedObjectGraph& saved() const { return saved_; }
  // What the checkpoint says of the same objects.
  const tensorflow::TrackableObjectGraph& trackable() const { return trackable_; }
  // The name in the checkpoint of each variable, in the order in which they were added.
  const std::vector<std::string>& keys() const { return keys_; }

 private:
  // Adds an object that `parent` calls `name`, and gives its number.
  absl::StatusOr<int> AddObject(int parent, const std::string& name);
  // The same; one that is there stays, if it is no variable.
  absl::StatusOr<int> FindOrAddFolder(int parent, const std::string& name);
  void MakeUserObject(int node, const std::string& identifier);

  tensorflow::SavedObjectGraph saved_;
  tensorflow::TrackableObjectGraph trackable_;
  std::map<std::pair<int, std::string>, int> children_;
  std::vector<std::string> keys_;
  std::vector<int> captures_;  // Nodes of variables, then of assets.
  int num_assets_ = 0;
};

}  // namespace tandem

#endif  // TANDEM_RUNTIME_SAVED_MODEL_WRITTEN_OBJECTS_H_
