#include "tools/flags/program_flags.h"

#include <cstdio>
#include <map>
#include <string>
#include <vector>

#include "absl/algorithm/container.h"
#include "absl/flags/reflection.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "core/base/status.h"
#include "core/base/version.h"
#include "core/op/registry.h"

namespace tandem {
namespace {

using Flags = std::map<std::string, absl::CommandLineFlag*>;

Flags FlagsOf(const Program& program) {
  Flags flags;
  for (const auto& [name, flag] : absl::GetAllFlags()) {
    if (absl::EndsWith(flag->Filename(), program.source_file)) flags.emplace(name, flag);
  }
  return flags;
}

// `text` in lines of at most so many characters, each behind `indent`.
std::string Wrapped(absl::string_view text, absl::string_view indent) {
  constexpr size_t kColumns = 96;
  std::string wrapped;
  std::string line(indent);
  for (const absl::string_view word : absl::StrSplit(text, ' ')) {
    if (line.size() > indent.size() && line.size() + 1 + word.size() > kColumns) {
      absl::StrAppend(&wrapped, line, "\n");
      line = std::string(indent);
    }
    absl::StrAppend(&line, line.size() > indent.size() ? " " : "", word);
  }
  return absl::StrCat(wrapped, line, "\n");
}

void PrintHelp(const Program& program, const Flags& flags) {
  std::printf("%s %s\n\nFlags:\n", program.name, program.usage);
  for (const auto& [name, flag] : flags) {
    const std::string value = flag->DefaultValue();
    const std::string normally = value.empty() ? "" : absl::StrCat(" (default: ", value, ")");
    std::printf("  --%s \n%s", name.c_str(),
                Wrapped(absl::StrCat(flag->Help(), normally), "      ").c_str());
  }
  std::printf("  --version \n%s", Wrapped("which version this is", "      ").c_str());
}

absl::Status SetFlags(const Program& program, const Flags& flags,
                      const std::vector<std::string>& words) {
  for (size_t i = 0; i < words.size(); ++i) {
    absl::string_view word = words[i];
    if (!absl::ConsumePrefix(&word, "--") && !absl::ConsumePrefix(&word, "-")) {
      return errors::InvalidArgument("'", word, "' is no flag; see --help");
    }
    const size_t equals = word.find('=');
    const bool has_value = equals != absl::string_view::npos;
    std::string name(word.substr(0, equals));
    std::string value(has_value ? word.substr(equals + 1) : "");
    auto flag = flags.find(name);
    const bool is_negated = flag == flags.end() && !has_value && absl::StartsWith(name, "no");
    if (is_negated) {
      flag = flags.find(name.substr(2));
      if (flag != flags.end() && !flag->second->IsOfType<bool>()) flag = flags.end();
    }
    if (flag == flags.end()) {
      std::vector<std::string> names;
      for (const auto& [known, unused] : flags) names.push_back(known);
      return errors::InvalidArgument("there is no flag --", name, DidYouMean(name, names));
    }
    if (flag->second->IsOfType<bool>() && !has_value) {
      value = is_negated ? "false" : "true";
    } else if (!has_value) {
      if (i + 1 == words.size()) {
        return errors::InvalidArgument("--", name, " wants a value: --", name, "=…");
      }
      value = words[++i];
    }
    if (value.empty() && absl::c_linear_search(program.not_empty, flag->first)) {
      return errors::InvalidArgument(
          "--", flag->first, "= is empty; leave the flag out, or name: ", flag->second->Help());
    }
    std::string error;
    if (!flag->second->ParseFrom(value, &error)) {
      return errors::InvalidArgument("--", flag->first, "=", value, " is no value of this flag",
                                     error.empty() ? "" : absl::StrCat(": ", error),
                                     "; it is: ", flag->second->Help());
    }
  }
  return absl::OkStatus();
}

}  // namespace

absl::optional<int> ParseProgramFlags(const Program& program, int argc, char** argv) {
  const std::vector<std::string> words(argv + (argc > 0 ? 1 : 0), argv + argc);
  const Flags flags = FlagsOf(program);
  for (const std::string& word : words) {
    if (word == "--help" || word == "-h" || word == "-help") {
      PrintHelp(program, flags);
      return 0;
    }
    if (word == "--version") {
      std::printf("%s %s\n", program.name, kVersion);
      return 0;
    }
  }
  const absl::Status status = SetFlags(program, flags, words);
  if (status.ok()) return absl::nullopt;
  std::fprintf(stderr, "%s: %s\n", program.name, std::string(status.message()).c_str());
  return 2;
}

}  // namespace tandem
