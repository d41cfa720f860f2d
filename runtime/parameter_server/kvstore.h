// KvStore: tensors by key on parameter servers, for those who bring their own training loop. What
// is pushed to a key is a gradient, or whatever its updater takes; what is pulled is its value.
//
//   KvStoreOptions options;
//   options.job = "mine";
//   options.servers = {"host0:2222", "host1:2222"};
//   options.updater = SgdUpdater(0.1);
//   TANDEM_ASSIGN_OR_RETURN(auto store, KvStore::Create(options));
//   TANDEM_RETURN_IF_ERROR(store->Init("w", initial));
//   while (…) {
//     TANDEM_ASSIGN_OR_RETURN(const Tensor w, store->Pull("w"));
//     store->PushAsync("w", Gradient(w));
//   }
//   TANDEM_RETURN_IF_ERROR(store->WaitAll());
//
// Each worker has a store, with the same options but for its number, and calls Init for the same
// keys. A key lies on one server, by its hash; a large one is cut along its first dimension over
// all. Each push counts once, also when answers are lost and it is sent again.
//
// Pushes of a store to one key are applied in the order in which they were called, and a pull sees
// all that were called before it. With Aggregation::kAllWorkers it also waits for the others: the
// n-th push of each worker makes the n-th update, and a pull gives the value after as many updates
// as its worker has pushed.
//
// Threads: any. Lifetime: the destructor cancels what is not done, and waits for it.
#ifndef TANDEM_RUNTIME_PARAMETER_SERVER_KVSTORE_H_
#define TANDEM_RUNTIME_PARAMETER_SERVER_KVSTORE_H_

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "absl/types/optional.h"
#include "core/base/mutex.h"
#include "core/kernel/cancellation.h"
#include "core/kernel/parameter_store.h"
#include "core/tensor/tensor.h"
#include "runtime/parameter_server/kv_update.h"
#include "runtime/parameter_server/shard_client.h"
#include "runtime/rpc/security.h"

namespace tandem::parameter_server {

enum class Aggregation {
  kEachPush,    // Each push is an update.
  kAllWorkers,  // One push of each worker makes an update.
};

struct KvStoreOptions {
  std::string job;                   // Stores with another one have other keys.
  std::vector<std::string> servers;  // In the same order at all workers.
  int worker = 0;
  int workers = 1;
  Aggregation aggregation = Aggregation::kEachPush;
  KvUpdater updater = SumUpdater();
  std::shared_ptr<KvCompression> compression;  // Of dense gradients. Null: none.
  // A value with at least so many bytes, and as many rows as there are servers, is cut.
  int64_t min_cut_bytes = int64_t{1} << 20;
  // How long a call may take, with all repetitions and waiting for other workers.
  absl::Duration timeout = absl::Seconds(60);
  absl::optional<Security> security;  // None: as the environment says.
};

// What is not done yet. A value that may be copied; all copies are of the same call.
class KvFuture {
 public:
  KvFuture();
  bool is_done() const { return shared_->done.IsSet(); }
  // Waits for the end; of a push the tensor is not valid. Every call ends in its store's time.
  const absl::StatusOr<Tensor>& Wait() const;
  absl::Status status() const { return Wait().status(); }

 private:
  friend class KvStore;
  struct Shared {
    Event done;
    absl::StatusOr<Tensor> result = Tensor();
  };
  void Set(absl::StatusOr<Tensor> result) const;

  std::shared_ptr<Shared> shared_;
};

class KvStore {
 public:
  // InvalidArgument: options that make no sense. Servers need not be there yet.
  static absl::StatusOr<std::unique_ptr<KvStore>> Create(const KvStoreOptions& options);
  // The same over clients of its own, one for each of the servers, and a store that calls them.
  static absl::StatusOr<std::unique_ptr<KvStore>> Create(
      const KvStoreOptions& options, std::vector<std::unique_ptr<ShardClient>> clients,
      std::shared_ptr<ParameterStore> calls);
  ~KvStore();
  KvStore(const KvStore&) = delete;
  KvStore& operator=(const KvStore&) = delete;

  // Makes the key known to this store and the servers. It begins with the value of the worker that
  // comes first; those of the others only tell the type and shape, which have to be the same. May
  // be called again, after a server was lost, or a push of Aggregation::kAllWorkers has failed: a
  // key that the server does not have any more begins anew. InvalidArgument: it has another type or
  // shape. Unavailable, DeadlineExceeded: the server cannot be reached.
  absl::Status Init(const std::string& key, const Tensor& value);

  // NotFound: Init was not called for the key. InvalidArgument: a tensor does not fit it. Those of
  // ParameterStore::Call.
  KvFuture PushAsync(const std::string& key, const Tensor& gradient);
  KvFuture PullAsync(const std::string& key);
  // Some rows of a key: int64 indices [n], and values [n, …]. The same index may come several
  // times. InvalidArgument: an index is out of range, or the updater has no update by rows.
  KvFuture PushRowsAsync(const std::string& key, const Tensor& indices, const Tensor& values);
  KvFuture PullRowsAsync(const std::string& key, const Tensor& indices);

  // They wait.
  absl::Status Push(const std::string& key, const Tensor& gradient) {
    return PushAsync(key, gradient).status();
  }
  absl::StatusOr<Tensor> Pull(const std::string& key) { return PullAsync(key).Wait(); }
  absl::Status PushRows(const std::string& key, const Tensor& indices, const Tensor& values) {
    return PushRowsAsync(key, indices, values).status();
  }
  absl::StatusOr<Tensor> PullRows(const std::string& key, const Tensor& indices) {
    return PullRowsAsync(key, indices).Wait();
  }

  // Waits for all that was begun. The first error since the last call of it.
  absl::Status WaitAll();

 private:
  struct Part;
  struct Key;
  class Joint;
  using KeyPtr = std::shared_ptr<Key>;
  using JointPtr = std::shared_ptr<Joint>;
  // Of each part of a key, in order.
  using PartArguments = std::vector<absl::optional<std::vector<Tensor>>>;

  KvStore(const KvStoreOptions& options, std::vector<std::unique_ptr<ShardClient>> clients,
          std::shared_ptr<ParameterStore> calls);

  absl::StatusOr<KeyPtr> Find(const std::string& key) const ABSL_LOCKS_EXCLUDED(mu_);
  KeyPtr MakeKey(const std::string& name, const Tensor& value) const;
  absl::Status InitPart(const Key& key, Part& part, const Tensor& value) ABSL_LOCKS_EXCLUDED(mu_);
  // Where rows stand among `indices`, by part.
  static absl::StatusOr<std::vector<std::vector<int64_t>>> PositionsByPart(const Key& key,
                                                                           const Tensor& indices);
  // Calls the parts that have arguments. `join` makes the result of what they gave.
  KvFuture CallParts(const KeyPtr& key, const std::string& program, bool updates,
                     PartArguments arguments,
                     std::function<absl::StatusOr<Tensor>(std::vector<Tensor>)> join)
      ABSL_LOCKS_EXCLUDED(mu_);
  void CallPart(const KeyPtr& key, size_t place, const std::string& program, bool updates,
                std::vector<Tensor> arguments, const JointPtr& joint) ABSL_LOCKS_EXCLUDED(mu_);
  void PushEnded(Part& part, int64_t sequence) ABSL_LOCKS_EXCLUDED(mu_);
  // A call has ended; the last one may be followed by the end of this.
  void End(const absl::Status& status) ABSL_LOCKS_EXCLUDED(mu_);

  const KvStoreOptions options_;
  const uint64_t client_;  // Of the names of pushes.
  const std::vector<std::unique_ptr<ShardClient>> clients_;
  const std::shared_ptr<ParameterStore> calls_;
  CancellationManager cancellation_;

  mutable Mutex mu_;
  CondVar ended_;
  std::map<std::string, KeyPtr> keys_ ABSL_GUARDED_BY(mu_);
  int64_t begun_ ABSL_GUARDED_BY(mu_) = 0;  // And not ended.
  absl::Status first_error_ ABSL_GUARDED_BY(mu_);
};

}  // namespace tandem::parameter_server

#endif  // TANDEM_RUNTIME_PARAMETER_SERVER_KVSTORE_H_
