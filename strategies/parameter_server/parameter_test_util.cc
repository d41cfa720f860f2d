#include "strategies/parameter_server/parameter_test_util.h"

#include <algorithm>
#include <map>

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"
#include "core/base/status.h"
#include "runtime/session/session.h"
#include "strategies/parameter_server/join.h"

namespace tandem::parameter_server {
namespace {

// What a step may take on a machine that does much else.
constexpr absl::Duration kPatience = absl::Seconds(60);

int64_t BytesOf(const std::vector<Tensor>& tensors) {
  int64_t bytes = 0;
  for (const Tensor& tensor : tensors) {
    bytes += tensor.num_elements() * static_cast<int64_t>(DataTypeSize(tensor.dtype()));
  }
  return bytes;
}

}  // namespace

absl::StatusOr<std::shared_ptr<InProcessShards>> InProcessShards::Create(int shards) {
  std::vector<std::unique_ptr<Shard>> list;
  for (int i = 0; i < shards; ++i) {
    TANDEM_ASSIGN_OR_RETURN(std::unique_ptr<Shard> shard, Shard::Create({}));
    list.push_back(std::move(shard));
  }
  return std::shared_ptr<InProcessShards>(new InProcessShards(std::move(list)));
}

absl::Status InProcessShards::Define(const CutStep& step, const ParameterBuilder& builder) {
  std::map<int, std::vector<parameter_server::Variable>> variables;
  for (const StrategyVariable* variable : builder.variables()) {
    for (const VariablePart& part : builder.PartsOf(*variable)) {
      variables[part.shard].push_back(part.variable);
    }
  }
  for (const ShardPart& part : step.shards) {
    TANDEM_RETURN_IF_ERROR(shard(part.shard)
                               .Extend(part.graph, part.programs,
                                       step.has_worker ? std::vector<parameter_server::Variable>()
                                                       : variables[part.shard]));
  }
  return absl::OkStatus();
}

absl::Status InProcessShards::RunWithoutWorker(const CutStep& step, const PushId& id) {
  for (const ShardPart& part : step.shards) {
    for (const Program& program : part.programs) {
      Event ended;
      absl::Status status;
      shard(part.shard)
          .Push(id, nullptr, program.name(), {}, -1, nullptr,
                [&](absl::StatusOr<ShardAnswer> answer) {
                  status = answer.status();
                  ended.Set();
                });
      ended.Wait();
      TANDEM_RETURN_IF_ERROR(status);
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<Tensor> InProcessShards::Read(const ParameterBuilder& builder,
                                             const StrategyVariable& variable) {
  Tensor whole(variable.spec().dtype, variable.spec().shape);
  for (const VariablePart& part : builder.PartsOf(variable)) {
    TANDEM_ASSIGN_OR_RETURN(const std::vector<Tensor> values,
                            shard(part.shard).Read({part.variable.name()}));
    if (values[0].shape() != part.shape) {
      return errors::Internal("part '", part.variable.name(), "' has the shape ",
                              values[0].shape().DebugString());
    }
    if (builder.PartsOf(variable).size() == 1) return values[0];
    TANDEM_RETURN_IF_ERROR(
        PutRows(values[0], {part.variable.offset(), part.variable.stride()}, &whole));
  }
  return whole;
}

absl::Status InProcessShards::Write(const ParameterBuilder& builder,
                                    const StrategyVariable& variable, const Tensor& value) {
  const std::vector<VariablePart> parts = builder.PartsOf(variable);
  for (const VariablePart& part : parts) {
    Tensor rows = value;
    if (parts.size() > 1) {
      TANDEM_ASSIGN_OR_RETURN(
          rows, TakeRows(value, {part.variable.offset(), part.variable.stride()}, part.shape));
    }
    TANDEM_RETURN_IF_ERROR(shard(part.shard).Write({{part.variable.name(), std::move(rows)}}));
  }
  return absl::OkStatus();
}

absl::StatusOr<StrategyState> InProcessShards::Capture(const ParameterBuilder& builder) {
  StrategyState state;
  for (const StrategyVariable* variable : builder.variables()) {
    TANDEM_ASSIGN_OR_RETURN(Tensor value, Read(builder, *variable));
    state.emplace_back(variable->name(), std::move(value));
  }
  return state;
}

void InProcessShards::Call(ShardCall call, std::vector<Tensor> arguments,
                           CancellationManager* cancellation, Done done) {
  Route route;
  if (!route.ParseFromString(call.route)) {
    return done(errors::InvalidArgument("node '", call.node, "': the route cannot be read"));
  }
  const auto target = absl::c_find_if(
      route.shards(), [&](const Route::Shard& entry) { return entry.number() == call.shard; });
  if (target == route.shards().end() || call.shard >= num_shards()) {
    return done(
        errors::InvalidArgument("node '", call.node, "': the route has no shard ", call.shard));
  }
  TestCall record{call.shard, call.program, call.updates, call.pulled_version, BytesOf(arguments)};
  Done ended = [this, record = std::move(record),
                done = std::move(done)](absl::StatusOr<ShardAnswer> answer) mutable {
    if (answer.ok()) record.result_bytes = BytesOf(answer->results);
    {
      MutexLock lock(mu_);
      calls_.push_back(std::move(record));
    }
    done(std::move(answer));
  };
  if (!call.updates) {
    return shard(call.shard)
        .Pull(call.program, std::move(arguments), target->version(), cancellation,
              std::move(ended));
  }
  Round round = route.round();
  round.set_number(target->version());
  shard(call.shard)
      .Push(route.id(), route.has_round() ? &round : nullptr, call.program, std::move(arguments),
            call.pulled_version, cancellation, std::move(ended));
}

std::vector<TestCall> InProcessShards::TakeCalls() {
  MutexLock lock(mu_);
  return std::exchange(calls_, {});
}

class InProcessParameterStrategy::Runner final : public StrategyRunner {
 public:
  Runner(const InProcessParameterStrategy& strategy, const ParameterBuilder& builder)
      : strategy_(strategy), builder_(builder) {}

  absl::Status Initialize() override {
    TANDEM_ASSIGN_OR_RETURN(const CutStep step,
                            CutGraph(*builder_.graph(), {{}, {}, {builder_.initializer()}},
                                     {.name = "initialize", .shards_compute = true}));
    TANDEM_RETURN_IF_ERROR(strategy_.shards().Define(step, builder_));
    return strategy_.shards().RunWithoutWorker(step, NextId());
  }

  absl::StatusOr<int> AddProgram(const RunSignature& signature) override {
    TANDEM_ASSIGN_OR_RETURN(CutStep step,
                            CutGraph(*builder_.graph(), signature,
                                     {.name = absl::StrCat("program_", programs_.size())}));
    TANDEM_RETURN_IF_ERROR(strategy_.shards().Define(step, builder_));
    SessionOptions options;
    options.parameter_store = strategy_.shards_;
    Program program;
    program.fetches = signature.fetches;
    for (const ShardPart& part : step.shards) {
      for (const parameter_server::Program& called : part.programs) {
        if (called.updates()) program.updated.push_back(part.shard);
      }
    }
    TANDEM_ASSIGN_OR_RETURN(program.session, Session::Create(step.worker, options));
    TANDEM_ASSIGN_OR_RETURN(program.callable, program.session->MakeCallable(step.signature));
    programs_.push_back(std::move(program));
    return static_cast<int>(programs_.size()) - 1;
  }

  void Start(int program, StepInput input, Done done) override { done(Run(program, input)); }

  Result Run(int number, StepInput input) override {
    if (number < 0 || number >= static_cast<int>(programs_.size())) {
      return errors::InvalidArgument("there is no program ", number);
    }
    const Program& program = programs_[static_cast<size_t>(number)];
    const int parts = program.updated.empty() ? 1 : strategy_.options_.workers;
    const int64_t all = input.batch.empty() ? 1 : input.batch[0].shape().dim(0);
    std::vector<std::vector<Tensor>> results(static_cast<size_t>(parts));
    std::vector<absl::Status> statuses(static_cast<size_t>(parts));
    std::vector<Event> ended(static_cast<size_t>(parts));
    RunOptions options;
    CancellationManager cancellation;
    options.cancellation = &cancellation;
    for (int part = 0; part < parts; ++part) {
      const size_t p = static_cast<size_t>(part);
      absl::StatusOr<std::vector<Tensor>> feeds = CutBatch(input.batch, {parts, part, 1}, false);
      if (!feeds.ok()) {
        statuses[p] = feeds.status();
        cancellation.Cancel(statuses[p]);
        ended[p].Set();
        continue;
      }
      Route route = NewRoute();
      if (parts > 1) {
        Round& round = *route.mutable_round();
        round.set_part(part);
        round.set_parts(parts);
        round.set_enough(parts);
        round.set_weight(static_cast<double>(input.batch.empty() ? 1 : (*feeds)[0].shape().dim(0)));
        round.set_all_weight(static_cast<double>(all));
      }
      feeds->insert(feeds->end(), input.values.begin(), input.values.end());
      feeds->push_back(Tensor::Scalar<std::string>(route.SerializeAsString()));
      program.callable->Start(*std::move(feeds), options, nullptr,
                              [&, p](absl::StatusOr<std::vector<Tensor>> values) {
                                statuses[p] = values.status();
                                if (values.ok()) results[p] = *std::move(values);
                                // The others would wait for its part.
                                if (!statuses[p].ok()) cancellation.Cancel(statuses[p]);
                                ended[p].Set();
                              });
    }
    absl::Status first;
    for (int part = 0; part < parts; ++part) {
      const size_t p = static_cast<size_t>(part);
      ended[p].Wait();
      first.Update(statuses[p]);
    }
    TANDEM_RETURN_IF_ERROR(first);
    return JoinAll(program, results);
  }

  void CancelSteps(const absl::Status&) override {}

  absl::StatusOr<StrategyState> CaptureState() override {
    return strategy_.shards().Capture(builder_);
  }

  absl::Status RestoreState(const StrategyState& state) override {
    std::map<std::string, const Tensor*> by_name;
    for (const auto& [name, value] : state) by_name[name] = &value;
    for (const StrategyVariable* variable : builder_.variables()) {
      const auto found = by_name.find(variable->name());
      if (found == by_name.end()) {
        return errors::NotFound("the state has no variable '", variable->name(), "'");
      }
      TANDEM_RETURN_IF_ERROR(strategy_.shards().Write(builder_, *variable, *found->second));
    }
    return absl::OkStatus();
  }

  absl::StatusOr<Tensor> ReadVariable(const std::string& name) override {
    for (const StrategyVariable* variable : builder_.variables()) {
      if (variable->name() == name) return strategy_.shards().Read(builder_, *variable);
    }
    return errors::NotFound("there is no variable '", name, "'");
  }

 private:
  struct Program {
    std::vector<std::string> fetches;
    std::vector<int> updated;  // Shards.
    std::unique_ptr<Session> session;
    std::unique_ptr<Session::Callable> callable;  // Before its session.
  };

  PushId NextId() {
    PushId id;
    id.set_client(1);
    id.set_sequence(++sequence_);
    return id;
  }

  Route NewRoute() {
    Route route;
    *route.mutable_id() = NextId();
    route.set_timeout_ms(absl::ToInt64Milliseconds(kPatience));
    for (int s = 0; s < strategy_.shards().num_shards(); ++s) {
      Route::Shard& shard = *route.add_shards();
      shard.set_number(s);
      shard.set_version(strategy_.shards().shard(s).version());
    }
    return route;
  }

  Result JoinAll(const Program& program, std::vector<std::vector<Tensor>>& results) const {
    if (results.size() == 1) return std::move(results[0]);
    std::vector<Tensor> joined;
    for (size_t i = 0; i < program.fetches.size(); ++i) {
      std::vector<Tensor> parts;
      for (const std::vector<Tensor>& result : results) parts.push_back(result[i]);
      const absl::StatusOr<Join> join = builder_.JoinOf(program.fetches[i]);
      if (!join.ok()) {
        joined.push_back(parts[0]);
        continue;
      }
      TANDEM_ASSIGN_OR_RETURN(Tensor value, JoinResults(*join, parts, 1.0));
      joined.push_back(std::move(value));
    }
    return joined;
  }

  const InProcessParameterStrategy& strategy_;
  const ParameterBuilder& builder_;
  std::vector<Program> programs_;
  int64_t sequence_ = 0;
};

absl::StatusOr<std::unique_ptr<InProcessParameterStrategy>> InProcessParameterStrategy::Create(
    InProcessOptions options) {
  TANDEM_ASSIGN_OR_RETURN(std::shared_ptr<InProcessShards> shards,
                          InProcessShards::Create(options.builder.shards));
  return std::unique_ptr<InProcessParameterStrategy>(
      new InProcessParameterStrategy(std::move(options), std::move(shards)));
}

absl::StatusOr<std::unique_ptr<StrategyBuilder>> InProcessParameterStrategy::NewBuilder() const {
  TANDEM_ASSIGN_OR_RETURN(std::unique_ptr<ParameterBuilder> builder,
                          NewParameterBuilder(options_.builder));
  builder->set_strategy(this);
  return std::unique_ptr<StrategyBuilder>(std::move(builder));
}

absl::StatusOr<std::unique_ptr<StrategyRunner>> InProcessParameterStrategy::NewRunner(
    const StrategyBuilder& builder) const {
  if (builder.strategy() != this) {
    return errors::InvalidArgument("the builder is not one of this strategy's");
  }
  return std::unique_ptr<StrategyRunner>(
      std::make_unique<Runner>(*this, static_cast<const ParameterBuilder&>(builder)));
}

}  // namespace tandem::parameter_server
