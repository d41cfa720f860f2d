#include "runtime/session/compile.h"

#include <utility>

#include "absl/algorithm/container.h"
#include "core/base/log.h"
#include "core/base/status.h"
#include "core/passes/insert_copies.h"
#include "core/passes/symbolic_gradient.h"
#include "runtime/device/out_of_memory.h"
#include "runtime/session/kernel_evaluator.h"
#include "runtime/threads/openmp.h"

namespace tandem {

absl::StatusOr<Kernel*> SharedKernelCache::Get(const Node& node, const SessionDevices& devices,
                                               const FunctionLibrary& functions) {
  const Device* device = devices.devices().Find(node.device());
  if (device == nullptr) {
    return errors::Internal("node '", node.name(), "' is placed on '", node.device(),
                            "', which is no device of this session");
  }
  // With the op: a pass may put a node of another op in the place of one, under its name. With the
  // functions: when gradients are added, a loop comes to call others, and gives out more.
  std::string key = absl::StrCat(node.type(), " ", node.name(), "@", node.device());
  // Ends of an edge between tasks have no state, and their names are the partition's, which another
  // signature's partition may use for another edge.
  const bool is_end =
      node.Is("_Send") || node.Is("_Recv") || node.Is("_HostSend") || node.Is("_HostRecv");
  for (const auto& [name, value] : node.attrs()) {
    if (is_end || value.kind() == AttrKind::kFunction || value.kind() == AttrKind::kFunctionList) {
      absl::StrAppend(&key, " ", name, "=", value.Key());
    }
  }
  MutexLock lock(mu_);
  std::unique_ptr<Kernel>& kernel = kernels_[key];
  if (kernel == nullptr) {
    absl::StatusOr<std::unique_ptr<Kernel>> made =
        MakeKernelFor(node, devices.kernel_device(*device), functions);
    if (!made.ok()) {
      kernels_.erase(key);
      return made.status();
    }
    kernel = *std::move(made);
  }
  return kernel.get();
}

std::vector<std::pair<std::string, random::Generator*>> SharedKernelCache::Generators() {
  std::vector<std::pair<std::string, random::Generator*>> generators;
  MutexLock lock(mu_);
  for (const auto& [key, kernel] : kernels_) {
    auto* const random = dynamic_cast<random::GeneratorKernel*>(kernel.get());
    if (random == nullptr) continue;
    // "<op> <node>@<device>"
    const size_t begin = key.find(' ') + 1;
    generators.emplace_back(key.substr(begin, key.find('@', begin) - begin), &random->generator());
  }
  absl::c_stable_sort(generators, [](const auto& a, const auto& b) { return a.first < b.first; });
  return generators;
}

namespace {

// Says once a process whether oneDNN will run on threads that know nothing of run tokens: slow, but
// right.
void WarnUnlessOpenMpIsOurs() {
  static const bool warned = [] {
    const absl::Status status = CheckOpenMpIsOurs();
    if (!status.ok()) {
      TANDEM_LOG(Warning) << status.message();
    }
    return !status.ok();
  }();
  (void)warned;
}

absl::StatusOr<std::unique_ptr<Plan>> CompileInMemory(Graph graph, const CompileOptions& options) {
  for (const Node* node : graph.nodes()) {
    for (int i = 0; i < node->num_inputs(); ++i) {
      if (!node->input(i).valid()) {
        return errors::InvalidArgument("node '", node->name(), "' (", node->type(), "): input ", i,
                                       " is not connected");
      }
    }
  }
  TANDEM_RETURN_IF_ERROR(ExpandSymbolicGradients(graph));
  PlaceOptions place;
  for (const auto& device : options.devices->devices().devices())
    place.devices.push_back(device->name());
  place.default_device = options.default_device;
  place.soft = options.soft_placement;
  TANDEM_RETURN_IF_ERROR(Place(place, graph));
  KernelEvaluator evaluator(options.devices->devices(), options.inner_parallelism);
  OptimizeOptions optimize = options.optimize;
  if (optimize.evaluator == nullptr) optimize.evaluator = &evaluator;
  TANDEM_RETURN_IF_ERROR(Optimize(optimize, graph));
  TANDEM_RETURN_IF_ERROR(InsertCopies(graph));
  auto shared = std::make_shared<const Graph>(std::move(graph));
  PlanOptions plan;
  plan.devices = options.devices.get();
  plan.inner_parallelism = options.inner_parallelism;
  plan.plan_memory = optimize.plan_memory;
  if (options.shared_kernels != nullptr) {
    plan.shared_kernels = [&](const Node& node) {
      return options.shared_kernels->Get(node, *options.devices, shared->functions());
    };
  }
  return CompilePlan(shared, plan);
}

}  // namespace

absl::StatusOr<std::unique_ptr<Plan>> CompileGraph(Graph graph, const CompileOptions& options) {
  WarnUnlessOpenMpIsOurs();
  return CatchOutOfMemory([&] { return CompileInMemory(std::move(graph), options); });
}

}  // namespace tandem
