// NoteKeeper: keeps a program's notes with a shard (Servers::SetNote), on a thread of its own: the
// newest one that it was given, as soon as the one before is there.
#ifndef TANDEM_STRATEGIES_PARAMETER_SERVER_NOTE_KEEPER_H_
#define TANDEM_STRATEGIES_PARAMETER_SERVER_NOTE_KEEPER_H_

#include <functional>
#include <string>
#include <thread>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "absl/types/optional.h"
#include "core/base/mutex.h"
#include "strategies/runner.h"

namespace tandem::parameter_server {

// Threads: any.
class NoteKeeper {
 public:
  // `send` is called on the thread of this, one at a time; it waits for a server that is lost.
  explicit NoteKeeper(std::function<absl::Status(const std::string& note)> send);
  // REQUIRES: `send` does not wait any more. A note that was not sent is given up.
  ~NoteKeeper();
  NoteKeeper(const NoteKeeper&) = delete;
  NoteKeeper& operator=(const NoteKeeper&) = delete;

  // Whether the last one is there, and some time has passed.
  bool IsDue() const;
  void Keep(std::string note);
  // Until the last one is there, or the deadline.
  void Flush(absl::Time deadline);

 private:
  void Run();

  const std::function<absl::Status(const std::string& note)> send_;
  mutable Mutex mu_;
  CondVar changed_;
  bool ends_ ABSL_GUARDED_BY(mu_) = false;
  bool is_sending_ ABSL_GUARDED_BY(mu_) = false;
  absl::optional<std::string> next_ ABSL_GUARDED_BY(mu_);
  absl::Time last_ ABSL_GUARDED_BY(mu_) = absl::InfinitePast();
  std::thread thread_;
};

// A note as the server keeps it. InvalidArgument: it holds what cannot be written. DataLoss: it is
// none.
absl::StatusOr<std::string> NoteToBytes(const StrategyState& note);
absl::StatusOr<StrategyState> NoteFromBytes(const std::string& bytes);

}  // namespace tandem::parameter_server

#endif  // TANDEM_STRATEGIES_PARAMETER_SERVER_NOTE_KEEPER_H_
