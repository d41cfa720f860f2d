#include "runtime/device/device.h"

#include <algorithm>
#include <cstdlib>
#include <map>
#include <utility>

#include "absl/algorithm/container.h"
#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "core/base/mutex.h"
#include "core/base/status.h"

namespace tandem {
namespace {

// More devices than this are a slip of the pen.
constexpr int kMaxDevices = 256;

struct Factories {
  Mutex mu;
  std::map<std::string, DeviceFactory> by_type ABSL_GUARDED_BY(mu);
};

Factories& AllFactories() {
  static Factories* factories = new Factories;
  return *factories;
}

}  // namespace

DeviceRegistration::DeviceRegistration(absl::string_view type, DeviceFactory factory) {
  Factories& factories = AllFactories();
  MutexLock lock(factories.mu);
  factories.by_type.emplace(std::string(type), factory);
}

absl::StatusOr<std::vector<DeviceCount>> ParseDeviceCounts(absl::string_view text) {
  std::vector<DeviceCount> counts;
  for (const absl::string_view piece : absl::StrSplit(text, ',', absl::SkipWhitespace())) {
    const std::pair<absl::string_view, absl::string_view> halves =
        absl::StrSplit(piece, absl::MaxSplits(':', 1));
    DeviceCount count;
    count.type = absl::AsciiStrToUpper(absl::StripAsciiWhitespace(halves.first));
    count.count = 1;
    const bool has_count = piece.find(':') != absl::string_view::npos;
    if (count.type.empty() ||
        (has_count && !absl::SimpleAtoi(absl::StripAsciiWhitespace(halves.second), &count.count))) {
      return errors::InvalidArgument("devices '", text, "': '", piece,
                                     "' is not of the form TYPE:COUNT, as in CPU:2");
    }
    if (count.count < 1 || count.count > kMaxDevices) {
      return errors::InvalidArgument("devices '", text, "': ", count.count, " devices of type ",
                                     count.type, "; 1 to ", kMaxDevices, " are possible");
    }
    for (const DeviceCount& other : counts) {
      if (other.type == count.type) {
        return errors::InvalidArgument("devices '", text, "' names type ", count.type, " twice");
      }
    }
    counts.push_back(std::move(count));
  }
  return counts;
}

absl::StatusOr<std::shared_ptr<DeviceSet>> DeviceSet::Create(const std::vector<DeviceCount>& counts,
                                                             absl::string_view prefix) {
  std::vector<DeviceCount> wanted(counts);
  const auto is_cpu = [](const DeviceCount& count) { return count.type == kCpu; };
  if (absl::c_none_of(wanted, is_cpu)) wanted.push_back({kCpu, 1});
  std::stable_partition(wanted.begin(), wanted.end(), is_cpu);

  std::map<std::string, DeviceFactory> factories;
  {
    MutexLock lock(AllFactories().mu);
    factories = AllFactories().by_type;
  }
  auto set = std::make_shared<DeviceSet>();
  set->prefix_ = std::string(prefix);
  for (const DeviceCount& count : wanted) {
    const auto factory = factories.find(count.type);
    if (factory == factories.end()) {
      return errors::InvalidArgument(
          "there is no device type '", count.type, "' in this program; it has ",
          absl::StrJoin(factories, ", ",
                        [](std::string* out, const auto& entry) { out->append(entry.first); }));
    }
    for (int ordinal = 0; ordinal < count.count; ++ordinal) {
      const std::string name = absl::StrCat(prefix, "/device:", count.type, ":", ordinal);
      TANDEM_ASSIGN_OR_RETURN(std::unique_ptr<Device> device, factory->second(name, ordinal));
      set->devices_.push_back(std::move(device));
    }
  }
  return set;
}

absl::StatusOr<std::shared_ptr<DeviceSet>> DeviceSet::FromEnvironment(absl::string_view prefix) {
  const char* text = std::getenv("TANDEM_DEVICES");
  if (text == nullptr) return Create({{kCpu, 1}}, prefix);
  absl::StatusOr<std::vector<DeviceCount>> counts = ParseDeviceCounts(text);
  if (!counts.ok()) return WithContext(counts.status(), "TANDEM_DEVICES");
  return Create(*counts, prefix);
}

Device* DeviceSet::Find(absl::string_view name) const {
  for (const auto& device : devices_) {
    if (device->name() == name) return device.get();
  }
  return nullptr;
}

}  // namespace tandem
