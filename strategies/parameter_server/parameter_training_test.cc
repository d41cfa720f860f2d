// Trainings with parameter servers in this process give the numbers that one device gives.
#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "strategies/nn/layer_call.h"
#include "strategies/optimizer/accumulate.h"
#include "strategies/optimizer/clipping.h"
#include "strategies/parameter_server/parameter_test_util.h"
#include "strategies/testing/classification_problem.h"
#include "strategies/testing/layer_problems.h"
#include "strategies/trainer/trainer.h"

namespace tandem::parameter_server {
namespace {

using testing::ClassificationEpochs;
using testing::kClasses;

constexpr int64_t kWords = 40;
constexpr int64_t kLength = 3;

// Words, the first of which gives the class. Some come twice in a batch, most do not come.
std::vector<Tensor> WordBatch(int64_t number, int64_t size) {
  Tensor words(kInt32, Shape({size, kLength}));
  Tensor classes(kInt32, Shape({size}));
  uint32_t state = static_cast<uint32_t>(number) * 2654435761u + 1;
  for (int64_t i = 0; i < size; ++i) {
    for (int64_t j = 0; j < kLength; ++j) {
      state = state * 1664525u + 1013904223u;
      words.MutableElements<int32_t>()[static_cast<size_t>(i * kLength + j)] =
          static_cast<int32_t>((state >> 16) % kWords);
    }
    classes.MutableElements<int32_t>()[static_cast<size_t>(i)] =
        words.Elements<int32_t>()[static_cast<size_t>(i * kLength)] % 4;
  }
  return {words, classes};
}

OpenEpoch WordEpoch(int64_t steps, int64_t size) {
  return [steps, size](int) -> absl::StatusOr<NextBatch> {
    auto next = std::make_shared<int64_t>(0);
    return NextBatch([=]() -> absl::StatusOr<absl::optional<std::vector<Tensor>>> {
      if (*next == steps) return absl::optional<std::vector<Tensor>>();
      return absl::optional<std::vector<Tensor>>(WordBatch((*next)++, size));
    });
  };
}

nn::LayerPtr WordModel(bool spread = false) {
  return nn::Sequential(
      {nn::Embedding({.input_dim = kWords, .output_dim = 6, .spread_rows = spread}), nn::Flatten(),
       nn::Dense({.units = 10, .activation = "tanh"}), nn::Dense({.units = 4})});
}

// 3 servers, among which all but the smallest variables are cut.
InProcessOptions Servers(int workers = 1) {
  InProcessOptions options;
  options.builder.shards = 3;
  options.builder.min_part_bytes = 64;
  options.workers = workers;
  return options;
}

struct Result {
  StrategyState state;
  std::vector<EpochResult> epochs;
};

Result Train(const Strategy& strategy, const nn::LayerPtr& model,
             const optimizer::OptimizerPtr& optimizer, const OpenEpoch& data,
             TrainerOptions options = {}) {
  Trainer trainer(strategy, model, loss::SparseSoftmaxCrossEntropy(), optimizer, options);
  auto history = trainer.Fit(data, {});
  EXPECT_TRUE(history.ok()) << history.status();
  auto state = trainer.CaptureState();
  EXPECT_TRUE(state.ok()) << state.status();
  if (!history.ok() || !state.ok()) return {};
  return {*std::move(state), *std::move(history)};
}

Result TrainOnOne(const nn::LayerPtr& model, const optimizer::OptimizerPtr& optimizer,
                  const OpenEpoch& data, TrainerOptions options = {}) {
  const auto strategy = Strategy::OneDevice({});
  EXPECT_TRUE(strategy.ok()) << strategy.status();
  return Train(**strategy, model, optimizer, data, options);
}

Result TrainOnServers(const InProcessOptions& servers, const nn::LayerPtr& model,
                      const optimizer::OptimizerPtr& optimizer, const OpenEpoch& data,
                      TrainerOptions options = {}) {
  const auto strategy = InProcessParameterStrategy::Create(servers);
  EXPECT_TRUE(strategy.ok()) << strategy.status();
  return Train(**strategy, model, optimizer, data, options);
}

// `tolerance` 0: to the bit.
void ExpectSame(const StrategyState& got, const StrategyState& expected, double tolerance) {
  ASSERT_FALSE(expected.empty());
  ASSERT_EQ(got.size(), expected.size());
  for (size_t i = 0; i < got.size(); ++i) {
    EXPECT_EQ(got[i].first, expected[i].first);
    ASSERT_EQ(got[i].second.shape(), expected[i].second.shape()) << got[i].first;
    const auto a = got[i].second.Elements<float>();
    const auto b = expected[i].second.Elements<float>();
    for (size_t k = 0; k < a.size(); ++k) {
      ASSERT_TRUE(std::isfinite(a[k])) << got[i].first << " " << k;
      if (tolerance == 0) {
        ASSERT_EQ(std::memcmp(&a[k], &b[k], sizeof(float)), 0)
            << got[i].first << " " << k << ": " << a[k] << " and " << b[k];
      } else {
        ASSERT_NEAR(a[k], b[k], tolerance) << got[i].first << " " << k;
      }
    }
  }
}

struct OptimizerCase {
  std::string name;
  std::function<optimizer::OptimizerPtr()> make;
};

void PrintTo(const OptimizerCase& optimizer, std::ostream* out) { *out << optimizer.name; }

std::vector<OptimizerCase> Optimizers() {
  using namespace optimizer;  // NOLINT: all of them.
  return {
      {"Sgd", [] { return Sgd({.learning_rate = 0.1}); }},
      {"Momentum", [] { return Sgd({.learning_rate = 0.1, .momentum = 0.9}); }},
      {"Nesterov", [] { return Sgd({.learning_rate = 0.1, .momentum = 0.9, .nesterov = true}); }},
      {"Adam", [] { return Adam({.learning_rate = 0.01}); }},
      {"Amsgrad", [] { return Adam({.learning_rate = 0.01, .amsgrad = true}); }},
      {"AdamW", [] { return AdamW({.learning_rate = 0.01, .exclude = {"bias"}}); }},
      {"Adagrad", [] { return Adagrad({.learning_rate = 0.1}); }},
      {"RmsProp", [] { return RmsProp({.learning_rate = 0.01}); }},
      {"Centered",
       [] { return RmsProp({.learning_rate = 0.01, .momentum = 0.5, .centered = true}); }},
      {"Adadelta", [] { return Adadelta({.learning_rate = 0.5}); }},
      {"Ftrl", [] { return Ftrl({.learning_rate = 0.1, .l2 = 0.01}); }},
      {"ClippedByValue", [] { return ClipByValue(Sgd({.learning_rate = 0.1}), 0.01); }},
      {"ClippedByNorm",
       [] { return ClipByNorm(Sgd({.learning_rate = 0.1, .momentum = 0.9}), 0.05); }},
      {"ClippedByGlobalNorm",
       [] { return ClipByGlobalNorm(Adagrad({.learning_rate = 0.1}), 0.1); }},
      {"AdamClippedByGlobalNorm",
       [] { return ClipByGlobalNorm(Adam({.learning_rate = 0.01}), 0.1); }},
      {"Accumulated", [] { return Accumulate(Adam({.learning_rate = 0.01}), 3); }},
      {"AccumulatedSgd", [] { return Accumulate(Sgd({.learning_rate = 0.1}), 2); }},
  };
}

class EveryOptimizer : public ::testing::TestWithParam<OptimizerCase> {};

// With one worker all is added up in the same order, however variables are cut.
TEST_P(EveryOptimizer, OneWorkerGivesTheBitsOfOneDevice) {
  for (const bool spread : {false, true}) {
    SCOPED_TRACE(spread);
    const OpenEpoch data = WordEpoch(12, 16);
    const Result one = TrainOnOne(WordModel(spread), GetParam().make(), data);
    const Result got = TrainOnServers(Servers(), WordModel(spread), GetParam().make(), data);
    ExpectSame(got.state, one.state, 0);
    if (HasFailure()) return;
    ASSERT_EQ(got.epochs.size(), 1u);
    EXPECT_EQ(got.epochs[0].loss, one.epochs[0].loss);
    EXPECT_EQ(got.epochs[0].examples, one.epochs[0].examples);
  }
}

// Gradients of each worker's part, joined at the servers, are those of the whole batch. What is
// clipped is each worker's own, so that is another training.
class OptimizersThatDoNotClip : public EveryOptimizer {};

TEST_P(OptimizersThatDoNotClip, ThreeWorkersTogetherGiveTheNumbersOfOneDevice) {
  const OpenEpoch data = WordEpoch(12, 17);
  const Result one = TrainOnOne(WordModel(), GetParam().make(), data);
  const Result got = TrainOnServers(Servers(3), WordModel(), GetParam().make(), data);
  // Adam's and RmsProp's rules make much of little: of gradients near 0.
  ExpectSame(got.state, one.state, 2e-3);
  if (HasFailure()) return;
  EXPECT_NEAR(got.epochs[0].loss, one.epochs[0].loss, 1e-4);
  EXPECT_EQ(got.epochs[0].examples, one.epochs[0].examples);
}

std::vector<OptimizerCase> WithoutClipping(std::vector<OptimizerCase> cases) {
  const auto clips = [](const OptimizerCase& one) {
    return absl::StrContains(one.name, "Clipped");
  };
  cases.erase(std::remove_if(cases.begin(), cases.end(), clips), cases.end());
  return cases;
}

INSTANTIATE_TEST_SUITE_P(All, EveryOptimizer, ::testing::ValuesIn(Optimizers()),
                         [](const auto& info) { return info.param.name; });
INSTANTIATE_TEST_SUITE_P(All, OptimizersThatDoNotClip,
                         ::testing::ValuesIn(WithoutClipping(Optimizers())),
                         [](const auto& info) { return info.param.name; });

// More parts than servers, one after the other.
TEST(ParameterTraining, ManyPartsOfAVariableOnAServerAreAsOne) {
  const OpenEpoch data = WordEpoch(8, 16);
  const auto adam = [] { return optimizer::Adam({.learning_rate = 0.01}); };
  InProcessOptions servers = Servers();
  servers.builder.shards = 2;
  servers.builder.max_part_bytes = 50;
  servers.builder.balance_by_bytes = false;
  ExpectSame(TrainOnServers(servers, WordModel(true), adam(), data).state,
             TrainOnOne(WordModel(true), adam(), data).state, 0);
}

// Words that are looked up twice in a step, each by itself.
TEST(ParameterTraining, TwoLookupsOfATableAddUp) {
  const auto model = [] {
    const nn::Value words = nn::Value::Input();
    const nn::LayerPtr table = nn::Embedding({.input_dim = kWords, .output_dim = 6});
    const nn::Value once = nn::Apply(nn::Flatten(), nn::Apply(table, words));
    const nn::Value twice = nn::Apply(nn::Dense({.units = 5, .activation = "tanh"}),
                                      nn::Apply(nn::Flatten(), nn::Apply(table, words)));
    return nn::Model(
        {words}, nn::Apply(nn::Dense({.units = 4}), nn::Apply(nn::Concatenate(), {once, twice})));
  };
  const OpenEpoch data = WordEpoch(8, 16);
  for (const auto& optimizer :
       {optimizer::Adagrad({.learning_rate = 0.1}), optimizer::Adam({.learning_rate = 0.01})}) {
    ExpectSame(TrainOnServers(Servers(), model(), optimizer, data).state,
               TrainOnOne(model(), optimizer, data).state, 0);
  }
}

// A table whose rows are looked up, and which is read as a whole in the same step: words are what
// goes in and what comes out.
nn::LayerPtr TiedWords() {
  return nn::MakeLayer(
      "tied",
      [](const nn::LayerCall& call) -> absl::StatusOr<Output> {
        TANDEM_ASSIGN_OR_RETURN(
            const StrategyVariable* table,
            call.Table("table", Shape({kWords, 6}), "random_uniform", /*spread_rows=*/true));
        const Output rows = call.replica().Lookup(*table, call.input(), call.scope());
        return call.scope().Call("MatMul",
                                 {call.scope().Call("Sum", {rows, 1}), call.replica().Read(*table)},
                                 {{"transpose_b", true}});
      },
      {.floating_point = false});
}

TEST(ParameterTraining, ATableMayBeReadAndLookedUp) {
  const OpenEpoch data = WordEpoch(8, 16);
  for (const auto& optimizer :
       {optimizer::Sgd({.learning_rate = 1}), optimizer::Adam({.learning_rate = 0.01})}) {
    ExpectSame(TrainOnServers(Servers(), TiedWords(), optimizer, data).state,
               TrainOnOne(TiedWords(), optimizer, data).state, 0);
  }
}

// Somebody has nothing to look up, and no gradient but of no rows.
TEST(ParameterTraining, ABatchMayHaveFewerExamplesThanThereAreWorkers) {
  const OpenEpoch data = WordEpoch(4, 2);
  const auto adagrad = optimizer::Adagrad({.learning_rate = 0.1});
  const Result one = TrainOnOne(WordModel(), adagrad, data);
  const Result got = TrainOnServers(Servers(3), WordModel(), adagrad, data);
  ExpectSame(got.state, one.state, 1e-4);
  ASSERT_EQ(got.epochs.size(), 1u);
  EXPECT_EQ(got.epochs[0].examples, 8);
}

// Too large for any one server: of the same distribution, but not the same numbers.
TEST(ParameterTraining, ServersDrawTheirRowsOfALargeTableThemselves) {
  InProcessOptions servers = Servers();
  servers.builder.most_initial_bytes = 100;
  const auto still = [] { return optimizer::Adam({.learning_rate = 0}); };
  const Result got = TrainOnServers(servers, WordModel(), still(), WordEpoch(1, 16));
  const Result again = TrainOnServers(servers, WordModel(), still(), WordEpoch(1, 16));
  const Result one = TrainOnOne(WordModel(), still(), WordEpoch(1, 16));
  ASSERT_FALSE(got.state.empty());
  ExpectSame(again.state, got.state, 0);
  ASSERT_EQ(got.state[0].first, "embedding/embeddings");
  const auto values = got.state[0].second.Elements<float>();
  double mean = 0;
  for (const float value : values) {
    EXPECT_LE(std::abs(value), 0.05f);
    mean += value / static_cast<double>(values.size());
  }
  EXPECT_LT(std::abs(mean), 0.01);
  EXPECT_NE(std::memcmp(values.data(), one.state[0].second.data(), values.size() * sizeof(float)),
            0);
  // No part is a copy of another one.
  const size_t part = values.size() / 3;
  EXPECT_NE(std::memcmp(values.data(), values.data() + 2 * part, (part - 6) * sizeof(float)), 0);
}

TEST(ParameterTraining, EveryLayerTrainsAsOnOneDevice) {
  const testing::LayerProblem problem = testing::EveryLayerProblem();
  const testing::LayerTrainingOptions options = {.epochs = 2, .sizes = {21, 13, 20, 8, 1}};
  const auto train = [&](const Strategy& strategy) {
    auto training = testing::TrainLayers(
        strategy, problem, optimizer::Sgd({.learning_rate = 0.1, .momentum = 0.9}), options);
    EXPECT_TRUE(training.ok()) << training.status();
    return training.ok() ? *std::move(training) : testing::LayerTraining();
  };
  const auto one = Strategy::OneDevice({});
  ASSERT_TRUE(one.ok()) << one.status();
  const auto servers = InProcessParameterStrategy::Create(Servers());
  ASSERT_TRUE(servers.ok()) << servers.status();
  const testing::LayerTraining expected = train(**one);
  const testing::LayerTraining got = train(**servers);
  if (HasFailure()) return;
  ExpectSame(got.state, expected.state, 1e-5);
  EXPECT_NEAR(got.evaluation.loss, expected.evaluation.loss, 1e-5);
  ExpectSame({{"predictions", got.predictions}}, {{"predictions", expected.predictions}}, 1e-5);
}

// What is pulled and pushed lies in host memory, whatever computes.
TEST(ParameterTraining, WorkersMayComputeOnAccelerators) {
  setenv("TANDEM_DEVICES", "SIM:1", /*overwrite=*/1);
  InProcessOptions servers = Servers();
  servers.builder.device = "/device:SIM:0";
  const OpenEpoch data = WordEpoch(6, 16);
  for (const auto& optimizer : {optimizer::Adagrad({.learning_rate = 0.1}),
                                optimizer::ClipByGlobalNorm(optimizer::Adam({}), 0.1)}) {
    ExpectSame(TrainOnServers(servers, WordModel(true), optimizer, data).state,
               TrainOnOne(WordModel(true), optimizer, data).state, 1e-5);
  }
  unsetenv("TANDEM_DEVICES");
}

TEST(ParameterTraining, NormsAndChecksOfGradientsAreThoseOfWholeVariables) {
  TrainerOptions options;
  options.gradient_norm = true;
  options.check_gradients = true;
  const auto norms = [&](const Strategy& strategy) {
    std::vector<double> list;
    Trainer trainer(strategy, WordModel(), loss::SparseSoftmaxCrossEntropy(), optimizer::Adam({}),
                    options);
    FitOptions fit;
    fit.on_step = [&](const TrainingProgress& progress) {
      list.push_back(progress.gradient_norm.value_or(-1));
      return true;
    };
    const auto history = trainer.Fit(WordEpoch(5, 16), fit);
    EXPECT_TRUE(history.ok()) << history.status();
    return list;
  };
  const auto one = Strategy::OneDevice({});
  const auto servers = InProcessParameterStrategy::Create(Servers());
  ASSERT_TRUE(one.ok() && servers.ok());
  const std::vector<double> expected = norms(**one);
  ASSERT_EQ(expected.size(), 5u);
  EXPECT_GT(expected[0], 0);
  EXPECT_EQ(norms(**servers), expected);
}

// Batch statistics, which each step assigns, are the means of what the workers found.
TEST(ParameterTraining, AssignedValuesOfSeveralWorkersBecomeTheirMean) {
  const nn::LayerPtr model =
      nn::Sequential({nn::BatchNorm({.momentum = 0}), nn::Dense({.units = kClasses})});
  // Equal parts, and learning nothing: the mean of means is that of all.
  const OpenEpoch data = ClassificationEpochs(3, 20);
  const Result one = TrainOnOne(model, optimizer::Sgd({.learning_rate = 0}), data);
  const Result got = TrainOnServers(Servers(2), model, optimizer::Sgd({.learning_rate = 0}), data);
  ASSERT_EQ(got.state.size(), one.state.size());
  bool has_mean = false;
  for (size_t i = 0; i < got.state.size(); ++i) {
    if (!absl::StrContains(got.state[i].first, "moving_mean")) continue;
    has_mean = true;
    ExpectSame({got.state[i]}, {one.state[i]}, 1e-6);
  }
  EXPECT_TRUE(has_mean);
}

TEST(ParameterTraining, AStateMovesBetweenStrategies) {
  const auto one = Strategy::OneDevice({});
  const auto servers = InProcessParameterStrategy::Create(Servers());
  ASSERT_TRUE(one.ok() && servers.ok());
  const auto adam = optimizer::Adam({.learning_rate = 0.01});
  const Result before = TrainOnOne(WordModel(), adam, WordEpoch(4, 16));
  Trainer trainer(**servers, WordModel(), loss::SparseSoftmaxCrossEntropy(), adam,
                  {.first_step = 4});
  ASSERT_TRUE(trainer.Fit(WordEpoch(1, 16), {}).ok());
  const absl::Status restored = trainer.RestoreState(before.state);
  ASSERT_TRUE(restored.ok()) << restored;
  const auto state = trainer.CaptureState();
  ASSERT_TRUE(state.ok()) << state.status();
  ExpectSame(*state, before.state, 0);
}

// A table of which a step looks up a few rows: these travel, each once, and nothing else of it.
TEST(ParameterTraining, OnlyRowsOfATableTravel) {
  constexpr int64_t kRows = 20000;
  constexpr int64_t kColumns = 8;
  const nn::LayerPtr model =
      nn::Sequential({nn::Embedding({.input_dim = kRows, .output_dim = kColumns}), nn::Flatten(),
                      nn::Dense({.units = 4})});
  for (const bool keeps_moments : {false, true}) {
    SCOPED_TRACE(keeps_moments);
    const auto servers = InProcessParameterStrategy::Create(Servers());
    ASSERT_TRUE(servers.ok()) << servers.status();
    Trainer trainer(**servers, model, loss::SparseSoftmaxCrossEntropy(),
                    keeps_moments ? optimizer::Adam({}) : optimizer::Adagrad({}));
    ASSERT_TRUE(trainer.Fit(WordEpoch(2, 16), {}).ok());
    const std::vector<TestCall> calls = (*servers)->shards().TakeCalls();
    ASSERT_FALSE(calls.empty());
    // At most kLength rows of each example, their numbers, and the dense layer with its gradient.
    const int64_t rows = 16 * kLength * (kColumns * 4 + 8);
    const int64_t dense = (kLength * kColumns + 1) * 4 * 4;
    for (const TestCall& call : calls) {
      EXPECT_LE(call.argument_bytes, rows + dense + 200) << call.program << " " << call.shard;
      EXPECT_LE(call.result_bytes, rows + dense + 200) << call.program << " " << call.shard;
    }
    // 2 steps: a pull and a push of each server.
    EXPECT_LE(calls.size(), 12u);
    // A word that comes many times travels once, and so does its gradient.
    Tensor same(kInt32, Shape({16, kLength}));
    for (int32_t& word : same.MutableElements<int32_t>()) word = 7;
    const OpenEpoch again = [&](int) -> absl::StatusOr<NextBatch> {
      auto next = std::make_shared<int>(0);
      return NextBatch([next, same]() -> absl::StatusOr<absl::optional<std::vector<Tensor>>> {
        if ((*next)++ > 0) return absl::optional<std::vector<Tensor>>();
        return absl::optional<std::vector<Tensor>>({same, WordBatch(1, 16)[1]});
      });
    };
    ASSERT_TRUE(trainer.Fit(again, {}).ok());
    int64_t pushed = 0;
    for (const TestCall& call : (*servers)->shards().TakeCalls()) {
      if (call.updates) pushed += call.argument_bytes;
    }
    // What optimizers are told, each server: some scalars.
    EXPECT_LE(pushed, dense + kColumns * 4 + 8 + 3 * 40);
    ASSERT_TRUE(trainer.Predict({same}).ok());
    int64_t bytes = 0;
    for (const TestCall& call : (*servers)->shards().TakeCalls()) {
      EXPECT_FALSE(call.updates);
      bytes += call.result_bytes;
    }
    EXPECT_LE(bytes, dense + kColumns * 4);
  }
}

TEST(ParameterTraining, AWordThatDoesNotExistIsAnErrorAndChangesNothing) {
  const auto servers = InProcessParameterStrategy::Create(Servers());
  ASSERT_TRUE(servers.ok()) << servers.status();
  Trainer trainer(**servers, WordModel(), loss::SparseSoftmaxCrossEntropy(), optimizer::Adam({}));
  ASSERT_TRUE(trainer.Fit(WordEpoch(3, 16), {}).ok());
  const auto before = trainer.CaptureState();
  ASSERT_TRUE(before.ok()) << before.status();
  for (const int32_t word : {-1, static_cast<int32_t>(kWords), 1 << 30}) {
    const auto bad = [&](int) -> absl::StatusOr<NextBatch> {
      auto next = std::make_shared<int>(0);
      return NextBatch([next, word]() -> absl::StatusOr<absl::optional<std::vector<Tensor>>> {
        if ((*next)++ > 0) return absl::optional<std::vector<Tensor>>();
        std::vector<Tensor> batch = WordBatch(1, 16);
        batch[0].MutableElements<int32_t>()[5] = word;
        return absl::optional<std::vector<Tensor>>(std::move(batch));
      });
    };
    EXPECT_EQ(trainer.Fit(bad, {}).status().code(), absl::StatusCode::kInvalidArgument) << word;
  }
  const auto after = trainer.CaptureState();
  ASSERT_TRUE(after.ok()) << after.status();
  ExpectSame(*after, *before, 0);
}

TEST(ParameterTraining, ClippingWhatServersAccumulateIsRefused) {
  const auto servers = InProcessParameterStrategy::Create(Servers());
  ASSERT_TRUE(servers.ok()) << servers.status();
  Trainer trainer(**servers, WordModel(), loss::SparseSoftmaxCrossEntropy(),
                  optimizer::ClipByGlobalNorm(optimizer::Accumulate(optimizer::Sgd({}), 2), 1));
  const auto history = trainer.Fit(WordEpoch(2, 16), {});
  EXPECT_EQ(history.status().code(), absl::StatusCode::kUnimplemented) << history.status();
}

}  // namespace
}  // namespace tandem::parameter_server
