// Status helpers: macros that hand an error to the caller, and shorthand for making one.
//
// Errors are absl::Status with TensorFlow's codes everywhere; nothing throws across our API.
#ifndef TANDEM_CORE_BASE_STATUS_H_
#define TANDEM_CORE_BASE_STATUS_H_

#include <utility>

#include "absl/base/optimization.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"

// Returns from the current function when `expr`, a Status, is not OK.
#define TANDEM_RETURN_IF_ERROR(expr)                                     \
  do {                                                                   \
    ::absl::Status tandem_status_ = (expr);                              \
    if (ABSL_PREDICT_FALSE(!tandem_status_.ok())) return tandem_status_; \
  } while (false)

// TANDEM_ASSIGN_OR_RETURN(auto x, F()): declares or assigns the value of a StatusOr, or returns its
// error.
#define TANDEM_ASSIGN_OR_RETURN(lhs, expr) \
  TANDEM_ASSIGN_OR_RETURN_IMPL_(TANDEM_CONCAT_(tandem_statusor_, __LINE__), lhs, expr)
#define TANDEM_ASSIGN_OR_RETURN_IMPL_(var, lhs, expr)                \
  auto var = (expr);                                                 \
  if (ABSL_PREDICT_FALSE(!var.ok())) return std::move(var).status(); \
  lhs = std::move(var).value()
#define TANDEM_CONCAT_(a, b) TANDEM_CONCAT_IMPL_(a, b)
#define TANDEM_CONCAT_IMPL_(a, b) a##b

namespace tandem {

// errors::InvalidArgument("axis ", axis, " is out of range"): the arguments go through StrCat.
// What the codes ask of the caller: InvalidArgument never gets better by itself; NotFound and
// AlreadyExists name the thing; FailedPrecondition, someone must act first; Unavailable, try again;
// Aborted, restart the larger unit; Internal is a bug of ours.
namespace errors {

#define TANDEM_DEFINE_ERROR_(Name)                   \
  template <typename... Args>                        \
  absl::Status Name(const Args&... args) {           \
    return absl::Name##Error(absl::StrCat(args...)); \
  }
TANDEM_DEFINE_ERROR_(Cancelled)
TANDEM_DEFINE_ERROR_(InvalidArgument)
TANDEM_DEFINE_ERROR_(DeadlineExceeded)
TANDEM_DEFINE_ERROR_(NotFound)
TANDEM_DEFINE_ERROR_(AlreadyExists)
TANDEM_DEFINE_ERROR_(PermissionDenied)
TANDEM_DEFINE_ERROR_(ResourceExhausted)
TANDEM_DEFINE_ERROR_(FailedPrecondition)
TANDEM_DEFINE_ERROR_(Aborted)
TANDEM_DEFINE_ERROR_(OutOfRange)
TANDEM_DEFINE_ERROR_(Unimplemented)
TANDEM_DEFINE_ERROR_(Internal)
TANDEM_DEFINE_ERROR_(Unavailable)
TANDEM_DEFINE_ERROR_(DataLoss)
TANDEM_DEFINE_ERROR_(Unauthenticated)
TANDEM_DEFINE_ERROR_(Unknown)
#undef TANDEM_DEFINE_ERROR_

}  // namespace errors

// `status` with `context` put before its message ("context: message"); code and payloads stay.
// OK stays OK.
absl::Status WithContext(const absl::Status& status, absl::string_view context);

}  // namespace tandem

#endif  // TANDEM_CORE_BASE_STATUS_H_
