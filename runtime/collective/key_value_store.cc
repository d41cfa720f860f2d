#include "runtime/collective/key_value_store.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/time/clock.h"
#include "core/base/status.h"

namespace tandem::collective {

absl::Status InMemoryStore::Put(const std::string& key, const std::string& value) {
  MutexLock lock(mu_);
  values_[key] = value;
  changed_.NotifyAll();
  return absl::OkStatus();
}

absl::StatusOr<std::string> InMemoryStore::Get(const std::string& key, absl::Time deadline) {
  MutexLock lock(mu_);
  for (;;) {
    const auto found = values_.find(key);
    if (found != values_.end()) return found->second;
    if (!changed_.WaitUntil(mu_, deadline) && values_.find(key) == values_.end()) {
      return errors::DeadlineExceeded("nobody has put '", key, "' there");
    }
  }
}

// Any key makes a name: what is no letter or digit is written as its number.
std::string FolderStore::PathOf(const std::string& key) const {
  std::string name;
  for (const char c : key) {
    const auto byte = static_cast<unsigned char>(c);
    if (absl::ascii_isalnum(byte)) {
      name.push_back(c);
    } else {
      absl::StrAppendFormat(&name, "_%02x", byte);
    }
  }
  return absl::StrCat(folder_, "/", name);
}

absl::Status FolderStore::Put(const std::string& key, const std::string& value) {
  const std::string path = PathOf(key);
  const std::string temporary = absl::StrCat(path, ".", getpid());
  // The group's nonce is among the values: nobody else reads it.
  const int fd = open(temporary.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
  std::FILE* const file = fd < 0 ? nullptr : fdopen(fd, "w");
  bool written = file != nullptr;
  if (written) written = std::fwrite(value.data(), 1, value.size(), file) == value.size();
  if (file != nullptr) written = std::fclose(file) == 0 && written;
  if (written) written = std::rename(temporary.c_str(), path.c_str()) == 0;
  if (!written) return absl::ErrnoToStatus(errno, absl::StrCat("writing ", path));
  return absl::OkStatus();
}

absl::StatusOr<std::string> FolderStore::Get(const std::string& key, absl::Time deadline) {
  const std::string path = PathOf(key);
  for (;;) {
    if (std::FILE* const file = std::fopen(path.c_str(), "re")) {
      std::string value;
      char room[1024];
      size_t got = 0;
      while ((got = std::fread(room, 1, sizeof(room), file)) > 0) value.append(room, got);
      std::fclose(file);
      return value;
    }
    if (absl::Now() > deadline) return errors::DeadlineExceeded(path, " has not been written");
    absl::SleepFor(absl::Milliseconds(2));
  }
}

}  // namespace tandem::collective
