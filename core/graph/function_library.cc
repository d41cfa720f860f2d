#include "core/graph/function_library.h"

#include "core/base/status.h"
#include "google/protobuf/util/message_differencer.h"
#include "proto/function.pb.h"

namespace tandem {

namespace {

bool Same(const tensorflow::FunctionDef& a, const tensorflow::FunctionDef& b) {
  return &a == &b || google::protobuf::util::MessageDifferencer::Equals(a, b);
}

absl::Status OtherBody(const std::string& function) {
  return errors::InvalidArgument("function '", function,
                                 "' is in the library already, with another body");
}

absl::Status OtherGradient(absl::string_view function, absl::string_view present,
                           absl::string_view second) {
  return errors::InvalidArgument("function '", function, "' has the gradient '", present,
                                 "' already; '", second, "' cannot be a second one");
}

}  // namespace

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
  return Same(*found->second, function) ? absl::OkStatus() : OtherBody(name);
}

std::shared_ptr<const tensorflow::FunctionDef> FunctionLibrary::Find(absl::string_view name) const {
  MutexLock lock(mu_);
  const auto found = functions_.find(std::string(name));
  return found == functions_.end() ? nullptr : found->second;
}

absl::Status FunctionLibrary::SetGradient(absl::string_view function, absl::string_view gradient) {
  MutexLock lock(mu_);
  const auto [entry, added] = gradients_.emplace(std::string(function), std::string(gradient));
  if (!added && entry->second != gradient) return OtherGradient(function, entry->second, gradient);
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

std::pair<FunctionLibrary::Functions, FunctionLibrary::Gradients> FunctionLibrary::Contents()
    const {
  MutexLock lock(mu_);
  return {functions_, gradients_};
}

std::shared_ptr<FunctionLibrary> FunctionLibrary::Clone() const {
  auto copy = std::make_shared<FunctionLibrary>();
  auto [functions, gradients] = Contents();
  MutexLock lock(copy->mu_);
  copy->functions_ = std::move(functions);
  copy->gradients_ = std::move(gradients);
  return copy;
}

absl::Status FunctionLibrary::Merge(const FunctionLibrary& other) {
  auto [functions, gradients] = other.Contents();
  MutexLock lock(mu_);
  for (const auto& [name, function] : functions) {
    const auto found = functions_.find(name);
    if (found != functions_.end() && !Same(*found->second, *function)) return OtherBody(name);
  }
  for (const auto& [name, gradient] : gradients) {
    const auto found = gradients_.find(name);
    if (found != gradients_.end() && found->second != gradient) {
      return OtherGradient(name, found->second, gradient);
    }
  }
  functions_.merge(functions);
  gradients_.merge(gradients);
  return absl::OkStatus();
}

}  // namespace tandem
