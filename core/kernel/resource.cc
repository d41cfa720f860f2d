#include "core/kernel/resource.h"

#include <algorithm>

namespace tandem {

namespace {

absl::Status NoSuchResource(absl::string_view container, absl::string_view name) {
  return errors::NotFound("there is no resource '", container, "/", name,
                          "' of the wanted kind on this device");
}

}  // namespace

absl::StatusOr<RefPtr<Resource>> ResourceManager::LookupAny(const Key& key) const {
  MutexLock lock(mu_);
  const auto found = resources_.find(key);
  if (found == resources_.end()) return NoSuchResource(std::get<0>(key), std::get<1>(key));
  return found->second;
}

absl::Status ResourceManager::DeleteKey(const Key& key) {
  RefPtr<Resource> doomed;  // Ends outside the lock.
  MutexLock lock(mu_);
  const auto found = resources_.find(key);
  if (found == resources_.end()) return NoSuchResource(std::get<0>(key), std::get<1>(key));
  doomed = std::move(found->second);
  doomed->set_forgotten();
  resources_.erase(found);
  return absl::OkStatus();
}

absl::Status ResourceManager::Delete(absl::string_view container, absl::string_view name,
                                     const Resource& resource) {
  if (container.empty()) container = kDefaultContainer;
  RefPtr<Resource> doomed;  // Ends outside the lock.
  MutexLock lock(mu_);
  for (auto entry = resources_.begin(); entry != resources_.end(); ++entry) {
    const auto& [in, under, type] = entry->first;
    if (entry->second.get() != &resource || in != container || under != name) continue;
    doomed = std::move(entry->second);
    doomed->set_forgotten();
    resources_.erase(entry);
    return absl::OkStatus();
  }
  return NoSuchResource(container, name);
}

void ResourceManager::ClearContainer(absl::string_view container) {
  std::vector<RefPtr<Resource>> doomed;
  MutexLock lock(mu_);
  for (auto entry = resources_.begin(); entry != resources_.end();) {
    if (std::get<0>(entry->first) == container) {
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
    list.push_back(
        absl::StrCat(std::get<0>(key), "/", std::get<1>(key), ": ", resource->DebugString()));
  }
  // Classes have no order that is the same in every process.
  std::sort(list.begin(), list.end());
  return list;
}

}  // namespace tandem
