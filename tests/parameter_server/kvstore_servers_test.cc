// Tensors by key on servers that are reached over gRPC, with calls that are lost and doubled.
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "runtime/parameter_server/kvstore.h"
#include "tests/parameter_server/server_test_util.h"

namespace tandem::parameter_server {
namespace {

constexpr int kWorkers = 2;

class KvStoreServersTest : public ::testing::Test {
 protected:
  KvStoreServersTest() : cluster_({{"ps", 2}}) {
    for (int task = 0; task < 2; ++task) {
      cluster_.Start({"ps", task});
      options_.servers.push_back(cluster_.address({"ps", task}));
    }
    options_.job = "keys";
    options_.workers = kWorkers;
    options_.min_cut_bytes = 4096;
  }

  // The store of a worker; a quarter of its calls is lost, and a quarter comes twice.
  std::unique_ptr<KvStore> Open(int worker) {
    KvStoreOptions options = options_;
    options.worker = worker;
    const auto faults = Faults(absl::StrCat("lose=0.25,double=0.25,seed=", worker + 1));
    std::vector<std::unique_ptr<ShardClient>> clients;
    for (const std::string& server : options.servers) clients.push_back(ClientOf(server, faults));
    auto store = KvStore::Create(options, std::move(clients), NewStore(faults));
    EXPECT_TRUE(store.ok()) << store.status();
    return *std::move(store);
  }
  // Runs `body` for each worker, at the same time.
  void RunWorkers(const std::function<void(KvStore& store, int worker)>& body) {
    std::vector<std::thread> workers;
    for (int worker = 0; worker < kWorkers; ++worker) {
      workers.emplace_back([&, worker] { body(*Open(worker), worker); });
    }
    for (std::thread& worker : workers) worker.join();
  }

  TestCluster cluster_;
  KvStoreOptions options_;
};

Tensor Filled(Shape shape, float value) {
  Tensor tensor(kFloat32, std::move(shape));
  for (float& element : tensor.MutableElements<float>()) element = value;
  return tensor;
}

void ExpectFilled(const absl::StatusOr<Tensor>& tensor, float value) {
  ASSERT_TRUE(tensor.ok()) << tensor.status();
  for (const float element : Floats(*tensor)) ASSERT_EQ(element, value);
}

TEST_F(KvStoreServersTest, EachPushCountsOnce) {
  constexpr int kPushes = 40;
  RunWorkers([](KvStore& store, int) {
    ASSERT_TRUE(store.Init("small", Filled({3}, 0)).ok());
    ASSERT_TRUE(store.Init("large", Filled({100, 16}, 0)).ok());
    for (int i = 0; i < kPushes; ++i) {
      store.PushAsync("small", Filled({3}, 1));
      store.PushAsync("large", Filled({100, 16}, 2));
      store.PushRowsAsync("large", Tensor::Vector<int64_t>({7, 93}), Filled({2, 16}, 1));
    }
    const absl::Status done = store.WaitAll();
    EXPECT_TRUE(done.ok()) << done;
  });
  const auto store = Open(0);
  ASSERT_TRUE(store->Init("small", Filled({3}, 0)).ok());
  ASSERT_TRUE(store->Init("large", Filled({100, 16}, 0)).ok());
  constexpr float kAll = kWorkers * kPushes;
  ExpectFilled(store->Pull("small"), kAll);
  ExpectFilled(store->PullRows("large", Tensor::Vector<int64_t>({93, 7})), 3 * kAll);
  ExpectFilled(store->PullRows("large", Tensor::Vector<int64_t>({0, 49, 50, 99})), 2 * kAll);
}

TEST_F(KvStoreServersTest, WorkersUpdateTogether) {
  options_.aggregation = Aggregation::kAllWorkers;
  options_.updater = SgdUpdater(0.5);
  RunWorkers([](KvStore& store, int worker) {
    ASSERT_TRUE(store.Init("w", Filled({64, 32}, 8)).ok());
    for (int round = 1; round <= 20; ++round) {
      store.PushAsync("w", Filled({64, 32}, static_cast<float>(worker + 1)));
      ExpectFilled(store.Pull("w"), 8 - 1.5f * static_cast<float>(round));
    }
    EXPECT_TRUE(store.WaitAll().ok());
  });
}

TEST_F(KvStoreServersTest, GradientsTravelCompressed) {
  options_.compression = *NewKvCompression("2bit");
  options_.workers = 1;
  const auto store = Open(0);
  ASSERT_TRUE(store->Init("w", Filled({64, 32}, 1)).ok());
  for (int i = 0; i < 10; ++i) store->PushAsync("w", Filled({64, 32}, 0.5f));
  const absl::Status done = store->WaitAll();
  ASSERT_TRUE(done.ok()) << done;
  // Equal elements lose nothing: all are their mean magnitude.
  ExpectFilled(store->Pull("w"), 6);
}

}  // namespace
}  // namespace tandem::parameter_server
