// SavedModel: a trained model as TensorFlow 1, TensorFlow 2, Keras and Tandem write them, ready to
// be run.
//
//   TANDEM_ASSIGN_OR_RETURN(const auto model, SavedModel::Load("served/1"));
//   TANDEM_ASSIGN_OR_RETURN(auto outputs, model->signature("serving_default").Run({{"x", x}}));
//   const Tensor& y = outputs["y"];
//
// Loading reads the graph, restores the variables and runs what initializes (tables, paths of
// assets). Only what is needed is imported: an op that this program does not have is an error when
// a signature that was asked for, the restore or the initialization needs it.
//
// A model is a program: it may read and write files when it runs. Paths that stand beside the graph
// (assets) cannot leave the folder; what the graph itself does is up to whoever wrote it.
//
// Threads: any thread may call any method; any number of runs may go on at once.
// Lifetime: a ModelSignature must not outlive its model. REQUIRES: no run goes on when the model is
// destroyed.
#ifndef TANDEM_RUNTIME_SAVED_MODEL_SAVED_MODEL_H_
#define TANDEM_RUNTIME_SAVED_MODEL_SAVED_MODEL_H_

#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "core/tensor/tensor.h"
#include "runtime/saved_model/files.h"
#include "runtime/saved_model/signature_info.h"
#include "runtime/session/session.h"

namespace tandem {

struct SavedModelOptions {
  // Which of the model's graphs: that with exactly these tags.
  std::set<std::string> tags = {kServeTag};
  // The signatures that must be usable. None: those that can be; at least one, if there are any.
  std::vector<std::string> signatures;
  // Functions of the model's objects that are no signatures (a tf.function of a module, as
  // "encoder/call"), by their paths or their names in the library; `tandem saved_model show` lists
  // them. They must be usable, and are called as signatures of these names.
  std::vector<std::string> functions;
  // Devices that a model asks for and that are not there are replaced, whatever soft_placement
  // says.
  SessionOptions session;
};

struct FrozenGraphOptions {
  // Tensors ("node:1"; "node" is output 0) that the signature takes; none: all placeholders that
  // the outputs need.
  std::vector<std::string> inputs;
  // Tensors that it gives; none: the first output of each node that no other node uses.
  std::vector<std::string> outputs;
  SessionOptions session;
};

// A way to call a model. Cheap to copy.
class ModelSignature {
 public:
  // Not OK: there is no such signature (NotFound suggests near names), or it cannot be used, and
  // why (Unimplemented lists the ops that it needs and that are missing).
  const absl::Status& status() const { return status_; }
  // Null when there is no such signature.
  const SignatureInfo* info() const;

  // Gives the outputs by name. The first run of a signature compiles it.
  //
  // InvalidArgument: an input is missing, unknown, given twice, or of another type or shape than
  // the signature says. status(), when that is not OK. Else as Session::Run.
  absl::StatusOr<std::map<std::string, Tensor>> Run(const Session::Feeds& inputs,
                                                    const RunOptions& options = {}) const;

 private:
  friend class SavedModel;
  struct State;
  ModelSignature(State* state, absl::Status status) : state_(state), status_(std::move(status)) {}

  State* state_;
  absl::Status status_;
};

class SavedModel {
 public:
  // What a model holds.
  struct Variable {
    std::string name;
    DataType dtype = kFloat32;
    PartialShape shape;
    std::string read;  // The tensor of the session that has its value.
  };

  ~SavedModel();
  SavedModel(const SavedModel&) = delete;
  SavedModel& operator=(const SavedModel&) = delete;

  // Loads the model in a folder.
  //
  // Variables are restored by the graph's own nodes; where these need ops that are missing, from
  // the checkpoint, by the paths of their objects or by name.
  //
  //   NotFound         no model there, no graph of these tags, no such signature, or a file of the
  //                    variables or an asset is missing.
  //   InvalidArgument  the file holds no SavedModel, its graph is malformed, or a function has
  //                    several forms, which the message names.
  //   Unimplemented    ops are missing: one message lists all of them, how many nodes have them,
  //   and
  //                    whether a signature or what initializes the model needs them.
  //   DataLoss         the variables are damaged.
  // and errors of kernels that restore or initialize. Messages name the folder.
  static absl::StatusOr<std::unique_ptr<SavedModel>> Load(const std::string& folder,
                                                          const SavedModelOptions& options = {});

  // Loads a GraphDef without variables, binary or text, as the one signature kDefaultSignature.
  // Inputs and outputs are called like their tensors, without a ":0". Errors as Load.
  static absl::StatusOr<std::unique_ptr<SavedModel>> LoadFrozenGraph(
      const std::string& path, const FrozenGraphOptions& options = {});

  // Sorted; those that cannot be used, too.
  std::vector<std::string> signature_names() const;
  ModelSignature signature(absl::string_view name = kDefaultSignature) const;

  // The variables that usable signatures, the restore and the initialization need, by name.
  const std::vector<Variable>& variables() const { return variables_; }
  // The value as it is now. NotFound suggests near names. FailedPrecondition: it has none yet.
  absl::StatusOr<Tensor> ReadVariable(absl::string_view name) const;

  // Runs whatever else the part of the graph that was loaded can do.
  Session& session() const { return *session_; }

 private:
  class Loader;
  SavedModel() = default;

  std::unique_ptr<Session> session_;
  std::vector<Variable> variables_;
  std::map<std::string, std::unique_ptr<ModelSignature::State>, std::less<>> signatures_;
};

}  // namespace tandem

#endif  // TANDEM_RUNTIME_SAVED_MODEL_SAVED_MODEL_H_
