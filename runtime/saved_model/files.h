// The files of a SavedModel:
//
//   saved_model.pb                  graphs and signatures (proto/saved_model.proto);
//   saved_model.pbtxt
//                                   is the same as text
//   variables/variables.index, …    a checkpoint (runtime/checkpoint)
//   assets/NAME                     files that the graph reads
//   fingerprint.pb, assets.extra/   not looked at
//
// Threads: any.
#ifndef TANDEM_RUNTIME_SAVED_MODEL_FILES_H_
#define TANDEM_RUNTIME_SAVED_MODEL_FILES_H_

#include <set>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace tensorflow {
class AssetFileDef;
class MetaGraphDef;
class SavedModel;
}  // namespace tensorflow

namespace tandem {

// What TensorFlow's tools look for when they are not told otherwise.
inline constexpr char kServeTag[] = "serve";
inline constexpr char kDefaultSignature[] = "serving_default";
// A signature of this name is none: its output of the same name is the node that initializes.
inline constexpr char kInitSignature[] = "__saved_model_init_op";

// Reads the SavedModel in a folder.
//   NotFound         there is none.
//   InvalidArgument  the file holds none, or one of another version; for text, with line and
//   column. Unimplemented    it is in pieces (saved_model.cpb).
// and errors of the files. Messages name the file.
absl::Status ReadSavedModel(const std::string& folder, tensorflow::SavedModel* model);

// The graph whose tags are exactly `tags`. NotFound lists the tags that there are; InvalidArgument:
// several have them.
absl::StatusOr<tensorflow::MetaGraphDef*> FindMetaGraph(const std::string& folder,
                                                        const std::set<std::string>& tags,
                                                        tensorflow::SavedModel* model);

// "serve, gpu"; "no tags".
std::string TagsText(const tensorflow::MetaGraphDef& meta_graph);

// The files that the graph reads, as either TensorFlow lists them. InvalidArgument: something else
// is in the list.
absl::StatusOr<std::vector<tensorflow::AssetFileDef>> AssetsOf(
    const tensorflow::MetaGraphDef& meta_graph);

// The node, or its output, that initializes tables and the like; empty: there is none.
std::string InitializerOf(const tensorflow::MetaGraphDef& meta_graph);

// For whoever was given a model where a graph is expected: whether `path` is a SavedModel's folder,
// or a file as its saved_model.pb or .pbtxt, by whatever name. False when that cannot be told.
bool IsSavedModel(const std::string& path);

// The prefix of the checkpoint.
std::string VariablesPrefix(const std::string& folder);

// The path of an asset. The name comes from the file: InvalidArgument when it leads out of the
// folder of the assets. Links in the file system are followed, as everywhere. NotFound: no such
// file. FailedPrecondition: a pipe or a device, which could be waited for without an end.
absl::StatusOr<std::string> AssetPath(const std::string& folder, const std::string& name);

}  // namespace tandem

#endif  // TANDEM_RUNTIME_SAVED_MODEL_FILES_H_
