// How quickly values go to a shard and back, on loopback.
//
//   BM_RawTcp       what the rest is compared with: 100 MB over a socket, read into one buffer
//   BM_PullDense    a variable of 100 MB is read: in messages (0), through shared memory (1)
//   BM_PushDense    a variable of 100 MB is assigned, in the same ways
//   BM_PullScalar   a counter is read
//   BM_PullRows     32 random rows are looked up, in tables of 1 MB, 100 MB and 1 GB
//   BM_PushScalar   a counter is added to
//
// Aims: dense values at 60 % of raw TCP or more; 32 rows within twice the time of a scalar, however
// large the table is.
#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstdint>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "benchmark/benchmark.h"
#include "tests/parameter_server/server_test_util.h"

namespace tandem::parameter_server {
namespace {

constexpr int64_t kDenseBytes = int64_t{100} << 20;
constexpr int64_t kRowFloats = 64;

// Both ends of a connection over loopback.
struct TcpPair {
  int sender = -1;
  int receiver = -1;

  TcpPair() {
    const int listener = socket(AF_INET, SOCK_STREAM, 0);
    sockaddr_in address = {};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof(address);
    if (bind(listener, reinterpret_cast<sockaddr*>(&address), size) == 0 &&
        listen(listener, 1) == 0 &&
        getsockname(listener, reinterpret_cast<sockaddr*>(&address), &size) == 0) {
      sender = socket(AF_INET, SOCK_STREAM, 0);
      if (connect(sender, reinterpret_cast<sockaddr*>(&address), size) == 0) {
        receiver = accept(listener, nullptr, nullptr);
      }
    }
    close(listener);
  }
  ~TcpPair() {
    close(sender);
    close(receiver);
  }
};

bool ReadAll(int fd, char* data, size_t size) {
  while (size > 0) {
    const ssize_t got = read(fd, data, size);
    if (got <= 0) return false;
    data += got;
    size -= static_cast<size_t>(got);
  }
  return true;
}

bool WriteAll(int fd, const char* data, size_t size) {
  while (size > 0) {
    const ssize_t put = write(fd, data, size);
    if (put <= 0) return false;
    data += put;
    size -= static_cast<size_t>(put);
  }
  return true;
}

void BM_RawTcp(benchmark::State& state) {
  const TcpPair tcp;
  if (tcp.receiver < 0) {
    state.SkipWithError("no connection");
    return;
  }
  std::vector<char> from(kDenseBytes, 1);
  std::thread receives([&] {
    std::vector<char> to(kDenseBytes);
    while (ReadAll(tcp.receiver, to.data(), to.size())) {
      const char done = 1;
      if (!WriteAll(tcp.receiver, &done, 1)) return;
    }
  });
  for (auto _ : state) {
    char done = 0;
    if (!WriteAll(tcp.sender, from.data(), from.size()) || !ReadAll(tcp.sender, &done, 1)) {
      state.SkipWithError("the connection was lost");
      break;
    }
  }
  shutdown(tcp.sender, SHUT_WR);
  receives.join();
  state.SetBytesProcessed(state.iterations() * kDenseBytes);
}
BENCHMARK(BM_RawTcp)->UseRealTime()->Unit(benchmark::kMillisecond);

// A server with a shard: a counter, a dense variable and a table of so many rows.
class Served {
 public:
  Served(int64_t rows, bool shares) : cluster_({{"ps", 1}}), store_(NewStoreFor(shares)) {
    cluster_.Start({"ps", 0});
    DefinitionBuilder b;
    const Scope& s = b.scope();
    const int64_t floats = kDenseBytes / 4;
    const Output count = b.AddVariable("count", kInt64, PartialShape(Shape()));
    const Output dense = b.AddVariable("dense", kFloat32, {floats});
    const Output table = b.AddVariable("table", kFloat32, {rows, kRowFloats});
    s.WithOpName("init_count").AddNode("AssignVariableOp", {count, int64_t{0}});
    s.WithOpName("init_dense")
        .AddNode("AssignVariableOp",
                 {dense, s.Call("Fill", {Tensor::Vector<int64_t>({floats}), 1.0f})});
    s.WithOpName("init_table")
        .AddNode("AssignVariableOp",
                 {table, s.Call("Fill", {Tensor::Vector<int64_t>({rows, kRowFloats}), 2.0f})});
    b.AddPush("init/push", {}, {"init_count", "init_dense", "init_table"});
    const Output value = b.AddPlaceholder("value", kFloat32, {floats});
    s.WithOpName("assign").AddNode("AssignVariableOp", {dense, value});
    b.AddPush("dense/push", {"value"}, {"assign"}, {MEAN});
    const Output n = b.AddPlaceholder("n", kInt64, PartialShape(Shape()));
    s.WithOpName("add").AddNode("AssignAddVariableOp", {count, n});
    b.AddPush("count/push", {"n"}, {"add"}, {SUM});
    s.WithOpName("read_count").Call("ReadVariableOp", {count}, {{"dtype", kInt64}});
    s.WithOpName("read_dense").Call("ReadVariableOp", {dense}, {{"dtype", kFloat32}});
    const Output indices = b.AddPlaceholder("indices", kInt64, {PartialShape::kUnknownDim});
    s.WithOpName("look_up").Call("ResourceGather", {table, indices}, {{"dtype", kFloat32}});
    b.AddPull("count/pull", {}, {"read_count"});
    b.AddPull("dense/pull", {}, {"read_dense"});
    b.AddPull("rows/pull", {"indices"}, {"look_up"});
    Definition made = b.Finish();
    ShardDefinition definition;
    definition.job = kJob;
    definition.graph = std::move(made.graph);
    definition.programs = std::move(made.programs);
    definition.variables = std::move(made.variables);
    const std::string address = cluster_.address({"ps", 0});
    const auto defined = ClientOf(address)->Define(definition, Soon());
    if (!defined.ok()) return;
    way_ = {address, defined->incarnation, 0};
    is_ok_ = Call("init/push", {}).ok();
  }

  bool ok() const { return is_ok_; }
  absl::StatusOr<ShardAnswer> Call(const std::string& program, std::vector<Tensor> arguments) {
    return StartCall(*store_, way_.To(1, ++sequence_), program, std::move(arguments)).Wait();
  }

 private:
  static std::shared_ptr<RemoteStore> NewStoreFor(bool shares) {
    RemoteStore::Options options;
    if (!shares) options.host_transfers = HostTransfers::kOff;
    return std::make_shared<RemoteStore>(std::move(options));
  }

  TestCluster cluster_;
  const std::shared_ptr<RemoteStore> store_;
  Way way_;
  int64_t sequence_ = 0;
  bool is_ok_ = false;
};

template <typename Arguments>
void Measure(benchmark::State& state, int64_t rows, const std::string& program, Arguments arguments,
             int64_t bytes, bool shares = true) {
  Served served(rows, shares);
  // The first call connects.
  if (!served.ok() || !served.Call(program, arguments()).ok()) {
    state.SkipWithError("the shard does not answer");
    return;
  }
  for (auto _ : state) {
    if (!served.Call(program, arguments()).ok()) {
      state.SkipWithError("a call failed");
      return;
    }
  }
  if (bytes > 0) state.SetBytesProcessed(state.iterations() * bytes);
}

void BM_PullDense(benchmark::State& state) {
  Measure(
      state, 1, "dense/pull", [] { return std::vector<Tensor>(); }, kDenseBytes,
      state.range(0) == 1);
}
BENCHMARK(BM_PullDense)->Arg(0)->Arg(1)->UseRealTime()->Unit(benchmark::kMillisecond);

void BM_PushDense(benchmark::State& state) {
  const Tensor value = Tensor::Zeros(kFloat32, Shape({kDenseBytes / 4}));
  Measure(
      state, 1, "dense/push", [&] { return std::vector<Tensor>{value}; }, kDenseBytes,
      state.range(0) == 1);
}
BENCHMARK(BM_PushDense)->Arg(0)->Arg(1)->UseRealTime()->Unit(benchmark::kMillisecond);

void BM_PullScalar(benchmark::State& state) {
  Measure(
      state, 1, "count/pull", [] { return std::vector<Tensor>(); }, 0);
}
BENCHMARK(BM_PullScalar)->UseRealTime()->Unit(benchmark::kMicrosecond);

void BM_PushScalar(benchmark::State& state) {
  const Tensor one = Tensor::Scalar<int64_t>(1);
  Measure(
      state, 1, "count/push", [&] { return std::vector<Tensor>{one}; }, 0);
}
BENCHMARK(BM_PushScalar)->UseRealTime()->Unit(benchmark::kMicrosecond);

void BM_PullRows(benchmark::State& state) {
  const int64_t rows = (state.range(0) << 20) / (4 * kRowFloats);
  std::mt19937_64 random(3);
  Measure(
      state, rows, "rows/pull",
      [&] {
        Tensor indices(kInt64, Shape({32}));
        for (int64_t& index : indices.MutableElements<int64_t>()) {
          index = static_cast<int64_t>(random() % static_cast<uint64_t>(rows));
        }
        return std::vector<Tensor>{std::move(indices)};
      },
      0);
}
BENCHMARK(BM_PullRows)->Arg(1)->Arg(100)->Arg(1024)->UseRealTime()->Unit(benchmark::kMicrosecond);

}  // namespace
}  // namespace tandem::parameter_server
