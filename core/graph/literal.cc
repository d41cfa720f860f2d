#include "core/graph/literal.h"

#include <cmath>
#include <limits>
#include <vector>

#include "absl/strings/str_cat.h"
#include "core/base/status.h"
#include "core/tensor/element_text.h"

namespace tandem {
namespace {

// Holds every number of 64 bits, whole or double, without loss on x86.
using Number = long double;
static_assert(std::numeric_limits<Number>::digits >= 64);

template <typename T>
bool Read(const Tensor& from, std::vector<Number>* numbers) {
  if (from.dtype() != DataTypeOf<T>()) return false;
  for (const T value : from.Elements<T>()) numbers->push_back(static_cast<Number>(value));
  return true;
}

bool ReadNumbers(const Tensor& from, std::vector<Number>* numbers) {
  return Read<float>(from, numbers) || Read<double>(from, numbers) ||
         Read<int32_t>(from, numbers) || Read<int64_t>(from, numbers) ||
         Read<uint8_t>(from, numbers) || Read<int8_t>(from, numbers) ||
         Read<uint16_t>(from, numbers) || Read<int16_t>(from, numbers) ||
         Read<uint32_t>(from, numbers) || Read<uint64_t>(from, numbers);
}

template <typename T>
bool Fits(Number number) {
  if constexpr (std::is_integral_v<T>) {
    return number == std::trunc(number) &&
           number >= static_cast<Number>(std::numeric_limits<T>::min()) &&
           number <= static_cast<Number>(std::numeric_limits<T>::max());
  }
  return true;
}

// True when `to` is of type T. Sets `misfit` to a number that does not fit, if there is one.
template <typename T, typename Step = T>
bool Write(const std::vector<Number>& numbers, Tensor* to, const Number** misfit) {
  if (to->dtype() != DataTypeOf<T>()) return false;
  T* next = to->MutableElements<T>().data();
  for (const Number& number : numbers) {
    if (!Fits<T>(number)) {
      *misfit = &number;
      return true;
    }
    *next++ = T(static_cast<Step>(number));
  }
  return true;
}

// Whole numbers of 64 bits in full.
std::string Text(Number number) {
  const bool whole = number == std::trunc(number) && std::abs(number) < 0x1p64L;
  if (whole && number < 0 && number >= -0x1p63L) return absl::StrCat(static_cast<int64_t>(number));
  if (whole && number >= 0) return absl::StrCat(static_cast<uint64_t>(number));
  return NumberText(static_cast<double>(number));
}

}  // namespace

absl::StatusOr<Tensor> ConvertLiteral(const Tensor& numbers, DataType dtype) {
  if (numbers.dtype() == dtype) return numbers;
  std::vector<Number> values;
  const Number* misfit = nullptr;
  if (IsSupported(dtype) && ReadNumbers(numbers, &values)) {
    Tensor to(dtype, numbers.shape());
    const bool known =
        Write<float>(values, &to, &misfit) || Write<double>(values, &to, &misfit) ||
        Write<int32_t>(values, &to, &misfit) || Write<int64_t>(values, &to, &misfit) ||
        Write<uint8_t>(values, &to, &misfit) || Write<int8_t>(values, &to, &misfit) ||
        Write<uint16_t>(values, &to, &misfit) || Write<int16_t>(values, &to, &misfit) ||
        Write<uint32_t>(values, &to, &misfit) || Write<uint64_t>(values, &to, &misfit) ||
        Write<Float16, float>(values, &to, &misfit) ||
        Write<Bfloat16, float>(values, &to, &misfit) ||
        Write<std::complex<float>, float>(values, &to, &misfit) ||
        Write<std::complex<double>, double>(values, &to, &misfit);
    if (misfit != nullptr) {
      return errors::InvalidArgument("the number ", Text(*misfit), " is no value of type ",
                                     DataTypeName(dtype));
    }
    if (known) return to;
  }
  return errors::InvalidArgument("a value of type ", DataTypeName(numbers.dtype()),
                                 " cannot be one of type ", DataTypeName(dtype));
}

}  // namespace tandem
