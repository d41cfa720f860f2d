// RegexReplace, StaticRegexReplace and RegexFullMatch: regular expressions in RE2's syntax.
#include <memory>
#include <string>
#include <utility>

#include "absl/strings/ascii.h"
#include "core/base/status.h"
#include "core/base/utf8.h"
#include "core/kernel/factories.h"
#include "core/op/registry.h"
#include "core/op/shape_context.h"
#include "kernels/strings/map_strings.h"
#include "re2/re2.h"

namespace tandem::strings {
namespace {

using Regex = std::unique_ptr<const re2::RE2>;

absl::StatusOr<Regex> ParsePattern(const std::string& pattern) {
  Regex regex = std::make_unique<re2::RE2>(pattern, re2::RE2::Quiet);
  if (regex->ok()) return regex;
  return errors::InvalidArgument(QuotedText(pattern),
                                 " is no regular expression: ", regex->error());
}

// What stands before an escape that is none, or all: with the rest RE2 does nothing but complain on
// the error stream.
std::string GoodPart(const std::string& rewrite) {
  for (size_t i = 0; i < rewrite.size(); ++i) {
    if (rewrite[i] != '\\') continue;
    const char next = i + 1 < rewrite.size() ? rewrite[i + 1] : '\0';
    if (next != '\\' && !absl::ascii_isdigit(static_cast<unsigned char>(next))) {
      return rewrite.substr(0, i);
    }
    ++i;
  }
  return rewrite;
}

absl::Status Replace(KernelContext& c, const re2::RE2& regex, const std::string& rewrite,
                     bool all) {
  // Nothing is replaced by a group that there is not.
  const bool is_good = re2::RE2::MaxSubmatch(rewrite) <= regex.NumberOfCapturingGroups();
  const std::string good = GoodPart(rewrite);
  return MapStrings<std::string>(c, [&](const std::string& text) {
    std::string replaced = text;
    if (!is_good) return replaced;
    if (all) {
      re2::RE2::GlobalReplace(&replaced, regex, good);
    } else {
      re2::RE2::Replace(&replaced, regex, good);
    }
    return replaced;
  });
}

class StaticReplaceKernel final : public Kernel {
 public:
  absl::Status Init(KernelInit& init) {
    rewrite_ = init.Attr<std::string>("rewrite");
    all_ = init.Attr<bool>("replace_global");
    TANDEM_ASSIGN_OR_RETURN(regex_, ParsePattern(init.Attr<std::string>("pattern")));
    return absl::OkStatus();
  }

  absl::Status Compute(KernelContext& c) override { return Replace(c, *regex_, rewrite_, all_); }

 private:
  Regex regex_;
  std::string rewrite_;
  bool all_ = true;
};

absl::StatusOr<std::string> ScalarText(const Tensor& tensor, absl::string_view name) {
  if (tensor.shape().IsScalar()) return tensor.ScalarValue<std::string>();
  return errors::InvalidArgument(name, " must be a scalar; it has shape ",
                                 tensor.shape().DebugString());
}

class ReplaceKernel final : public Kernel {
 public:
  absl::Status Init(KernelInit& init) {
    all_ = init.Attr<bool>("replace_global");
    return absl::OkStatus();
  }

  absl::Status Compute(KernelContext& c) override {
    TANDEM_ASSIGN_OR_RETURN(const std::string pattern, ScalarText(c.input(1), "pattern"));
    TANDEM_ASSIGN_OR_RETURN(const std::string rewrite, ScalarText(c.input(2), "rewrite"));
    TANDEM_ASSIGN_OR_RETURN(const Regex regex, ParsePattern(pattern));
    return Replace(c, *regex, rewrite, all_);
  }

 private:
  bool all_ = true;
};

absl::Status FullMatch(KernelContext& c) {
  TANDEM_ASSIGN_OR_RETURN(const std::string pattern, ScalarText(c.input(1), "pattern"));
  TANDEM_ASSIGN_OR_RETURN(const Regex regex, ParsePattern(pattern));
  return MapStrings<bool>(
      c, [&](const std::string& text) { return re2::RE2::FullMatch(text, *regex); });
}

absl::Status WithScalars(ShapeContext& c) {
  for (int i = 1; i < c.num_inputs(); ++i) TANDEM_RETURN_IF_ERROR(c.RequireRank(i, 0));
  return UnchangedShape(c);
}

TANDEM_OP("StaticRegexReplace")
    .Inputs("input:string")
    .Outputs("output:string")
    .Attrs("pattern:string; rewrite:string; replace_global:bool=True")
    .Shape(UnchangedShape)
    .NotDifferentiable()
    .HostMemory({"input", "output"})
    .Cpu(Make<StaticReplaceKernel>());

TANDEM_OP("RegexReplace")
    .Inputs("input:string, pattern:string, rewrite:string")
    .Outputs("output:string")
    .Attrs("replace_global:bool=True")
    .Shape(WithScalars)
    .NotDifferentiable()
    .HostMemory({"input", "pattern", "rewrite", "output"})
    .Cpu(Make<ReplaceKernel>());

TANDEM_OP("RegexFullMatch")
    .Inputs("input:string, pattern:string")
    .Outputs("output:bool")
    .Shape(WithScalars)
    .NotDifferentiable()
    .HostMemory({"input", "pattern", "output"})
    .Cpu(Function(FullMatch));

}  // namespace
}  // namespace tandem::strings
