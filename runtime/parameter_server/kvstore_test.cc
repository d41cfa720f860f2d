#include "runtime/parameter_server/kvstore.h"

#include <cmath>
#include <random>
#include <thread>

#include "absl/time/clock.h"
#include "core/base/status.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "runtime/parameter_server/shard.h"

namespace tandem::parameter_server {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// Servers in this process.
class TestServers {
 public:
  explicit TestServers(int count)
      : count_(static_cast<size_t>(count)), shards_(static_cast<size_t>(count)) {}

  static std::string Address(size_t server) { return absl::StrCat("server", server, ":1"); }
  size_t count() const { return count_; }
  size_t shards_at(size_t server) {
    MutexLock lock(mu_);
    return shards_[server].size();
  }

  std::shared_ptr<Shard> Find(size_t server, const std::string& job, int number) {
    MutexLock lock(mu_);
    std::shared_ptr<Shard>& shard = shards_[server][{job, number}];
    if (shard == nullptr) {
      absl::StatusOr<std::unique_ptr<Shard>> made = Shard::Create({});
      EXPECT_TRUE(made.ok()) << made.status();
      shard = *std::move(made);
    }
    return shard;
  }
  // The server forgets all.
  void Restart(size_t server) {
    std::map<std::pair<std::string, int>, std::shared_ptr<Shard>> lost;
    MutexLock lock(mu_);
    lost.swap(shards_[server]);
    ++incarnations_[server];
  }
  uint64_t incarnation(size_t server) {
    MutexLock lock(mu_);
    return 100 + incarnations_[server];
  }
  // The answer of every `n`-th push is lost, and it is sent again. 0: none.
  void LoseAnswers(int n) {
    MutexLock lock(mu_);
    lose_ = n;
  }

  void Call(const std::string& address, const Route& route, const std::string& program,
            bool updates, std::vector<Tensor> arguments, CancellationManager* cancellation,
            ParameterStore::Done done) {
    size_t server = 0;
    while (Address(server) != address) ++server;
    const Route::Shard& place = route.shards(0);
    if (place.incarnation() != incarnation(server)) {
      done(errors::Unavailable("another shard is there"));
      return;
    }
    const std::shared_ptr<Shard> shard = Find(server, route.job(), place.number());
    if (!updates) {
      shard->Pull(program, std::move(arguments), place.version(), cancellation, std::move(done));
      return;
    }
    Round round = route.round();
    round.set_number(place.version());
    const Round* const of = route.has_round() ? &round : nullptr;
    bool loses = false;
    {
      MutexLock lock(mu_);
      loses = lose_ > 0 && ++pushes_ % lose_ == 0;
    }
    if (loses) {
      shard->Push(route.id(), of, program, arguments, -1, nullptr,
                  [](const absl::StatusOr<ShardAnswer>&) {});
    }
    shard->Push(route.id(), of, program, std::move(arguments), -1, cancellation, std::move(done));
  }

 private:
  const size_t count_;
  Mutex mu_;
  std::vector<std::map<std::pair<std::string, int>, std::shared_ptr<Shard>>> shards_
      ABSL_GUARDED_BY(mu_);
  std::map<size_t, uint64_t> incarnations_ ABSL_GUARDED_BY(mu_);
  int lose_ ABSL_GUARDED_BY(mu_) = 0;
  int pushes_ ABSL_GUARDED_BY(mu_) = 0;
};

class TestClient final : public ShardClient {
 public:
  TestClient(TestServers* servers, size_t server)
      : servers_(servers), server_(server), address_(TestServers::Address(server)) {}

  const std::string& address() const override { return address_; }
  absl::StatusOr<DefinedShard> Define(const ShardDefinition& definition, absl::Time) override {
    const auto shard = servers_->Find(server_, definition.job, definition.number);
    TANDEM_RETURN_IF_ERROR(
        shard->Extend(definition.graph, definition.programs, definition.variables));
    DefinedShard defined;
    defined.incarnation = servers_->incarnation(server_);
    defined.version = shard->version();
    return defined;
  }
  absl::StatusOr<ShardAnswer> Call(const Route& route, const std::string& program, bool updates,
                                   const std::vector<Tensor>& arguments, absl::Time) override {
    Event ended;
    absl::StatusOr<ShardAnswer> result = errors::Unknown("");
    servers_->Call(address_, route, program, updates, arguments, nullptr,
                   [&](absl::StatusOr<ShardAnswer> answer) {
                     result = std::move(answer);
                     ended.Set();
                   });
    // The call holds what lies here.
    ended.Wait();
    return result;
  }
  absl::StatusOr<std::vector<std::pair<std::string, Tensor>>> Read(const std::string&, int,
                                                                   const std::vector<std::string>&,
                                                                   absl::Time) override {
    return errors::Unimplemented("");
  }
  absl::Status Write(const std::string&, int, const std::vector<std::pair<std::string, Tensor>>&,
                     absl::Time) override {
    return errors::Unimplemented("");
  }
  absl::StatusOr<std::vector<ShardReport>> Report(const std::string&, absl::Time) override {
    return errors::Unimplemented("");
  }
  absl::Status SetNote(const std::string&, int, const std::string&, absl::Time) override {
    return errors::Unimplemented("");
  }
  absl::StatusOr<std::string> Note(const std::string&, int, absl::Time) override {
    return errors::Unimplemented("");
  }
  absl::Status Forget(const std::string&, absl::Time) override { return errors::Unimplemented(""); }
  absl::StatusOr<absl::optional<JobHolder>> Hold(const std::string&, const JobHolder&,
                                                 absl::Duration, absl::Time) override {
    return errors::Unimplemented("");
  }

 private:
  TestServers* const servers_;
  const size_t server_;
  const std::string address_;
};

class TestStore final : public ParameterStore {
 public:
  explicit TestStore(TestServers* servers) : servers_(servers) {}
  void Call(ShardCall call, std::vector<Tensor> arguments, CancellationManager* cancellation,
            Done done) override {
    Route route;
    EXPECT_TRUE(route.ParseFromString(call.route));
    EXPECT_GT(route.timeout_ms(), 0);
    EXPECT_EQ(route.shards(0).number(), call.shard);
    servers_->Call(route.shards(0).address(), route, call.program, call.updates,
                   std::move(arguments), cancellation, std::move(done));
  }

 private:
  TestServers* const servers_;
};

KvStoreOptions OptionsFor(const TestServers& servers) {
  KvStoreOptions options;
  options.job = "test";
  for (size_t i = 0; i < servers.count(); ++i) options.servers.push_back(TestServers::Address(i));
  return options;
}

std::unique_ptr<KvStore> Open(TestServers& servers, const KvStoreOptions& options) {
  std::vector<std::unique_ptr<ShardClient>> clients;
  for (size_t i = 0; i < servers.count(); ++i) {
    clients.push_back(std::make_unique<TestClient>(&servers, i));
  }
  absl::StatusOr<std::unique_ptr<KvStore>> store =
      KvStore::Create(options, std::move(clients), std::make_shared<TestStore>(&servers));
  EXPECT_TRUE(store.ok()) << store.status();
  return *std::move(store);
}

std::vector<float> Values(const absl::StatusOr<Tensor>& tensor) {
  EXPECT_TRUE(tensor.ok()) << tensor.status();
  if (!tensor.ok() || tensor->dtype() != kFloat32) return {};
  return std::vector<float>(tensor->Elements<float>().begin(), tensor->Elements<float>().end());
}

Tensor Vector(std::initializer_list<float> values) { return Tensor::Vector<float>(values); }

TEST(KvStore, AddsWhatIsPushed) {
  TestServers servers(2);
  const auto store = Open(servers, OptionsFor(servers));
  ASSERT_TRUE(store->Init("w", Vector({1, 2})).ok());
  ASSERT_TRUE(store->Init("count", Tensor::Scalar<int64_t>(5)).ok());
  EXPECT_TRUE(store->Push("w", Vector({10, 20})).ok());
  EXPECT_TRUE(store->Push("count", Tensor::Scalar<int64_t>(3)).ok());
  EXPECT_THAT(Values(store->Pull("w")), ElementsAre(11, 22));
  EXPECT_EQ(store->Pull("count")->ScalarValue<int64_t>(), 8);
  EXPECT_TRUE(store->WaitAll().ok());
}

TEST(KvStore, UpdatersComputeOnTheServer) {
  TestServers servers(1);
  KvStoreOptions options = OptionsFor(servers);
  int number = 0;
  const auto open = [&](KvUpdater updater) {
    options.job = absl::StrCat("test", number++);
    options.updater = std::move(updater);
    auto store = Open(servers, options);
    EXPECT_TRUE(store->Init("w", Tensor::FromValues<float>({3, 1}, {1, 2, 3})).ok());
    return store;
  };
  const auto column = [](float a, float b, float c) {
    return Tensor::FromValues<float>({3, 1}, {a, b, c});
  };
  const Tensor rows = Tensor::Vector<int64_t>({2, 0, 2});
  const Tensor values = Tensor::FromValues<float>({3, 1}, {10, 20, 30});

  auto store = open(AssignUpdater());
  ASSERT_TRUE(store->Push("w", column(7, 8, 9)).ok());
  EXPECT_THAT(Values(store->Pull("w")), ElementsAre(7, 8, 9));
  ASSERT_TRUE(
      store->PushRows("w", Tensor::Vector<int64_t>({1}), Tensor::FromValues<float>({1, 1}, {5}))
          .ok());
  EXPECT_THAT(Values(store->Pull("w")), ElementsAre(7, 5, 9));

  store = open(SumUpdater());
  ASSERT_TRUE(store->PushRows("w", rows, values).ok());
  EXPECT_THAT(Values(store->Pull("w")), ElementsAre(21, 2, 43));

  store = open(SgdUpdater(0.5));
  ASSERT_TRUE(store->Push("w", column(2, 4, 6)).ok());
  EXPECT_THAT(Values(store->Pull("w")), ElementsAre(0, 0, 0));
  ASSERT_TRUE(store->PushRows("w", rows, values).ok());
  EXPECT_THAT(Values(store->Pull("w")), ElementsAre(-10, 0, -20));

  store = open(AdagradUpdater(0.1, 0.5));
  ASSERT_TRUE(store->Push("w", column(1, 0, 0)).ok());
  ASSERT_TRUE(store
                  ->PushRows("w", Tensor::Vector<int64_t>({2, 2}),
                             Tensor::FromValues<float>({2, 1}, {1, 2}))
                  .ok());
  const std::vector<float> got = Values(store->Pull("w"));
  EXPECT_FLOAT_EQ(got[0], 1 - 0.1f / std::sqrt(1.5f));
  EXPECT_EQ(got[1], 2);
  EXPECT_FLOAT_EQ(got[2], 3 - 0.1f * 3 / std::sqrt(9.5f));

  KvUpdater mine;
  mine.dense = [](KvUpdateScope& s, const Output& gradient) {
    const Output twice = s.scope().Call("Mul", {gradient, 2.0f});
    s.Run(s.scope().AddNode("AssignSubVariableOp", {s.value(), twice}));
    s.Run(s.scope().AddNode("AssignAddVariableOp", {s.Slot("sum", 0), gradient}));
  };
  store = open(mine);
  ASSERT_TRUE(store->Push("w", column(1, 1, 1)).ok());
  EXPECT_THAT(Values(store->Pull("w")), ElementsAre(-1, 0, 1));
  EXPECT_EQ(store->PushRows("w", rows, values).code(), absl::StatusCode::kInvalidArgument);
}

TEST(KvStore, LargeValuesAreCutOverAllServers) {
  TestServers servers(3);
  KvStoreOptions options = OptionsFor(servers);
  options.min_cut_bytes = 64;
  const auto store = Open(servers, options);
  constexpr int64_t kRows = 10;
  Tensor value(kFloat32, {kRows, 2});
  for (size_t i = 0; i < 2 * kRows; ++i) value.MutableElements<float>()[i] = static_cast<float>(i);
  ASSERT_TRUE(store->Init("table", value).ok());
  for (size_t server = 0; server < 3; ++server) EXPECT_EQ(servers.shards_at(server), 1u);
  // One that is not worth it, or has too few rows, is whole.
  ASSERT_TRUE(store->Init("small", Vector({1, 2, 3, 4})).ok());
  ASSERT_TRUE(store->Init("flat", Tensor::Zeros(kFloat32, {2, 50})).ok());
  EXPECT_EQ(servers.shards_at(0) + servers.shards_at(1) + servers.shards_at(2), 5u);

  ASSERT_TRUE(store->Push("table", value).ok());
  std::vector<float> whole = Values(store->Pull("table"));
  ASSERT_EQ(whole.size(), 2u * kRows);
  for (size_t i = 0; i < whole.size(); ++i) EXPECT_EQ(whole[i], 2.f * static_cast<float>(i));

  const Tensor rows = Tensor::Vector<int64_t>({9, 0, 4, 9, 3});
  ASSERT_TRUE(store
                  ->PushRows("table", rows,
                             Tensor::FromValues<float>({5, 2}, {1, 2, 3, 4, 5, 6, 7, 8, 9, 10}))
                  .ok());
  const auto pulled = store->PullRows("table", Tensor::Vector<int64_t>({3, 9, 1, 9, 0, 4}));
  EXPECT_THAT(Values(pulled), ElementsAre(12 + 9, 14 + 10, 36 + 8, 38 + 10, 4, 6, 36 + 8, 38 + 10,
                                          3, 2 + 4, 16 + 5, 18 + 6));
  EXPECT_EQ(pulled->shape(), Shape({6, 2}));
  const auto none = store->PullRows("table", Tensor(kInt64, {0}));
  ASSERT_TRUE(none.ok()) << none.status();
  EXPECT_EQ(none->shape(), Shape({0, 2}));
  EXPECT_TRUE(store->PushRows("table", Tensor(kInt64, {0}), Tensor(kFloat32, {0, 2})).ok());
}

TEST(KvStore, TheFirstInitCounts) {
  TestServers servers(2);
  KvStoreOptions options = OptionsFor(servers);
  options.workers = 2;
  const auto first = Open(servers, options);
  options.worker = 1;
  const auto second = Open(servers, options);
  ASSERT_TRUE(first->Init("w", Vector({1, 2})).ok());
  ASSERT_TRUE(second->Init("w", Vector({8, 8})).ok());
  EXPECT_THAT(Values(second->Pull("w")), ElementsAre(1, 2));
  EXPECT_TRUE(second->Push("w", Vector({1, 1})).ok());
  EXPECT_TRUE(first->Push("w", Vector({1, 1})).ok());
  EXPECT_THAT(Values(first->Pull("w")), ElementsAre(3, 4));
  EXPECT_EQ(first->Init("w", Vector({1, 2, 3})).code(), absl::StatusCode::kInvalidArgument);
}

TEST(KvStore, OperationsOnAKeyKeepTheirOrder) {
  TestServers servers(2);
  KvStoreOptions options = OptionsFor(servers);
  options.updater = AssignUpdater();
  const auto store = Open(servers, options);
  ASSERT_TRUE(store->Init("w", Vector({0})).ok());
  std::vector<KvFuture> pulls;
  for (int i = 1; i <= 200; ++i) {
    store->PushAsync("w", Vector({static_cast<float>(i)}));
    pulls.push_back(store->PullAsync("w"));
  }
  ASSERT_TRUE(store->WaitAll().ok());
  for (size_t i = 0; i < pulls.size(); ++i) {
    EXPECT_TRUE(pulls[i].is_done());
    // A pull may see pushes that came after it, but none less than were called before.
    EXPECT_GE(Values(pulls[i].Wait())[0], static_cast<float>(i + 1));
  }
  EXPECT_THAT(Values(store->Pull("w")), ElementsAre(200));
}

TEST(KvStore, PushesCountOnceWhenAnswersAreLost) {
  TestServers servers(2);
  KvStoreOptions options = OptionsFor(servers);
  options.min_cut_bytes = 8;
  const auto store = Open(servers, options);
  ASSERT_TRUE(store->Init("w", Vector({0, 0})).ok());
  servers.LoseAnswers(2);
  for (int i = 0; i < 100; ++i) store->PushAsync("w", Vector({1, 2}));
  ASSERT_TRUE(store->WaitAll().ok());
  EXPECT_THAT(Values(store->Pull("w")), ElementsAre(100, 200));
}

// Each worker pushes keys in an order of its own; every update is of one push of each.
TEST(KvStore, AllWorkersMakeOneUpdate) {
  TestServers servers(2);
  KvStoreOptions options = OptionsFor(servers);
  options.workers = 3;
  options.aggregation = Aggregation::kAllWorkers;
  options.min_cut_bytes = 16;
  const std::vector<std::string> keys = {"a", "b", "c", "d"};
  constexpr int kRounds = 30;
  std::vector<std::thread> workers;
  for (int worker = 0; worker < 3; ++worker) {
    workers.emplace_back([&, worker] {
      KvStoreOptions mine = options;
      mine.worker = worker;
      const auto store = Open(servers, mine);
      for (const std::string& key : keys) {
        EXPECT_TRUE(store->Init(key, Tensor::Zeros(kFloat32, {4, 1})).ok());
      }
      std::mt19937 random(static_cast<uint32_t>(worker));
      for (int round = 1; round <= kRounds; ++round) {
        std::vector<std::string> order = keys;
        std::shuffle(order.begin(), order.end(), random);
        std::vector<KvFuture> pulls;
        for (const std::string& key : order) {
          const auto w = static_cast<float>(worker + 1);
          if (round % 5 == 0) {
            // Only some rows, of some parts.
            store->PushRowsAsync(key, Tensor::Vector<int64_t>({worker}),
                                 Tensor::FromValues<float>({1, 1}, {w}));
          } else {
            store->PushAsync(key, Tensor::FromValues<float>({4, 1}, {w, w, w, w}));
          }
          pulls.push_back(store->PullAsync(key));
        }
        const auto dense = static_cast<float>((round - round / 5) * 6);
        const auto rows = static_cast<float>(round / 5);
        for (const KvFuture& pull : pulls) {
          const std::vector<float> values = Values(pull.Wait());
          // Others may be a round ahead only once this worker has pushed.
          EXPECT_THAT(values, ElementsAre(dense + rows, dense + 2 * rows, dense + 3 * rows, dense))
              << "round " << round;
        }
      }
      EXPECT_TRUE(store->WaitAll().ok());
    });
  }
  for (std::thread& worker : workers) worker.join();
}

TEST(KvStore, CompressedGradientsLoseNothingInTheLongRun) {
  for (const char* const codec : {"float16", "bfloat16", "2bit", "topk:0.25"}) {
    TestServers servers(2);
    KvStoreOptions options = OptionsFor(servers);
    absl::StatusOr<std::unique_ptr<KvCompression>> compression = NewKvCompression(codec);
    ASSERT_TRUE(compression.ok()) << compression.status();
    options.compression = *std::move(compression);
    options.min_cut_bytes = 32;
    const auto store = Open(servers, options);
    ASSERT_TRUE(store->Init("w", Tensor::Zeros(kFloat32, {8})).ok());
    const Tensor gradient = Vector({1, -0.5f, 0.25f, 2, 0.125f, -1, 0.3f, 0.7f});
    constexpr int kPushes = 200;
    for (int i = 0; i < kPushes; ++i) store->PushAsync("w", gradient);
    ASSERT_TRUE(store->WaitAll().ok()) << codec;
    const std::vector<float> values = Values(store->Pull("w"));
    ASSERT_EQ(values.size(), 8u) << codec;
    for (size_t i = 0; i < values.size(); ++i) {
      // What is left out is no more than a few gradients.
      EXPECT_NEAR(values[i], kPushes * gradient.Elements<float>()[i], 12) << codec << " " << i;
    }
  }
  EXPECT_EQ(NewKvCompression("3bit").status().code(), absl::StatusCode::kInvalidArgument);
  const Tensor gradient = Tensor::Zeros(kFloat32, {1000});
  EXPECT_EQ((*NewKvCompression("float16"))->Encode("w", gradient)->num_bytes(), 2000u);
  EXPECT_LE((*NewKvCompression("2bit"))->Encode("w", gradient)->num_bytes(), 260u);
}

TEST(KvStore, SaysWhatIsWrong) {
  TestServers servers(2);
  const KvStoreOptions good = OptionsFor(servers);
  const auto changed = [&](auto change) {
    KvStoreOptions options = good;
    change(options);
    return KvStore::Create(options, {}, nullptr).status().code();
  };
  constexpr auto kInvalid = absl::StatusCode::kInvalidArgument;
  EXPECT_EQ(changed([](KvStoreOptions& o) { o.job = ""; }), kInvalid);
  EXPECT_EQ(changed([](KvStoreOptions& o) { o.servers.clear(); }), kInvalid);
  EXPECT_EQ(changed([](KvStoreOptions& o) { o.worker = 1; }), kInvalid);
  EXPECT_EQ(changed([](KvStoreOptions& o) { o.timeout = absl::ZeroDuration(); }), kInvalid);
  EXPECT_EQ(changed([](KvStoreOptions&) {}), kInvalid);  // No clients.

  const auto store = Open(servers, good);
  ASSERT_TRUE(store->Init("weights", Tensor::Zeros(kFloat32, {3, 2})).ok());
  EXPECT_EQ(store->Init("", Vector({1})).code(), kInvalid);
  EXPECT_EQ(store->Init("text", Tensor::Scalar<std::string>("a")).code(), kInvalid);
  EXPECT_EQ(store->Init("none", Tensor()).code(), kInvalid);
  const absl::Status unknown = store->Pull("weihgts").status();
  EXPECT_EQ(unknown.code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(std::string(unknown.message()), HasSubstr("'weights'"));
  EXPECT_EQ(store->Push("other", Vector({1})).code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(store->Push("weights", Vector({1})).code(), kInvalid);
  EXPECT_EQ(store->Push("weights", Tensor::Zeros(kFloat64, {3, 2})).code(), kInvalid);
  EXPECT_EQ(store->PullRows("weights", Vector({1})).status().code(), kInvalid);
  EXPECT_EQ(store->PullRows("weights", Tensor::Vector<int64_t>({3})).status().code(), kInvalid);
  EXPECT_EQ(store->PullRows("weights", Tensor::Vector<int64_t>({-1})).status().code(), kInvalid);
  EXPECT_EQ(store->PushRows("weights", Tensor::Vector<int64_t>({1}), Vector({1, 2})).code(),
            kInvalid);
  // None of these calls was begun.
  EXPECT_TRUE(store->WaitAll().ok());

  KvStoreOptions compressed = good;
  compressed.job = "compressed";
  compressed.compression = *NewKvCompression("2bit");
  EXPECT_EQ(Open(servers, compressed)->Init("w", Tensor::Zeros(kFloat64, {3})).code(), kInvalid);
}

TEST(KvStore, AServerThatWasLostIsNoticedAndInitBeginsAnew) {
  TestServers servers(1);
  const auto store = Open(servers, OptionsFor(servers));
  ASSERT_TRUE(store->Init("w", Vector({1, 2})).ok());
  ASSERT_TRUE(store->Push("w", Vector({1, 1})).ok());
  servers.Restart(0);
  EXPECT_EQ(store->Pull("w").status().code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(store->Push("w", Vector({1, 1})).code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(store->WaitAll().code(), absl::StatusCode::kUnavailable);
  EXPECT_TRUE(store->WaitAll().ok());
  ASSERT_TRUE(store->Init("w", Vector({5, 6})).ok());
  EXPECT_TRUE(store->Push("w", Vector({1, 1})).ok());
  EXPECT_THAT(Values(store->Pull("w")), ElementsAre(6, 7));
}

TEST(KvStore, TheDestructorEndsWhatWaits) {
  TestServers servers(1);
  KvStoreOptions options = OptionsFor(servers);
  options.workers = 2;
  options.aggregation = Aggregation::kAllWorkers;
  auto store = Open(servers, options);
  ASSERT_TRUE(store->Init("w", Vector({1, 2})).ok());
  const KvFuture push = store->PushAsync("w", Vector({1, 1}));
  const KvFuture pull = store->PullAsync("w");
  EXPECT_FALSE(push.is_done());
  store.reset();
  EXPECT_EQ(push.status().code(), absl::StatusCode::kCancelled);
  EXPECT_EQ(pull.status().code(), absl::StatusCode::kCancelled);

  // Many that have not begun, too.
  options.workers = 1;
  options.aggregation = Aggregation::kEachPush;
  options.job = "other";
  store = Open(servers, options);
  ASSERT_TRUE(store->Init("w", Vector({1, 2})).ok());
  KvFuture last;
  for (int i = 0; i < 20'000; ++i) last = store->PushAsync("w", Vector({1, 1}));
  store.reset();
  EXPECT_TRUE(last.is_done());
}

}  // namespace
}  // namespace tandem::parameter_server
