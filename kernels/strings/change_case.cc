// StringLower and StringUpper: of ASCII letters alone, or of all of UTF-8's.
#include <string>

#include "absl/strings/ascii.h"
#include "core/base/status.h"
#include "core/base/utf8.h"
#include "core/kernel/factories.h"
#include "core/op/registry.h"
#include "core/op/shape_context.h"
#include "kernels/strings/map_strings.h"
#include "kernels/strings/unicode.h"

namespace tandem::strings {
namespace {

struct Lower {
  static std::string Ascii(const std::string& text) { return absl::AsciiStrToLower(text); }
  static std::string Utf8(const std::string& text) { return Utf8Lower(text); }
};
struct Upper {
  static std::string Ascii(const std::string& text) { return absl::AsciiStrToUpper(text); }
  static std::string Utf8(const std::string& text) { return Utf8Upper(text); }
};

template <typename Case>
class CaseKernel final : public Kernel {
 public:
  absl::Status Init(KernelInit& init) {
    const std::string& encoding = init.Attr<std::string>("encoding");
    if (!encoding.empty() && encoding != "utf-8") {
      return errors::InvalidArgument("encoding is ", QuotedText(encoding),
                                     "; it must be \"utf-8\", or empty for ASCII");
    }
    utf8_ = !encoding.empty();
    return absl::OkStatus();
  }

  absl::Status Compute(KernelContext& c) override {
    return MapStrings<std::string>(c, utf8_ ? Case::Utf8 : Case::Ascii);
  }

 private:
  bool utf8_ = false;
};

TANDEM_OP("StringLower")
    .Inputs("input:string")
    .Outputs("output:string")
    .Attrs("encoding:string=\"\"")
    .Shape(UnchangedShape)
    .NotDifferentiable()
    .HostMemory({"input", "output"})
    .Cpu(Make<CaseKernel<Lower>>());

TANDEM_OP("StringUpper")
    .Inputs("input:string")
    .Outputs("output:string")
    .Attrs("encoding:string=\"\"")
    .Shape(UnchangedShape)
    .NotDifferentiable()
    .HostMemory({"input", "output"})
    .Cpu(Make<CaseKernel<Upper>>());

}  // namespace
}  // namespace tandem::strings
