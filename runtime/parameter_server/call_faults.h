// CallFaults: what a network can do to the calls of parameter servers, done on purpose, for tests.
//
// A call may be lost on its way there, its answer may be lost on its way back (the server has done
// what it was asked for), and it may come twice, at the same time. Whoever calls meets what he
// would meet then: Unavailable, and calls again under the same name.
//
// In the environment, for servers, coordinators and workers alike:
//
//   TANDEM_PARAMETER_FAULTS="lose=0.25,double=0.25,seed=7"      all methods
//   TANDEM_PARAMETER_FAULTS="lose=0.5,seed=1,method=Replicate"  this one alone
//
// lose: the probability that a call, or its answer, is lost; each is as likely. double: that it
// comes twice. seed: of the random numbers.
#ifndef TANDEM_RUNTIME_PARAMETER_SERVER_CALL_FAULTS_H_
#define TANDEM_RUNTIME_PARAMETER_SERVER_CALL_FAULTS_H_

#include <cstdint>
#include <memory>
#include <random>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "core/base/mutex.h"

namespace tandem::parameter_server {

// Threads: any.
class CallFaults {
 public:
  struct Options {
    double lose = 0;
    double twice = 0;
    uint64_t seed = 1;
    std::string method;  // Empty: all.
  };
  explicit CallFaults(Options options) : options_(std::move(options)), random_(options_.seed) {}

  // InvalidArgument: the text is not as above.
  static absl::StatusOr<std::shared_ptr<CallFaults>> Parse(absl::string_view text);
  // Null: the variable is not set. Errors as Parse, with its name.
  static absl::StatusOr<std::shared_ptr<CallFaults>> FromEnvironment();

  struct Decision {
    bool loses_request = false;
    bool loses_answer = false;
    bool comes_twice = false;
  };
  // Of one call; "Call", "Define", ….
  Decision Next(absl::string_view method);
  // That something was done to.
  int64_t count() const;

 private:
  const Options options_;
  mutable Mutex mu_;
  std::mt19937_64 random_ ABSL_GUARDED_BY(mu_);
  int64_t count_ ABSL_GUARDED_BY(mu_) = 0;
};

}  // namespace tandem::parameter_server

#endif  // TANDEM_RUNTIME_PARAMETER_SERVER_CALL_FAULTS_H_
