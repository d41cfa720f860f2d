#include "runtime/parameter_server/shard_test_util.h"

#include <algorithm>
#include <cstring>
#include <thread>

#include "absl/time/clock.h"
#include "core/base/status.h"
#include "core/graph/export.h"
#include "core/kernel/factories.h"
#include "gtest/gtest.h"

namespace tandem::parameter_server {
namespace {

constexpr absl::Duration kLongTime = absl::Seconds(120);

// What the kernels below ask.
struct Gate {
  Mutex mu;
  CondVar changed;
  int holds ABSL_GUARDED_BY(mu) = 0;
  int failures ABSL_GUARDED_BY(mu) = 0;
  std::vector<AsyncKernel::Done> waiting ABSL_GUARDED_BY(mu);
};
Gate& TheGate() {
  static Gate& gate = *new Gate;
  return gate;
}

class PassGateKernel final : public AsyncKernel {
 public:
  void Start(KernelContext&, Done done) override {
    Gate& gate = TheGate();
    absl::Status status;
    {
      MutexLock lock(gate.mu);
      if (gate.holds > 0) {
        gate.waiting.push_back(std::move(done));
        gate.changed.NotifyAll();
        return;
      }
      if (gate.failures > 0) {
        --gate.failures;
        status = errors::DataLoss("a test lets this fail");
      }
    }
    done(status);
  }
};

TANDEM_OP("_TestPassGate")
    .Stateful()
    .Shape([](ShapeContext&) { return absl::OkStatus(); })
    .Cpu(Make<PassGateKernel>());

std::vector<std::string> Outputs(const std::vector<std::string>& nodes) {
  std::vector<std::string> outputs;
  for (const std::string& node : nodes) outputs.push_back(node + ":0");
  return outputs;
}

}  // namespace

Output DefinitionBuilder::AddVariable(const std::string& name, DataType dtype,
                                      const PartialShape& shape) {
  const Output handle =
      scope_.WithOpName(name).Call("VarHandleOp", {}, {{"dtype", dtype}, {"shape", shape}});
  Variable& variable = variables_.emplace_back();
  variable.set_name(name);
  variable.set_handle(name);
  variable.set_stride(1);
  return handle;
}

Output DefinitionBuilder::AddPlaceholder(const std::string& name, DataType dtype,
                                         const PartialShape& shape) {
  return scope_.WithOpName(name).Call("Placeholder", {}, {{"dtype", dtype}, {"shape", shape}});
}

Program& DefinitionBuilder::AddPush(const std::string& name, std::vector<std::string> feeds,
                                    std::vector<std::string> targets,
                                    std::vector<Combination> combinations) {
  Program& program = programs_.emplace_back();
  program.set_name(name);
  for (std::string& feed : Outputs(feeds)) program.add_feeds(std::move(feed));
  for (std::string& target : targets) program.add_targets(std::move(target));
  program.set_updates(true);
  for (const Combination combination : combinations) program.add_combinations(combination);
  return program;
}

Program& DefinitionBuilder::AddPull(const std::string& name, std::vector<std::string> feeds,
                                    std::vector<std::string> fetches) {
  Program& program = programs_.emplace_back();
  program.set_name(name);
  for (std::string& feed : Outputs(feeds)) program.add_feeds(std::move(feed));
  for (std::string& fetch : Outputs(fetches)) program.add_fetches(std::move(fetch));
  return program;
}

Definition DefinitionBuilder::Finish() {
  EXPECT_TRUE(scope_.ok()) << scope_.status();
  ExportOptions options;
  options.internal_ops = true;
  absl::StatusOr<tensorflow::GraphDef> graph = ExportGraphDef(*scope_.graph(), options);
  EXPECT_TRUE(graph.ok()) << graph.status();
  return {*std::move(graph), programs_, variables_};
}

Definition CounterDefinition() {
  DefinitionBuilder b;
  const Scope& s = b.scope();
  const Output count = b.AddVariable("count", kInt64, PartialShape(Shape()));
  const Output sum = b.AddVariable("sum", kFloat32, {4});
  const Output twin = b.AddVariable("twin", kFloat32, {4});
  const Output zeros = s.WithOpName("zeros").Constant({0.f, 0.f, 0.f, 0.f});
  s.WithOpName("init_count").AddNode("AssignVariableOp", {count, Tensor::Scalar<int64_t>(0)});
  s.WithOpName("init_sum").AddNode("AssignVariableOp", {sum, zeros});
  s.WithOpName("init_twin").AddNode("AssignVariableOp", {twin, zeros});
  b.AddPush("init/push", {}, {"init_count", "init_sum", "init_twin"});

  const Output n = b.AddPlaceholder("n", kInt64, PartialShape(Shape()));
  Node* const gate = s.WithOpName("gate").AddNode("_TestPassGate", {});
  s.WithOpName("add_count")
      .WithControlDependencies({gate})
      .AddNode("AssignAddVariableOp", {count, n});
  b.AddPush("count/push", {"n"}, {"add_count"}, {SUM});
  const Output x = b.AddPlaceholder("x", kFloat32, {4});
  s.WithOpName("add_sum").AddNode("AssignAddVariableOp", {sum, x});
  s.WithOpName("add_twin").AddNode("AssignAddVariableOp", {twin, x});
  b.AddPush("pair/push", {"x"}, {"add_sum", "add_twin"}, {SUM});

  s.WithOpName("read_count").Call("ReadVariableOp", {count}, {{"dtype", kInt64}});
  const Output read = s.WithOpName("read_sum").Call("ReadVariableOp", {sum}, {{"dtype", kFloat32}});
  s.WithOpName("read_twin").Call("ReadVariableOp", {twin}, {{"dtype", kFloat32}});
  b.AddPull("read/pull", {}, {"read_count", "read_sum", "read_twin"});
  const Output factor = b.AddPlaceholder("factor", kFloat32, PartialShape(Shape()));
  s.WithOpName("scaled").Call("Mul", {read, factor});
  b.AddPull("scaled/pull", {"factor"}, {"scaled"});
  return b.Finish();
}

Definition OptimizerDefinition() {
  DefinitionBuilder b;
  const Scope& s = b.scope();
  const Output w = b.AddVariable("w", kFloat32, {3});
  const Output m = b.AddVariable("w/m", kFloat32, {3});
  const Output v = b.AddVariable("w/v", kFloat32, {3});
  const Output table = b.AddVariable("table", kFloat32, {10, 2});
  const Output accum = b.AddVariable("table/accum", kFloat32, {10, 2});
  const Output zeros = s.WithOpName("zeros").Constant({0.f, 0.f, 0.f});
  s.WithOpName("init_w").AddNode("AssignVariableOp", {w, {0.1f, -0.2f, 0.3f}});
  s.WithOpName("init_m").AddNode("AssignVariableOp", {m, zeros});
  s.WithOpName("init_v").AddNode("AssignVariableOp", {v, zeros});
  const Output rows = s.WithOpName("some_rows").Call("Fill", {{10, 2}, 0.5f});
  s.WithOpName("init_table").AddNode("AssignVariableOp", {table, rows});
  s.WithOpName("init_accum").AddNode("AssignVariableOp", {accum, rows});
  b.AddPush("init/push", {}, {"init_w", "init_m", "init_v", "init_table", "init_accum"});

  const Output grad = b.AddPlaceholder("grad", kFloat32, {3});
  const Output values = b.AddPlaceholder("values", kFloat32, {PartialShape::kUnknownDim, 2});
  const Output indices = b.AddPlaceholder("rows", kInt64, {PartialShape::kUnknownDim});
  s.WithOpName("adam").AddNode("ResourceApplyAdam",
                               {w, m, v, 0.9f, 0.999f, 0.01f, 0.9f, 0.999f, 1e-8f, grad});
  const std::vector<Output> distinct =
      s.WithOpName("distinct").CallMulti("_TandemSumDuplicates", {values, indices});
  if (distinct.size() == 2) {
    s.WithOpName("adagrad").AddNode("ResourceSparseApplyAdagrad",
                                    {table, accum, 0.1f, distinct[0], distinct[1]});
  }
  b.AddPush("train/push", {"grad", "values", "rows"}, {"adam", "adagrad"}, {SUM, CONCAT, CONCAT});
  return b.Finish();
}

Hold::Hold() {
  MutexLock lock(TheGate().mu);
  ++TheGate().holds;
}

void Hold::Release() {
  if (!std::exchange(held_, false)) return;
  Gate& gate = TheGate();
  std::vector<AsyncKernel::Done> waiting;
  int failures = 0;
  {
    MutexLock lock(gate.mu);
    if (--gate.holds > 0) return;
    waiting.swap(gate.waiting);
    failures = std::min<int>(gate.failures, static_cast<int>(waiting.size()));
    gate.failures -= failures;
  }
  for (AsyncKernel::Done& done : waiting) {
    done(failures-- > 0 ? errors::DataLoss("a test lets this fail") : absl::OkStatus());
  }
}

void Hold::WaitForRuns(int count) {
  Gate& gate = TheGate();
  const absl::Time deadline = absl::Now() + kLongTime;
  MutexLock lock(gate.mu);
  while (static_cast<int>(gate.waiting.size()) < count) {
    if (gate.changed.WaitUntil(gate.mu, deadline)) continue;
    ADD_FAILURE() << gate.waiting.size() << " runs wait, not " << count;
    return;
  }
}

void FailNext(int count) {
  MutexLock lock(TheGate().mu);
  TheGate().failures = count;
}

std::unique_ptr<Shard> MakeShard(const Definition& definition, ShardOptions options) {
  absl::StatusOr<std::unique_ptr<Shard>> shard = Shard::Create(std::move(options));
  EXPECT_TRUE(shard.ok()) << shard.status();
  const absl::Status extended =
      (*shard)->Extend(definition.graph, definition.programs, definition.variables);
  EXPECT_TRUE(extended.ok()) << extended;
  const absl::Status initialized = StartPush(**shard, Id(1, 1), "init/push", {}).status();
  EXPECT_TRUE(initialized.ok()) << initialized;
  return *std::move(shard);
}

PushId Id(uint64_t client, int64_t sequence, int64_t finished_below) {
  PushId id;
  id.set_client(client);
  id.set_sequence(sequence);
  id.set_finished_below(finished_below);
  return id;
}

Round RoundOf(int64_t number, int part, int parts, int enough, double weight, double all_weight) {
  Round round;
  round.set_number(number);
  round.set_part(part);
  round.set_parts(parts);
  round.set_enough(enough > 0 ? enough : parts);
  round.set_weight(weight);
  round.set_all_weight(all_weight > 0 ? all_weight : weight * parts);
  return round;
}

Shard::Done PendingCall::done() {
  return [shared = shared_](absl::StatusOr<ShardAnswer> answer) {
    EXPECT_FALSE(shared->done.IsSet()) << "answered twice";
    shared->answer = std::move(answer);
    shared->done.Set();
  };
}

absl::StatusOr<ShardAnswer> PendingCall::Wait() const {
  if (!shared_->done.Wait(absl::Now() + kLongTime)) {
    return errors::DeadlineExceeded("the shard did not answer");
  }
  return shared_->answer;
}

PendingCall StartPush(Shard& shard, const PushId& id, const std::string& program,
                      std::vector<Tensor> arguments, const Round* round,
                      CancellationManager* cancellation, int64_t pulled_version) {
  PendingCall call;
  shard.Push(id, round, program, std::move(arguments), pulled_version, cancellation, call.done());
  return call;
}

PendingCall StartPull(Shard& shard, const std::string& program, std::vector<Tensor> arguments,
                      int64_t wait_for_version, CancellationManager* cancellation) {
  PendingCall call;
  shard.Pull(program, std::move(arguments), wait_for_version, cancellation, call.done());
  return call;
}

void WaitUntilWaiting(const Shard& shard, int64_t count) {
  const absl::Time deadline = absl::Now() + kLongTime;
  while (shard.status().waiting != count && absl::Now() < deadline) std::this_thread::yield();
  EXPECT_EQ(shard.status().waiting, count);
}

int64_t Count(Shard& shard) {
  const absl::StatusOr<std::vector<Tensor>> values = shard.Read({"count"});
  EXPECT_TRUE(values.ok()) << values.status();
  return values.ok() ? (*values)[0].ScalarValue<int64_t>() : -1;
}

std::vector<float> Floats(const Tensor& tensor) {
  const absl::Span<const float> elements = tensor.Elements<float>();
  return std::vector<float>(elements.begin(), elements.end());
}

bool SameBits(const Tensor& a, const Tensor& b) {
  return a.dtype() == b.dtype() && a.shape() == b.shape() &&
         (a.num_bytes() == 0 || std::memcmp(a.data(), b.data(), a.num_bytes()) == 0);
}

}  // namespace tandem::parameter_server
