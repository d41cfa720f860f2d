#include "core/graph/device_name.h"

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "core/base/status.h"

namespace tandem {
namespace {

constexpr char kForms[] =
    "a device name is written /job:NAME/replica:N/task:N/device:TYPE:N or a part of that, or "
    "TYPE:N";

absl::Status Malformed(absl::string_view text, absl::string_view rest) {
  return errors::InvalidArgument("device name '", text, "' does not parse at '", rest, "'; ",
                                 kForms);
}

// Reads a letter and the letters, digits and underscores after it, or "*", which is unset.
bool ConsumeName(absl::string_view* text, absl::optional<std::string>* name) {
  if (absl::ConsumePrefix(text, "*")) {
    name->reset();
    return true;
  }
  size_t size = 0;
  while (size < text->size() &&
         (absl::ascii_isalnum(static_cast<unsigned char>((*text)[size])) || (*text)[size] == '_')) {
    ++size;
  }
  if (size == 0 || !absl::ascii_isalpha(static_cast<unsigned char>((*text)[0]))) return false;
  *name = std::string(text->substr(0, size));
  text->remove_prefix(size);
  return true;
}

// Reads a number that is not negative, or "*", which is unset.
bool ConsumeNumber(absl::string_view* text, absl::optional<int>* number) {
  if (absl::ConsumePrefix(text, "*")) {
    number->reset();
    return true;
  }
  size_t size = 0;
  while (size < text->size() && absl::ascii_isdigit(static_cast<unsigned char>((*text)[size]))) {
    ++size;
  }
  int value = 0;
  if (size == 0 || !absl::SimpleAtoi(text->substr(0, size), &value)) return false;
  *number = value;
  text->remove_prefix(size);
  return true;
}

// Reads the old form of a device, "cpu:" or "CPU:" with what follows.
bool ConsumeOldDevice(absl::string_view* text, DeviceName* name) {
  static constexpr absl::string_view kTypes[][2] = {
      {"cpu:", "CPU"}, {"gpu:", "GPU"}, {"sim:", "SIM"}};
  for (const auto& [prefix, type] : kTypes) {
    if (absl::ConsumePrefix(text, prefix) ||
        (text->size() > type.size() && (*text)[type.size()] == ':' &&
         absl::ConsumePrefix(text, type) && absl::ConsumePrefix(text, ":"))) {
      name->type = std::string(type);
      return ConsumeNumber(text, &name->id);
    }
  }
  return false;
}

bool ConsumePart(absl::string_view* text, DeviceName* name) {
  if (absl::ConsumePrefix(text, "/job:")) return ConsumeName(text, &name->job);
  if (absl::ConsumePrefix(text, "/replica:")) return ConsumeNumber(text, &name->replica);
  if (absl::ConsumePrefix(text, "/task:")) return ConsumeNumber(text, &name->task);
  if (absl::ConsumePrefix(text, "/device:")) {
    name->id.reset();
    if (!ConsumeName(text, &name->type)) return false;
    return !absl::ConsumePrefix(text, ":") || ConsumeNumber(text, &name->id);
  }
  return absl::ConsumePrefix(text, "/") && ConsumeOldDevice(text, name);
}

template <typename T>
bool Specifies(const absl::optional<T>& less, const absl::optional<T>& more) {
  return !less || less == more;
}

template <typename T>
bool Differ(const absl::optional<T>& a, const absl::optional<T>& b) {
  return a && b && *a != *b;
}

template <typename T>
void Fill(const absl::optional<T>& value, absl::optional<T>* target) {
  if (!*target) *target = value;
}

absl::Status CannotMerge(absl::string_view part, const DeviceName& a, const DeviceName& b) {
  return errors::InvalidArgument("Cannot merge devices with incompatible ", part, ": '",
                                 a.ToString(), "' and '", b.ToString(), "'");
}

}  // namespace

absl::StatusOr<DeviceName> DeviceName::Parse(absl::string_view text) {
  DeviceName name;
  if (text.empty() || text == "/") return name;
  absl::string_view rest = text;
  if (rest[0] != '/') {
    // The local form needs both parts.
    absl::string_view local = rest;
    if (ConsumeOldDevice(&local, &name) && local.empty() && name.id) return name;
    name = DeviceName();
    if (ConsumeName(&rest, &name.type) && name.type && absl::ConsumePrefix(&rest, ":") &&
        ConsumeNumber(&rest, &name.id) && name.id && rest.empty()) {
      return name;
    }
    return Malformed(text, text);
  }
  while (!rest.empty()) {
    const absl::string_view part = rest;
    if (!ConsumePart(&rest, &name)) return Malformed(text, part);
    if (!rest.empty() && rest[0] != '/') return Malformed(text, rest);
  }
  return name;
}

std::string DeviceName::TaskName() const {
  std::string text;
  if (job) absl::StrAppend(&text, "/job:", *job);
  if (replica) absl::StrAppend(&text, "/replica:", *replica);
  if (task) absl::StrAppend(&text, "/task:", *task);
  return text;
}

std::string DeviceName::LocalName() const { return absl::StrCat(*type, ":", *id); }

std::string DeviceName::ToString() const {
  std::string text = TaskName();
  if (type || id) {
    absl::StrAppend(&text, "/device:", type ? *type : "*", ":",
                    id ? absl::StrCat(*id) : std::string("*"));
  }
  return text;
}

bool IsSpecification(const DeviceName& less, const DeviceName& more) {
  return Specifies(less.job, more.job) && Specifies(less.replica, more.replica) &&
         Specifies(less.task, more.task) && Specifies(less.type, more.type) &&
         Specifies(less.id, more.id);
}

bool AreCompatible(const DeviceName& a, const DeviceName& b) {
  return !Differ(a.job, b.job) && !Differ(a.replica, b.replica) && !Differ(a.task, b.task) &&
         !Differ(a.type, b.type) && !Differ(a.id, b.id);
}

bool Matches(const DeviceName& pattern, const DeviceName& name) {
  return name.IsComplete() && IsSpecification(pattern, name);
}

bool IsSameTask(const DeviceName& a, const DeviceName& b) {
  return a.job && a.replica && a.task && a.job == b.job && a.replica == b.replica &&
         a.task == b.task;
}

absl::Status MergeDevice(const DeviceName& other, DeviceMerge how, DeviceName* target) {
  if (Differ(target->job, other.job)) return CannotMerge("jobs", *target, other);
  if (Differ(target->replica, other.replica)) return CannotMerge("replicas", *target, other);
  if (Differ(target->task, other.task)) return CannotMerge("tasks", *target, other);
  const bool types_differ = Differ(target->type, other.type);
  const bool ids_differ = Differ(target->id, other.id);
  if (how == DeviceMerge::kStrict) {
    if (types_differ) return CannotMerge("types", *target, other);
    if (ids_differ) return CannotMerge("ids", *target, other);
  }
  Fill(other.job, &target->job);
  Fill(other.replica, &target->replica);
  Fill(other.task, &target->task);
  if (how == DeviceMerge::kSoftPlacement && types_differ) {
    // An id without its type says nothing.
    target->type.reset();
    target->id.reset();
    return absl::OkStatus();
  }
  if (types_differ) target->type = other.type;
  Fill(other.type, &target->type);
  if (how == DeviceMerge::kSoftPlacement && ids_differ) {
    target->id.reset();
    return absl::OkStatus();
  }
  if (ids_differ) target->id = other.id;
  Fill(other.id, &target->id);
  return absl::OkStatus();
}

void FillUnset(const DeviceName& defaults, DeviceName* target) {
  Fill(defaults.job, &target->job);
  Fill(defaults.replica, &target->replica);
  Fill(defaults.task, &target->task);
  Fill(defaults.type, &target->type);
  Fill(defaults.id, &target->id);
}

DeviceName NestDevice(const DeviceName& outer, const DeviceName& inner) {
  DeviceName name = inner;
  FillUnset(outer, &name);
  return name;
}

absl::StatusOr<DeviceName> CompleteDeviceName(absl::string_view text, const DeviceName& base) {
  TANDEM_ASSIGN_OR_RETURN(DeviceName name, DeviceName::Parse(text));
  FillUnset(base, &name);
  if (!name.IsComplete()) {
    return errors::InvalidArgument("device name '", text, "' is incomplete in '", base.ToString(),
                                   "': together they give '", name.ToString(), "'; ", kForms);
  }
  return name;
}

}  // namespace tandem
