#ifndef TANDEM_TESTS_LAYERS_INCLUDE_LAYERS_H_
#define TANDEM_TESTS_LAYERS_INCLUDE_LAYERS_H_

// Finds `#include` and `import` lines that point up the layers.
//
// The layers, top first: tests/; tools/ and docs/; tandem.h; strategies/; runtime/; kernels/;
// core/; proto/. A file may use its own layer and those below it. A test file (see IsTestFile) of
// a layer up to runtime/ may use everything up to runtime/.
//
// Bazel's visibility says the same of targets, but a header reaches a compiler as soon as any
// dependency brings it along, and g++ does not check who asked for it.

#include <filesystem>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"

namespace tandem {

struct UpwardArrow {
  std::string file;      // relative to the root of the repository
  int line = 0;          // the first line is 1
  std::string included;  // as written
  std::string from;      // the layer of `file`
  std::string to;        // the layer of `included`, above `from`

  // "core/a.h:3: the layer core/ may not use runtime/ above it: #include "runtime/b.h"".
  std::string Message() const;
};

// The name of a layer as messages print it ("core/", "tandem.h"), or "" when `path` (relative to
// the root) belongs to none: system headers, third_party/.
std::string LayerOf(absl::string_view path);

// True for X_test.cc, X_benchmark.cc, X_test_util.h and .cc, and everything below a folder
// testing/.
bool IsTestFile(absl::string_view path);

// The upward arrows of one file. Lines inside block comments and raw strings are read like any
// other: an include that looks like one in a comment is worth a complaint too.
std::vector<UpwardArrow> FindUpwardArrows(absl::string_view path, absl::string_view text);

// Every C++, CUDA and .proto source below `root` that belongs to a layer, relative to `root`, in
// sorted order. Does not follow symbolic links.
std::vector<std::string> ListSources(const std::filesystem::path& root);

}  // namespace tandem

#endif  // TANDEM_TESTS_LAYERS_INCLUDE_LAYERS_H_
