#include "tools/cli/tensor_text.h"

#include <algorithm>
#include <cmath>
#include <complex>
#include <cstring>
#include <limits>
#include <type_traits>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "core/tensor/element_text.h"

namespace tandem::cli {
namespace {

using Json = nlohmann::json;

template <typename T>
constexpr bool kIsReal = std::is_arithmetic_v<T> || kIsFloatingPoint<T>;

// Calls `visit(T())` with the element type; not at all for handles and variants.
template <typename Visit>
void WithElementType(DataType dtype, Visit visit) {
  switch (dtype) {
#define TANDEM_CASE_(T) \
  case DataTypeOf<T>(): \
    visit(T());         \
    break;
    TANDEM_CASE_(float)
    TANDEM_CASE_(double)
    TANDEM_CASE_(int8_t)
    TANDEM_CASE_(int16_t)
    TANDEM_CASE_(int32_t)
    TANDEM_CASE_(int64_t)
    TANDEM_CASE_(uint8_t)
    TANDEM_CASE_(uint16_t)
    TANDEM_CASE_(uint32_t)
    TANDEM_CASE_(uint64_t)
    TANDEM_CASE_(bool)
    TANDEM_CASE_(Float16)
    TANDEM_CASE_(Bfloat16)
    TANDEM_CASE_(std::complex<float>)
    TANDEM_CASE_(std::complex<double>)
    TANDEM_CASE_(std::string)
#undef TANDEM_CASE_
    default:
      break;
  }
}

template <typename T>
Json ElementJson(const T& value) {
  if constexpr (kIsComplex<T>) {
    return Json::array({ElementJson(value.real()), ElementJson(value.imag())});
  } else if constexpr (kIsFloatingPoint<T>) {
    const auto number = static_cast<double>(value);
    if (std::isnan(number)) return "NaN";
    if (std::isinf(number)) return number > 0 ? "Infinity" : "-Infinity";
    // The digits of a float, not those of the double of the same value.
    double shortest = number;
    (void)absl::SimpleAtod(ElementText(value), &shortest);
    return shortest;
  } else {
    return value;
  }
}

// The elements from `*next` on as lists of the dimensions from `dim` on.
template <typename T>
Json Nested(const Tensor& tensor, int dim, size_t* next) {
  if (dim == tensor.shape().rank()) return ElementJson<T>(tensor.Elements<T>()[(*next)++]);
  Json list = Json::array();
  for (int64_t i = 0; i < tensor.shape().dim(dim); ++i) {
    list.push_back(Nested<T>(tensor, dim + 1, next));
  }
  return list;
}

// "[3,1,:]  " for row 7 of a tensor [5,2,n].
std::string RowPosition(const Shape& shape, int64_t row) {
  if (shape.rank() < 2) return "";
  std::string text = ":]  ";
  for (int i = shape.rank() - 2; i >= 0; --i) {
    text = absl::StrCat(row % shape.dim(i), ",", text);
    row /= shape.dim(i);
  }
  return "[" + text;
}

template <typename T>
TensorDifference Compare(const Tensor& a, const Tensor& b) {
  TensorDifference difference;
  if constexpr (kIsReal<T>) difference.largest = 0;
  const auto x = a.Elements<T>();
  const auto y = b.Elements<T>();
  for (size_t i = 0; i < x.size(); ++i) {
    if constexpr (std::is_same_v<T, std::string>) {
      difference.elements += x[i] != y[i];
    } else {
      if (std::memcmp(&x[i], &y[i], sizeof(T)) == 0) continue;
      ++difference.elements;
      if constexpr (kIsReal<T>) {
        const double gap = std::abs(static_cast<double>(x[i]) - static_cast<double>(y[i]));
        difference.largest = std::max(
            *difference.largest, std::isnan(gap) ? std::numeric_limits<double>::infinity() : gap);
      }
    }
  }
  return difference;
}

}  // namespace

std::string TensorText(const Tensor& tensor, int64_t max_values) {
  std::string text;
  WithElementType(tensor.dtype(), [&](auto type) {
    using T = decltype(type);
    const auto elements = tensor.Elements<T>();
    const Shape& shape = tensor.shape();
    const int64_t width = shape.IsScalar() ? 1 : shape.dim(shape.rank() - 1);
    const int64_t shown = std::min(tensor.num_elements(), max_values);
    for (int64_t i = 0; i < shown; ++i) {
      absl::StrAppend(&text, i % width == 0 ? RowPosition(shape, i / width) : " ",
                      ElementText<T>(elements[static_cast<size_t>(i)]));
      if ((i + 1) % width == 0 && i + 1 < shown) text += "\n";
    }
    if (shown < tensor.num_elements()) {
      absl::StrAppend(&text, shown == 0 ? "" : " ", "…");
    }
  });
  return text.empty() ? text : text + "\n";
}

Json TensorJson(const Tensor& tensor) {
  Json json;
  WithElementType(tensor.dtype(), [&](auto type) {
    size_t next = 0;
    json = Nested<decltype(type)>(tensor, 0, &next);
  });
  return json;
}

TensorDifference CompareTensors(const Tensor& a, const Tensor& b) {
  TensorDifference difference;
  WithElementType(a.dtype(), [&](auto type) { difference = Compare<decltype(type)>(a, b); });
  return difference;
}

}  // namespace tandem::cli
