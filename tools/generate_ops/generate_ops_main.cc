// Writes the typed wrappers of all ops that are linked into this program:
//
//   generate_ops HEADER_PATH HEADER SOURCE…
//
// HEADER_PATH is how the sources include the header; the definitions are spread over the sources,
// in the order of the ops' names. The rule is tandem_op_wrappers
// (tools/build_defs/op_wrappers.bzl).
#include <cstdio>
#include <fstream>
#include <string>
#include <vector>

#include "core/op/registry.h"
#include "tools/generate_ops/wrappers.h"

namespace {

bool Write(const char* path, const std::string& text) {
  std::ofstream file(path, std::ios::binary);
  file << text;
  file.close();
  if (!file) std::fprintf(stderr, "generate_ops: cannot write '%s'\n", path);
  return static_cast<bool>(file);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 4) {
    std::fprintf(stderr, "usage: %s HEADER_PATH HEADER SOURCE...\n", argv[0]);
    return 2;
  }
  const std::vector<const tandem::OpDef*> ops =
      tandem::OpsToWrap(tandem::OpRegistry::Global().List());
  const std::string header_path = argv[1];
  if (!Write(argv[2], tandem::WrapperHeader(ops, header_path))) return 1;
  const size_t sources = static_cast<size_t>(argc - 3);
  for (size_t i = 0; i < sources; ++i) {
    const auto begin = ops.begin() + static_cast<std::ptrdiff_t>(ops.size() * i / sources);
    const auto end = ops.begin() + static_cast<std::ptrdiff_t>(ops.size() * (i + 1) / sources);
    const std::vector<const tandem::OpDef*> part(begin, end);
    if (!Write(argv[3 + i], tandem::WrapperSource(part, header_path))) return 1;
  }
  return 0;
}
