// Shards on servers of this process, with counters, for tests.
#ifndef TANDEM_TESTS_PARAMETER_SERVER_SERVER_TEST_UTIL_H_
#define TANDEM_TESTS_PARAMETER_SERVER_SERVER_TEST_UTIL_H_

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "gtest/gtest.h"
#include "runtime/parameter_server/remote_store.h"
#include "runtime/parameter_server/shard_client.h"
#include "runtime/parameter_server/shard_test_util.h"
#include "runtime/rpc/test_cluster.h"

namespace tandem::parameter_server {

inline constexpr char kJob[] = "training";

// One that no test reaches; a call that hangs says so.
inline absl::Time Soon() { return absl::Now() + absl::Seconds(60); }

// CounterDefinition() as shard `number` of kJob.
inline ShardDefinition CounterShard(int number = 0) {
  Definition counter = CounterDefinition();
  ShardDefinition definition;
  definition.job = kJob;
  definition.number = number;
  definition.graph = std::move(counter.graph);
  definition.programs = std::move(counter.programs);
  definition.variables = std::move(counter.variables);
  return definition;
}

inline std::shared_ptr<CallFaults> Faults(const std::string& text) {
  auto faults = CallFaults::Parse(text);
  EXPECT_TRUE(faults.ok()) << faults.status();
  return *faults;
}

inline std::unique_ptr<ShardClient> ClientOf(const std::string& address,
                                             std::shared_ptr<CallFaults> faults = nullptr) {
  ShardClient::Options options;
  options.security = Security();
  options.faults = std::move(faults);
  auto client = ShardClient::Create(address, std::move(options));
  EXPECT_TRUE(client.ok()) << client.status();
  return *std::move(client);
}

// A shard at a server, for steps of one client of it.
struct Way {
  std::string address;
  uint64_t incarnation = 0;
  int number = 0;

  Route To(uint64_t client, int64_t sequence, absl::Duration timeout = absl::Seconds(60)) const {
    Route route;
    route.set_job(kJob);
    Route::Shard* const shard = route.add_shards();
    shard->set_number(number);
    shard->set_address(address);
    shard->set_incarnation(incarnation);
    *route.mutable_id() = Id(client, sequence);
    route.set_timeout_ms(absl::ToInt64Milliseconds(timeout));
    return route;
  }
};

inline std::shared_ptr<RemoteStore> NewStore(std::shared_ptr<CallFaults> faults = nullptr) {
  RemoteStore::Options options;
  options.faults = std::move(faults);
  // As the servers of TestCluster have it.
  const RemoteSessionOptions wanted = TestSessionOptions();
  options.host_transfers = wanted.host_transfers;
  options.least_host_transfer_bytes = wanted.least_host_transfer_bytes;
  return std::make_shared<RemoteStore>(std::move(options));
}

// A call of a program, as a kernel makes it.
inline PendingCall StartCall(ParameterStore& store, const Route& route, const std::string& program,
                             std::vector<Tensor> arguments,
                             CancellationManager* cancellation = nullptr) {
  ShardCall call;
  call.route = route.SerializeAsString();
  call.shard = route.shards(0).number();
  call.program = program;
  call.updates = absl::EndsWith(program, "/push");
  call.results = call.updates ? 0 : 3;  // At most.
  PendingCall pending;
  store.Call(std::move(call), std::move(arguments), cancellation, pending.done());
  return pending;
}

inline absl::Status Add(ParameterStore& store, const Route& route, int64_t number = 1) {
  return StartCall(store, route, "count/push", {Tensor::Scalar<int64_t>(number)}).status();
}
inline absl::Status AddPair(ParameterStore& store, const Route& route) {
  return StartCall(store, route, "pair/push", {Tensor::Vector<float>({1, 2, 3, 4})}).status();
}

// The shard's counter; -1: it cannot be read.
inline int64_t CountAt(ShardClient& client, int number = 0) {
  const auto values = client.Read(kJob, number, {"count"}, Soon());
  EXPECT_TRUE(values.ok()) << values.status();
  return values.ok() && values->size() == 1 ? (*values)[0].second.ScalarValue<int64_t>() : -1;
}

}  // namespace tandem::parameter_server

#endif  // TANDEM_TESTS_PARAMETER_SERVER_SERVER_TEST_UTIL_H_
