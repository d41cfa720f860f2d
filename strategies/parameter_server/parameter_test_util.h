// For tests of parameter servers: shards in this process, and a strategy whose steps use them. All
// is as in a job of many processes but the network, and what may be lost there.
#ifndef TANDEM_STRATEGIES_PARAMETER_SERVER_PARAMETER_TEST_UTIL_H_
#define TANDEM_STRATEGIES_PARAMETER_SERVER_PARAMETER_TEST_UTIL_H_

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "core/base/mutex.h"
#include "core/kernel/parameter_store.h"
#include "runtime/parameter_server/shard.h"
#include "strategies/parameter_server/cut.h"
#include "strategies/parameter_server/parameter_builder.h"
#include "strategies/strategy.h"

namespace tandem::parameter_server {

// What went to a shard and came back.
struct TestCall {
  int shard = 0;
  std::string program;
  bool updates = false;
  int64_t pulled_version = -1;
  int64_t argument_bytes = 0;
  int64_t result_bytes = 0;  // 0 if it failed.
};

// Shards of this process, which a step reaches as it would those of servers. Addresses and
// incarnations of its route are not looked at.
//
// Threads: any.
class InProcessShards final : public ParameterStore {
 public:
  // Errors: those of Shard::Create.
  static absl::StatusOr<std::shared_ptr<InProcessShards>> Create(int shards);

  int num_shards() const { return static_cast<int>(shards_.size()); }
  Shard& shard(int number) { return *shards_[static_cast<size_t>(number)]; }

  // Gives the shards what the step needs of them, and those variables of the builder's that they do
  // not have.
  absl::Status Define(const CutStep& step, const ParameterBuilder& builder);
  // Calls the programs of a step without a worker, and waits for them.
  absl::Status RunWithoutWorker(const CutStep& step, const PushId& id);

  // The values of whole variables, in the builder's order; or of one.
  absl::StatusOr<StrategyState> Capture(const ParameterBuilder& builder);
  absl::StatusOr<Tensor> Read(const ParameterBuilder& builder, const StrategyVariable& variable);
  absl::Status Write(const ParameterBuilder& builder, const StrategyVariable& variable,
                     const Tensor& value);

  void Call(ShardCall call, std::vector<Tensor> arguments, CancellationManager* cancellation,
            Done done) override;

  // The calls since it was last asked, in the order in which they ended.
  std::vector<TestCall> TakeCalls();

 private:
  explicit InProcessShards(std::vector<std::unique_ptr<Shard>> shards)
      : shards_(std::move(shards)) {}

  const std::vector<std::unique_ptr<Shard>> shards_;
  Mutex mu_;
  std::vector<TestCall> calls_ ABSL_GUARDED_BY(mu_);
};

struct InProcessOptions {
  ParameterBuilderOptions builder;
  // Above 1: each step is cut into a part for each of so many workers, whose updates are one.
  int workers = 1;
};

// Its steps end one after the other.
class InProcessParameterStrategy final : public Strategy {
 public:
  // Errors: those of InProcessShards::Create.
  static absl::StatusOr<std::unique_ptr<InProcessParameterStrategy>> Create(
      InProcessOptions options);

  std::string name() const override { return "in_process_parameter_servers"; }
  absl::StatusOr<std::unique_ptr<StrategyBuilder>> NewBuilder() const override;
  absl::StatusOr<std::unique_ptr<StrategyRunner>> NewRunner(
      const StrategyBuilder& builder) const override;

  InProcessShards& shards() const { return *shards_; }

 private:
  class Runner;

  InProcessParameterStrategy(InProcessOptions options, std::shared_ptr<InProcessShards> shards)
      : options_(std::move(options)), shards_(std::move(shards)) {}

  const InProcessOptions options_;
  const std::shared_ptr<InProcessShards> shards_;
};

}  // namespace tandem::parameter_server

#endif  // TANDEM_STRATEGIES_PARAMETER_SERVER_PARAMETER_TEST_UTIL_H_
