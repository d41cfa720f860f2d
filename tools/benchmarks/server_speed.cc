// server_speed TARGET: what a session on a server costs a client in C++. Prints a line for each
// figure: its name and microseconds, the median of many. server_speed.py runs it in turn with
// clients in Python.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <string>
#include <vector>

#include "core/base/mutex.h"
#include "core/base/status.h"
#include "core/graph/scope.h"
#include "grpcpp/grpcpp.h"
#include "proto/worker_service.grpc.pb.h"
#include "runtime/rpc/remote_server.h"
#include "runtime/rpc/remote_session.h"

namespace tandem {
namespace {

constexpr double kSeconds = 2;
constexpr int64_t kFloats = int64_t{4} << 20;  // 16 MiB.

double MicrosSince(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - start)
      .count();
}

// The median duration of `work`, called again and again.
template <typename Work>
absl::Status Measure(const std::string& name, Work work) {
  for (int i = 0; i < 20; ++i) TANDEM_RETURN_IF_ERROR(work());
  std::vector<double> micros;
  const auto begin = std::chrono::steady_clock::now();
  while (MicrosSince(begin) < kSeconds * 1e6) {
    const auto start = std::chrono::steady_clock::now();
    TANDEM_RETURN_IF_ERROR(work());
    micros.push_back(MicrosSince(start));
  }
  std::nth_element(micros.begin(), micros.begin() + static_cast<ptrdiff_t>(micros.size() / 2),
                   micros.end());
  std::printf("%s %.1f\n", name.c_str(), micros[micros.size() / 2]);
  return absl::OkStatus();
}

Scope Steps() {
  Scope s = Scope::NewRoot();
  const Output x =
      s.WithOpName("x").Call("Placeholder", {}, {{"dtype", kFloat32}, {"shape", PartialShape({})}});
  s.WithOpName("y").Call("AddV2", {x, 1.0f});
  const Output v = s.WithOpName("v").Call(
      "VarHandleOp", {},
      {{"dtype", kFloat32}, {"shape", PartialShape({kFloats})}, {"shared_name", std::string("v")}});
  const Output filled = s.Call("Fill", {{static_cast<int32_t>(kFloats)}, 1.0f});
  s.WithOpName("set").AddNode("AssignVariableOp", {v, filled});
  s.WithOpName("value").Call("ReadVariableOp", {v}, {{"dtype", kFloat32}});
  const Output large = s.WithOpName("large").Call(
      "Placeholder", {}, {{"dtype", kFloat32}, {"shape", PartialShape({kFloats})}});
  s.WithOpName("given").Call("Size", {large});
  return s;
}

// 16 MiB to and from the server, as `options` have it.
absl::Status MeasureLarge(const std::string& target, const RemoteSessionOptions& options,
                          const std::string& way) {
  const Scope s = Steps();
  TANDEM_ASSIGN_OR_RETURN(const std::unique_ptr<Session> session,
                          ConnectSession(target, *s.graph(), options));
  TANDEM_RETURN_IF_ERROR(session->Run({}, {}, {"set"}).status());
  TANDEM_RETURN_IF_ERROR(
      Measure("fetch" + way, [&] { return session->Run({}, {"value"}).status(); }));
  const Tensor large = Tensor::Zeros(kFloat32, Shape({kFloats}));
  return Measure("feed" + way, [&] {
    return session->Run({{"large", large}}, {"given"}).status();
  });
}

absl::Status Run(const std::string& target) {
  TANDEM_ASSIGN_OR_RETURN(const std::string address, AddressOfTarget(target));
  const auto stub = tensorflow::WorkerService::NewStub(ConnectToServer(address));
  TANDEM_RETURN_IF_ERROR(Measure("bare_call", [&] {
    grpc::ClientContext context;
    tensorflow::GetStatusResponse response;
    return stub->GetStatus(&context, {}, &response).ok() ? absl::OkStatus()
                                                         : errors::Unavailable("GetStatus");
  }));
  const Scope s = Steps();
  TANDEM_RETURN_IF_ERROR(s.status());
  const Tensor one = Tensor::Scalar<float>(1);
  {
    TANDEM_ASSIGN_OR_RETURN(const std::unique_ptr<Session> session,
                            Session::Create(target, *s.graph()));
    TANDEM_RETURN_IF_ERROR(Measure("one_op", [&] {
      return session->Run({{"x", one}}, {"y"}).status();
    }));
    TANDEM_ASSIGN_OR_RETURN(const std::unique_ptr<Session::Callable> callable,
                            session->MakeCallable({{"x:0"}, {"y:0"}, {}}));
    TANDEM_RETURN_IF_ERROR(Measure("callable", [&] { return callable->Run({one}).status(); }));
    // The answer comes on a thread of gRPC's.
    TANDEM_RETURN_IF_ERROR(Measure("started_callable", [&] {
      absl::Status status;
      Event ended;
      callable->Start({one}, {}, nullptr, [&](const absl::StatusOr<std::vector<Tensor>>& results) {
        status = results.status();
        ended.Set();
      });
      ended.Wait();
      return status;
    }));
  }
  TANDEM_RETURN_IF_ERROR(MeasureLarge(target, {}, ""));
  RemoteSessionOptions in_messages;
  in_messages.host_transfers = HostTransfers::kOff;
  return MeasureLarge(target, in_messages, "_in_messages");
}

}  // namespace
}  // namespace tandem

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fprintf(stderr, "usage: server_speed TARGET\n");
    return 2;
  }
  const absl::Status status = tandem::Run(argv[1]);
  if (status.ok()) return 0;
  std::fprintf(stderr, "server_speed: %s\n", status.ToString().c_str());
  return 1;
}
