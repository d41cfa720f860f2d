// StringStrip, without the blanks at both ends, and StringLength, in bytes or characters.
#include <string>

#include "absl/strings/ascii.h"
#include "core/base/status.h"
#include "core/kernel/factories.h"
#include "core/op/registry.h"
#include "core/op/shape_context.h"
#include "kernels/strings/map_strings.h"
#include "kernels/strings/unicode.h"

namespace tandem::strings {
namespace {

absl::Status Strip(KernelContext& c) {
  return MapStrings<std::string>(
      c, [](const std::string& text) { return std::string(absl::StripAsciiWhitespace(text)); });
}

class LengthKernel final : public Kernel {
 public:
  absl::Status Init(KernelInit& init) {
    in_characters_ = init.Attr<std::string>("unit") == "UTF8_CHAR";
    return absl::OkStatus();
  }

  absl::Status Compute(KernelContext& c) override {
    return MapStrings<int32_t>(c, [this](const std::string& text) {
      return static_cast<int32_t>(in_characters_ ? CountCharacters(text) : text.size());
    });
  }

 private:
  bool in_characters_ = false;
};

TANDEM_OP("StringStrip")
    .Inputs("input:string")
    .Outputs("output:string")
    .Shape(UnchangedShape)
    .NotDifferentiable()
    .HostMemory({"input", "output"})
    .Cpu(Function(Strip));

TANDEM_OP("StringLength")
    .Inputs("input:string")
    .Outputs("output:int32")
    .Attrs("unit:string{BYTE,UTF8_CHAR}=\"BYTE\"")
    .Shape(UnchangedShape)
    .NotDifferentiable()
    .HostMemory({"input", "output"})
    .Cpu(Make<LengthKernel>());

}  // namespace
}  // namespace tandem::strings
