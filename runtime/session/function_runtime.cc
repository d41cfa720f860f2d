#include "runtime/session/function_runtime.h"

#include <utility>

#include "absl/algorithm/container.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "core/base/status.h"
#include "core/graph/function_body.h"
#include "core/passes/prune.h"
#include "kernels/random/generator.h"
#include "runtime/executor/step_run.h"

namespace tandem {

namespace {

// Each call that waits for another one holds its values. Recursion that ends is nowhere near.
constexpr int kMaxCallDepth = 10'000;

constexpr absl::string_view kToHost = "[host]";

// One use of a function: "double@/job:localhost/replica:0/task:0/device:CPU:0". Positions of random
// ops are kept under it, so it is text without spaces, and the same in every process.
std::string KeyOf(const FunctionRef& function, const std::string& device, bool host_results) {
  std::string attrs;
  if (!function.attrs.empty()) {
    attrs = absl::StrCat("{", absl::WebSafeBase64Escape(AttrValue(function).Key()), "}");
  }
  return absl::StrCat(function.name, attrs, "@", device, host_results ? kToHost : "");
}

// The key without the device.
std::string FunctionPart(const std::string& key) { return key.substr(0, key.find('@')); }

}  // namespace

// A compiled function and its idle run states.
class FunctionRuntime::Compiled final : public FunctionHandle,
                                        public std::enable_shared_from_this<Compiled> {
 public:
  Compiled(std::string name, std::unique_ptr<Plan> plan, std::vector<DataType> arg_types)
      : name_(std::move(name)), plan_(std::move(plan)), arg_types_(std::move(arg_types)) {}

  absl::Status CheckArgs(const std::vector<Tensor>& args) const {
    if (args.size() != arg_types_.size()) {
      return errors::InvalidArgument("function '", name_, "' takes ", arg_types_.size(),
                                     " arguments and was called with ", args.size());
    }
    for (size_t i = 0; i < args.size(); ++i) {
      if (args[i].dtype() != arg_types_[i]) {
        return errors::InvalidArgument("function '", name_, "': argument ", i, " is ",
                                       DataTypeName(args[i].dtype()), "; ",
                                       DataTypeName(arg_types_[i]), " is wanted");
      }
    }
    return absl::OkStatus();
  }

  void Run(StepEnvironment* environment, int call_depth, std::vector<Tensor> args, Done done) {
    std::unique_ptr<StepRun> run;
    {
      MutexLock lock(mu_);
      if (!idle_.empty()) {
        run = std::move(idle_.back());
        idle_.pop_back();
      }
    }
    if (run == nullptr) run = NewStepRun(*plan_);
    StepRun* const raw = run.release();  // Owned by the closure below until it is called.
    raw->Start(environment, call_depth, std::move(args),
               [self = shared_from_this(), raw,
                done = std::move(done)](absl::StatusOr<std::vector<Tensor>> results) mutable {
                 {
                   MutexLock lock(self->mu_);
                   self->idle_.emplace_back(raw);
                 }
                 done(std::move(results));
               });
  }

  const std::string& name() const { return name_; }

  // Those of the random ops, by node.
  std::map<std::string, random::Generator*> Generators() const {
    std::map<std::string, random::Generator*> generators;
    for (size_t i = 0; i < plan_->nodes.size(); ++i) {
      auto* const kernel = dynamic_cast<random::GeneratorKernel*>(plan_->nodes[i].kernel);
      if (kernel != nullptr) generators[plan_->names[i]] = &kernel->generator();
    }
    return generators;
  }

 private:
  const std::string name_;
  const std::unique_ptr<Plan> plan_;
  const std::vector<DataType> arg_types_;
  Mutex mu_;
  std::vector<std::unique_ptr<StepRun>> idle_ ABSL_GUARDED_BY(mu_);
};

FunctionRuntime::FunctionRuntime(std::shared_ptr<FunctionLibrary> library, CompileOptions options,
                                 ParameterStore* parameter_store)
    : library_(std::move(library)),
      options_(std::move(options)),
      parameter_store_(parameter_store) {}

absl::StatusOr<std::shared_ptr<FunctionHandle>> FunctionRuntime::Instantiate(
    const FunctionRef& function, const KernelContext& c, bool host_results) {
  const std::string key = KeyOf(function, c.device().name, host_results);
  {
    MutexLock lock(mu_);
    const auto found = compiled_.find(key);
    if (found != compiled_.end()) return std::shared_ptr<FunctionHandle>(found->second);
  }
  // Outside the lock: compilation may fold constants, which runs functions. Two threads that
  // compile the same function at once both succeed; the first one's result is kept.
  absl::StatusOr<std::shared_ptr<Compiled>> made = Compile(function, c.device().name, host_results);
  if (!made.ok()) return WithContext(made.status(), absl::StrCat("function '", function.name, "'"));
  MutexLock lock(mu_);
  const auto [entry, is_first] = compiled_.emplace(key, *std::move(made));
  if (is_first) TakePositions(key, *entry->second);
  return std::shared_ptr<FunctionHandle>(entry->second);
}

void FunctionRuntime::TakePositions(const std::string& key, Compiled& compiled) {
  auto waiting = waiting_positions_.find(key);
  if (waiting == waiting_positions_.end()) {
    // Of the same function on another device, if that is the only one: the replica that called it
    // there is here now.
    const std::string function = FunctionPart(key);
    const auto is_same = [&](const auto& entry) { return FunctionPart(entry.first) == function; };
    waiting = absl::c_find_if(waiting_positions_, is_same);
    if (waiting == waiting_positions_.end()) return;
    if (absl::c_count_if(waiting_positions_, is_same) > 1) return;
  }
  for (const auto& [node, generator] : compiled.Generators()) {
    const auto position = waiting->second.find(node);
    // That it is one was checked when it was given.
    if (position != waiting->second.end()) generator->Restore(position->second).IgnoreError();
  }
  waiting_positions_.erase(waiting);
}

std::vector<std::pair<std::string, Tensor>> FunctionRuntime::RandomPositions() const {
  std::map<std::string, Tensor> positions;
  MutexLock lock(mu_);
  for (const auto& [key, compiled] : compiled_) {
    for (const auto& [node, generator] : compiled->Generators()) {
      positions[absl::StrCat(key, " ", node)] = generator->Save();
    }
  }
  for (const auto& [key, nodes] : waiting_positions_) {
    for (const auto& [node, position] : nodes) positions[absl::StrCat(key, " ", node)] = position;
  }
  return {positions.begin(), positions.end()};
}

absl::Status FunctionRuntime::SetRandomPosition(const std::string& name, const Tensor& position) {
  const size_t space = name.find(' ');
  const std::string key = name.substr(0, space);
  const std::string node = space == std::string::npos ? "" : name.substr(space + 1);
  const auto not_found = [&] {
    return errors::NotFound("there is no random op '", name, "' in a function of this program");
  };
  TANDEM_RETURN_IF_ERROR(random::Generator().Restore(position));
  MutexLock lock(mu_);
  const auto compiled = compiled_.find(key);
  if (compiled != compiled_.end()) {
    const auto generators = compiled->second->Generators();
    const auto found = generators.find(node);
    return found == generators.end() ? not_found() : found->second->Restore(position);
  }
  const std::string function = FunctionPart(key);
  if (library_->Find(function.substr(0, function.find('{'))) == nullptr) return not_found();
  waiting_positions_[key][node] = position;
  return absl::OkStatus();
}

absl::StatusOr<std::shared_ptr<FunctionRuntime::Compiled>> FunctionRuntime::Compile(
    const FunctionRef& function, const std::string& device, bool host_results) const {
  TANDEM_ASSIGN_OR_RETURN(std::unique_ptr<FunctionBody> body,
                          InstantiateFunction(function, library_));
  std::vector<DataType> arg_types;
  std::vector<Node*> roots(body->control_rets);
  for (Node* arg : body->args) {
    arg->set_requested_device(device);
    arg_types.push_back(arg->output_info(0).dtype);
  }
  for (Node* ret : body->rets) {
    ret->set_requested_device(host_results ? options_.devices->devices().host().name() : device);
    roots.push_back(ret);
  }
  for (Node* node : body->graph.nodes()) {
    // What has effects runs, whether a result depends on it or not.
    if (node->op().is_stateful && !node->Is("_Arg")) roots.push_back(node);
  }
  RemoveUnneeded(roots, body->graph);
  CompileOptions options = options_;
  options.default_device = device;
  options.shared_kernels = nullptr;
  TANDEM_ASSIGN_OR_RETURN(std::unique_ptr<Plan> plan,
                          CompileGraph(std::move(body->graph), options));
  // Arguments that nothing uses were pruned; the plan still counts them.
  plan->arg_slots.resize(arg_types.size(), -1);
  return std::make_shared<Compiled>(function.name, std::move(plan), std::move(arg_types));
}

void FunctionRuntime::Run(const std::shared_ptr<FunctionHandle>& handle, const KernelContext& c,
                          std::vector<Tensor> args, Done done) {
  Compiled& compiled = static_cast<Compiled&>(*handle);
  const absl::Status status = compiled.CheckArgs(args);
  if (!status.ok()) {
    done(status);
    return;
  }
  const int call_depth = c.params().call_depth + 1;
  if (call_depth > kMaxCallDepth) {
    done(errors::ResourceExhausted("'", c.node_name(), "' calls function '", compiled.name(),
                                   "' within ", kMaxCallDepth,
                                   " calls already; does its recursion end?"));
    return;
  }
  compiled.Run(static_cast<StepEnvironment*>(&c.step()), call_depth, std::move(args),
               std::move(done));
}

}  // namespace tandem
