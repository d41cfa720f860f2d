#include "runtime/parameter_server/combine.h"

#include <algorithm>
#include <complex>
#include <cstring>
#include <string>
#include <type_traits>
#include <utility>

#include "core/base/status.h"
#include "runtime/threads/inner_loop.h"

namespace tandem::parameter_server {
namespace {

// What numbers of a type are added in.
template <typename T>
struct SumTypeOf {
  using Type = std::conditional_t<std::is_signed_v<T>, int64_t, uint64_t>;
};
template <>
struct SumTypeOf<Float16> {
  using Type = float;
};
template <>
struct SumTypeOf<Bfloat16> {
  using Type = float;
};
template <>
struct SumTypeOf<float> {
  using Type = float;
};
template <>
struct SumTypeOf<double> {
  using Type = double;
};
template <>
struct SumTypeOf<std::complex<float>> {
  using Type = std::complex<float>;
};
template <>
struct SumTypeOf<std::complex<double>> {
  using Type = std::complex<double>;
};

bool IsScaled(DataType dtype) { return IsFloating(dtype) || IsComplex(dtype); }

// Elements that are added at a time, and what one of them costs.
constexpr int64_t kBlock = 1024;
constexpr double kNanosecondsPerElement = 0.5;

// out = (values[0] + values[1] + …) * scale / divisor; scale counts for what IsScaled. `out` may be
// the memory of values[0].
template <typename T>
void AddElements(absl::Span<const T* const> values, int64_t count, double scale, int64_t divisor,
                 T* out) {
  using Sum = typename SumTypeOf<T>::Type;
  const double cost =
      kNanosecondsPerElement * static_cast<double>(kBlock) * static_cast<double>(values.size());
  InnerLoopRunner()->For((count + kBlock - 1) / kBlock, cost, [&](int64_t begin, int64_t end) {
    Sum sums[kBlock];
    for (int64_t block = begin; block < end; ++block) {
      const int64_t first = block * kBlock;
      const int64_t size = std::min(kBlock, count - first);
      for (int64_t i = 0; i < size; ++i) sums[i] = static_cast<Sum>(values[0][first + i]);
      for (size_t v = 1; v < values.size(); ++v) {
        const T* const value = values[v] + first;
        for (int64_t i = 0; i < size; ++i) sums[i] += static_cast<Sum>(value[i]);
      }
      if constexpr (!std::is_integral_v<Sum>) {
        if (scale != 1) {
          for (int64_t i = 0; i < size; ++i) sums[i] *= static_cast<Sum>(scale);
        }
      }
      if (divisor != 1) {
        for (int64_t i = 0; i < size; ++i) sums[i] /= static_cast<Sum>(divisor);
      }
      for (int64_t i = 0; i < size; ++i) out[first + i] = static_cast<T>(sums[i]);
    }
  });
}

template <typename T>
void AddTensors(const std::vector<Tensor>& values, double scale, int64_t divisor, Tensor& out) {
  std::vector<const T*> elements;
  for (const Tensor& value : values) elements.push_back(value.Elements<T>().data());
  AddElements<T>(elements, values[0].num_elements(), scale, divisor,
                 out.MutableElements<T>().data());
}

// Calls `body` with a null pointer of the C++ type. False: it is no number.
template <typename Body>
bool WithNumberType(DataType dtype, Body body) {
  switch (dtype) {
#define TANDEM_CASE_(enumerator, T) \
  case DataType::enumerator:        \
    body(static_cast<T*>(nullptr)); \
    return true;
    TANDEM_CASE_(kFloat16, Float16)
    TANDEM_CASE_(kBfloat16, Bfloat16)
    TANDEM_CASE_(kFloat32, float)
    TANDEM_CASE_(kFloat64, double)
    TANDEM_CASE_(kComplex64, std::complex<float>)
    TANDEM_CASE_(kComplex128, std::complex<double>)
    TANDEM_CASE_(kInt8, int8_t)
    TANDEM_CASE_(kInt16, int16_t)
    TANDEM_CASE_(kInt32, int32_t)
    TANDEM_CASE_(kInt64, int64_t)
    TANDEM_CASE_(kUint8, uint8_t)
    TANDEM_CASE_(kUint16, uint16_t)
    TANDEM_CASE_(kUint32, uint32_t)
    TANDEM_CASE_(kUint64, uint64_t)
#undef TANDEM_CASE_
    default:
      return false;
  }
}

absl::StatusOr<Tensor> Add(std::vector<Tensor> values, double scale, int64_t divisor) {
  if (values.size() == 1 && (scale == 1 || !IsScaled(values[0].dtype()))) {
    return std::move(values[0]);
  }
  Tensor out;
  if (values[0].OwnsBufferAlone()) {
    out = values[0];
  } else {
    TANDEM_ASSIGN_OR_RETURN(out, Tensor::Create(values[0].dtype(), values[0].shape()));
  }
  const bool added = WithNumberType(out.dtype(), [&](auto* type) {
    AddTensors<std::remove_pointer_t<decltype(type)>>(values, scale, divisor, out);
  });
  if (!added) return errors::InvalidArgument("no numbers: ", DataTypeName(out.dtype()));
  return out;
}

absl::StatusOr<Tensor> Concatenate(std::vector<Tensor> values, double scale) {
  const bool scaled = scale != 1 && IsScaled(values[0].dtype());
  if (values.size() == 1 && !scaled) return std::move(values[0]);
  Shape::Dims dims(values[0].shape().dims().begin(), values[0].shape().dims().end());
  dims[0] = 0;
  for (const Tensor& value : values) {
    if (__builtin_add_overflow(dims[0], value.shape().dim(0), &dims[0])) {
      return errors::InvalidArgument("the rows of ", values.size(), " parts are too many");
    }
  }
  TANDEM_ASSIGN_OR_RETURN(const Shape shape, Shape::FromDims(dims));
  TANDEM_ASSIGN_OR_RETURN(Tensor out, Tensor::Create(values[0].dtype(), shape));
  int64_t at = 0;
  for (const Tensor& value : values) {
    Tensor rows = out.Slice(at, at + value.shape().dim(0));
    at += value.shape().dim(0);
    if (value.num_elements() == 0) continue;
    if (scaled) {
      WithNumberType(value.dtype(), [&](auto* type) {
        AddTensors<std::remove_pointer_t<decltype(type)>>({value}, scale, 1, rows);
      });
    } else if (value.dtype() == kString) {
      absl::Span<const std::string> texts = value.Elements<std::string>();
      std::copy(texts.begin(), texts.end(), rows.MutableElements<std::string>().begin());
    } else {
      std::memcpy(rows.mutable_data(), value.data(), value.num_bytes());
    }
  }
  return out;
}

}  // namespace

absl::Status CheckCombination(Combination combination, DataType dtype) {
  switch (combination) {
    case SUM:
    case MEAN:
      if (WithNumberType(dtype, [](auto*) {})) return absl::OkStatus();
      break;
    case CONCAT:
      if (dtype == kString || (IsSupported(dtype) && IsTriviallyCopyable(dtype))) {
        return absl::OkStatus();
      }
      break;
    case FIRST:
      return absl::OkStatus();
    default:
      return errors::InvalidArgument("there is no combination ", static_cast<int>(combination));
  }
  return errors::InvalidArgument("values of type ", DataTypeName(dtype), " cannot be combined by ",
                                 Combination_Name(combination));
}

absl::Status CheckFits(Combination combination, const Tensor& other, const Tensor& argument,
                       absl::string_view where) {
  bool fits = argument.dtype() == other.dtype();
  if (combination == CONCAT) {
    fits = fits && other.shape().rank() >= 1 && argument.shape().rank() == other.shape().rank() &&
           argument.shape().dims().subspan(1) == other.shape().dims().subspan(1);
  } else {
    fits = fits && argument.shape() == other.shape();
  }
  if (fits) return absl::OkStatus();
  return errors::InvalidArgument(where, " is ", DataTypeName(argument.dtype()),
                                 argument.shape().DebugString(), ", which does not fit ",
                                 DataTypeName(other.dtype()), other.shape().DebugString(),
                                 " of an earlier part (", Combination_Name(combination), ")");
}

absl::StatusOr<Tensor> Combine(Combination combination, std::vector<Tensor> values, double scale) {
  switch (combination) {
    case SUM:
      return Add(std::move(values), scale, 1);
    case MEAN: {
      const auto count = static_cast<int64_t>(values.size());
      return Add(std::move(values), 1, count);
    }
    case CONCAT:
      return Concatenate(std::move(values), scale);
    default:
      return std::move(values[0]);
  }
}

}  // namespace tandem::parameter_server
