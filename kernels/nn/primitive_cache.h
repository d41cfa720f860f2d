// A bounded cache of things that are costly to make and are known by some numbers: oneDNN
// primitives by shape, attributes and number of threads.
//
// Threads: any. A value is made outside the lock, so two threads that miss the same key at once
// make it twice, and the first one is kept. Lifetime: values are shared: one that is dropped (the
// least recently used goes first) lives on until its users are done with it.
#ifndef TANDEM_KERNELS_NN_PRIMITIVE_CACHE_H_
#define TANDEM_KERNELS_NN_PRIMITIVE_CACHE_H_

#include <cstdint>
#include <list>
#include <memory>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/container/inlined_vector.h"
#include "absl/status/statusor.h"
#include "core/base/mutex.h"
#include "core/base/status.h"

namespace tandem {

template <typename V>
class PrimitiveCache {
 public:
  using Key = absl::InlinedVector<int64_t, 32>;
  using Value = std::shared_ptr<const V>;

  explicit PrimitiveCache(size_t capacity) : capacity_(capacity) {}

  // The value of `key`; `make()` (a StatusOr<Value>) makes it where there is none. Its errors are
  // returned and not kept.
  template <typename Make>
  absl::StatusOr<Value> LookupOrMake(const Key& key, Make make) {
    {
      MutexLock lock(mu_);
      if (const auto found = index_.find(key); found != index_.end()) {
        entries_.splice(entries_.begin(), entries_, found->second);
        return entries_.front().second;
      }
    }
    TANDEM_ASSIGN_OR_RETURN(Value made, make());
    MutexLock lock(mu_);
    if (const auto found = index_.find(key); found != index_.end()) return found->second->second;
    entries_.emplace_front(key, std::move(made));
    index_.emplace(key, entries_.begin());
    if (entries_.size() > capacity_) {
      index_.erase(entries_.back().first);
      entries_.pop_back();
    }
    return entries_.front().second;
  }

  size_t size() const {
    MutexLock lock(mu_);
    return entries_.size();
  }

 private:
  using Entries = std::list<std::pair<Key, Value>>;  // Most recently used first.

  const size_t capacity_;
  mutable Mutex mu_;
  Entries entries_ ABSL_GUARDED_BY(mu_);
  absl::flat_hash_map<Key, typename Entries::iterator> index_ ABSL_GUARDED_BY(mu_);
};

}  // namespace tandem

#endif  // TANDEM_KERNELS_NN_PRIMITIVE_CACHE_H_
