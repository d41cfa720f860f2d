#include "core/op/registry.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <utility>

#include "absl/algorithm/container.h"
#include "absl/strings/ascii.h"
#include "absl/strings/str_join.h"
#include "core/base/mutex.h"
#include "core/base/status.h"

namespace tandem {
namespace {

// How many letters must be inserted, left out, replaced or swapped with their neighbour, whatever
// their case.
int EditDistance(absl::string_view a, absl::string_view b) {
  const auto same = [&](size_t i, size_t j) {
    return absl::ascii_tolower(static_cast<unsigned char>(a[i])) ==
           absl::ascii_tolower(static_cast<unsigned char>(b[j]));
  };
  // Rows of the table of distances between beginnings of `a` and of `b`.
  std::vector<int> before, last(b.size() + 1), row(b.size() + 1);
  for (size_t j = 0; j <= b.size(); ++j) row[j] = static_cast<int>(j);
  for (size_t i = 1; i <= a.size(); ++i) {
    before = std::exchange(last, row);
    row[0] = static_cast<int>(i);
    for (size_t j = 1; j <= b.size(); ++j) {
      row[j] = std::min({last[j - 1] + (same(i - 1, j - 1) ? 0 : 1), last[j] + 1, row[j - 1] + 1});
      if (i > 1 && j > 1 && same(i - 1, j - 2) && same(i - 2, j - 1)) {
        row[j] = std::min(row[j], before[j - 2] + 1);
      }
    }
  }
  return row[b.size()];
}

// A bad registration is a bug of the program itself, found before main; nobody could handle it.
void EndProgram(const absl::Status& status) {
  std::fprintf(stderr, "tandem: bad registration: %s\n", status.ToString().c_str());
  std::abort();
}

std::string KernelText(const KernelDef& kernel) {
  std::string text = kernel.device;
  for (const auto& [attr, types] : kernel.types) {
    absl::StrAppend(
        &text, " ", attr, " in {",
        absl::StrJoin(types, ",",
                      [](std::string* out, DataType type) { out->append(DataTypeName(type)); }),
        "}");
  }
  return text;
}

bool Matches(const KernelDef& kernel, const AttrMap& attrs) {
  for (const auto& [name, types] : kernel.types) {
    const auto attr = attrs.find(name);
    if (attr == attrs.end()) return false;
    const DataType* type = attr->second.Get<DataType>();
    if (type == nullptr || !absl::c_linear_search(types, *type)) return false;
  }
  return true;
}

}  // namespace

struct OpRegistry::Tables {
  Mutex mu;
  std::map<std::string, std::unique_ptr<OpDef>, std::less<>> ops ABSL_GUARDED_BY(mu);
  std::map<std::string, std::vector<std::unique_ptr<KernelDef>>, std::less<>> kernels
      ABSL_GUARDED_BY(mu);
};

OpRegistry::OpRegistry() : tables_(std::make_unique<Tables>()) {}

OpRegistry::~OpRegistry() = default;

OpRegistry& OpRegistry::Global() {
  static OpRegistry* registry = new OpRegistry;  // Registrations hold pointers until exit.
  return *registry;
}

absl::Status OpRegistry::Register(const OpDefBuilder& builder) {
  TANDEM_ASSIGN_OR_RETURN(OpDef def, builder.Build());
  MutexLock lock(tables_->mu);
  const std::string name = def.name;
  if (!tables_->ops.emplace(name, std::make_unique<OpDef>(std::move(def))).second) {
    return errors::AlreadyExists("op ", name, " is registered twice");
  }
  return absl::OkStatus();
}

absl::Status OpRegistry::RegisterKernel(absl::string_view op, KernelDef kernel) {
  MutexLock lock(tables_->mu);
  tables_->kernels[std::string(op)].push_back(std::make_unique<KernelDef>(std::move(kernel)));
  return absl::OkStatus();
}

const OpDef* OpRegistry::Find(absl::string_view name) const {
  MutexLock lock(tables_->mu);
  const auto found = tables_->ops.find(std::string(name));
  return found == tables_->ops.end() ? nullptr : found->second.get();
}

absl::StatusOr<const OpDef*> OpRegistry::Get(absl::string_view name) const {
  if (const OpDef* def = Find(name)) return def;
  std::vector<std::string> names;
  for (const OpDef* def : List()) names.push_back(def->name);
  return errors::NotFound("there is no op '", name, "'", DidYouMean(name, names));
}

std::vector<const OpDef*> OpRegistry::List() const {
  MutexLock lock(tables_->mu);
  std::vector<const OpDef*> list;
  for (const auto& [name, def] : tables_->ops) list.push_back(def.get());
  return list;
}

std::vector<const KernelDef*> OpRegistry::Kernels(const OpDef& op) const {
  std::vector<const KernelDef*> list;
  for (const KernelDef& kernel : op.kernels) list.push_back(&kernel);
  MutexLock lock(tables_->mu);
  const auto more = tables_->kernels.find(op.name);
  if (more != tables_->kernels.end()) {
    for (const auto& kernel : more->second) list.push_back(kernel.get());
  }
  return list;
}

absl::StatusOr<const KernelDef*> OpRegistry::FindKernel(const OpDef& op,
                                                        absl::string_view device_type,
                                                        const AttrMap& attrs) const {
  const absl::string_view wanted = device_type == kSim ? absl::string_view(kCpu) : device_type;
  const std::vector<const KernelDef*> kernels = Kernels(op);
  for (const KernelDef* kernel : kernels) {
    if (kernel->device == wanted && Matches(*kernel, attrs)) return kernel;
  }
  std::string given;
  for (const auto& [name, value] : attrs) {
    if (value.kind() == AttrKind::kType) {
      absl::StrAppend(&given, " ", name, "=", value.DebugString());
    }
  }
  return errors::NotFound(
      "op ", op.name, " has no kernel for device type ", device_type,
      given.empty() ? "" : absl::StrCat(" with", given), "; it has ",
      kernels.empty() ? "none at all"
                      : absl::StrJoin(kernels, "; ", [](std::string* out, const KernelDef* kernel) {
                          out->append(KernelText(*kernel));
                        }));
}

std::vector<std::string> NearNames(absl::string_view name,
                                   const std::vector<std::string>& candidates, int limit) {
  std::vector<std::pair<int, std::string>> scored;
  // Names come from outside, and so do graphs with many nodes: the search stays cheap.
  constexpr size_t kLongestName = 200;
  constexpr size_t kMostCandidates = 20000;
  if (name.size() > kLongestName) return {};
  // A slip of the pen changes a letter in four, and no more than three of them.
  const int tolerated = std::clamp(static_cast<int>(name.size()) / 4, 1, 3);
  size_t looked_at = 0;
  for (const std::string& candidate : candidates) {
    if (++looked_at > kMostCandidates) break;
    const size_t longer = std::max(name.size(), candidate.size());
    const size_t shorter = std::min(name.size(), candidate.size());
    if (longer - shorter > static_cast<size_t>(tolerated)) continue;
    const int distance = EditDistance(name, candidate);
    if (distance <= tolerated && 2 * distance <= static_cast<int>(longer))
      scored.emplace_back(distance, candidate);
  }
  absl::c_sort(scored);
  std::vector<std::string> names;
  for (const auto& [distance, candidate] : scored) {
    if (static_cast<int>(names.size()) == limit) break;
    names.push_back(candidate);
  }
  return names;
}

std::string DidYouMean(absl::string_view name, const std::vector<std::string>& candidates) {
  const std::vector<std::string> near = NearNames(name, candidates);
  if (near.empty()) return "";
  return absl::StrCat(". Did you mean ",
                      absl::StrJoin(near, " or ",
                                    [](std::string* out, const std::string& candidate) {
                                      absl::StrAppend(out, "'", candidate, "'");
                                    }),
                      "?");
}

OpRegistration::OpRegistration(const OpDefBuilder& builder) {
  const absl::Status status = OpRegistry::Global().Register(builder);
  if (!status.ok()) EndProgram(status);
}

KernelRegistration::KernelRegistration(absl::string_view op, KernelDef kernel) {
  const absl::Status status = OpRegistry::Global().RegisterKernel(op, std::move(kernel));
  if (!status.ok()) EndProgram(status);
}

}  // namespace tandem
