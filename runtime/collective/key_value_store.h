// KeyValueStore: what the members of a group need to find each other: a place where each leaves its
// addresses. gRPC's membership service is one; those here serve tests and tools.
#ifndef TANDEM_RUNTIME_COLLECTIVE_KEY_VALUE_STORE_H_
#define TANDEM_RUNTIME_COLLECTIVE_KEY_VALUE_STORE_H_

#include <map>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "core/base/mutex.h"

namespace tandem::collective {

// Threads: any.
class KeyValueStore {
 public:
  virtual ~KeyValueStore() = default;
  // Overwrites.
  virtual absl::Status Put(const std::string& key, const std::string& value) = 0;
  // Waits until the key is there. DeadlineExceeded: it is not.
  virtual absl::StatusOr<std::string> Get(const std::string& key, absl::Time deadline) = 0;
};

// Between the threads of one process.
class InMemoryStore final : public KeyValueStore {
 public:
  absl::Status Put(const std::string& key, const std::string& value) override;
  absl::StatusOr<std::string> Get(const std::string& key, absl::Time deadline) override;

 private:
  Mutex mu_;
  CondVar changed_;
  std::map<std::string, std::string> values_ ABSL_GUARDED_BY(mu_);
};

// Between processes that share a folder: a file for each key.
class FolderStore final : public KeyValueStore {
 public:
  // `folder` exists.
  explicit FolderStore(std::string folder) : folder_(std::move(folder)) {}

  absl::Status Put(const std::string& key, const std::string& value) override;
  absl::StatusOr<std::string> Get(const std::string& key, absl::Time deadline) override;

 private:
  std::string PathOf(const std::string& key) const;

  const std::string folder_;
};

}  // namespace tandem::collective

#endif  // TANDEM_RUNTIME_COLLECTIVE_KEY_VALUE_STORE_H_
