#include "kernels/gpu/cublas.h"

#include <limits>
#include <memory>
#include <optional>

#include "core/base/status.h"
#include "kernels/gpu/library.h"

namespace tandem {
namespace {

constexpr char kTitle[] = "cuBLAS";

const cublas::Calls* calls_for_tests = nullptr;

absl::StatusOr<const cublas::Calls*> Open() {
  TANDEM_ASSIGN_OR_RETURN(void* const library,
                          OpenGpuLibrary(kTitle, {"libcublas.so.13", "libcublas.so.12"}));
  auto calls = std::make_unique<cublas::Calls>();
#define TANDEM_CUBLAS_FIND(name)                                                       \
  TANDEM_ASSIGN_OR_RETURN(void* const name, FindInGpuLibrary(library, kTitle, #name)); \
  calls->name = reinterpret_cast<decltype(calls->name)>(name)
  TANDEM_CUBLAS_FIND(cublasCreate_v2);
  TANDEM_CUBLAS_FIND(cublasDestroy_v2);
  TANDEM_CUBLAS_FIND(cublasSetStream_v2);
  TANDEM_CUBLAS_FIND(cublasGemmStridedBatchedEx);
#undef TANDEM_CUBLAS_FIND
  return static_cast<const cublas::Calls*>(calls.release());  // As long as the library.
}

absl::StatusOr<const cublas::Calls*> Calls() {
  if (calls_for_tests != nullptr) return calls_for_tests;
  static const absl::StatusOr<const cublas::Calls*> calls = Open();
  return calls;
}

absl::Status ToStatus(cublas::Status status, const char* call) {
  if (status == cublas::kSuccess) return absl::OkStatus();
  return errors::Internal("cuBLAS: ", call, " fails with status ", status);
}

// The library's state for one queue.
class CublasHandle {
 public:
  static absl::StatusOr<std::shared_ptr<CublasHandle>> Make(GpuQueue& queue) {
    TANDEM_ASSIGN_OR_RETURN(const cublas::Calls* const calls, Calls());
    auto made = std::shared_ptr<CublasHandle>(new CublasHandle(*calls));
    TANDEM_RETURN_IF_ERROR(ToStatus(calls->cublasCreate_v2(&made->handle_), "cublasCreate"));
    TANDEM_RETURN_IF_ERROR(
        ToStatus(calls->cublasSetStream_v2(made->handle_, queue.stream()), "cublasSetStream"));
    return made;
  }
  ~CublasHandle() {
    if (handle_ != nullptr) calls_.cublasDestroy_v2(handle_);
  }

  const cublas::Calls& calls() const { return calls_; }
  cublas::Handle get() const { return handle_; }

 private:
  explicit CublasHandle(const cublas::Calls& calls) : calls_(calls) {}

  const cublas::Calls& calls_;
  cublas::Handle handle_ = nullptr;
};

std::optional<int> TypeOf(DataType dtype) {
  switch (dtype) {
    case kFloat32:
      return cublas::kFloat32;
    case kFloat64:
      return cublas::kFloat64;
    case kFloat16:
      return cublas::kFloat16;
    case kBfloat16:
      return cublas::kBfloat16;
    default:
      return std::nullopt;
  }
}

}  // namespace

void SetCublas(const cublas::Calls* calls) { calls_for_tests = calls; }

bool HasGpuGemm(DataType dtype) { return TypeOf(dtype).has_value(); }

absl::Status RunGpuGemm(GpuQueue& queue, const GpuGemm& gemm) {
  const std::optional<int> type = TypeOf(gemm.dtype);
  if (!type.has_value()) {
    return errors::Unimplemented("no products of ", DataTypeName(gemm.dtype), " on a GPU");
  }
  if (gemm.m == 0 || gemm.n == 0 || gemm.batch == 0) return absl::OkStatus();
  if (gemm.k == 0) {
    const int64_t elements = gemm.batch * gemm.m * gemm.n;
    return queue.Fill(gemm.product, 0, static_cast<size_t>(elements) * DataTypeSize(gemm.dtype));
  }
  for (const int64_t size : {gemm.m, gemm.n, gemm.k, gemm.batch}) {
    if (size > std::numeric_limits<int>::max()) {
      return errors::Unimplemented("a product on a GPU with a dimension of ", size);
    }
  }
  TANDEM_ASSIGN_OR_RETURN(CublasHandle* const handle,
                          queue.Attached<CublasHandle>([&] { return CublasHandle::Make(queue); }));
  const bool in_double = gemm.dtype == kFloat64;
  const double one64 = 1, zero64 = 0;
  const float one32 = 1, zero32 = 0;
  const void* const one = in_double ? static_cast<const void*>(&one64) : &one32;
  const void* const zero = in_double ? static_cast<const void*>(&zero64) : &zero32;
  const int m = static_cast<int>(gemm.m);
  const int n = static_cast<int>(gemm.n);
  const int k = static_cast<int>(gemm.k);
  // What is row-major here is its own transpose there, so the product is computed as
  // (op(a) op(b))ᵀ = op(b)ᵀ op(a)ᵀ.
  return ToStatus(
      handle->calls().cublasGemmStridedBatchedEx(
          handle->get(), gemm.transpose_b ? cublas::kTransposed : cublas::kPlain,
          gemm.transpose_a ? cublas::kTransposed : cublas::kPlain, n, m, k, one, gemm.b, *type,
          gemm.transpose_b ? k : n, gemm.stride_b, gemm.a, *type, gemm.transpose_a ? m : k,
          gemm.stride_a, zero, gemm.product, *type, n, gemm.m * gemm.n,
          static_cast<int>(gemm.batch),
          in_double ? cublas::kComputeFloat64 : cublas::kComputeFloat32, cublas::kDefaultAlgorithm),
      "cublasGemmStridedBatchedEx");
}

}  // namespace tandem
