#include "runtime/device/cuda/cuda_driver.h"

#include <dlfcn.h>

#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/inlined_vector.h"
#include "absl/strings/string_view.h"
#include "core/base/mutex.h"
#include "core/base/status.h"
#include "kernels/gpu/library.h"

namespace tandem {
namespace {

// What one of the driver's errors says, with the call it came from.
absl::Status ToStatus(const CudaCalls& calls, cuda::Result result, const std::string& what) {
  if (result == cuda::kSuccess) return absl::OkStatus();
  const char* name = nullptr;
  const char* text = nullptr;
  calls.cuGetErrorName(result, &name);
  calls.cuGetErrorString(result, &text);
  const std::string message =
      absl::StrCat("CUDA: ", what, ": ", name == nullptr ? "unknown error" : name, " (", result,
                   text == nullptr ? "" : absl::StrCat(": ", text), ")");
  return result == cuda::kOutOfMemory ? errors::ResourceExhausted(message)
                                      : errors::Internal(message);
}

// In a function that has `calls_`: calls the driver, and returns its error.
#define TANDEM_CUDA(call, ...)                                                      \
  do {                                                                              \
    const cuda::Result cuda_result = calls_.call(__VA_ARGS__);                      \
    if (cuda_result != cuda::kSuccess) return ToStatus(calls_, cuda_result, #call); \
  } while (false)

cuda::Stream Unwrap(GpuStream stream) { return reinterpret_cast<cuda::Stream>(stream); }
cuda::Event Unwrap(GpuEvent event) { return reinterpret_cast<cuda::Event>(event); }
cuda::DevicePointer Address(const void* memory) {
  return reinterpret_cast<cuda::DevicePointer>(memory);
}

class CudaContext final : public GpuContext {
 public:
  // Takes over one reference to the device's primary context.
  CudaContext(const CudaCalls& calls, cuda::Device device, cuda::Context context,
              GpuProperties properties)
      : calls_(calls), device_(device), context_(context), properties_(std::move(properties)) {}

  ~CudaContext() override {
    if (MakeCurrent().ok()) {
      MutexLock lock(mu_);
      for (const auto& [code, module] : modules_) calls_.cuModuleUnload(module);
    }
    calls_.cuDevicePrimaryCtxRelease_v2(device_);
  }

  const GpuProperties& properties() const override { return properties_; }

  absl::Status MakeCurrent() override {
    // One comparison for a thread that stays with one GPU; libraries may have changed it only to
    // the same.
    static thread_local cuda::Context current = nullptr;
    if (current == context_) return absl::OkStatus();
    TANDEM_CUDA(cuCtxSetCurrent, context_);
    current = context_;
    return absl::OkStatus();
  }

  absl::StatusOr<void*> Allocate(size_t bytes) override {
    TANDEM_RETURN_IF_ERROR(MakeCurrent());
    cuda::DevicePointer memory = 0;
    TANDEM_CUDA(cuMemAlloc_v2, &memory, bytes);
    return reinterpret_cast<void*>(memory);
  }
  void Free(void* memory) override {
    if (MakeCurrent().ok()) calls_.cuMemFree_v2(Address(memory));
  }
  absl::StatusOr<void*> AllocatePinned(size_t bytes) override {
    TANDEM_RETURN_IF_ERROR(MakeCurrent());
    void* memory = nullptr;
    TANDEM_CUDA(cuMemHostAlloc, &memory, bytes, 0);
    return memory;
  }
  void FreePinned(void* memory) override {
    if (MakeCurrent().ok()) calls_.cuMemFreeHost(memory);
  }

  absl::StatusOr<GpuStream> CreateStream() override {
    TANDEM_RETURN_IF_ERROR(MakeCurrent());
    cuda::Stream stream = nullptr;
    TANDEM_CUDA(cuStreamCreate, &stream, cuda::kStreamNonBlocking);
    return reinterpret_cast<GpuStream>(stream);
  }
  void DestroyStream(GpuStream stream) override {
    if (MakeCurrent().ok()) calls_.cuStreamDestroy_v2(Unwrap(stream));
  }
  absl::StatusOr<GpuEvent> CreateEvent() override {
    TANDEM_RETURN_IF_ERROR(MakeCurrent());
    cuda::Event event = nullptr;
    TANDEM_CUDA(cuEventCreate, &event, cuda::kEventBlockingSync | cuda::kEventDisableTiming);
    return reinterpret_cast<GpuEvent>(event);
  }
  void DestroyEvent(GpuEvent event) override {
    if (MakeCurrent().ok()) calls_.cuEventDestroy_v2(Unwrap(event));
  }
  absl::Status Record(GpuEvent event, GpuStream stream) override {
    TANDEM_RETURN_IF_ERROR(MakeCurrent());
    TANDEM_CUDA(cuEventRecord, Unwrap(event), Unwrap(stream));
    return absl::OkStatus();
  }
  absl::Status Wait(GpuStream stream, GpuEvent event) override {
    TANDEM_RETURN_IF_ERROR(MakeCurrent());
    TANDEM_CUDA(cuStreamWaitEvent, Unwrap(stream), Unwrap(event), 0);
    return absl::OkStatus();
  }
  absl::StatusOr<bool> Passed(GpuEvent event) override {
    TANDEM_RETURN_IF_ERROR(MakeCurrent());
    const cuda::Result result = calls_.cuEventQuery(Unwrap(event));
    if (result == cuda::kNotReady) return false;
    TANDEM_RETURN_IF_ERROR(ToStatus(calls_, result, "cuEventQuery"));
    return true;
  }
  absl::Status Synchronize(GpuEvent event) override {
    TANDEM_RETURN_IF_ERROR(MakeCurrent());
    TANDEM_CUDA(cuEventSynchronize, Unwrap(event));
    return absl::OkStatus();
  }

  absl::Status CopyToDevice(void* device, const void* host, size_t bytes,
                            GpuStream stream) override {
    TANDEM_RETURN_IF_ERROR(MakeCurrent());
    TANDEM_CUDA(cuMemcpyHtoDAsync_v2, Address(device), host, bytes, Unwrap(stream));
    return absl::OkStatus();
  }
  absl::Status CopyToHost(void* host, const void* device, size_t bytes, GpuStream stream) override {
    TANDEM_RETURN_IF_ERROR(MakeCurrent());
    TANDEM_CUDA(cuMemcpyDtoHAsync_v2, host, Address(device), bytes, Unwrap(stream));
    return absl::OkStatus();
  }
  absl::Status CopyOnDevice(void* to, const void* from, size_t bytes, GpuStream stream) override {
    TANDEM_RETURN_IF_ERROR(MakeCurrent());
    TANDEM_CUDA(cuMemcpyDtoDAsync_v2, Address(to), Address(from), bytes, Unwrap(stream));
    return absl::OkStatus();
  }
  absl::Status Fill(void* to, uint8_t value, size_t bytes, GpuStream stream) override {
    TANDEM_RETURN_IF_ERROR(MakeCurrent());
    TANDEM_CUDA(cuMemsetD8Async, Address(to), value, bytes, Unwrap(stream));
    return absl::OkStatus();
  }

  absl::Status Launch(const GpuFunctionBase& function, const GpuGrid& grid,
                      absl::Span<const GpuArgument> arguments, GpuStream stream) override {
    TANDEM_RETURN_IF_ERROR(MakeCurrent());
    TANDEM_ASSIGN_OR_RETURN(const cuda::Function loaded, Load(function));
    absl::InlinedVector<void*, 24> values;
    for (const GpuArgument& each : arguments) values.push_back(const_cast<void*>(each.value));
    const cuda::Result result =
        calls_.cuLaunchKernel(loaded, grid.blocks, 1, 1, grid.threads, 1, 1, /*shared_bytes=*/0,
                              Unwrap(stream), values.data(), nullptr);
    if (result == cuda::kSuccess) return absl::OkStatus();
    return ToStatus(calls_, result,
                    absl::StrCat("launching ", function.name, " with ", grid.blocks, " blocks of ",
                                 grid.threads, " threads"));
  }

 private:
  // The function on this device; its code is loaded when the first of its functions is wanted.
  absl::StatusOr<cuda::Function> Load(const GpuFunctionBase& function) {
    MutexLock lock(mu_);
    const auto known = functions_.find(absl::string_view(function.name));
    if (known != functions_.end()) return known->second;
    if (function.code->image == nullptr) {
      return errors::FailedPrecondition("this program holds no code for GPUs (", function.name,
                                        " of ", function.code->name,
                                        "); build it with tools/build --config=cuda");
    }
    cuda::Module& module = modules_[function.code];
    if (module == nullptr) {
      const cuda::Result result = calls_.cuModuleLoadData(&module, function.code->image);
      TANDEM_RETURN_IF_ERROR(
          ToStatus(calls_, result,
                   absl::StrCat("loading ", function.code->name, " on ", properties_.name, " (sm_",
                                properties_.major, properties_.minor, ")")));
    }
    cuda::Function loaded = nullptr;
    const cuda::Result result = calls_.cuModuleGetFunction(&loaded, module, function.name);
    TANDEM_RETURN_IF_ERROR(ToStatus(
        calls_, result, absl::StrCat("finding ", function.name, " in ", function.code->name)));
    functions_[function.name] = loaded;
    return loaded;
  }

  const CudaCalls& calls_;
  const cuda::Device device_;
  const cuda::Context context_;
  const GpuProperties properties_;

  Mutex mu_;
  std::map<const GpuCode*, cuda::Module> modules_ ABSL_GUARDED_BY(mu_);
  // By name, which is the program's only one. Kernels and their function objects come and go.
  absl::flat_hash_map<std::string, cuda::Function> functions_ ABSL_GUARDED_BY(mu_);
};

class CudaDriver final : public GpuPlatform {
 public:
  explicit CudaDriver(const CudaCalls& calls) : calls_(calls) {}

  absl::StatusOr<int> DeviceCount() override {
    int count = 0;
    TANDEM_CUDA(cuDeviceGetCount, &count);
    return count;
  }

  absl::StatusOr<std::unique_ptr<GpuContext>> Open(int ordinal) override {
    TANDEM_ASSIGN_OR_RETURN(const int count, DeviceCount());
    if (ordinal < 0 || ordinal >= count) {
      return errors::InvalidArgument("there is no GPU ", ordinal, "; the driver shows ", count);
    }
    cuda::Device device = 0;
    TANDEM_CUDA(cuDeviceGet, &device, ordinal);
    GpuProperties properties;
    char name[256] = "";
    TANDEM_CUDA(cuDeviceGetName, name, sizeof(name) - 1, device);
    properties.name = name;
    size_t memory = 0;
    TANDEM_CUDA(cuDeviceTotalMem_v2, &memory, device);
    properties.memory = static_cast<int64_t>(memory);
    TANDEM_CUDA(cuDeviceGetAttribute, &properties.multiprocessors, cuda::kMultiprocessorCount,
                device);
    TANDEM_CUDA(cuDeviceGetAttribute, &properties.major, cuda::kCapabilityMajor, device);
    TANDEM_CUDA(cuDeviceGetAttribute, &properties.minor, cuda::kCapabilityMinor, device);
    cuda::Context context = nullptr;
    TANDEM_CUDA(cuDevicePrimaryCtxRetain, &context, device);
    return std::unique_ptr<GpuContext>(
        new CudaContext(calls_, device, context, std::move(properties)));
  }

 private:
  const CudaCalls& calls_;
};

absl::StatusOr<GpuPlatform*> OpenPlatform() {
  TANDEM_ASSIGN_OR_RETURN(const CudaCalls* calls, OpenCudaCalls("libcuda.so.1"));
  const cuda::Result result = calls->cuInit(0);
  if (result == cuda::kNoDevice) return errors::Unavailable("the CUDA driver finds no GPU");
  if (result == cuda::kStubLibrary) {
    return errors::Unavailable(
        "no CUDA driver: libcuda.so.1 is the toolkit's stub; install NVIDIA's driver, or run on "
        "the CPU");
  }
  const absl::Status status = ToStatus(*calls, result, "cuInit");
  if (!status.ok()) return errors::Unavailable(status.message());
  return static_cast<GpuPlatform*>(new CudaDriver(*calls));  // For the life of the process.
}

}  // namespace

absl::StatusOr<const CudaCalls*> OpenCudaCalls(const std::string& library) {
  void* const opened = dlopen(library.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (opened == nullptr) {
    return errors::Unavailable("no CUDA driver: ", dlerror(),
                               "; install NVIDIA's driver, or run on the CPU");
  }
  const std::string title = absl::StrCat("the CUDA driver ", library);
  auto calls = std::make_unique<CudaCalls>();
#define TANDEM_CUDA_FIND(name, parameters)                                              \
  {                                                                                     \
    TANDEM_ASSIGN_OR_RETURN(void* const found, FindInGpuLibrary(opened, title, #name)); \
    calls->name = reinterpret_cast<decltype(calls->name)>(found);                       \
  }
  TANDEM_CUDA_CALLS(TANDEM_CUDA_FIND)
#undef TANDEM_CUDA_FIND
  // As long as the library, which is not closed.
  static Mutex mu;
  static auto* const opened_calls = new std::vector<std::unique_ptr<const CudaCalls>>();
  MutexLock lock(mu);
  opened_calls->push_back(std::move(calls));
  return opened_calls->back().get();
}

absl::StatusOr<GpuPlatform*> CudaPlatform() {
  static const absl::StatusOr<GpuPlatform*> platform = OpenPlatform();
  return platform;
}

}  // namespace tandem
