#include "core/base/log.h"

#include <spdlog/logger.h>
#include <spdlog/sinks/stdout_color_sinks.h>

#include <chrono>
#include <cstdlib>
#include <memory>
#include <string>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "core/base/mutex.h"

namespace tandem {
namespace {

constexpr int kLevelUnknown = -1;

std::atomic<int> least_severity{kLevelUnknown};

struct SinkState {
  Mutex mu;
  LogSink sink ABSL_GUARDED_BY(mu);
};

// Never destroyed, as is the logger below: threads may log while the process exits.
SinkState& Sink() {
  static SinkState* const state = new SinkState;
  return *state;
}

spdlog::logger& Logger() {
  static spdlog::logger* const logger = [] {
    auto* made =
        new spdlog::logger("tandem", std::make_shared<spdlog::sinks::stderr_color_sink_mt>());
    made->set_level(spdlog::level::trace);  // LogEnabled has decided already.
    made->set_pattern("%^%L %Y-%m-%d %H:%M:%S.%f %t %s:%#]%$ %v");
    made->flush_on(spdlog::level::trace);
    return made;
  }();
  return *logger;
}

spdlog::level::level_enum SpdlogLevel(LogSeverity severity) {
  switch (severity) {
    case LogSeverity::kDebug:
      return spdlog::level::debug;
    case LogSeverity::kInfo:
      return spdlog::level::info;
    case LogSeverity::kWarning:
      return spdlog::level::warn;
    case LogSeverity::kError:
      return spdlog::level::err;
    case LogSeverity::kFatal:
      return spdlog::level::critical;
  }
  return spdlog::level::critical;
}

// The level from the environment; a value that is no level is reported once and ignored.
int ReadLevel() {
  const char* text = std::getenv("TANDEM_LOG_LEVEL");
  LogSeverity least = LogSeverity::kInfo;
  const bool understood = text == nullptr || *text == '\0' || ParseLogLevel(text, &least);
  int expected = kLevelUnknown;
  if (least_severity.compare_exchange_strong(expected, static_cast<int>(least)) && !understood) {
    TANDEM_LOG(Warning) << "TANDEM_LOG_LEVEL is '" << text
                        << "', which is no level; expected debug, info, warning, error or off. "
                           "Going on with info";
  }
  return least_severity.load();
}

}  // namespace

bool ParseLogLevel(absl::string_view text, LogSeverity* least) {
  static constexpr struct {
    const char* name;
    LogSeverity severity;
  } kNames[] = {{"debug", LogSeverity::kDebug},
                {"info", LogSeverity::kInfo},
                {"warning", LogSeverity::kWarning},
                {"error", LogSeverity::kError},
                {"off", LogSeverity::kFatal}};
  for (const auto& entry : kNames) {
    if (absl::EqualsIgnoreCase(text, entry.name)) {
      *least = entry.severity;
      return true;
    }
  }
  return false;
}

bool LogEnabled(LogSeverity severity) {
  int least = least_severity.load(std::memory_order_relaxed);
  if (least == kLevelUnknown) least = ReadLevel();
  return static_cast<int>(severity) >= least;
}

void SetLogLevel(LogSeverity least) { least_severity.store(static_cast<int>(least)); }

LogSink SetLogSink(LogSink sink) {
  SinkState& state = Sink();
  MutexLock lock(state.mu);
  return std::exchange(state.sink, std::move(sink));
}

LogMessage::~LogMessage() {
  if (left_out_ > 0) stream_ << " (" << left_out_ << " lines like this left out)";
  const std::string text = stream_.str();
  {
    SinkState& state = Sink();
    MutexLock lock(state.mu);
    if (state.sink) {
      state.sink(severity_, text);
    } else {
      Logger().log(spdlog::source_loc(file_, line_, ""), SpdlogLevel(severity_),
                   spdlog::string_view_t(text.data(), text.size()));
    }
  }
  if (severity_ == LogSeverity::kFatal) std::abort();
}

int64_t LogRateLimit::Allow(absl::Duration interval) {
  const int64_t now = std::chrono::steady_clock::now().time_since_epoch().count();
  int64_t next = next_ns_.load(std::memory_order_relaxed);
  if (now < next ||
      !next_ns_.compare_exchange_strong(next, now + absl::ToInt64Nanoseconds(interval),
                                        std::memory_order_relaxed)) {
    refused_.fetch_add(1, std::memory_order_relaxed);
    return -1;
  }
  return refused_.exchange(0, std::memory_order_relaxed);
}

}  // namespace tandem
