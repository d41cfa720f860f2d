#include "kernels/nn/onednn.h"

#include <cstdlib>
#include <new>
#include <vector>

#include "core/base/blocked_signals.h"

namespace tandem::onednn {
namespace {

// What a thread keeps at most: enough for the convolutions of large images.
constexpr size_t kKeptBytes = size_t{32} << 20;
constexpr std::align_val_t kAlignment{64};

struct Kept {
  char* data = nullptr;
  size_t bytes = 0;
  bool in_use = false;
  ~Kept() { ::operator delete(data, kAlignment); }
};
thread_local Kept kept;

const dnnl::stream& Stream() {
  // A stream of a CPU engine has no state: everything runs in the caller.
  static const dnnl::stream* const stream = new dnnl::stream(Cpu());
  return *stream;
}

}  // namespace

const dnnl::engine& Cpu() {
  static const dnnl::engine* const engine = new dnnl::engine(dnnl::engine::kind::cpu, 0);
  return *engine;
}

void Run(const dnnl::primitive& primitive, std::initializer_list<Argument> arguments) {
  constexpr size_t kMost = 8;
  dnnl_exec_arg_t args[kMost];
  size_t n = 0;
  for (const Argument& argument : arguments) args[n++] = {argument.name, argument.value.get()};
  const BlockedSignals blocked;
  dnnl::error::wrap_c_api(
      dnnl_primitive_execute(primitive.get(), Stream().get(), static_cast<int>(n), args),
      "could not execute a primitive");
}

Scratch::Scratch(size_t bytes) {
  if (bytes == 0) return;
  if (bytes > kKeptBytes || kept.in_use) {
    data_ = static_cast<char*>(::operator new(bytes, kAlignment));
    own_ = true;
    return;
  }
  if (kept.bytes < bytes) {
    ::operator delete(kept.data, kAlignment);
    kept.data = nullptr;
    kept.bytes = 0;
    kept.data = static_cast<char*>(::operator new(bytes, kAlignment));
    kept.bytes = bytes;
  }
  kept.in_use = true;
  data_ = kept.data;
}

Scratch::~Scratch() {
  if (own_) {
    ::operator delete(data_, kAlignment);
  } else if (data_ != nullptr) {
    kept.in_use = false;
  }
}

absl::Status StatusOf(const dnnl::error& error, absl::string_view what) {
  switch (error.status) {
    case dnnl_out_of_memory:
      return OutOfMemory(what);
    case dnnl_unimplemented:
    case dnnl_invalid_arguments:
      return errors::Unimplemented("oneDNN has no ", what, " for these sizes: ", error.message);
    default:
      return errors::Internal("oneDNN failed in a ", what, " (status ",
                              static_cast<int>(error.status), "): ", error.message);
  }
}

absl::Status OutOfMemory(absl::string_view what) {
  return errors::ResourceExhausted("no memory for a ", what);
}

}  // namespace tandem::onednn
