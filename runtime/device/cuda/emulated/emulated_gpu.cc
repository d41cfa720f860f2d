#include "runtime/device/cuda/emulated/emulated_gpu.h"

#include <cstdlib>
#include <cstring>
#include <deque>
#include <functional>
#include <map>
#include <set>
#include <utility>
#include <vector>

#include "core/base/mutex.h"
#include "core/base/status.h"
#include "core/kernel/gpu_emulation.h"
#include "runtime/device/cuda/emulated/emulated_memory.h"

namespace tandem {

class EmulatedGpuContext;

namespace {

// What CUDA allows.
constexpr uint32_t kMostThreads = 1024;
constexpr uint32_t kMostBlocks = 0x7fffffff;

struct Stream;

// A point of a stream: what was the `index`-th piece of work on it, counted from 1, is done.
struct Point {
  std::shared_ptr<Stream> stream;
  int64_t index = 0;
};

struct Work {
  std::function<absl::Status()> run;  // Or:
  Point wait;
};

struct Stream {
  EmulatedGpuContext* context = nullptr;
  std::deque<Work> queued;
  int64_t put = 0;   // Pieces of work ever put on it.
  int64_t done = 0;  // And carried out.
};

struct EventState {
  Point point;
};

std::shared_ptr<Stream>& StreamOf(GpuStream stream) {
  return *reinterpret_cast<std::shared_ptr<Stream>*>(stream);
}
EventState& StateOf(GpuEvent event) { return *reinterpret_cast<EventState*>(event); }

// All emulated memory of the process, for EmulatedAddress.
struct AllMemory {
  Mutex mu;
  std::set<const EmulatedMemory*> memories ABSL_GUARDED_BY(mu);
};
AllMemory& Memories() {
  static auto* const memories = new AllMemory();
  return *memories;
}

}  // namespace

struct EmulatedGpuPlatform::Fault {
  Mutex mu;
  std::string function ABSL_GUARDED_BY(mu);
};

class EmulatedGpuContext final : public GpuContext {
 public:
  EmulatedGpuContext(EmulatedGpuPlatform& platform, int ordinal,
                     std::unique_ptr<EmulatedMemory> memory)
      : platform_(platform), memory_(std::move(memory)) {
    properties_.name = absl::StrCat("emulated GPU ", ordinal);
    properties_.memory = platform.options_.memory;
    properties_.multiprocessors = platform.options_.multiprocessors;
    AllMemory& all = Memories();
    MutexLock lock(all.mu);
    all.memories.insert(memory_.get());
  }
  ~EmulatedGpuContext() override {
    AllMemory& all = Memories();
    MutexLock lock(all.mu);
    all.memories.erase(memory_.get());
  }

  const GpuProperties& properties() const override { return properties_; }
  absl::Status MakeCurrent() override { return absl::OkStatus(); }

  absl::StatusOr<void*> Allocate(size_t bytes) override {
    MutexLock lock(mu_);
    platform_.counts_.allocations.fetch_add(1, std::memory_order_relaxed);
    void* const memory = memory_->Allocate(bytes);
    if (memory == nullptr) return errors::ResourceExhausted("emulated: CUDA_ERROR_OUT_OF_MEMORY");
    return memory;
  }
  void Free(void* memory) override {
    MutexLock lock(mu_);
    for (const auto& stream : streams_) RunUntilLocked({stream, stream->put});
    if (!memory_->Free(memory)) NoteLocked(errors::Internal("freed what was not allocated"));
  }
  absl::StatusOr<void*> AllocatePinned(size_t bytes) override {
    void* const memory = std::malloc(bytes);
    if (memory == nullptr) return errors::ResourceExhausted("no pinned memory");
    MutexLock lock(mu_);
    pinned_[static_cast<char*>(memory)] = bytes;
    return memory;
  }
  void FreePinned(void* memory) override {
    MutexLock lock(mu_);
    pinned_.erase(static_cast<char*>(memory));
    std::free(memory);
  }

  absl::StatusOr<GpuStream> CreateStream() override {
    auto* const stream = new std::shared_ptr<Stream>(std::make_shared<Stream>());
    (*stream)->context = this;
    MutexLock lock(mu_);
    streams_.insert(*stream);
    return reinterpret_cast<GpuStream>(stream);
  }
  void DestroyStream(GpuStream stream) override {
    MutexLock lock(mu_);
    RunUntilLocked({StreamOf(stream), StreamOf(stream)->put});
    streams_.erase(StreamOf(stream));
    delete &StreamOf(stream);
  }
  absl::StatusOr<GpuEvent> CreateEvent() override {
    return reinterpret_cast<GpuEvent>(new EventState());
  }
  void DestroyEvent(GpuEvent event) override { delete &StateOf(event); }
  absl::Status Record(GpuEvent event, GpuStream stream) override {
    MutexLock lock(mu_);
    StateOf(event).point = {StreamOf(stream), StreamOf(stream)->put};
    return error_;
  }
  absl::Status Wait(GpuStream stream, GpuEvent event) override {
    MutexLock lock(mu_);
    Work work;
    work.wait = StateOf(event).point;
    PutLocked(stream, std::move(work));
    return error_;
  }
  absl::StatusOr<bool> Passed(GpuEvent event) override {
    MutexLock lock(mu_);
    if (!error_.ok()) return error_;
    const Point& point = StateOf(event).point;
    return point.stream == nullptr || point.stream->done >= point.index;
  }
  absl::Status Synchronize(GpuEvent event) override {
    MutexLock lock(mu_);
    platform_.counts_.waits_of_host.fetch_add(1, std::memory_order_relaxed);
    RunUntilLocked(StateOf(event).point);
    return error_;
  }

  absl::Status CopyToDevice(void* device, const void* host, size_t bytes,
                            GpuStream stream) override {
    platform_.counts_.copies_in.fetch_add(1, std::memory_order_relaxed);
    MutexLock lock(mu_);
    if (!IsPinnedLocked(host, bytes)) return errors::Internal("a copy from memory not pinned");
    return CopyLocked(device, host, bytes, stream);
  }
  absl::Status CopyToHost(void* host, const void* device, size_t bytes, GpuStream stream) override {
    platform_.counts_.copies_out.fetch_add(1, std::memory_order_relaxed);
    MutexLock lock(mu_);
    if (!IsPinnedLocked(host, bytes)) return errors::Internal("a copy to memory not pinned");
    return CopyLocked(host, device, bytes, stream);
  }
  absl::Status CopyOnDevice(void* to, const void* from, size_t bytes, GpuStream stream) override {
    MutexLock lock(mu_);
    return CopyLocked(to, from, bytes, stream);
  }
  absl::Status Fill(void* to, uint8_t value, size_t bytes, GpuStream stream) override {
    MutexLock lock(mu_);
    if (!memory_->Holds(to, bytes)) return errors::Internal("a fill outside the device's memory");
    PutLocked(stream, {[inside = memory_->Inside(to), value, bytes] {
                         std::memset(inside, value, bytes);
                         return absl::OkStatus();
                       },
                       {}});
    return error_;
  }

  absl::Status Launch(const GpuFunctionBase& function, const GpuGrid& grid,
                      absl::Span<const GpuArgument> arguments, GpuStream stream) override {
    platform_.counts_.launches.fetch_add(1, std::memory_order_relaxed);
    const EmulatedGpuFunction* const emulated = FindEmulatedGpuFunction(function.name);
    if (emulated == nullptr) {
      return errors::Internal("emulated: no function ", function.name, " in this program; link ",
                              function.code->name, "'s emulation");
    }
    if (grid.blocks < 1 || grid.blocks > kMostBlocks || grid.threads < 1 ||
        grid.threads > kMostThreads) {
      return errors::Internal("emulated: ", function.name, " with ", grid.blocks, " blocks of ",
                              grid.threads, " threads");
    }
    MutexLock lock(mu_);
    // Values are copied at the launch, as the driver does it.
    std::vector<std::vector<char>> values;
    if (arguments.size() != emulated->argument_sizes.size()) {
      return errors::Internal("emulated: ", function.name, " takes ",
                              emulated->argument_sizes.size(), " arguments and gets ",
                              arguments.size());
    }
    for (size_t i = 0; i < arguments.size(); ++i) {
      const GpuArgument& argument = arguments[i];
      if (argument.size != emulated->argument_sizes[i]) {
        return errors::Internal("emulated: argument ", i, " of ", function.name, " has ",
                                emulated->argument_sizes[i], " bytes and gets ", argument.size);
      }
      std::vector<char> value(static_cast<const char*>(argument.value),
                              static_cast<const char*>(argument.value) + argument.size);
      if (argument.is_address) {
        void* address = nullptr;
        std::memcpy(&address, value.data(), sizeof(address));
        if (address != nullptr) {
          if (!memory_->Holds(address, 0)) {
            return errors::Internal("emulated: argument ", i, " of ", function.name,
                                    " is no address of the device");
          }
          address = memory_->Inside(address);
          std::memcpy(value.data(), &address, sizeof(address));
        }
      }
      values.push_back(std::move(value));
    }
    PutLocked(stream, {[this, emulated, grid, name = std::string(function.name),
                        values = std::move(values)] { return Run(*emulated, name, grid, values); },
                       {}});
    return error_;
  }

  absl::Status RunOnStream(GpuStream stream, std::function<void()> work) {
    MutexLock lock(mu_);
    PutLocked(stream, {[work = std::move(work)] {
                         work();
                         return absl::OkStatus();
                       },
                       {}});
    return error_;
  }

 private:
  absl::Status Run(const EmulatedGpuFunction& function, const std::string& name,
                   const GpuGrid& grid, const std::vector<std::vector<char>>& values) {
    {
      MutexLock lock(platform_.fault_->mu);
      if (name == platform_.fault_->function) {
        return errors::Internal("emulated: CUDA_ERROR_ILLEGAL_ADDRESS");
      }
    }
    platform_.counts_.runs.fetch_add(1, std::memory_order_relaxed);
    std::vector<const void*> arguments;
    for (const std::vector<char>& value : values) arguments.push_back(value.data());
    GpuPosition& at = EmulatedPosition();
    at.blocks = grid.blocks;
    at.threads = grid.threads;
    for (at.block = 0; at.block < at.blocks; ++at.block) {
      for (at.thread = 0; at.thread < (function.in_phases ? 1 : at.threads); ++at.thread) {
        function.call(arguments);
      }
    }
    return absl::OkStatus();
  }

  absl::Status CopyLocked(void* to, const void* from, size_t bytes, GpuStream stream)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
    const auto inside = [&](const void* address) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
      return memory_->Holds(address, bytes) ? memory_->Inside(address) : nullptr;
    };
    void* const from_inside = inside(from);
    void* const to_inside = inside(to);
    if (from_inside == nullptr && !IsPinnedLocked(from, bytes)) {
      return errors::Internal("emulated: a copy from memory that is nobody's");
    }
    if (to_inside == nullptr && !IsPinnedLocked(to, bytes)) {
      return errors::Internal("emulated: a copy to memory that is nobody's");
    }
    PutLocked(stream, {[source = from_inside != nullptr ? from_inside : from,
                        target = to_inside != nullptr ? to_inside : to, bytes] {
                         std::memcpy(target, source, bytes);
                         return absl::OkStatus();
                       },
                       {}});
    return error_;
  }

  bool IsPinnedLocked(const void* host, size_t bytes) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
    char* const at = const_cast<char*>(static_cast<const char*>(host));
    const auto after = pinned_.upper_bound(at);
    if (after == pinned_.begin()) return false;
    const auto& [begin, size] = *std::prev(after);
    return at + bytes <= begin + size;
  }

  void PutLocked(GpuStream stream, Work work) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
    StreamOf(stream)->queued.push_back(std::move(work));
    ++StreamOf(stream)->put;
  }

  // Runs what is needed for `point` to be passed, and nothing else.
  void RunUntilLocked(const Point& point) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
    if (point.stream == nullptr) return;
    while (point.stream->done < point.index) {
      Work work = std::move(point.stream->queued.front());
      point.stream->queued.pop_front();
      // A wait's own stream stands still meanwhile.
      if (work.run == nullptr) {
        RunUntilLocked(work.wait);
      } else if (error_.ok()) {
        NoteLocked(work.run());
      }
      ++point.stream->done;
    }
  }

  void NoteLocked(absl::Status status) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
    if (error_.ok()) error_ = std::move(status);
  }

  EmulatedGpuPlatform& platform_;
  GpuProperties properties_;

  Mutex mu_;
  // Inside() is for any thread.
  const std::unique_ptr<EmulatedMemory> memory_;
  std::map<char*, size_t> pinned_ ABSL_GUARDED_BY(mu_);
  std::set<std::shared_ptr<Stream>> streams_ ABSL_GUARDED_BY(mu_);
  absl::Status error_ ABSL_GUARDED_BY(mu_);  // Stays.
};

EmulatedGpuPlatform::EmulatedGpuPlatform(const Options& options)
    : options_(options), fault_(std::make_unique<Fault>()) {}
EmulatedGpuPlatform::~EmulatedGpuPlatform() = default;

absl::StatusOr<std::unique_ptr<GpuContext>> EmulatedGpuPlatform::Open(int ordinal) {
  if (ordinal < 0 || ordinal >= options_.devices) {
    return errors::InvalidArgument("there is no GPU ", ordinal, "; the driver shows ",
                                   options_.devices);
  }
  TANDEM_ASSIGN_OR_RETURN(std::unique_ptr<EmulatedMemory> memory,
                          EmulatedMemory::Create(static_cast<size_t>(options_.memory)));
  return std::unique_ptr<GpuContext>(new EmulatedGpuContext(*this, ordinal, std::move(memory)));
}

void EmulatedGpuPlatform::BreakAt(std::string function) {
  MutexLock lock(fault_->mu);
  fault_->function = std::move(function);
}

void* EmulatedAddress(void* device_address) {
  AllMemory& all = Memories();
  MutexLock lock(all.mu);
  for (const EmulatedMemory* memory : all.memories) {
    if (void* const inside = memory->Inside(device_address)) return inside;
  }
  return device_address;
}

absl::Status RunOnEmulatedStream(void* stream, std::function<void()> work) {
  const auto handle = static_cast<GpuStream>(stream);
  return StreamOf(handle)->context->RunOnStream(handle, std::move(work));
}

}  // namespace tandem
