// many_sessions TARGET COUNT: so many sessions at once, each in a thread, with a graph of its own.
// Prints "open" when all of them have run a step, and goes on when a line comes in.
#include <cstdio>
#include <cstdlib>
#include <iostream>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/numbers.h"
#include "core/base/status.h"
#include "core/graph/scope.h"
#include "runtime/rpc/remote_session.h"

namespace tandem {
namespace {

constexpr int kSteps = 20;

absl::StatusOr<std::unique_ptr<Session>> Open(const std::string& target, int number) {
  Scope s = Scope::NewRoot();
  const Output x = s.WithOpName("x").Call("Placeholder", {},
                                          {{"dtype", kFloat32}, {"shape", PartialShape({-1})}});
  s.WithOpName("y").Call("Mul", {x, static_cast<float>(number)});
  TANDEM_RETURN_IF_ERROR(s.status());
  return ConnectSession(target, *s.graph());
}

absl::Status Step(Session& session, int number, int step) {
  Tensor x(kFloat32, Shape({100}));
  for (float& element : x.MutableElements<float>()) element = static_cast<float>(step);
  TANDEM_ASSIGN_OR_RETURN(const std::vector<Tensor> y, session.Run({{"x", x}}, {"y"}));
  for (const float element : y[0].Elements<float>()) {
    if (element != static_cast<float>(step * number)) {
      return errors::Internal("session ", number, ", step ", step, ": ", element);
    }
  }
  return absl::OkStatus();
}

// Calls `work` for each number in a thread of its own; the first error.
template <typename Work>
absl::Status AtOnce(int count, Work work) {
  std::vector<absl::Status> ended(static_cast<size_t>(count));
  std::vector<std::thread> threads;
  for (int i = 0; i < count; ++i) {
    threads.emplace_back([&, i] { ended[static_cast<size_t>(i)] = work(i); });
  }
  for (std::thread& thread : threads) thread.join();
  for (const absl::Status& status : ended) TANDEM_RETURN_IF_ERROR(status);
  return absl::OkStatus();
}

absl::Status Run(const std::string& target, int count) {
  std::vector<std::unique_ptr<Session>> sessions(static_cast<size_t>(count));
  TANDEM_RETURN_IF_ERROR(AtOnce(count, [&](int i) -> absl::Status {
    TANDEM_ASSIGN_OR_RETURN(sessions[static_cast<size_t>(i)], Open(target, i));
    return Step(*sessions[static_cast<size_t>(i)], i, 1);
  }));
  std::puts("open");
  std::fflush(stdout);
  std::string line;
  std::getline(std::cin, line);
  return AtOnce(count, [&](int i) -> absl::Status {
    for (int step = 0; step < kSteps; ++step) {
      TANDEM_RETURN_IF_ERROR(Step(*sessions[static_cast<size_t>(i)], i, step));
    }
    return absl::OkStatus();
  });
}

}  // namespace
}  // namespace tandem

int main(int argc, char** argv) {
  int count = 0;
  if (argc != 3 || !absl::SimpleAtoi(argv[2], &count)) {
    std::fprintf(stderr, "usage: many_sessions TARGET COUNT\n");
    return 2;
  }
  const absl::Status status = tandem::Run(argv[1], count);
  if (status.ok()) return 0;
  std::fprintf(stderr, "many_sessions: %s\n", status.ToString().c_str());
  return 1;
}
