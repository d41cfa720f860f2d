// Log lines, to stderr, with time, thread and source line.
//
//   TANDEM_LOG(Info) << "session " << name << " closed after " << steps << " steps";
//   TANDEM_LOG_EVERY(Warning, absl::Seconds(10)) << "worker " << task << " does not answer";
//
// Severities: Debug, Info, Warning, Error and Fatal; Fatal also ends the process and is for our
// own broken invariants, never for what a user, a file or a peer can cause. Lines below the level
// are not even put together: the right-hand sides of << are then not evaluated. The level is Info
// unless the environment variable TANDEM_LOG_LEVEL says debug, info, warning, error or off.
//
// TANDEM_LOG_EVERY writes at most one line in an interval for its place in the source, all threads
// taken together, and says how many it left out.
//
// Threads: any, also while the process starts or exits; lines are never interleaved.
#ifndef TANDEM_CORE_BASE_LOG_H_
#define TANDEM_CORE_BASE_LOG_H_

#include <atomic>
#include <cstdint>
#include <functional>
#include <sstream>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"

#define TANDEM_LOG(severity)                                       \
  if (!::tandem::LogEnabled(::tandem::LogSeverity::k##severity)) { \
  } else /* NOLINT(readability-misleading-indentation) */          \
    ::tandem::LogMessage(::tandem::LogSeverity::k##severity, __FILE__, __LINE__, 0).stream()

#define TANDEM_LOG_EVERY(severity, interval)                                                       \
  if (const int64_t tandem_left_out_ = ::tandem::LogEnabled(::tandem::LogSeverity::k##severity)    \
                                           ? TANDEM_LOG_LIMIT_OF_THIS_PLACE_.Allow(interval)       \
                                           : -1;                                                   \
      tandem_left_out_ < 0) {                                                                      \
  } else /* NOLINT(readability-misleading-indentation) */                                          \
    ::tandem::LogMessage(::tandem::LogSeverity::k##severity, __FILE__, __LINE__, tandem_left_out_) \
        .stream()

#define TANDEM_LOG_LIMIT_OF_THIS_PLACE_  \
  ([]() -> ::tandem::LogRateLimit& {     \
    static ::tandem::LogRateLimit limit; \
    return limit;                        \
  }())

namespace tandem {

enum class LogSeverity { kDebug, kInfo, kWarning, kError, kFatal };

// True when lines of `severity` are written. One atomic load once the level is known.
bool LogEnabled(LogSeverity severity);

// Sets the level for the rest of the process, instead of what the environment says.
void SetLogLevel(LogSeverity least);

// Receives the text of each written line, without time and place, instead of stderr. Called by one
// thread at a time, and must not log. An empty function gives stderr back. Returns the previous
// one. For tests.
using LogSink = std::function<void(LogSeverity severity, absl::string_view text)>;
LogSink SetLogSink(LogSink sink);

// Parses a level as TANDEM_LOG_LEVEL has it ("off" silences all but Fatal). False, and `least`
// untouched, when `text` is none of the names; upper case will do.
bool ParseLogLevel(absl::string_view text, LogSeverity* least);

// What the macros are made of.

class LogMessage {
 public:
  // `file` lives as long as the process; `left_out`: lines that a rate limit swallowed before.
  LogMessage(LogSeverity severity, const char* file, int line, int64_t left_out)
      : severity_(severity), file_(file), line_(line), left_out_(left_out) {}
  ~LogMessage();  // Writes the line.
  LogMessage(const LogMessage&) = delete;
  LogMessage& operator=(const LogMessage&) = delete;

  std::ostream& stream() { return stream_; }

 private:
  const LogSeverity severity_;
  const char* const file_;
  const int line_;
  const int64_t left_out_;
  std::ostringstream stream_;
};

class LogRateLimit {
 public:
  constexpr LogRateLimit() = default;

  // The number of refusals since the last permission, or -1: refused, since the last permission is
  // less than `interval` ago. Threads: any.
  int64_t Allow(absl::Duration interval);

 private:
  std::atomic<int64_t> next_ns_{INT64_MIN};  // On the steady clock.
  std::atomic<int64_t> refused_{0};
};

}  // namespace tandem

#endif  // TANDEM_CORE_BASE_LOG_H_
