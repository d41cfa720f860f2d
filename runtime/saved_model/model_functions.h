// Functions of a model that are no signatures, such as tf.functions of its objects, made callable
// as if they were.
//
// Threads: as for messages.
#ifndef TANDEM_RUNTIME_SAVED_MODEL_MODEL_FUNCTIONS_H_
#define TANDEM_RUNTIME_SAVED_MODEL_MODEL_FUNCTIONS_H_

#include <string>
#include <vector>

#include "absl/status/status.h"

namespace tensorflow {
class MetaGraphDef;
}  // namespace tensorflow

namespace tandem {

// Adds to the graph a call of each function, with what it captures (variables, constants, assets),
// and a signature of that name. A function is named by the path of its object ("encoder/call"), or
// by its name in the library, which tells those of one object with several types apart.
//
// Inputs have the names of the function's arguments, outputs the keys of the dictionary that it
// gives, else "output_0", "output_1", … in order.
//
//   NotFound         there is no such function; lists those that there are.
//   InvalidArgument  an object has several, a signature has the name, or the message is malformed.
//   Unimplemented    it captures something that the graph has no node for.
absl::Status AddFunctionSignatures(const std::vector<std::string>& functions,
                                   tensorflow::MetaGraphDef* meta_graph);

}  // namespace tandem

#endif  // TANDEM_RUNTIME_SAVED_MODEL_MODEL_FUNCTIONS_H_
