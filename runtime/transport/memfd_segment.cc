#include "runtime/transport/memfd_segment.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include <cerrno>
#include <cinttypes>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <limits>
#include <utility>

#include "core/base/status.h"

namespace tandem {
namespace {

#ifndef MFD_NOEXEC_SEAL
constexpr unsigned MFD_NOEXEC_SEAL = 0x8;  // NOLINT: the kernel's name; older libraries lack it.
#endif

OwnedFd NewMemfd(const char* name) {
  constexpr unsigned kFlags = MFD_CLOEXEC | MFD_ALLOW_SEALING;
  // Nobody runs the file; some systems insist on hearing so, and older ones do not know the flag.
  OwnedFd fd(memfd_create(name, kFlags | MFD_NOEXEC_SEAL));
  if (!fd.is_valid() && errno == EINVAL) fd = OwnedFd(memfd_create(name, kFlags));
  return fd;
}

// Without swapping; what is not known is much.
uint64_t AvailableBytes() {
  uint64_t kibibytes = std::numeric_limits<uint64_t>::max() / 1024;
  std::FILE* const file = std::fopen("/proc/meminfo", "re");
  if (file == nullptr) return kibibytes * 1024;
  char line[128];
  while (std::fgets(line, sizeof(line), file) != nullptr) {
    if (std::sscanf(line, "MemAvailable: %" SCNu64 " kB", &kibibytes) == 1) break;
  }
  std::fclose(file);
  return kibibytes * 1024;
}

}  // namespace

absl::StatusOr<MemfdSegment> MemfdSegment::Create(const char* name, size_t bytes) {
  if (bytes == 0 || bytes > static_cast<size_t>(std::numeric_limits<off_t>::max())) {
    return errors::InvalidArgument("shared memory of ", bytes, " bytes cannot be made");
  }
  // The kernel would take the memory of everything else first.
  if (const uint64_t available = AvailableBytes(); bytes > available) {
    return errors::ResourceExhausted("no memory for ", bytes,
                                     " bytes that are shared with another process: the system has ",
                                     available);
  }
  OwnedFd fd = NewMemfd(name);
  if (!fd.is_valid()) {
    const std::string what = absl::StrCat("shared memory cannot be made: ", std::strerror(errno));
    if (errno == EMFILE || errno == ENFILE || errno == ENOMEM) {
      return errors::ResourceExhausted(what);
    }
    return errors::Unimplemented(what);
  }
  // A file that only has a size gets its pages when they are touched, and who touches one when
  // there is no memory dies of it.
  int result = 0;
  do {
    result = fallocate(fd.get(), 0, 0, static_cast<off_t>(bytes));
  } while (result != 0 && errno == EINTR);
  if (result != 0) {
    return errors::ResourceExhausted(
        "no memory for ", bytes,
        " bytes that are shared with another process: ", std::strerror(errno));
  }
  if (fcntl(fd.get(), F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) != 0) {
    return errors::Unimplemented("shared memory cannot be sealed: ", std::strerror(errno));
  }
  return Map(std::move(fd), bytes);
}

absl::StatusOr<MemfdSegment> MemfdSegment::Open(OwnedFd fd, size_t bytes) {
  struct stat file = {};
  const int seals = fcntl(fd.get(), F_GET_SEALS);
  if (seals < 0 || fstat(fd.get(), &file) != 0) {
    return errors::InvalidArgument("a descriptor that was passed is no shared memory: ",
                                   std::strerror(errno));
  }
  if ((seals & F_SEAL_SHRINK) == 0) {
    return errors::InvalidArgument(
        "shared memory that was passed can be shrunk by its owner (F_SEAL_SHRINK is not set)");
  }
  if (bytes == 0 || file.st_size < 0 || static_cast<size_t>(file.st_size) < bytes) {
    return errors::InvalidArgument("shared memory that was passed has ", file.st_size,
                                   " bytes; it was said to have ", bytes);
  }
  return Map(std::move(fd), bytes);
}

absl::StatusOr<MemfdSegment> MemfdSegment::Map(OwnedFd fd, size_t bytes) {
  // Populated at once: a fault for each page costs more than a copy of it.
  void* const data =
      mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, fd.get(), 0);
  if (data == MAP_FAILED) {
    return errors::ResourceExhausted("shared memory of ", bytes,
                                     " bytes cannot be mapped: ", std::strerror(errno));
  }
  return MemfdSegment(std::move(fd), data, bytes);
}

MemfdSegment::~MemfdSegment() {
  if (data_ != nullptr) munmap(data_, size_);
}

}  // namespace tandem
