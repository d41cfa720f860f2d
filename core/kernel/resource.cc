#include "core/kernel/resource.h"

namespace tandem {

absl::StatusOr<RefPtr<Resource>> ResourceManager::LookupAny(const Key& key) const {
  MutexLock lock(mu_);
  const auto found = resources_.find(key);
  if (found == resources_.end()) {
    return errors::NotFound("there is no resource '", key.first, "/", key.second,
                            "' on this device");
  }
  return found->second;
}

absl::Status ResourceManager::Delete(absl::string_view container, absl::string_view name) {
  const Key key(container.empty() ? std::string(kDefaultContainer) : std::string(container),
                std::string(name));
  RefPtr<Resource> doomed;  // Ends outside the lock.
  MutexLock lock(mu_);
  const auto found = resources_.find(key);
  if (found == resources_.end()) {
    return errors::NotFound("there is no resource '", key.first, "/", key.second,
                            "' on this device");
  }
  doomed = std::move(found->second);
  doomed->set_forgotten();
  resources_.erase(found);
  return absl::OkStatus();
}

void ResourceManager::ClearContainer(absl::string_view container) {
  std::vector<RefPtr<Resource>> doomed;
  MutexLock lock(mu_);
  for (auto entry = resources_.begin(); entry != resources_.end();) {
    if (entry->first.first == container) {
      entry->second->set_forgotten();
      doomed.push_back(std::move(entry->second));
      entry = resources_.erase(entry);
    } else {
      ++entry;
    }
  }
}

void ResourceManager::ClearAll() {
  std::map<Key, RefPtr<Resource>> doomed;
  MutexLock lock(mu_);
  for (const auto& [key, resource] : resources_) resource->set_forgotten();
  doomed.swap(resources_);
}

std::vector<std::string> ResourceManager::List() const {
  MutexLock lock(mu_);
  std::vector<std::string> list;
  for (const auto& [key, resource] : resources_) {
    list.push_back(absl::StrCat(key.first, "/", key.second, ": ", resource->DebugString()));
  }
  return list;
}

}  // namespace tandem
