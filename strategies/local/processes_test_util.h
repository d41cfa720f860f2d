// A job of several processes, each with a graph, a session and a runner of its own, as threads of
// one, for tests.
#ifndef TANDEM_STRATEGIES_LOCAL_PROCESSES_TEST_UTIL_H_
#define TANDEM_STRATEGIES_LOCAL_PROCESSES_TEST_UTIL_H_

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "core/base/status.h"
#include "gtest/gtest.h"
#include "runtime/collective/group_runtime.h"
#include "runtime/collective/group_test_util.h"
#include "runtime/device/device.h"
#include "strategies/local/local_runner.h"
#include "strategies/local/replica_builder.h"

namespace tandem::testing {

// Adds a step to a builder's graph.
using Program = std::function<absl::StatusOr<RunSignature>(StrategyBuilder& builder)>;

struct JobOptions {
  std::vector<int> replicas;  // Of each process; virtual ones in deterministic mode.
  // Of each process. 0: one for each replica.
  int devices = 0;
  bool is_deterministic = false;
  // False: one process, which knows of no others.
  bool spans_processes = true;
  int64_t bucket_bytes = int64_t{1} << 20;
  int64_t first_bucket_bytes = 0;
  std::string compression;  // Of gradients of any size.
};

class Job {
 public:
  struct Process {
    std::shared_ptr<collective::GroupRuntime> between;
    std::unique_ptr<StrategyBuilder> builder;
    std::unique_ptr<LocalRunner> runner;
    std::shared_ptr<collective::Group> group;
  };

  // Opens all processes with the same program, number 0, and makes them a group.
  Job(JobOptions options, const Program& program)
      : Job(std::move(options), [&program](int) { return program; }) {}
  // Each with a program of its own.
  Job(JobOptions options, const std::function<Program(int process)>& programs)
      : options_(std::move(options)) {
    std::vector<int> all;
    for (size_t i = 0; i < options_.replicas.size(); ++i) {
      all.push_back(static_cast<int>(i));
      processes_.emplace_back();
      const absl::Status opened = Open(processes_[i], options_.replicas[i], programs(all.back()));
      EXPECT_TRUE(opened.ok()) << opened;
      opened_ = opened_ && opened.ok();
    }
    if (opened_ && options_.spans_processes) Form(all, 1);
  }
  ~Job() {
    for (Process& process : processes_) {
      process.runner.reset();
      process.group.reset();
    }
  }

  bool opened() const { return opened_; }
  Process& process(int i) { return processes_[static_cast<size_t>(i)]; }
  int size() const { return static_cast<int>(processes_.size()); }

  // These processes, ascending, are the members from here on.
  void Form(const std::vector<int>& members, int64_t generation) {
    collective::GroupOptions group = collective::TestOptions(static_cast<int>(members.size()),
                                                             collective::TransportKind::kInProcess);
    group.generation = generation;
    group.is_deterministic = options_.is_deterministic;
    collective::Groups groups = collective::FormAll(group);
    std::vector<int> replicas;
    for (const int member : members) {
      replicas.push_back(options_.replicas[static_cast<size_t>(member)]);
    }
    for (size_t rank = 0; rank < members.size(); ++rank) {
      Process& one = process(members[rank]);
      one.group = std::move(groups[rank]);
      const absl::Status set = one.between->SetGroup(one.group, replicas);
      EXPECT_TRUE(set.ok()) << set;
    }
    members_ = members;
  }

  // A step of one process.
  StrategyRunner::Result RunOne(int i, const StepInput& input) {
    return process(i).runner->Run(0, input);
  }
  // The same step of all members; what each of them gets.
  std::vector<StrategyRunner::Result> Run(const StepInput& input) {
    const std::vector<int> running = options_.spans_processes ? members_ : std::vector<int>{0};
    std::vector<StrategyRunner::Result> results(running.size(),
                                                StrategyRunner::Result(std::vector<Tensor>()));
    collective::OnAll(static_cast<int>(running.size()), [&](int rank) {
      const size_t r = static_cast<size_t>(rank);
      results[r] = RunOne(running[r], input);
    });
    return results;
  }

 private:
  absl::Status Open(Process& process, int replicas, const Program& program) {
    const int devices = options_.devices == 0 ? replicas : options_.devices;
    ReplicaBuilderOptions builder;
    for (int i = 0; i < devices; ++i) {
      builder.devices.push_back(absl::StrCat("/device:CPU:", i));
    }
    if (options_.is_deterministic) builder.virtual_replicas = replicas;
    builder.bucket_bytes = options_.bucket_bytes;
    builder.first_bucket_bytes = options_.first_bucket_bytes;
    builder.spans_processes = options_.spans_processes;
    builder.compression = options_.compression;
    builder.least_compressed_bytes = 0;
    TANDEM_ASSIGN_OR_RETURN(process.builder, NewReplicaBuilder(std::move(builder)));
    TANDEM_ASSIGN_OR_RETURN(const RunSignature signature, program(*process.builder));
    SessionOptions session;
    TANDEM_ASSIGN_OR_RETURN(session.devices, DeviceSet::Create({{"CPU", devices}}));
    if (options_.is_deterministic) session.inner_parallelism = 1;
    if (options_.spans_processes) {
      process.between = std::make_shared<collective::GroupRuntime>(options_.is_deterministic);
      session.between_processes = process.between;
    }
    TANDEM_ASSIGN_OR_RETURN(process.runner,
                            LocalRunner::Create(*process.builder, std::move(session)));
    TANDEM_RETURN_IF_ERROR(process.runner->Initialize());
    return process.runner->AddProgram(signature).status();
  }

  const JobOptions options_;
  std::vector<Process> processes_;
  std::vector<int> members_;
  bool opened_ = true;
};

// A step of "train": two variables, "weights" and "table", one of which has sparse gradients, moved
// by squares of whole numbers, so that no order of sums shows. Fetches the sum of all outputs and
// the number of examples.
absl::StatusOr<RunSignature> TrainingStep(StrategyBuilder& builder);
StepInput TrainingInput(int64_t size);

// A step over the numbers of a batch. `replica_fn` gets those of its replica; `end` may add to the
// signature before the step ends.
Program Step(std::function<absl::Status(const ReplicaContext& replica, Output part)> replica_fn,
             std::function<absl::Status(StrategyBuilder& builder, RunSignature& signature)> end);
StepInput InputOf(const std::vector<float>& batch, int64_t step = 0);

// Building blocks of programs.
Output Placeholder(const Scope& scope, const std::string& name, DataType dtype, PartialShape shape);
Output SumOf(const Scope& scope, const Output& part);
// A float32 scalar that begins with 0 and is not trained.
VariableSpec ScalarVariable(const std::string& name, Synchronization synchronization,
                            Aggregation aggregation);

std::vector<float> Floats(const Tensor& tensor);
void ExpectSame(const std::vector<Tensor>& got, const std::vector<Tensor>& expected);
std::vector<Tensor> StateOf(LocalRunner& runner);
float ValueOf(Job& job, int process, const std::string& name);

}  // namespace tandem::testing

#endif  // TANDEM_STRATEGIES_LOCAL_PROCESSES_TEST_UTIL_H_
