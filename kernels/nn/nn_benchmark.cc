// How fast the pieces of the MNIST CNN's training step are, at batch 64: the convolution of 28 x 28
// images to 64 channels and the gradient of its filter, the dense layer from 10,816 to 128 and its
// gradients, max pooling 2 x 2 and its gradient, bias, activation and loss. Convolutions of
// inference, whose filters are packed once ("kept") or in each call ("anew"). And the machine's
// peak, as a square product reaches it, to compare with.
//
//   bazel run //kernels/nn:nn_benchmark [-- --threads=2]
//
// One thread unless told otherwise. "flops" is in floating-point operations a second, "bytes" in
// bytes of inputs and outputs a second. Whole kernels run (allocation included), without a graph
// around.
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "benchmark/benchmark.h"
#include "core/graph/graph.h"
#include "core/kernel/kernel.h"
#include "core/op/registry.h"
#include "runtime/threads/inner_loop.h"
#include "runtime/threads/run_tokens.h"

namespace tandem {
namespace {

int threads = 1;

TANDEM_OP("_BenchmarkInput").Outputs("output:dtype").Attrs("dtype:type").Shape(UnknownShape);

Tensor Ramp(Shape shape) {
  Tensor x(kFloat32, std::move(shape));
  unsigned seed = 1;
  for (float& v : x.MutableElements<float>()) {
    seed = seed * 1664525u + 1013904223u;
    v = static_cast<float>(seed >> 8) / (1 << 24) - 0.5f;
  }
  return x;
}

// A kernel with its inputs, ready to compute again and again.
class Bench {
 public:
  Bench(const std::string& op, std::vector<Tensor> inputs, AttrMap attrs,
        InputSource source = InputSource::kComputed)
      : inputs_(inputs.size()), sources_(inputs.size(), source) {
    NodeSpec spec;
    spec.name = "measured";
    spec.op = op;
    spec.attrs = std::move(attrs);
    for (size_t i = 0; i < inputs.size(); ++i) {
      NodeSpec source;
      source.name = graph_.UniqueName("input");
      source.op = "_BenchmarkInput";
      source.attrs = {{"dtype", inputs[i].dtype()}};
      spec.inputs.push_back(graph_.AddNode(std::move(source)).value()->output(0));
      inputs_[i].uses = 2;
      inputs_[i].value = std::move(inputs[i]);
      inputs_[i].state = Slot::State::kValue;
      slots_.push_back(&inputs_[i]);
    }
    Node* const node = graph_.AddNode(std::move(spec)).value();
    for (int i = 0; i < node->num_inputs(); ++i) input_types_.push_back(node->input_dtype(i));
    for (int i = 0; i < node->num_outputs(); ++i) {
      output_types_.push_back(node->output_info(i).dtype);
    }
    outputs_ = std::vector<Slot>(output_types_.size());
    device_ = {"/device:CPU:0", kCpu, 0, HostAllocator(), &resources_, InnerLoopRunner()};
    const OpRegistry& registry = OpRegistry::Global();
    KernelInit init({node->name(), &node->op(), &node->attrs(), input_types_, output_types_,
                     &device_, &graph_.functions(), sources_});
    kernel_ = registry.FindKernel(node->op(), kCpu, node->attrs()).value()->factory(init).value();
    Run();
  }

  void Run() {
    KernelContext context(
        {"measured", &device_, &step_, slots_, outputs_.data(), output_types_, 0, 0});
    const absl::Status status = kernel_->Compute(context);
    if (!status.ok()) failure_ = std::string(status.message());
  }

  void Measure(benchmark::State& state, double operations) {
    const ScopedInnerParallelism parallelism(threads);
    const ScopedRunToken token;
    for (auto _ : state) Run();
    if (!failure_.empty()) state.SkipWithError(failure_.c_str());
    double bytes = 0;
    for (const Slot& slot : inputs_) bytes += static_cast<double>(slot.value.num_bytes());
    for (const Slot& slot : outputs_) bytes += static_cast<double>(slot.value.num_bytes());
    const auto rate = [](double amount) {
      return benchmark::Counter(amount, benchmark::Counter::kIsIterationInvariantRate);
    };
    if (operations > 0) state.counters["flops"] = rate(operations);
    state.counters["bytes"] = rate(bytes);
  }

 private:
  Graph graph_;
  ResourceManager resources_;
  KernelDevice device_;
  StepContext step_;
  std::vector<Slot> inputs_;
  const std::vector<InputSource> sources_;
  std::vector<Slot*> slots_;
  std::vector<Slot> outputs_;
  std::vector<DataType> input_types_;
  std::vector<DataType> output_types_;
  std::unique_ptr<Kernel> kernel_;
  std::string failure_;
};

using Ints = std::vector<int64_t>;
constexpr double kConvOperations = 2.0 * 64 * 26 * 26 * 64 * 9;
constexpr double kDenseOperations = 2.0 * 64 * 10816 * 128;

void Peak(benchmark::State& state) {
  Bench bench("MatMul", {Ramp({1024, 1024}), Ramp({1024, 1024})}, {});
  bench.Measure(state, 2.0 * 1024 * 1024 * 1024);
}
void SmallProduct(benchmark::State& state) {
  const int64_t n = state.range(0);
  Bench bench("MatMul", {Ramp({n, n}), Ramp({n, n})}, {});
  bench.Measure(state, 2.0 * static_cast<double>(n * n * n));
}

AttrMap ConvAttrs() { return {{"strides", Ints{1, 1, 1, 1}}, {"padding", "VALID"}}; }
void ConvForward(benchmark::State& state) {
  Bench bench("Conv2D", {Ramp({64, 28, 28, 1}), Ramp({3, 3, 1, 64})}, ConvAttrs());
  bench.Measure(state, kConvOperations);
}
void ConvForwardBiasRelu(benchmark::State& state) {
  AttrMap attrs = ConvAttrs();
  attrs["fused_ops"] = std::vector<std::string>{"BiasAdd", "Relu"};
  attrs["TArgs"] = std::vector<DataType>{kFloat32};
  attrs["num_args"] = 1;
  Bench bench("_FusedConv2D", {Ramp({64, 28, 28, 1}), Ramp({3, 3, 1, 64}), Ramp({64})}, attrs);
  bench.Measure(state, kConvOperations);
}
void ConvToFilter(benchmark::State& state) {
  Bench bench(
      "Conv2DBackpropFilter",
      {Ramp({64, 28, 28, 1}), Tensor::Vector<int32_t>({3, 3, 1, 64}), Ramp({64, 26, 26, 64})},
      ConvAttrs());
  bench.Measure(state, kConvOperations);
}
// An image of `size` x `size` and `in` channels, convolved 3 x 3 to `out`, whose filter is packed
// once
// (`kept`) or in each call.
void ConvInference(benchmark::State& state, bool kept, int64_t size, int64_t in, int64_t out) {
  const int64_t batch = state.range(0);
  Bench bench("Conv2D", {Ramp({batch, size, size, in}), Ramp({3, 3, in, out})}, ConvAttrs(),
              kept ? InputSource::kConstant : InputSource::kComputed);
  bench.Measure(state, 2.0 * 9 * static_cast<double>(batch * (size - 2) * (size - 2) * in * out));
}
void DenseForward(benchmark::State& state) {
  Bench bench("MatMul", {Ramp({64, 10816}), Ramp({10816, 128})}, {});
  bench.Measure(state, kDenseOperations);
}
void DenseToInput(benchmark::State& state) {
  Bench bench("MatMul", {Ramp({64, 128}), Ramp({10816, 128})}, {{"transpose_b", true}});
  bench.Measure(state, kDenseOperations);
}
void DenseToWeights(benchmark::State& state) {
  Bench bench("MatMul", {Ramp({64, 10816}), Ramp({64, 128})}, {{"transpose_a", true}});
  bench.Measure(state, kDenseOperations);
}

AttrMap PoolAttrs() {
  return {{"ksize", Ints{1, 2, 2, 1}}, {"strides", Ints{1, 2, 2, 1}}, {"padding", "VALID"}};
}
void MaxPool(benchmark::State& state) {
  Bench bench("MaxPool", {Ramp({64, 26, 26, 64})}, PoolAttrs());
  bench.Measure(state, 0);
}
void MaxPoolGrad(benchmark::State& state) {
  Bench bench("MaxPoolGrad",
              {Ramp({64, 26, 26, 64}), Ramp({64, 13, 13, 64}), Ramp({64, 13, 13, 64})},
              PoolAttrs());
  bench.Measure(state, 0);
}
void BiasAdd(benchmark::State& state) {
  Bench bench("BiasAdd", {Ramp({64, 26, 26, 64}), Ramp({64})}, {});
  bench.Measure(state, 0);
}
void BiasAddGrad(benchmark::State& state) {
  Bench bench("BiasAddGrad", {Ramp({64, 26, 26, 64})}, {});
  bench.Measure(state, 0);
}
void Relu(benchmark::State& state) {
  Bench bench("Relu", {Ramp({64, 26, 26, 64})}, {});
  bench.Measure(state, 0);
}
void ReluGrad(benchmark::State& state) {
  Bench bench("ReluGrad", {Ramp({64, 26, 26, 64}), Ramp({64, 26, 26, 64})}, {});
  bench.Measure(state, 0);
}
void Loss(benchmark::State& state) {
  Tensor labels(kInt32, {64});
  for (int32_t& label : labels.MutableElements<int32_t>()) label = 3;
  Bench bench("SparseSoftmaxCrossEntropyWithLogits", {Ramp({64, 10}), labels}, {});
  bench.Measure(state, 0);
}
void BatchNorm(benchmark::State& state) {
  Bench bench("FusedBatchNormV3",
              {Ramp({64, 32, 32, 16}), Ramp({16}), Ramp({16}), Ramp({0}), Ramp({0})}, {});
  bench.Measure(state, 0);
}
void BatchNormGrad(benchmark::State& state) {
  Tensor variance(kFloat32, {16});
  for (float& v : variance.MutableElements<float>()) v = 1;
  Bench bench(
      "FusedBatchNormGradV3",
      {Ramp({64, 32, 32, 16}), Ramp({64, 32, 32, 16}), Ramp({16}), Ramp({16}), variance, Ramp({})},
      {});
  bench.Measure(state, 0);
}

void RegisterAll() {
  const std::pair<const char*, void (*)(benchmark::State&)> all[] = {
      {"Peak", Peak},
      {"ConvForward", ConvForward},
      {"ConvForwardBiasRelu", ConvForwardBiasRelu},
      {"ConvToFilter", ConvToFilter},
      {"DenseForward", DenseForward},
      {"DenseToInput", DenseToInput},
      {"DenseToWeights", DenseToWeights},
      {"MaxPool", MaxPool},
      {"MaxPoolGrad", MaxPoolGrad},
      {"BiasAdd", BiasAdd},
      {"BiasAddGrad", BiasAddGrad},
      {"Relu", Relu},
      {"ReluGrad", ReluGrad},
      {"Loss", Loss},
      {"BatchNorm", BatchNorm},
      {"BatchNormGrad", BatchNormGrad},
  };
  for (const auto& [name, function] : all) {
    benchmark::RegisterBenchmark(name, function)->Unit(benchmark::kMicrosecond);
  }
  const struct {
    const char* name;
    int64_t size, in, out;
  } convolutions[] = {{"Conv28x28x1To64", 28, 1, 64},
                      {"Conv58x58x64To64", 58, 64, 64},
                      {"Conv16x16x256To256", 16, 256, 256},
                      {"Conv9x9x512To512", 9, 512, 512}};
  for (const auto& c : convolutions) {
    for (const bool kept : {false, true}) {
      benchmark::RegisterBenchmark(absl::StrCat(c.name, kept ? "/kept" : "/anew").c_str(),
                                   ConvInference, kept, c.size, c.in, c.out)
          ->Unit(benchmark::kMicrosecond)
          ->Arg(1)
          ->Arg(64);
    }
  }
  benchmark::RegisterBenchmark("SmallProduct", SmallProduct)
      ->Unit(benchmark::kMicrosecond)
      ->RangeMultiplier(2)
      ->Range(1, 64);
}

}  // namespace
}  // namespace tandem

int main(int argc, char** argv) {
  int kept = 1;
  for (int i = 1; i < argc; ++i) {
    absl::string_view argument = argv[i];
    if (!absl::ConsumePrefix(&argument, "--threads=") ||
        !absl::SimpleAtoi(argument, &tandem::threads)) {
      argv[kept++] = argv[i];
    }
  }
  tandem::RegisterAll();
  benchmark::Initialize(&kept, argv);
  if (benchmark::ReportUnrecognizedArguments(kept, argv)) return 1;
  benchmark::RunSpecifiedBenchmarks();
  return 0;
}
