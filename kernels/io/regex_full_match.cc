// StaticRegexFullMatch: which strings a regular expression (RE2's syntax) matches as a whole.
#include <memory>
#include <string>

#include "core/base/status.h"
#include "core/kernel/factories.h"
#include "core/op/registry.h"
#include "core/op/shape_context.h"
#include "re2/re2.h"

namespace tandem::io {
namespace {

class FullMatchKernel final : public Kernel {
 public:
  absl::Status Init(KernelInit& init) {
    const std::string& pattern = init.Attr<std::string>("pattern");
    pattern_ = std::make_unique<re2::RE2>(pattern, re2::RE2::Quiet);
    if (pattern_->ok()) return absl::OkStatus();
    return errors::InvalidArgument("'", pattern, "' is no regular expression: ", pattern_->error());
  }

  absl::Status Compute(KernelContext& c) override {
    const Tensor& input = c.input(0);
    TANDEM_ASSIGN_OR_RETURN(Tensor * output, c.AllocateOutput(0, input.shape()));
    const auto strings = input.Elements<std::string>();
    const auto matches = output->MutableElements<bool>();
    constexpr double kNanosecondsPerString = 200;
    c.parallel().For(input.num_elements(), kNanosecondsPerString, [&](int64_t begin, int64_t end) {
      for (auto i = static_cast<size_t>(begin); i < static_cast<size_t>(end); ++i) {
        matches[i] = re2::RE2::FullMatch(strings[i], *pattern_);
      }
    });
    return absl::OkStatus();
  }

 private:
  std::unique_ptr<const re2::RE2> pattern_;
};

TANDEM_OP("StaticRegexFullMatch")
    .Inputs("input:string")
    .Outputs("output:bool")
    .Attrs("pattern:string")
    .Shape(UnchangedShape)
    .HostMemory({"input", "output"})
    .Cpu(Make<FullMatchKernel>());

}  // namespace
}  // namespace tandem::io
