#include "runtime/input/damage_counts.h"

#include <algorithm>
#include <limits>
#include <utility>
#include <vector>

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "core/base/status.h"
#include "proto/input.pb.h"
#include "runtime/input/opened_stage.h"

namespace tandem::data {

void DamageCounts::Raise(const std::string& path, int64_t count) {
  if (count <= 0) return;
  MutexLock lock(mu_);
  int64_t& known = counts_[path];
  known = std::max(known, count);
}

int64_t DamageCounts::total() const {
  MutexLock lock(mu_);
  int64_t total = 0;
  for (const auto& [path, count] : counts_) {
    // A state may have come from anywhere.
    if (__builtin_add_overflow(total, count, &total)) return std::numeric_limits<int64_t>::max();
  }
  return total;
}

std::string DamageCounts::Describe() const {
  constexpr size_t kShown = 5;
  std::vector<std::pair<int64_t, std::string>> files;
  {
    MutexLock lock(mu_);
    for (const auto& [path, count] : counts_) files.emplace_back(-count, path);
  }
  absl::c_sort(files);
  std::vector<std::string> texts;
  for (size_t i = 0; i < files.size() && i < kShown; ++i) {
    texts.push_back(absl::StrCat(files[i].second, " (", -files[i].first, ")"));
  }
  if (files.size() > kShown) {
    texts.push_back(absl::StrCat(files.size() - kShown, " more files"));
  }
  return absl::StrJoin(texts, ", ");
}

absl::Status DamageCounts::Save(InputState* state) const {
  std::vector<std::string> paths;
  std::vector<int64_t> counts;
  {
    MutexLock lock(mu_);
    for (const auto& [path, count] : counts_) {
      paths.push_back(path);
      counts.push_back(count);
    }
  }
  if (paths.empty()) return absl::OkStatus();
  return SaveElement(Element{Tensor::Vector<std::string>(absl::MakeConstSpan(paths)),
                             Tensor::Vector<int64_t>(absl::MakeConstSpan(counts))},
                     state->add_elements());
}

absl::Status DamageCounts::Restore(const InputState& state) {
  if (state.elements_size() == 0) return absl::OkStatus();
  absl::StatusOr<Element> element;
  TANDEM_RETURN_IF_ERROR(LoadElement(state.elements(0), &element));
  if (!element.ok() || element->size() != 2 || (*element)[0].dtype() != kString ||
      (*element)[1].dtype() != kInt64 ||
      (*element)[0].num_elements() != (*element)[1].num_elements()) {
    return BadState(state.kind(), "has no paths with counts of damage");
  }
  const absl::Span<const std::string> paths = (*element)[0].Elements<std::string>();
  const absl::Span<const int64_t> counts = (*element)[1].Elements<int64_t>();
  for (size_t i = 0; i < paths.size(); ++i) Raise(paths[i], counts[i]);
  return absl::OkStatus();
}

}  // namespace tandem::data
