// OpDef: everything Tandem knows about an op, gathered by one registration in one file.
//
//   TANDEM_OP("L2Loss")
//       .Inputs("t:T")
//       .Outputs("output:T")
//       .Attrs("T:type{float16,bfloat16,float32,float64}")
//       .Shape(ScalarShape)
//       .Gradient(L2LossGradient)
//       .Cpu(ByType<L2LossKernel, float, double>("T"));
//
// Signatures are written as in the table of TensorFlow's ops (tests/op_table):
//   arguments   "name:type", separated by commas; the type is a dtype, a type attribute, a
//               type-list attribute or "N*T"; "ref T" is a reference
//   attributes  "name:kind{allowed values}>=minimum=default", separated by semicolons
//
// A kernel for another device lies in a file of its own and adds itself with TANDEM_KERNEL.
#ifndef TANDEM_CORE_OP_OP_DEF_H_
#define TANDEM_CORE_OP_OP_DEF_H_

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "core/op/attr_value.h"
#include "core/tensor/dtype.h"

namespace tandem {

class GradientContext;
class Kernel;
class KernelInit;
class ShapeContext;

// One input or output. Exactly one of `type`, `type_attr` and `type_list_attr` is set.
struct ArgDef {
  std::string name;
  DataType type = DataType::kInvalid;
  std::string type_attr;       // A single type.
  std::string type_list_attr;  // As many tensors as the list has types.
  std::string number_attr;     // Repeated that often, when not empty.
  bool is_ref = false;
};

struct AttrDef {
  std::string name;
  AttrKind kind = AttrKind::kNone;
  std::vector<DataType> allowed_types;       // Empty: all.
  std::vector<std::string> allowed_strings;  // Empty: all.
  bool has_minimum = false;
  int64_t minimum = 0;  // Of the value, or of a list's length.
  bool has_default = false;
  AttrValue default_value;
};

// Infers the shapes of the outputs (core/op/shape_context.h).
using ShapeFunction = absl::Status (*)(ShapeContext& c);
// Adds the nodes that compute the gradients of the inputs (core/op/gradient_context.h).
using GradientFunction = absl::Status (*)(GradientContext& g);
using KernelFactory = std::function<absl::StatusOr<std::unique_ptr<Kernel>>(KernelInit& init)>;

// Device types.
inline constexpr char kCpu[] = "CPU";
inline constexpr char kSim[] = "SIM";
inline constexpr char kCuda[] = "GPU";  // TensorFlow's name for it.

// From the fastest on, for whoever has no wish. SIM is for those who ask for it.
inline constexpr const char* kDeviceTypesByPreference[] = {kCuda, kCpu, kSim};

// One kernel: for which device and types, and how it is made.
struct KernelDef {
  std::string device;
  // For each constrained type attribute the types that the kernel takes; the others may be
  // anything.
  std::vector<std::pair<std::string, std::vector<DataType>>> types;
  KernelFactory factory;
  // Names of arguments that lie in host memory whatever the device. On a CPU device all do. A
  // KernelDef for kCpu holds those of its op (OpDefBuilder::HostMemory), for SIM's sake.
  std::vector<std::string> host_memory;
};

// What a registration says of an op's gradient.
enum class Differentiability {
  kUnspecified,        // Nothing: an error when a gradient is asked for.
  kDifferentiable,     // A gradient function is registered.
  kNotDifferentiable,  // Registered as such: no gradient flows.
};

struct OpDef {
  std::string name;
  std::vector<ArgDef> inputs;
  std::vector<ArgDef> outputs;
  std::vector<AttrDef> attrs;

  // Has effects or state: never folded, merged or pruned as if pure.
  bool is_stateful = false;
  bool is_commutative = false;  // The order of two inputs does not matter.
  // A reference input may be of a variable that holds no value yet.
  bool allows_uninitialized_input = false;
  // Cheap enough to run where it became ready, without a look at its cost.
  bool is_cheap = false;

  ShapeFunction shape = nullptr;
  Differentiability differentiability = Differentiability::kUnspecified;
  GradientFunction gradient = nullptr;
  std::vector<std::string> host_memory;  // See KernelDef::host_memory.
  std::vector<KernelDef> kernels;        // Those of the op's own file; see KernelRegistry.

  const AttrDef* FindAttr(absl::string_view attr_name) const;
  // True unless it is stateful or has a reference among its arguments: two such nodes with the same
  // inputs compute the same, once or twice, now or ahead of time.
  bool MayBeMerged() const;
  // The signature as text: "MatMul(a:T, b:T) -> (product:T)  T:type{…}; …".
  std::string DebugString() const;
};

// Parses argument and attribute lists of the form above. InvalidArgument names the offending piece.
absl::StatusOr<std::vector<ArgDef>> ParseArgs(absl::string_view text,
                                              const std::vector<AttrDef>& attrs);
absl::StatusOr<std::vector<AttrDef>> ParseAttrs(absl::string_view text);

// Builds an OpDef. The order of calls does not matter. What is wrong with it is reported by Build.
class OpDefBuilder {
 public:
  explicit OpDefBuilder(absl::string_view name);

  OpDefBuilder& Inputs(absl::string_view args);
  OpDefBuilder& Outputs(absl::string_view args);
  OpDefBuilder& Attrs(absl::string_view attrs);
  OpDefBuilder& Stateful();
  OpDefBuilder& Commutative();
  OpDefBuilder& Cheap();
  OpDefBuilder& AllowsUninitializedInput();
  OpDefBuilder& Shape(ShapeFunction function);
  OpDefBuilder& Gradient(GradientFunction function);
  OpDefBuilder& NotDifferentiable();
  // Arguments that stay in host memory on an accelerator: shapes, axes, sizes. By name.
  OpDefBuilder& HostMemory(std::vector<std::string> args);
  OpDefBuilder& Cpu(KernelDef kernel);

  // InvalidArgument: the registration contradicts itself.
  absl::StatusOr<OpDef> Build() const;

 private:
  OpDef def_;
  std::string inputs_;
  std::string outputs_;
  std::string attrs_;
};

}  // namespace tandem

#endif  // TANDEM_CORE_OP_OP_DEF_H_
