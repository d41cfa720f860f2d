#include "runtime/checkpoint/load.h"

#include <memory>
#include <set>
#include <utility>

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "core/base/status.h"
#include "core/op/registry.h"

namespace tandem {
namespace {

// As many names as a person reads.
std::string List(const std::vector<std::string>& names) {
  constexpr size_t kMost = 20;
  const size_t shown = std::min(names.size(), kMost);
  return absl::StrCat(
      absl::StrJoin(names.begin(), names.begin() + static_cast<int64_t>(shown), ", "),
      names.size() > shown ? absl::StrCat(" and ", names.size() - shown, " more") : std::string());
}

std::string TypeAndShape(DataType dtype, const Shape& shape) {
  return absl::StrCat(DataTypeName(dtype), shape.DebugString());
}

absl::Status CheckNames(absl::Span<const WantedTensor> wanted, const LoadOptions& options) {
  std::vector<std::string> names;
  for (const WantedTensor& tensor : wanted) names.push_back(tensor.name);
  for (const auto& [name, in_checkpoint] : options.names) {
    if (absl::c_linear_search(names, name)) continue;
    return errors::InvalidArgument("the map of names has '", name, "', which the program has not",
                                   DidYouMean(name, names));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<LoadedTensors> LoadFrom(const Checkpoint& checkpoint,
                                       absl::Span<const WantedTensor> wanted,
                                       const LoadOptions& options) {
  TANDEM_RETURN_IF_ERROR(CheckNames(wanted, options));
  LoadedTensors loaded;
  loaded.prefix = checkpoint.prefix();
  std::set<std::string> used;
  std::vector<std::string> differences;
  std::vector<std::pair<const WantedTensor*, std::string>> keys;
  for (const WantedTensor& tensor : wanted) {
    const auto mapped = options.names.find(tensor.name);
    const std::string& name = mapped == options.names.end() ? tensor.name : mapped->second;
    const absl::StatusOr<std::string> key = checkpoint.Resolve(name);
    const BundleEntry* const entry = key.ok() ? checkpoint.bundle().Find(*key) : nullptr;
    if (entry == nullptr) {
      loaded.missing.push_back(
          name == tensor.name ? name : absl::StrCat(tensor.name, " (there '", name, "')"));
      continue;
    }
    used.insert(*key);
    if (entry->dtype != tensor.dtype || entry->shape != tensor.shape) {
      differences.push_back(absl::StrCat(
          "'", tensor.name, "' is ", TypeAndShape(tensor.dtype, tensor.shape),
          " in the program and ", TypeAndShape(entry->dtype, entry->shape), " in the checkpoint"));
    }
    keys.emplace_back(&tensor, *key);
  }
  for (std::string& name : checkpoint.Names()) {
    if (used.count(name) == 0) loaded.unused.push_back(std::move(name));
  }
  if (!differences.empty()) {
    return errors::InvalidArgument("the checkpoint '", checkpoint.prefix(),
                                   "' does not fit: ", absl::StrJoin(differences, "; "));
  }
  if (!loaded.missing.empty() && !options.partial) {
    return errors::NotFound(
        "the checkpoint '", checkpoint.prefix(), "' has not ", loaded.missing.size(), " of the ",
        wanted.size(), " tensors that the program wants: ", List(loaded.missing),
        loaded.unused.empty() ? std::string()
                              : absl::StrCat("; it has, and nobody wants: ", List(loaded.unused)),
        ". Give a map of names, or load what is there (partial)");
  }
  std::vector<std::string> names;
  for (const auto& [tensor, key] : keys) names.push_back(key);
  std::vector<Tensor> values;
  if (!options.read) {
    TANDEM_ASSIGN_OR_RETURN(values, checkpoint.bundle().ReadAll(names));
  }
  for (size_t i = 0; i < keys.size(); ++i) {
    if (options.read) {
      TANDEM_ASSIGN_OR_RETURN(Tensor value, options.read(names[i]));
      values.push_back(std::move(value));
    }
    loaded.tensors.emplace_back(keys[i].first->name, std::move(values[i]));
  }
  return loaded;
}

absl::StatusOr<LoadedTensors> LoadCheckpoint(const std::string& path,
                                             absl::Span<const WantedTensor> wanted,
                                             const LoadOptions& options) {
  LoadedTensors loaded;
  const Checkpoint::Options open = {options.files, /*verify=*/false};
  TANDEM_RETURN_IF_ERROR(
      Checkpoint::OpenAccepted(path, open, [&](const Checkpoint& checkpoint) -> absl::Status {
        TANDEM_ASSIGN_OR_RETURN(loaded, LoadFrom(checkpoint, wanted, options));
        return absl::OkStatus();
      }).status());
  return loaded;
}

}  // namespace tandem
