// MemfdSegment: memory that processes of one host share: an anonymous file of the kernel's, mapped
// for reading and writing.
//
// The file has no name in any file system: nothing is left of it when the last process that holds
// it is gone, killed ones included, and the size of /dev/shm does not matter. Its descriptor is
// passed over a Unix socket (fd_passing.h).
//
// All of its memory is taken from the system when it is made, and its size is sealed: whatever
// another holder does, no holder's access faults.
//
// Threads: distinct segments may be used from distinct threads. What is in the memory is for those
// who share it to settle; atomics that are free of locks work across processes.
#ifndef TANDEM_RUNTIME_TRANSPORT_MEMFD_SEGMENT_H_
#define TANDEM_RUNTIME_TRANSPORT_MEMFD_SEGMENT_H_

#include <cstddef>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "runtime/transport/fd_passing.h"

namespace tandem {

class MemfdSegment {
 public:
  // Zeros; a multiple of the page size is mapped. `name` shows in /proc/PID/maps. InvalidArgument:
  // `bytes` is 0. ResourceExhausted: no memory or no descriptor is left. Unimplemented: the kernel
  // has no such files, or they are forbidden.
  static absl::StatusOr<MemfdSegment> Create(const char* name, size_t bytes);
  // Maps the first `bytes` bytes of a segment that another process made. InvalidArgument: `fd` is
  // no such file, its size is not sealed, or it is smaller. ResourceExhausted: it cannot be mapped.
  static absl::StatusOr<MemfdSegment> Open(OwnedFd fd, size_t bytes);

  MemfdSegment() = default;
  MemfdSegment(MemfdSegment&& other) noexcept
      : fd_(std::move(other.fd_)),
        data_(std::exchange(other.data_, nullptr)),
        size_(std::exchange(other.size_, 0)) {}
  MemfdSegment& operator=(MemfdSegment&& other) noexcept {
    std::swap(fd_, other.fd_);
    std::swap(data_, other.data_);
    std::swap(size_, other.size_);
    return *this;
  }
  ~MemfdSegment();

  // Aligned to a page. Null: none.
  void* data() const { return data_; }
  size_t size() const { return size_; }  // Bytes, as asked for.
  // To be passed. The mapping needs it no longer: it can be closed when it was.
  OwnedFd& fd() { return fd_; }

 private:
  MemfdSegment(OwnedFd fd, void* data, size_t size)
      : fd_(std::move(fd)), data_(data), size_(size) {}
  static absl::StatusOr<MemfdSegment> Map(OwnedFd fd, size_t bytes);

  OwnedFd fd_;
  void* data_ = nullptr;
  size_t size_ = 0;
};

}  // namespace tandem

#endif  // TANDEM_RUNTIME_TRANSPORT_MEMFD_SEGMENT_H_
