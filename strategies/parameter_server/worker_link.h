// WorkerLink: one worker, as the coordinator has it: a thread that connects to its server, gives it
// the programs that are wanted, and asks it from time to time whether it is there. One that is lost
// is connected to again, for ever, with growing pauses.
//
// Threads: any. Lifetime: the destructor ends the steps that run there (Cancelled) and waits for
// them; the watcher outlives it.
#ifndef TANDEM_STRATEGIES_PARAMETER_SERVER_WORKER_LINK_H_
#define TANDEM_STRATEGIES_PARAMETER_SERVER_WORKER_LINK_H_

#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "absl/types/optional.h"
#include "core/base/mutex.h"
#include "core/graph/graph.h"
#include "core/kernel/cancellation.h"
#include "core/passes/prune.h"
#include "core/tensor/tensor.h"
#include "runtime/rpc/remote_server.h"
#include "runtime/rpc/security.h"
#include "runtime/session/session.h"

namespace tandem::parameter_server {

// What workers run: one signature of a graph.
struct WorkerProgram {
  Graph graph;
  RunSignature signature;
};

struct WorkerLinkOptions {
  std::string member;   // "/job:worker/task:1"
  std::string address;  // "host:port"
  absl::Duration heartbeat = absl::Seconds(1);
  absl::Duration lost_after = absl::Seconds(3);
  absl::optional<Security> security;  // None: as the environment says.
};

class WorkerLink {
 public:
  using Done = Session::Callable::Done;

  // Called on the link's thread, outside its lock.
  class Watcher {
   public:
    virtual ~Watcher() = default;
    virtual void WorkerJoined(WorkerLink* worker) = 0;
    virtual void WorkerLeft(WorkerLink* worker, const absl::Status& reason) = 0;
    // It may be able to run what it was not before.
    virtual void WorkerIsReady(WorkerLink* worker) = 0;
    // The program cannot be run by any worker.
    virtual void ProgramIsBad(int program, const absl::Status& error) = 0;
  };

  WorkerLink(WorkerLinkOptions options, Watcher* watcher);
  ~WorkerLink();

  // Ends its thread, which waits for the steps that run: nothing calls the watcher after this. The
  // destructor does it, too.
  void Stop();
  WorkerLink(const WorkerLink&) = delete;
  WorkerLink& operator=(const WorkerLink&) = delete;

  const std::string& member() const { return options_.member; }
  const std::string& address() const { return options_.address; }

  // Has the program ready, soon. What is wanted already is left alone.
  void Want(int number, std::shared_ptr<const WorkerProgram> program);
  // The worker is there, has the program, and nothing speaks against it.
  bool CanRun(int program) const;
  // A step failed there in a way that a lost worker's would: it is asked at once, and can run
  // nothing until it has answered.
  void Suspect();
  // Runs the program. `done` is called once, on any thread; maybe before this returns, with
  // Unavailable, when the worker is not there any more. `cancellation` outlives the run.
  void Start(int program, std::vector<Tensor> feeds, CancellationManager* cancellation, Done done);
  // Why it is not there; OK: it is.
  absl::Status status() const;

 private:
  // The sessions with one incarnation of the worker's server.
  struct Connection;

  void Run();
  absl::StatusOr<std::shared_ptr<Connection>> Connect();
  // Until the worker is lost; OK: this ends.
  absl::Status Keep(const std::shared_ptr<Connection>& connection);
  // Makes what is wanted. An error is the worker's fault.
  absl::Status MakePrograms(const std::shared_ptr<Connection>& connection);
  // Lets go of it: its steps end with `reason`.
  void Drop(std::shared_ptr<Connection> connection, const absl::Status& reason);
  bool Pause(absl::Duration duration);

  const WorkerLinkOptions options_;
  Watcher* const watcher_;
  // Of the link's thread. It grows when it was too short: a server may be busy with a large graph,
  // or have gone in this moment.
  absl::Duration session_timeout_;

  mutable Mutex mu_;
  CondVar changed_;
  bool ends_ ABSL_GUARDED_BY(mu_) = false;
  bool is_suspect_ ABSL_GUARDED_BY(mu_) = false;
  absl::Status status_ ABSL_GUARDED_BY(mu_);
  std::map<int, std::shared_ptr<const WorkerProgram>> wanted_ ABSL_GUARDED_BY(mu_);
  std::set<int> bad_ ABSL_GUARDED_BY(mu_);
  std::shared_ptr<Connection> connection_ ABSL_GUARDED_BY(mu_);  // Null: it is not there.

  std::thread thread_;  // Last: it uses all of these.
};

}  // namespace tandem::parameter_server

#endif  // TANDEM_STRATEGIES_PARAMETER_SERVER_WORKER_LINK_H_
