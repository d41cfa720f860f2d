// What the golden cases do not show: the same bits for any cut of a loop, memory that is reused,
// sums that stay exact, and what shape functions say.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "core/tensor/tensor.h"
#include "gtest/gtest.h"
#include "kernels/math/prepared_op.h"
#include "kernels/testing/op_runner.h"

namespace tandem::testing {
namespace {

// Cuts every loop into pieces of changing, odd sizes, and runs them in a scattered order.
class CuttingRunner final : public ParallelRunner {
 public:
  int parallelism() const override { return 4; }
  void For(int64_t total, double, Body body) override {
    std::vector<std::pair<int64_t, int64_t>> pieces;
    for (int64_t begin = 0; begin < total;) {
      const int64_t size = 1 + static_cast<int64_t>(random_() % (1 + total / 3));
      pieces.emplace_back(begin, std::min(total, begin + size));
      begin += size;
    }
    std::shuffle(pieces.begin(), pieces.end(), random_);
    for (const auto& [begin, end] : pieces) body(begin, end);
  }

 private:
  std::mt19937 random_{7};
};

Tensor Random(DataType dtype, Shape shape, double low = -2, double high = 2) {
  std::mt19937 random(static_cast<uint32_t>(shape.num_elements() + 3));
  std::uniform_real_distribution<double> values(low, high);
  Tensor tensor(dtype, std::move(shape));
  const auto fill = [&](auto elements) {
    using T = typename decltype(elements)::value_type;
    for (T& x : elements) x = static_cast<T>(static_cast<float>(values(random)));
  };
  switch (dtype) {
    case kFloat64:
      fill(tensor.MutableElements<double>());
      break;
    case kFloat16:
      fill(tensor.MutableElements<Float16>());
      break;
    case kBfloat16:
      fill(tensor.MutableElements<Bfloat16>());
      break;
    case kInt32:
      fill(tensor.MutableElements<int32_t>());
      break;
    case kBool:
      for (bool& x : tensor.MutableElements<bool>()) x = random() % 2;
      break;
    default:
      fill(tensor.MutableElements<float>());
  }
  return tensor;
}

Tensor Axes(std::initializer_list<int32_t> axes) { return Tensor::Vector<int32_t>(axes); }

bool SameBits(const Tensor& a, const Tensor& b) {
  return a.dtype() == b.dtype() && a.shape() == b.shape() &&
         std::memcmp(a.data(), b.data(), a.num_bytes()) == 0;
}

struct Use {
  std::string op;
  std::vector<Tensor> inputs;
  AttrMap attrs = {};
};

std::vector<Use> Uses() {
  const Tensor x = Random(kFloat32, {37, 211});
  const Tensor positive = Random(kFloat32, {37, 211}, 0.1, 3);
  const Tensor half = Random(kFloat16, {37, 211});
  const Tensor long_row = Random(kFloat32, {3, 100003});
  const Tensor tall = Random(kFloat32, {50021, 3});
  const Tensor scalar_axis = Tensor::Scalar<int32_t>(0);
  std::vector<Use> uses = {
      {"AddV2", {x, Random(kFloat32, {37, 211}, 1, 2)}},
      {"AddV2", {x, Random(kFloat32, {211})}},
      {"Mul", {x, Random(kFloat32, {37, 1})}},
      {"Maximum", {half, Random(kFloat16, {})}},
      {"Pow", {positive, x}},
      {"AddN", {x, positive, x}, {{"N", 3}}},
      {"SelectV2", {Random(kBool, {37, 1}), x, positive}},
      {"ClipByValue", {x, Tensor::Scalar(-1.f), Tensor::Scalar(1.f)}},
      {"Cast", {half}, {{"DstT", kInt32}}},
      {"Cast", {x}, {{"DstT", kBfloat16}}},
      {"ArgMax", {x, scalar_axis}},
      {"Cumsum", {x, scalar_axis}},
      {"L2Loss", {long_row}},
      {"UnsortedSegmentSum",
       {Random(kFloat32, {4, 2000}), Axes({2, 0, 2, 2}), Tensor::Scalar<int32_t>(3)}},
  };
  for (const char* op : {"Exp", "Log", "Tanh", "Sigmoid", "Erf", "Sin", "Rsqrt", "Log1p"}) {
    uses.push_back({op, {positive}});
    uses.push_back({op, {Random(kFloat64, {1999}, 0.1, 3)}});
  }
  for (const Tensor& input :
       {x, long_row, tall, half, Random(kFloat32, {9, 70, 31, 17}), Random(kFloat64, {5000, 40})}) {
    for (const auto& axes : {Axes({0}), Axes({1}), Axes({0, 1})}) {
      for (const char* op : {"Sum", "Mean", "Max", "Prod"}) uses.push_back({op, {input, axes}});
    }
  }
  uses.push_back({"Sum", {Random(kFloat32, {9, 70, 31, 17}), Axes({0, 2})}});
  uses.push_back({"Sum", {Random(kFloat32, {9, 70, 31, 17}), Axes({1, 3})}});
  return uses;
}

TEST(MathOps, GiveTheSameBitsHoweverLoopsAreCut) {
  InlineRunner whole;
  CuttingRunner cut;
  for (const Use& use : Uses()) {
    SCOPED_TRACE(use.op + " " + use.inputs[0].shape().DebugString());
    auto once = PreparedOp::Make(use.op, use.inputs, use.attrs, &whole);
    auto pieces = PreparedOp::Make(use.op, use.inputs, use.attrs, &cut);
    ASSERT_TRUE(once.ok()) << once.status();
    ASSERT_TRUE(pieces.ok()) << pieces.status();
    const auto wanted = (*once)->Run(use.inputs);
    ASSERT_TRUE(wanted.ok()) << wanted.status();
    for (int i = 0; i < 3; ++i) {
      const auto found = (*pieces)->Run(use.inputs);
      ASSERT_TRUE(found.ok()) << found.status();
      EXPECT_TRUE(SameBits(*found, *wanted));
    }
  }
}

TEST(MathOps, GiveTheSameWhenTheyMayOverwriteTheirInputs) {
  InlineRunner runner;
  for (const Use& use : Uses()) {
    SCOPED_TRACE(use.op + " " + use.inputs[0].shape().DebugString());
    auto op = PreparedOp::Make(use.op, use.inputs, use.attrs, &runner);
    ASSERT_TRUE(op.ok()) << op.status();
    const auto wanted = (*op)->Run(use.inputs);
    ASSERT_TRUE(wanted.ok()) << wanted.status();
    std::vector<Tensor> copies;
    for (const Tensor& input : use.inputs) copies.push_back(*input.Clone());
    const auto found = (*op)->Run(std::move(copies), /*last_use=*/true);
    ASSERT_TRUE(found.ok()) << found.status();
    EXPECT_TRUE(SameBits(*found, *wanted));
  }
}

TEST(MathOps, ReuseTheMemoryOfAnInputThatNobodyElseReads) {
  InlineRunner runner;
  const Tensor y = Random(kFloat32, {3});
  for (const bool last_use : {true, false}) {
    Tensor x = Random(kFloat32, {4, 3});
    const void* const memory = x.data();
    auto op = PreparedOp::Make("AddV2", {x, y}, {}, &runner);
    ASSERT_TRUE(op.ok()) << op.status();
    // The op's constants hold x as well: give it memory of its own.
    Tensor own = *x.Clone();
    const void* const own_memory = own.data();
    std::vector<Tensor> inputs;
    inputs.push_back(std::move(own));
    inputs.push_back(y);
    const auto z = (*op)->Run(std::move(inputs), last_use);
    ASSERT_TRUE(z.ok());
    EXPECT_EQ(z->data() == own_memory, last_use);
    EXPECT_NE(z->data(), memory);
  }
}

TEST(MathOps, LongFloatSumsStayExact) {
  const int64_t n = 1 << 20;
  Tensor x(kFloat32, {n});
  for (float& value : x.MutableElements<float>()) value = 0.1f;
  const double wanted = static_cast<double>(0.1f) * static_cast<double>(n);
  for (const Shape& shape : {Shape({n}), Shape({n / 4, 4}), Shape({4, n / 4})}) {
    const Tensor input = *x.Reshaped(shape);
    const auto sum = RunOp("Sum", {input, shape.rank() == 1 ? Axes({0}) : Axes({0, 1})});
    ASSERT_TRUE(sum.ok());
    // One chain of additions would be off by 4 in 100.
    EXPECT_NEAR((*sum)[0].ScalarValue<float>(), wanted, wanted * 2e-6);
  }
  const auto columns = RunOp("Sum", {*x.Reshaped({n / 4, 4}), Axes({0})});
  ASSERT_TRUE(columns.ok());
  EXPECT_NEAR((*columns)[0].Elements<float>()[2], wanted / 4, wanted / 4 * 2e-6);
}

TEST(MathOps, IntegersThatHaveNoAnswerAreInvalidArgument) {
  const Tensor x = Random(kInt32, {2000}, 1, 9);
  Tensor y = Random(kInt32, {2000}, 1, 9);
  y.MutableElements<int32_t>()[1777] = 0;
  for (const char* op : {"Div", "FloorDiv", "TruncateDiv", "FloorMod", "Mod"}) {
    EXPECT_EQ(RunOp(op, {x, y}).status().code(), absl::StatusCode::kInvalidArgument) << op;
    EXPECT_EQ(RunOp(op, {x, Tensor::Scalar<int32_t>(0)}).status().code(),
              absl::StatusCode::kInvalidArgument)
        << op;
  }
  EXPECT_EQ(RunOp("Pow", {x, Tensor::Scalar<int32_t>(-1)}).status().code(),
            absl::StatusCode::kInvalidArgument);
}

// The processor traps on this quotient.
TEST(MathOps, TheLowestIntegerByMinusOneWrapsAround) {
  const int32_t lowest = std::numeric_limits<int32_t>::min();
  const Tensor x = Tensor::Scalar(lowest);
  const Tensor y = Tensor::Scalar<int32_t>(-1);
  for (const char* op : {"Div", "FloorDiv", "TruncateDiv"}) {
    const auto z = RunOp(op, {x, y});
    ASSERT_TRUE(z.ok()) << op << z.status();
    EXPECT_EQ((*z)[0].ScalarValue<int32_t>(), lowest) << op;
  }
  EXPECT_EQ((*RunOp("FloorMod", {x, y}))[0].ScalarValue<int32_t>(), 0);
  EXPECT_EQ((*RunOp("Mod", {x, y}))[0].ScalarValue<int32_t>(), 0);
}

TEST(MathOps, RangesThatWouldNotEndAreRefused) {
  const auto range = [](int32_t start, int32_t limit, int32_t delta) {
    return RunOp("Range", {Tensor::Scalar(start), Tensor::Scalar(limit), Tensor::Scalar(delta)})
        .status()
        .code();
  };
  EXPECT_EQ(range(0, 3, 0), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(range(0, 3, -1), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(range(3, 3, -1), absl::StatusCode::kOk);
  EXPECT_EQ(RunOp("Range", {Tensor::Scalar(0.f), Tensor::Scalar(INFINITY), Tensor::Scalar(1.f)})
                .status()
                .code(),
            absl::StatusCode::kInvalidArgument);
}

TEST(MathOps, ShapeFunctionsSayWhatTheKernelsDo) {
  InlineRunner runner;
  for (const Use& use : Uses()) {
    SCOPED_TRACE(use.op + " " + use.inputs[0].shape().DebugString());
    auto op = PreparedOp::Make(use.op, use.inputs, use.attrs, &runner);
    ASSERT_TRUE(op.ok()) << op.status();
    const auto output = (*op)->Run(use.inputs);
    ASSERT_TRUE(output.ok());
    EXPECT_EQ((*op)->inferred_shape().DebugString(), output->shape().DebugString());
  }
}

TEST(MathOps, CastsFromFloatsThatDoNotFitAnswerTheLowestNumber) {
  const Tensor x = Tensor::Vector<float>({NAN, INFINITY, -INFINITY, 3e9f, -3e9f, 7.9f});
  const auto y = RunOp("Cast", {x}, {{"DstT", kInt32}});
  ASSERT_TRUE(y.ok());
  const int32_t lowest = std::numeric_limits<int32_t>::min();
  const auto found = (*y)[0].Elements<int32_t>();
  EXPECT_EQ(std::vector<int32_t>(found.begin(), found.end()),
            std::vector<int32_t>({lowest, lowest, lowest, lowest, lowest, 7}));
}

}  // namespace
}  // namespace tandem::testing
