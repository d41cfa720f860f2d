#include "runtime/collective/measure.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <limits>
#include <string>
#include <vector>

#include "core/base/status.h"

namespace tandem::collective {
namespace {

// The step of operations that belong to the group's formation; training counts from 0.
constexpr int64_t kFormationStep = -1;
constexpr size_t kMaxTable = 16 << 10;

// Hands member 0's text to all.
absl::Status ShareText(Group& group, int64_t instance, absl::Duration timeout, std::string* text) {
  std::vector<char> room(kMaxTable, 0);
  std::memcpy(room.data(), text->data(), std::min(text->size(), kMaxTable - 1));
  Request request;
  request.kind = Kind::kBroadcast;
  request.dtype = kInt8;
  request.input = room.data();
  request.output = room.data();
  request.count = static_cast<int64_t>(room.size());
  request.instance = instance;
  request.step = kFormationStep;
  request.name = "table of algorithms";
  request.timeout = timeout;
  TANDEM_RETURN_IF_ERROR(group.Run(std::move(request)));
  room.back() = 0;
  *text = room.data();
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<ChoiceTable> MeasureChoices(Group& group, absl::Duration timeout) {
  constexpr int64_t kSizes[] = {1 << 10, 16 << 10, 256 << 10, 4 << 20};
  constexpr int kWarmUp = 2;
  ChoiceTable table = ChoiceTable::Default(group.size(), group.hosts());
  std::vector<float> values(static_cast<size_t>(kSizes[3]) / sizeof(float), 0.f);
  int64_t instance = 1;
  for (const int64_t bytes : kSizes) {
    const int rounds = bytes <= (16 << 10) ? 20 : 5;
    Problem problem;
    problem.size = group.size();
    problem.rank = group.rank();
    problem.hosts = group.hosts();
    problem.count = bytes / static_cast<int64_t>(sizeof(float));
    double best = std::numeric_limits<double>::infinity();
    for (const Algorithm* algorithm : Algorithms()) {
      if (!algorithm->solves(problem)) continue;
      ChoiceTable only = ChoiceTable::Default(group.size(), group.hosts());
      TANDEM_RETURN_IF_ERROR(only.Pin(algorithm->name));
      group.SetChoices(std::move(only));
      std::vector<double> seconds;
      for (int i = 0; i < kWarmUp + rounds; ++i) {
        Request request;
        request.input = values.data();
        request.output = values.data();
        request.count = problem.count;
        request.instance = instance++;
        request.step = kFormationStep;
        request.name = "measuring algorithms";
        request.timeout = timeout;
        const auto begin = std::chrono::steady_clock::now();
        TANDEM_RETURN_IF_ERROR(group.Run(std::move(request)));
        if (i >= kWarmUp) {
          seconds.push_back(
              std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count());
        }
      }
      std::nth_element(seconds.begin(), seconds.begin() + rounds / 2, seconds.end());
      const double median = seconds[static_cast<size_t>(rounds / 2)];
      if (median >= best) continue;
      best = median;
      // Good for up to twice the size that was measured; the last one for all that are larger.
      table.Set(Kind::kAllReduce,
                bytes == kSizes[3] ? std::numeric_limits<int64_t>::max() : 2 * bytes,
                algorithm->name);
    }
  }
  std::string text = table.ToString();
  TANDEM_RETURN_IF_ERROR(ShareText(group, instance, timeout, &text));
  return ChoiceTable::Parse(text);
}

absl::Status AgreeOnChoices(Group& group, absl::Duration timeout) {
  // What was asked of member 0 is what counts.
  std::string text;
  if (group.rank() == 0) {
    // In deterministic mode there is nothing to choose between.
    if (group.options().measures && !group.options().is_deterministic) {
      text = "# measure\n";
    } else if (!group.options().table.empty()) {
      // Not believed unseen by the others.
      TANDEM_RETURN_IF_ERROR(ChoiceTable::Parse(group.options().table).status());
      text = group.options().table;
    }
  }
  TANDEM_RETURN_IF_ERROR(ShareText(group, 0, timeout, &text));
  if (text.empty()) return absl::OkStatus();
  ChoiceTable table;
  if (text == "# measure\n") {
    TANDEM_ASSIGN_OR_RETURN(table, MeasureChoices(group, timeout));
  } else {
    TANDEM_ASSIGN_OR_RETURN(table, ChoiceTable::Parse(text));
  }
  group.SetChoices(std::move(table));
  return absl::OkStatus();
}

}  // namespace tandem::collective
