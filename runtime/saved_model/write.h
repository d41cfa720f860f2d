// Writing SavedModels that TensorFlow loads in every way it has (tf.saved_model.load, sessions of
// TensorFlow 1, saved_model_cli, model servers), and Tandem too (saved_model.h).
//
//   SavedModelContents contents;
//   contents.graph = &graph;
//   contents.signatures = {{.name = "serving_default", .inputs = …, .outputs = …}};
//   contents.variables = {{.name = "dense/kernel", .handle = "dense/kernel", .value = kernel}};
//   TANDEM_RETURN_IF_ERROR(WriteSavedModel("served/1", contents));
//
// A signature becomes a function of its inputs, which captures the variables and assets that it
// needs; nothing else of the graph is written. strategies/export/export.h makes the contents of a
// model that was trained.
#ifndef TANDEM_RUNTIME_SAVED_MODEL_WRITE_H_
#define TANDEM_RUNTIME_SAVED_MODEL_WRITE_H_

#include <set>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "core/graph/graph.h"
#include "core/io/file.h"
#include "core/tensor/tensor.h"
#include "runtime/saved_model/files.h"
#include "runtime/saved_model/signature_info.h"

namespace tandem {

struct SavedModelContents {
  struct Signature {
    std::string name = kDefaultSignature;
    // Of each input and output the caller's name and the tensor of the graph. Types and shapes are
    // the graph's, so an unknown first size stays free.
    std::vector<SignatureTensor> inputs;
    std::vector<SignatureTensor> outputs;
  };
  struct Variable {
    std::string name;    // "dense/kernel": the path of its object, too.
    std::string handle;  // The node of the graph that gives its handle.
    Tensor value;
    bool trainable = true;
  };
  struct Asset {
    std::string path;    // The file, which is copied.
    std::string tensor;  // The tensor of the graph that holds its path: a scalar string.
  };

  const Graph* graph = nullptr;  // Not owned.
  std::vector<Signature> signatures;
  std::vector<Variable> variables;
  std::vector<Asset> assets;
  std::set<std::string> tags = {kServeTag};
};

struct WriteSavedModelOptions {
  FileSystem* files = PosixFileSystem();
  // A model that is in the folder is replaced, and nothing else is: see FailedPrecondition. For a
  // moment there is neither then; a crash in that moment leaves both beside the folder, under its
  // name with an ending ".tempstate…".
  bool overwrite = false;
};

// Writes a folder beside `folder` and gives it that name when all of it is on the disk. After an
// error there is nothing new; after a crash there may be a folder with the ending ".tempstate…".
//
//   AlreadyExists    something is in the folder, and overwriting was not asked for.
//   InvalidArgument  the folder's path ends in no name ("."); no signature, or a name that is
//   empty, there twice, or impossible; a tensor
//                    that is not in the graph; a variable whose value does not fit its handle.
//   NotFound         a signature needs a variable that is not in the contents.
//   FailedPrecondition  the graph holds ops that are Tandem's own; or the folder is a link, or
//   holds
//                    something that is no part of a SavedModel, which the message names.
// and errors of the files. Messages name the folder.
absl::Status WriteSavedModel(const std::string& folder, const SavedModelContents& contents,
                             const WriteSavedModelOptions& options = {});

// For before a long training: what WriteSavedModel would say of the folder. It also tries whether
// a folder can be made beside it.
absl::Status CheckSavedModelFolder(const std::string& folder,
                                   const WriteSavedModelOptions& options = {});

}  // namespace tandem

#endif  // TANDEM_RUNTIME_SAVED_MODEL_WRITE_H_
