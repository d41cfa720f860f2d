#include "core/graph/function_library.h"

#include "core/base/status.h"
#include "google/protobuf/util/message_differencer.h"
#include "proto/function.pb.h"

namespace tandem {

FunctionLibrary::FunctionLibrary() = default;
FunctionLibrary::~FunctionLibrary() = default;

absl::Status FunctionLibrary::Add(const tensorflow::FunctionDef& function) {
  const std::string& name = function.signature().name();
  if (name.empty()) return errors::InvalidArgument("a function of the library has no name");
  MutexLock lock(mu_);
  const auto found = functions_.find(name);
  if (found == functions_.end()) {
    functions_.emplace(name, std::make_shared<const tensorflow::FunctionDef>(function));
    return absl::OkStatus();
  }
  if (google::protobuf::util::MessageDifferencer::Equals(*found->second, function)) {
    return absl::OkStatus();
  }
  return errors::InvalidArgument("function '", name,
                                 "' is in the library already, with another body");
}

std::shared_ptr<const tensorflow::FunctionDef> FunctionLibrary::Find(absl::string_view name) const {
  MutexLock lock(mu_);
  const auto found = functions_.find(std::string(name));
  return found == functions_.end() ? nullptr : found->second;
}

absl::Status FunctionLibrary::SetGradient(absl::string_view function, absl::string_view gradient) {
  MutexLock lock(mu_);
  const auto [entry, added] = gradients_.emplace(std::string(function), std::string(gradient));
  if (!added && entry->second != gradient) {
    return errors::InvalidArgument("function '", function, "' has the gradient '", entry->second,
                                   "' already; '", gradient, "' cannot be a second one");
  }
  return absl::OkStatus();
}

std::string FunctionLibrary::FindGradient(absl::string_view function) const {
  MutexLock lock(mu_);
  const auto found = gradients_.find(std::string(function));
  return found == gradients_.end() ? "" : found->second;
}

std::vector<std::string> FunctionLibrary::Names() const {
  MutexLock lock(mu_);
  std::vector<std::string> names;
  for (const auto& [name, function] : functions_) names.push_back(name);
  return names;
}

std::string FunctionLibrary::UniqueName(absl::string_view base) const {
  MutexLock lock(mu_);
  std::string name(base);
  for (int suffix = 1; functions_.count(name) != 0; ++suffix) {
    name = absl::StrCat(base, "_", suffix);
  }
  return name;
}

}  // namespace tandem
