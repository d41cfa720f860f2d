// FunctionLibrary: the functions that a graph's nodes call by name, in the form of the wire
// (FunctionDef). Bodies become graphs when somebody needs them (core/graph/function_body.h).
#ifndef TANDEM_CORE_GRAPH_FUNCTION_LIBRARY_H_
#define TANDEM_CORE_GRAPH_FUNCTION_LIBRARY_H_

#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "core/base/mutex.h"

namespace tensorflow {
class FunctionDef;
}  // namespace tensorflow

namespace tandem {

// Threads: any. A function never changes once it is added.
class FunctionLibrary {
 public:
  FunctionLibrary();
  ~FunctionLibrary();

  // Adding an equal function again changes nothing. InvalidArgument: no name, or another function
  // has it.
  absl::Status Add(const tensorflow::FunctionDef& function);
  // Null when there is none.
  std::shared_ptr<const tensorflow::FunctionDef> Find(absl::string_view name) const;
  // Names the gradient function of a function (TensorFlow's GradientDef).
  absl::Status SetGradient(absl::string_view function, absl::string_view gradient);
  // Empty when none is named.
  std::string FindGradient(absl::string_view function) const;
  std::vector<std::string> Names() const;  // Ordered.
  // A library of the same functions and gradients; what is added to one is not in the other.
  std::shared_ptr<FunctionLibrary> Clone() const;
  // Adds what `other` has, or nothing at all when one of its functions or gradients is another one
  // here: InvalidArgument, as Add and SetGradient. REQUIRES: `other` is not this library.
  absl::Status Merge(const FunctionLibrary& other);
  // `base`, or `base`_1, … whichever is free first.
  std::string UniqueName(absl::string_view base) const;

 private:
  using Functions =
      std::map<std::string, std::shared_ptr<const tensorflow::FunctionDef>, std::less<>>;
  using Gradients = std::map<std::string, std::string, std::less<>>;

  std::pair<Functions, Gradients> Contents() const;

  mutable Mutex mu_;
  Functions functions_ ABSL_GUARDED_BY(mu_);
  Gradients gradients_ ABSL_GUARDED_BY(mu_);
};

}  // namespace tandem

#endif  // TANDEM_CORE_GRAPH_FUNCTION_LIBRARY_H_
