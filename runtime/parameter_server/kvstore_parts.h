// What a KvStore is made of.
#ifndef TANDEM_RUNTIME_PARAMETER_SERVER_KVSTORE_PARTS_H_
#define TANDEM_RUNTIME_PARAMETER_SERVER_KVSTORE_PARTS_H_

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "absl/strings/str_cat.h"
#include "core/base/mutex.h"
#include "runtime/parameter_server/kvstore.h"

namespace tandem::parameter_server {

// For messages.
inline std::string TypeAndShape(const Tensor& tensor) {
  if (!tensor.is_valid()) return "nothing";
  return absl::StrCat(DataTypeName(tensor.dtype()), tensor.shape().DebugString());
}

// A key's rows on one server: a shard of its own there, whose versions count the key's updates.
struct KvStore::Part {
  int number = 0;
  size_t server = 0;
  int64_t offset = 0;  // Of its first row.
  Shape shape;

  // Under mu_.
  uint64_t incarnation = 0;
  int64_t version = 0;  // With all pushes of this store; for kAllWorkers.
  int64_t sequence = 0;
  std::set<int64_t> in_flight;
  // For kEachPush: one push at a time, and what came after it.
  bool is_busy = false;
  bool is_pumping = false;  // A thread takes what may start out of the queue.
  std::deque<std::pair<bool, absl::AnyInvocable<void()>>> queue;  // Whether it is a push.
};

struct KvStore::Key {
  std::string name;
  DataType dtype = DataType::kInvalid;
  Shape shape;
  std::vector<std::unique_ptr<Part>> parts;

  int64_t rows() const { return shape.rank() == 0 ? 0 : shape.dim(0); }
};

// The parts of one call.
class KvStore::Joint {
 public:
  Joint(KvStore* store, size_t parts,
        std::function<absl::StatusOr<Tensor>(std::vector<Tensor>)> join)
      : store_(store), join_(std::move(join)), values_(parts), left_(parts) {}

  const KvFuture& future() const { return future_; }

  void Done(size_t place, absl::StatusOr<Tensor> value) {
    absl::Status status;
    {
      MutexLock lock(mu_);
      if (value.ok()) {
        values_[place] = *std::move(value);
      } else if (status_.ok()) {
        status_ = value.status();
      }
      if (--left_ > 0) return;
      status = status_;
    }
    absl::StatusOr<Tensor> result =
        status.ok() ? join_(std::move(values_)) : absl::StatusOr<Tensor>(status);
    status = result.status();
    future_.Set(std::move(result));
    store_->End(status);
  }

 private:
  KvStore* const store_;
  const std::function<absl::StatusOr<Tensor>(std::vector<Tensor>)> join_;
  const KvFuture future_;
  Mutex mu_;
  std::vector<Tensor> values_;  // Each is written once; read when all are there.
  size_t left_ ABSL_GUARDED_BY(mu_);
  absl::Status status_ ABSL_GUARDED_BY(mu_);
};

}  // namespace tandem::parameter_server

#endif  // TANDEM_RUNTIME_PARAMETER_SERVER_KVSTORE_PARTS_H_
