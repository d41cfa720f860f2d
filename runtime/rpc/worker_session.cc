#include "runtime/rpc/worker_session.h"

#include <utility>

#include "absl/strings/str_format.h"
#include "core/base/status.h"

namespace tandem {
namespace {

// What a run of the whole graph feeds, fetches and targets.
struct WholeRun {
  RunSignature signature;
  std::vector<size_t> feeds;  // The indices of the _Arg nodes.
};

absl::StatusOr<WholeRun> WholeRunOf(const Graph& graph) {
  WholeRun run;
  std::map<int64_t, std::string> feeds;
  std::map<int64_t, std::string> fetches;
  for (Node* node : graph.nodes()) {
    if (node->Is("_Arg")) {
      const int64_t index = *node->Attr<int64_t>("index");
      if (index < 0 || !feeds.emplace(index, node->output(0).name()).second) {
        return WithNode(errors::InvalidArgument("its index is ", index), *node);
      }
    } else if (node->Is("_Retval")) {
      if (!node->input(0).valid()) {
        return WithNode(errors::InvalidArgument("its input is not connected"), *node);
      }
      fetches.emplace(*node->Attr<int64_t>("index"), node->input(0).name());
    } else {
      run.signature.targets.push_back(node->name());
    }
  }
  for (const auto& [index, name] : feeds) {
    run.feeds.push_back(static_cast<size_t>(index));
    run.signature.feeds.push_back(name);
  }
  for (const auto& [index, name] : fetches) {
    if (index != static_cast<int64_t>(run.signature.fetches.size())) {
      return errors::InvalidArgument("the graph has no _Retval with the index ",
                                     run.signature.fetches.size());
    }
    run.signature.fetches.push_back(name);
  }
  return run;
}

}  // namespace

void RegisteredGraph::Run(std::vector<Tensor> feeds, const RunOptions& options,
                          RunMetadata* metadata, Session::Callable::Done done) {
  if (callable_ == nullptr) {
    done(std::vector<Tensor>());
    return;
  }
  std::vector<Tensor> wanted;
  wanted.reserve(feeds_.size());
  for (const size_t index : feeds_) {
    if (index >= feeds.size()) {
      done(errors::InvalidArgument("the graph wants feed ", index, "; there are ", feeds.size()));
      return;
    }
    wanted.push_back(std::move(feeds[index]));
  }
  callable_->Start(
      std::move(wanted), options, metadata,
      [self = shared_from_this(), done = std::move(done)](
          absl::StatusOr<std::vector<Tensor>> results) mutable { done(std::move(results)); });
}

WorkerSession::WorkerSession(std::shared_ptr<SessionDevices> devices,
                             std::shared_ptr<ParameterStore> parameter_store)
    : devices_(std::move(devices)),
      parameter_store_(std::move(parameter_store)),
      kernels_(NewSharedKernelCache()) {}

WorkerSession::~WorkerSession() { Close(errors::Cancelled("the session was deleted")); }

absl::StatusOr<std::shared_ptr<RegisteredGraph>> WorkerSession::Compile(
    const Graph& graph, const OptimizeOptions& passes) {
  {
    MutexLock lock(mu_);
    TANDEM_RETURN_IF_ERROR(closed_);
  }
  auto result = std::make_shared<RegisteredGraph>();
  TANDEM_ASSIGN_OR_RETURN(WholeRun run, WholeRunOf(graph));
  result->feeds_ = std::move(run.feeds);
  SessionOptions options;
  options.devices = devices_->shared_devices();
  options.session_devices = devices_;
  options.shared_kernels = kernels_;
  options.parameter_store = parameter_store_;
  options.dead_fetch_code = absl::StatusCode::kInternal;
  options.optimize = passes;
  TANDEM_ASSIGN_OR_RETURN(result->session_, Session::Create(graph, std::move(options)));
  if (!run.signature.fetches.empty() || !run.signature.targets.empty()) {
    TANDEM_ASSIGN_OR_RETURN(result->callable_, result->session_->MakeCallable(run.signature));
  }
  MutexLock lock(mu_);
  TANDEM_RETURN_IF_ERROR(closed_);
  // In place of one that is gone, so that the list stays as short as what lives.
  for (std::weak_ptr<RegisteredGraph>& place : compiled_) {
    if (place.expired()) {
      place = result;
      return result;
    }
  }
  compiled_.push_back(result);
  return result;
}

absl::StatusOr<std::string> WorkerSession::Register(const Graph& graph,
                                                    const OptimizeOptions& passes) {
  TANDEM_ASSIGN_OR_RETURN(std::shared_ptr<RegisteredGraph> compiled, Compile(graph, passes));
  MutexLock lock(mu_);
  const std::string handle = absl::StrFormat("%016x", next_handle_++);
  graphs_.emplace(handle, std::move(compiled));
  return handle;
}

absl::StatusOr<std::shared_ptr<RegisteredGraph>> WorkerSession::Find(
    const std::string& graph_handle) const {
  MutexLock lock(mu_);
  const auto found = graphs_.find(graph_handle);
  if (found == graphs_.end()) {
    return errors::Aborted("Graph handle is not found: ", graph_handle);
  }
  return found->second;
}

absl::Status WorkerSession::Deregister(const std::string& graph_handle) {
  std::shared_ptr<RegisteredGraph> graph;  // Destroyed outside the lock.
  MutexLock lock(mu_);
  const auto found = graphs_.find(graph_handle);
  if (found == graphs_.end()) {
    return errors::NotFound("Graph handle is not found: ", graph_handle);
  }
  graph = std::move(found->second);
  graphs_.erase(found);
  return absl::OkStatus();
}

void WorkerSession::Close(const absl::Status& reason) {
  std::vector<std::shared_ptr<RegisteredGraph>> living;
  {
    MutexLock lock(mu_);
    if (!closed_.ok()) return;
    closed_ = reason;
    for (const std::weak_ptr<RegisteredGraph>& graph : compiled_) {
      if (std::shared_ptr<RegisteredGraph> found = graph.lock()) living.push_back(std::move(found));
    }
  }
  for (const std::shared_ptr<RegisteredGraph>& graph : living) graph->Close(reason);
}

}  // namespace tandem
