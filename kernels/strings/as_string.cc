// AsString: numbers and the like as text, as C's printf writes them.
#include <complex>
#include <cstdio>
#include <string>
#include <type_traits>

#include "core/base/status.h"
#include "core/base/utf8.h"
#include "core/kernel/factories.h"
#include "core/op/registry.h"
#include "core/op/shape_context.h"
#include "core/tensor/element_text.h"

namespace tandem::strings {
namespace {

// The longest text that width or precision may ask for: they come from outside, and hold for every
// element.
constexpr int64_t kMaxDigits = 1 << 16;

template <typename T>
constexpr bool kHasDigits = kIsFloatingPoint<T> || kIsComplex<T> || std::is_same_v<T, std::string>;

// `value` by printf's `format`. REQUIRES: the format has one conversion, for its type.
template <typename T>
std::string Print(const std::string& format, T value) {
  char small[64];
  const int size = std::snprintf(small, sizeof(small), format.c_str(), value);
  if (size < 0) return "";
  if (static_cast<size_t>(size) < sizeof(small)) return std::string(small, size);
  std::string large(static_cast<size_t>(size) + 1, '\0');
  std::snprintf(large.data(), large.size(), format.c_str(), value);
  large.pop_back();
  return large;
}

template <typename T>
class AsStringKernel final : public Kernel {
 public:
  absl::Status Init(KernelInit& init) {
    const int64_t precision = init.Attr<int64_t>("precision");
    const int64_t width = init.Attr<int64_t>("width");
    const bool scientific = init.Attr<bool>("scientific");
    const bool shortest = init.Attr<bool>("shortest");
    const std::string& fill = init.Attr<std::string>("fill");
    if (!kHasDigits<T> && (scientific || shortest || precision >= 0)) {
      return errors::InvalidArgument("precision, scientific and shortest are for floating-point ",
                                     "numbers; the input is ", DataTypeName(DataTypeOf<T>()));
    }
    if (scientific && shortest) {
      return errors::InvalidArgument(
          "scientific and shortest are both set; one notation is wanted");
    }
    constexpr absl::string_view kFills = " +-0#";
    if (fill.size() > 1 || (fill.size() == 1 && kFills.find(fill[0]) == absl::string_view::npos)) {
      return errors::InvalidArgument("fill is ", QuotedText(fill), "; it must be one of \"", kFills,
                                     "\" or empty");
    }
    if (width > kMaxDigits || precision > kMaxDigits) {
      return errors::InvalidArgument("width is ", width, " and precision ", precision,
                                     "; neither may be above ", kMaxDigits);
    }
    if (width > 0) width_ = static_cast<size_t>(width);
    if (precision >= 0) most_bytes_ = static_cast<size_t>(precision);
    left_ = fill == "-";
    format_ = absl::StrCat("%", fill);
    if (width >= 0) absl::StrAppend(&format_, width);
    if (precision >= 0) absl::StrAppend(&format_, ".", precision);
    format_ += Conversion(scientific, shortest);
    return absl::OkStatus();
  }

  absl::Status Compute(KernelContext& c) override {
    const Tensor& input = c.input(0);
    TANDEM_ASSIGN_OR_RETURN(Tensor * output, c.AllocateOutput(0, input.shape()));
    const auto values = input.Elements<T>();
    const auto texts = output->MutableElements<std::string>();
    constexpr double kNanosecondsPerValue = 200;
    c.parallel().For(input.num_elements(), kNanosecondsPerValue, [&](int64_t begin, int64_t end) {
      for (auto i = static_cast<size_t>(begin); i < static_cast<size_t>(end); ++i) {
        texts[i] = Text(values[i]);
      }
    });
    return absl::OkStatus();
  }

 private:
  static const char* Conversion(bool scientific, bool shortest) {
    if constexpr (kIsFloatingPoint<T> || kIsComplex<T>) {
      return scientific ? "e" : shortest ? "g" : "f";
    } else if constexpr (std::is_integral_v<T> && !std::is_same_v<T, bool>) {
      return std::is_signed_v<T> ? "lld" : "llu";
    } else {
      return "s";
    }
  }

  std::string Text(const T& value) const {
    if constexpr (std::is_same_v<T, bool>) {
      return value ? "true" : "false";
    } else if constexpr (std::is_same_v<T, Variant>) {
      return value.DebugString();
    } else if constexpr (std::is_same_v<T, std::string>) {
      // Not by printf, for which a string ends with its first zero.
      std::string text = value.substr(0, most_bytes_);
      const size_t blanks = width_ > text.size() ? width_ - text.size() : 0;
      text.insert(left_ ? text.size() : 0, blanks, ' ');
      return text;
    } else if constexpr (kIsComplex<T>) {
      return absl::StrCat("(", Print(format_, static_cast<double>(value.real())), ",",
                          Print(format_, static_cast<double>(value.imag())), ")");
    } else if constexpr (std::is_floating_point_v<T>) {
      return Print(format_, static_cast<double>(value));
    } else if constexpr (kIsFloatingPoint<T>) {
      return Print(format_, static_cast<double>(static_cast<float>(value)));
    } else if constexpr (std::is_signed_v<T>) {
      return Print(format_, static_cast<long long>(value));
    } else {
      return Print(format_, static_cast<unsigned long long>(value));
    }
  }

  std::string format_;
  // The same for strings.
  size_t width_ = 0;
  size_t most_bytes_ = std::string::npos;
  bool left_ = false;
};

TANDEM_OP("AsString")
    .Inputs("input:T")
    .Outputs("output:string")
    .Attrs(
        "T:type{float32,float64,int32,uint8,int16,int8,int64,bfloat16,uint16,float16,uint32,uint64,"
        "complex64,complex128,bool,variant,string}; precision:int=-1; scientific:bool=False; "
        "shortest:bool=False; width:int=-1; fill:string=\"\"")
    .Shape(UnchangedShape)
    .NotDifferentiable()
    .HostMemory({"input", "output"})
    .Cpu(ByType<AsStringKernel, float, double, int32_t, uint8_t, int16_t, int8_t, int64_t, Bfloat16,
                uint16_t, Float16, uint32_t, uint64_t, std::complex<float>, std::complex<double>,
                bool, Variant, std::string>("T"));

}  // namespace
}  // namespace tandem::strings
