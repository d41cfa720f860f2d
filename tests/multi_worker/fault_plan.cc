#include "tests/multi_worker/fault_plan.h"

#include <sys/syscall.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "core/base/status.h"

namespace tandem::testing {
namespace {

constexpr std::pair<absl::string_view, Place> kPlaces[] = {
    {"start", Place::kStart},       {"step", Place::kStep}, {"after", Place::kAfter},
    {"validate", Place::kValidate}, {"save", Place::kSave}, {"end", Place::kEnd}};

std::atomic<FaultPlan*> the_plan{nullptr};

}  // namespace

absl::StatusOr<FaultPlan*> FaultPlan::Make(const std::string& text, const std::string& folder,
                                           int worker) {
  auto* const plan = new FaultPlan(folder, worker);  // Threads may ask until the process ends.
  for (const absl::string_view part : absl::StrSplit(text, ',', absl::SkipEmpty())) {
    const std::vector<absl::string_view> words = absl::StrSplit(part, ':');
    Fault fault;
    fault.name = std::string(part);
    bool is_good = words.size() == 2 || words.size() == 3;
    if (is_good && words[0] == "chief") {
      fault.worker = -1;
    } else {
      is_good = is_good && absl::SimpleAtoi(words[0], &fault.worker);
    }
    if (is_good && words.size() == 3) is_good = absl::SimpleAtoi(words[2], &fault.step);
    bool is_place = false;
    for (const auto& [name, place] : kPlaces) {
      if (!is_good || words[1] != name) continue;
      fault.place = place;
      is_place = true;
    }
    if (!is_place) return errors::InvalidArgument("'", part, "' is no fault");
    plan->faults_.push_back(std::move(fault));
  }
  the_plan = plan;
  return plan;
}

FaultPlan* FaultPlan::Get() { return the_plan; }

std::string FaultPlan::FileOf(const Fault& fault) const {
  return absl::StrCat(folder_, "/", fault.name);
}

const FaultPlan::Fault* FaultPlan::Due(Place place, int64_t step) const {
  for (const Fault& fault : faults_) {
    const bool is_it = fault.worker == worker_ || (fault.worker < 0 && is_chief_);
    if (!is_it || fault.place != place || step < fault.step) continue;
    if (!std::filesystem::exists(FileOf(fault))) return &fault;
  }
  return nullptr;
}

void FaultPlan::Happen(const Fault& fault, absl::string_view what) const {
  std::ofstream(FileOf(fault)) << what << std::flush;
  std::raise(SIGKILL);
  std::abort();
}

void FaultPlan::Reach(Place place, int64_t step) {
  if (const Fault* const fault = Due(place, step)) {
    // By then the others have ended.
    if (place == Place::kEnd) absl::SleepFor(absl::Seconds(2));
    Happen(*fault, absl::StrCat("worker ", worker_, " at step ", step));
  }
}

void FaultPlan::BeginSave(int64_t step) { due_save_ = Due(Place::kSave, step); }

void FaultPlan::Rename(absl::string_view to) {
  const Fault* const fault = due_save_;
  if (fault == nullptr || !absl::EndsWith(to, ".index")) return;
  Happen(*fault, absl::StrCat("worker ", worker_, " before there is a ", to));
}

}  // namespace tandem::testing

// In place of the C library's: what is saved gets its name in this way, and nothing short of it
// would find the process in the middle of that on a busy machine.
extern "C" int rename(const char* from, const char* to) noexcept {
  using ::tandem::testing::FaultPlan;
  if (FaultPlan* const plan = FaultPlan::Get()) plan->Rename(to);
  return static_cast<int>(::syscall(SYS_rename, from, to));
}
