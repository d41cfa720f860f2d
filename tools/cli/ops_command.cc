#include <cstdio>
#include <string>

#include "absl/strings/str_join.h"
#include "core/base/status.h"
#include "core/op/registry.h"
#include "tools/cli/command.h"

namespace tandem::cli {
namespace {

constexpr char kHelp[] =
    "tandem ops [NAME…]\n\n"
    "Without a name: lists the ops that this program holds, one a line, and whether each has a\n"
    "gradient (g: yes, n: registered as not differentiable, -: none) and is stateful (s).\n"
    "With names: their signatures, attributes, and kernels by device and type.\n\n"
    "Examples:\n"
    "  tandem ops\n"
    "  tandem ops MatMul Conv2D\n";

const char* GradientMark(const OpDef& op) {
  switch (op.differentiability) {
    case Differentiability::kDifferentiable:
      return "g";
    case Differentiability::kNotDifferentiable:
      return "n";
    case Differentiability::kUnspecified:
      break;
  }
  return "-";
}

std::string GradientText(const OpDef& op) {
  switch (op.differentiability) {
    case Differentiability::kDifferentiable:
      return "has a gradient";
    case Differentiability::kNotDifferentiable:
      return "is not differentiable";
    case Differentiability::kUnspecified:
      break;
  }
  return "has no gradient";
}

absl::Status Run(const std::vector<std::string>& words) {
  TANDEM_ASSIGN_OR_RETURN(const Arguments arguments, Arguments::Parse(words, {}, {}));
  const OpRegistry& registry = OpRegistry::Global();
  if (arguments.positional().empty()) {
    for (const OpDef* op : registry.List()) {
      std::printf("%s%s %s\n", GradientMark(*op), op->is_stateful ? "s" : " ", op->name.c_str());
    }
    return absl::OkStatus();
  }
  for (const std::string& name : arguments.positional()) {
    TANDEM_ASSIGN_OR_RETURN(const OpDef* op, registry.Get(name));
    std::printf("%s\n  %s%s\n", op->DebugString().c_str(), GradientText(*op).c_str(),
                op->is_stateful ? "; is stateful" : "");
    if (!op->host_memory.empty()) {
      std::printf("  in host memory on every device: %s\n",
                  absl::StrJoin(op->host_memory, ", ").c_str());
    }
    const auto kernels = registry.Kernels(*op);
    if (kernels.empty()) std::printf("  no kernel: the executor carries it out itself\n");
    for (const KernelDef* kernel : kernels) {
      std::string types;
      for (const auto& [attr, allowed] : kernel->types) {
        absl::StrAppend(&types, " ", attr, ": ",
                        absl::StrJoin(allowed, " ", [](std::string* out, DataType type) {
                          out->append(DataTypeName(type));
                        }));
      }
      std::printf("  kernel on %s%s%s\n", kernel->device.c_str(),
                  kernel->device == kCpu ? " and SIM," : ",",
                  types.empty() ? " any types" : types.c_str());
    }
  }
  return absl::OkStatus();
}

}  // namespace

const Command kOpsCommand = {"ops", "lists ops, their signatures, kernels and gradients", kHelp,
                             Run};

}  // namespace tandem::cli
