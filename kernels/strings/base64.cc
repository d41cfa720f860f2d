// EncodeBase64 and DecodeBase64: bytes as text that may stand in addresses ("-" and "_" in place of
// "+" and "/"), with or without "=" at the end.
#include <string>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "core/base/status.h"
#include "core/base/utf8.h"
#include "core/kernel/factories.h"
#include "core/op/registry.h"
#include "core/op/shape_context.h"
#include "kernels/strings/map_strings.h"

namespace tandem::strings {
namespace {

class EncodeBase64Kernel final : public Kernel {
 public:
  absl::Status Init(KernelInit& init) {
    pad_ = init.Attr<bool>("pad");
    return absl::OkStatus();
  }

  absl::Status Compute(KernelContext& c) override {
    return MapStrings<std::string>(c, [this](const std::string& bytes) {
      std::string text = absl::WebSafeBase64Escape(bytes);
      while (pad_ && text.size() % 4 != 0) text.push_back('=');
      return text;
    });
  }

 private:
  bool pad_ = false;
};

// Whether all of `text` is of the alphabet, with as many "=" at its end as it takes, or none.
bool IsBase64(absl::string_view text) {
  const size_t size = text.size();
  while (!text.empty() && text.back() == '=') text.remove_suffix(1);
  const size_t padding = size - text.size();
  if (padding > 2 || (padding > 0 && size % 4 != 0) || text.size() % 4 == 1) return false;
  for (const char c : text) {
    if (!absl::ascii_isalnum(static_cast<unsigned char>(c)) && c != '-' && c != '_') return false;
  }
  return true;
}

absl::Status DecodeBase64(KernelContext& c) {
  const auto texts = c.input(0).Elements<std::string>();
  TANDEM_ASSIGN_OR_RETURN(Tensor * output, c.AllocateOutput(0, c.input(0).shape()));
  const auto bytes = output->MutableElements<std::string>();
  for (size_t i = 0; i < texts.size(); ++i) {
    if (IsBase64(texts[i]) && absl::WebSafeBase64Unescape(texts[i], &bytes[i])) continue;
    return errors::InvalidArgument("element ", i, ", ", QuotedText(texts[i].substr(0, 100)),
                                   ", is no base64 of the alphabet for addresses");
  }
  return absl::OkStatus();
}

TANDEM_OP("EncodeBase64")
    .Inputs("input:string")
    .Outputs("output:string")
    .Attrs("pad:bool=False")
    .Shape(UnchangedShape)
    .NotDifferentiable()
    .HostMemory({"input", "output"})
    .Cpu(Make<EncodeBase64Kernel>());

TANDEM_OP("DecodeBase64")
    .Inputs("input:string")
    .Outputs("output:string")
    .Shape(UnchangedShape)
    .NotDifferentiable()
    .HostMemory({"input", "output"})
    .Cpu(Function(DecodeBase64));

}  // namespace
}  // namespace tandem::strings
