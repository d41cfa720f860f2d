// OpRegistry: the ops and kernels that this program holds.
//
// Registrations run before main, or when a shared library is loaded. A registration that
// contradicts itself or another one is our own bug: it ends the program with its name.
#ifndef TANDEM_CORE_OP_REGISTRY_H_
#define TANDEM_CORE_OP_REGISTRY_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "core/op/op_def.h"

namespace tandem {

// Threads: any. Lifetime: OpDefs and KernelDefs that were handed out stay as long as the registry.
class OpRegistry {
 public:
  OpRegistry();
  ~OpRegistry();
  // The registry of the process.
  static OpRegistry& Global();

  // AlreadyExists, or InvalidArgument as OpDefBuilder::Build.
  absl::Status Register(const OpDefBuilder& builder);
  // A kernel beside those of its op's own file. The op may be registered later.
  absl::Status RegisterKernel(absl::string_view op, KernelDef kernel);

  // Null when there is no such op.
  const OpDef* Find(absl::string_view name) const;
  // NotFound, with near names suggested.
  absl::StatusOr<const OpDef*> Get(absl::string_view name) const;
  // All ops, ordered by name.
  std::vector<const OpDef*> List() const;

  // All kernels of an op, those of its own file first.
  std::vector<const KernelDef*> Kernels(const OpDef& op) const;
  // The kernel for a device type and the attributes of a node. On SIM it is the CPU's kernel.
  // NotFound says which devices and types there are kernels for.
  absl::StatusOr<const KernelDef*> FindKernel(const OpDef& op, absl::string_view device_type,
                                              const AttrMap& attrs) const;

 private:
  // Every kernel includes this header, and the lock stays out of it: what includes a lock has its
  // annotations checked (tools/build_defs/check_locks.sh), which takes seconds a source.
  struct Tables;
  const std::unique_ptr<Tables> tables_;
};

// The names in `candidates` closest to `name` (by edit distance), at most `limit`, best first;
// those too far away to be a slip of the pen are left out.
std::vector<std::string> NearNames(absl::string_view name,
                                   const std::vector<std::string>& candidates, int limit = 3);
// ". Did you mean 'x' or 'y'?", or nothing.
std::string DidYouMean(absl::string_view name, const std::vector<std::string>& candidates);

struct OpRegistration {
  OpRegistration(const OpDefBuilder& builder);  // NOLINT: converts on purpose, see TANDEM_OP.
};
struct KernelRegistration {
  KernelRegistration(absl::string_view op, KernelDef kernel);
};

}  // namespace tandem

#define TANDEM_REGISTRATION_NAME_(prefix, line) TANDEM_REGISTRATION_NAME_IMPL_(prefix, line)
#define TANDEM_REGISTRATION_NAME_IMPL_(prefix, line) prefix##line

// Registers an op: TANDEM_OP("Neg").Inputs("x:T")… ;
#define TANDEM_OP(name)                                                             \
  [[maybe_unused]] static const ::tandem::OpRegistration TANDEM_REGISTRATION_NAME_( \
      op_registration_, __COUNTER__) = ::tandem::OpDefBuilder(name)

// Registers a kernel of an op that another file registers: TANDEM_KERNEL("Neg", KernelDef{kCuda,
// …});
#define TANDEM_KERNEL(op, ...)                                                          \
  [[maybe_unused]] static const ::tandem::KernelRegistration TANDEM_REGISTRATION_NAME_( \
      kernel_registration_, __COUNTER__)(op, __VA_ARGS__)

#endif  // TANDEM_CORE_OP_REGISTRY_H_
