// StringFormat: a template in which each placeholder becomes the text of a tensor.
//
// The text has the form of NumPy: scalars as they are, vectors in brackets, the rows of a matrix on
// lines of their own; of long dimensions only the first and last `summarize` entries.
#include <algorithm>
#include <cmath>
#include <complex>
#include <cstdio>
#include <limits>
#include <string>
#include <tuple>
#include <type_traits>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/numbers.h"
#include "core/base/status.h"
#include "core/base/utf8.h"
#include "core/kernel/factories.h"
#include "core/op/registry.h"
#include "core/op/shape_context.h"
#include "core/tensor/element_text.h"

namespace tandem::strings {
namespace {

// The fewer of two numbers of digits that says `value` to the bit: TensorFlow's way.
template <typename T>
std::string FloatText(T value) {
  char text[40];
  constexpr int kDigits = std::numeric_limits<T>::digits10;
  std::snprintf(text, sizeof(text), "%.*g", kDigits, static_cast<double>(value));
  double read = 0;
  if (std::isfinite(value) && absl::SimpleAtod(text, &read) && static_cast<T>(read) != value) {
    std::snprintf(text, sizeof(text), "%.*g", kDigits + (sizeof(T) == sizeof(float) ? 3 : 2),
                  static_cast<double>(value));
  }
  return std::isnan(value) ? "nan" : text;
}

template <typename T>
std::string TextOf(const T& value) {
  if constexpr (std::is_same_v<T, std::string>) {
    return absl::StrCat("\"", absl::Utf8SafeCEscape(value), "\"");
  } else if constexpr (std::is_same_v<T, bool>) {
    return value ? "1" : "0";
  } else if constexpr (std::is_floating_point_v<T>) {
    return FloatText(value);
  } else if constexpr (kIsFloatingPoint<T>) {
    return FloatText(static_cast<float>(value));
  } else {
    return ElementText(value);
  }
}

// Appends the text of one element. By type, so that the layout is written once.
using AppendElement = void (*)(const Tensor& tensor, int64_t i, std::string* text);

template <typename T>
void Append(const Tensor& tensor, int64_t i, std::string* text) {
  text->append(TextOf(tensor.Elements<T>()[static_cast<size_t>(i)]));
}

AppendElement AppendFor(DataType dtype) {
  AppendElement function = nullptr;
  const auto try_types = [&]<typename... Ts>(std::tuple<Ts...>*) {
    ((dtype == DataTypeOf<Ts>() && (function = Append<Ts>, true)) || ...);
  };
  try_types(static_cast<
            std::tuple<float, double, int32_t, uint8_t, int16_t, int8_t, std::string,
                       std::complex<float>, int64_t, bool, Bfloat16, uint16_t, std::complex<double>,
                       Float16, ResourceHandle, Variant, uint32_t, uint64_t>*>(nullptr));
  return function;
}

class Writer {
 public:
  Writer(const Tensor& tensor, int64_t summarize)
      : tensor_(tensor),
        ends_(summarize < 0 ? tensor.num_elements() : std::min(summarize, tensor.num_elements())),
        append_(AppendFor(tensor.dtype())) {}

  std::string Write() {
    Dimension(0, 0);
    return std::move(text_);
  }

 private:
  // Appends what lies under the first `depth` dimensions, from element `first` on.
  void Dimension(int depth, int64_t first) {
    if (depth == tensor_.shape().rank()) {
      append_(tensor_, first, &text_);
      return;
    }
    const int64_t size = tensor_.shape().dim(depth);
    int64_t stride = 1;
    for (int i = depth + 1; i < tensor_.shape().rank(); ++i) stride *= tensor_.shape().dim(i);
    text_ += '[';
    for (int64_t i = 0; i < std::min(ends_, size); ++i) {
      if (i > 0) Separate(depth);
      Dimension(depth + 1, first + i * stride);
    }
    if (size > 2 * ends_) {
      Separate(depth);
      text_ += "...";
    }
    for (int64_t i = std::max(ends_, size - ends_); i < size; ++i) {
      Separate(depth);
      Dimension(depth + 1, first + i * stride);
    }
    text_ += ']';
  }

  // Between two entries of a dimension: a blank in the last one, else as many line ends as there
  // are dimensions below, and blanks under the brackets that are open.
  void Separate(int depth) {
    const int below = tensor_.shape().rank() - 1 - depth;
    if (below == 0) {
      text_ += ' ';
    } else {
      text_.append(static_cast<size_t>(below), '\n');
      text_.append(static_cast<size_t>(depth) + 1, ' ');
    }
  }

  const Tensor& tensor_;
  const int64_t ends_;  // How many entries are shown at each end of a dimension.
  const AppendElement append_;
  std::string text_;
};

class FormatKernel final : public Kernel {
 public:
  absl::Status Init(KernelInit& init) {
    const std::string& placeholder = init.Attr<std::string>("placeholder");
    absl::string_view rest = init.Attr<std::string>("template");
    summarize_ = init.Attr<int64_t>("summarize");
    if (placeholder.empty()) return errors::InvalidArgument("placeholder is empty");
    for (size_t end; (end = rest.find(placeholder)) != absl::string_view::npos;) {
      pieces_.emplace_back(rest.substr(0, end));
      rest.remove_prefix(end + placeholder.size());
    }
    pieces_.emplace_back(rest);
    if (static_cast<int>(pieces_.size()) - 1 == init.num_inputs()) return absl::OkStatus();
    return errors::InvalidArgument("the template ", QuotedText(init.Attr<std::string>("template")),
                                   " has ", pieces_.size() - 1, " placeholders ",
                                   QuotedText(placeholder), " for ", init.num_inputs(), " inputs");
  }

  absl::Status Compute(KernelContext& c) override {
    std::string text = pieces_[0];
    for (int i = 0; i < c.num_inputs(); ++i) {
      absl::StrAppend(&text, Writer(c.input(i), summarize_).Write(),
                      pieces_[static_cast<size_t>(i) + 1]);
    }
    c.SetOutput(0, Tensor::Scalar(std::move(text)));
    return absl::OkStatus();
  }

 private:
  std::vector<std::string> pieces_;  // What stands before, between and after the placeholders.
  int64_t summarize_ = 3;
};

TANDEM_OP("StringFormat")
    .Inputs("inputs:T")
    .Outputs("output:string")
    .Attrs("T:list(type)>=0; template:string=\"%s\"; placeholder:string=\"%s\"; summarize:int=3")
    .Shape(ScalarShape)
    .NotDifferentiable()
    .HostMemory({"inputs", "output"})
    .Cpu(Make<FormatKernel>());

}  // namespace
}  // namespace tandem::strings
