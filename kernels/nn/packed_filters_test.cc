// Convolutions whose filters are constants or variables keep them packed between runs, and answer
// bit for bit what they answer for a filter that is fed, which is packed in each run.
#include <atomic>
#include <cmath>
#include <cstring>
#include <memory>
#include <string>
#include <thread>
#include <tuple>
#include <vector>

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"
#include "core/graph/scope.h"
#include "gtest/gtest.h"
#include "kernels/nn/packed_weights.h"
#include "runtime/session/session.h"

namespace tandem {
namespace {

constexpr int64_t kChannels = 16;
const Shape kFilterShape({3, 3, kChannels, kChannels});

Tensor Numbers(const Shape& shape, unsigned seed) {
  Tensor tensor(kFloat32, shape);
  for (float& value : tensor.MutableElements<float>()) {
    seed = seed * 1664525u + 1013904223u;
    value = static_cast<float>(seed >> 8) / (1 << 24) - 0.5f;
  }
  return tensor;
}
Tensor Images(int64_t batch, unsigned seed = 1) {
  return Numbers(Shape({batch, 8, 9, kChannels}), seed);
}
Tensor FilterOf(unsigned seed) { return Numbers(kFilterShape, seed); }

using Floats = std::vector<float>;
Floats Values(const Tensor& tensor) {
  const auto elements = tensor.Elements<float>();
  return {elements.begin(), elements.end()};
}

// What "x" becomes by one of the ops with filter `w`, as "y".
void AddOp(const Scope& s, const std::string& op, const Output& w) {
  const Output x = s.WithOpName("x").Call("Placeholder", {}, {{"dtype", kFloat32}});
  AttrMap attrs = {{"strides", std::vector<int64_t>{1, 1, 1, 1}}, {"padding", "SAME"}};
  Output y;
  if (op == "Conv2DBackpropInput") {
    y = s.Call(op, {s.Call("Shape", {x}), w, x}, attrs);
  } else if (op == "_FusedConv2D") {
    attrs["fused_ops"] = std::vector<std::string>{"BiasAdd", "Relu"};
    attrs["TArgs"] = std::vector<DataType>{kFloat32};
    attrs["num_args"] = 1;
    y = s.Call(op, {x, w, s.Constant(Numbers(Shape({kChannels}), 9))}, attrs);
  } else {
    y = s.Call(op, {x, w}, attrs);
  }
  s.WithOpName("y").Call("Identity", {y});
}

// A session in which the filter is fed ("w"), a constant, or a variable with ops that change it.
class Model {
 public:
  Model(const std::string& op, const std::string& kind, const std::string& device,
        unsigned seed = 2) {
    const Scope s = Scope::NewRoot();
    if (kind == "Fed") {
      AddOp(s, op,
            s.WithOpName("w").Call("Placeholder", {},
                                   {{"dtype", kFloat32}, {"shape", PartialShape(kFilterShape)}}));
    } else if (kind == "Constant") {
      AddOp(s, op, s.WithOpName("w").Constant(FilterOf(seed)));
    } else {
      const bool by_reference = kind == "Reference";
      const AttrMap attrs = {{"dtype", kFloat32}, {"shape", PartialShape(kFilterShape)}};
      const Output v =
          s.WithOpName("v").Call(by_reference ? "VariableV2" : "VarHandleOp", {}, attrs);
      AddOp(s, op,
            by_reference ? s.WithOpName("read").Call("Identity", {v})
                         : s.WithOpName("read").Call("ReadVariableOp", {v}, {{"dtype", kFloat32}}));
      const Output value = s.WithOpName("value").Call("Placeholder", {}, {{"dtype", kFloat32}});
      const char* const ops[2][4] = {
          {"AssignVariableOp", "AssignAddVariableOp", "ResourceApplyGradientDescent",
           "ResourceScatterUpdate"},
          {"Assign", "AssignAdd", "ApplyGradientDescent", "ScatterUpdate"}};
      const auto change = [&](const char* name, int i, std::vector<Output> rest) {
        rest.insert(rest.begin(), v);
        s.WithOpName(name).AddNode(ops[by_reference][i], InputList(rest.begin(), rest.end()));
      };
      change("assign", 0, {value});
      change("add", 1, {value});
      change("descend", 2, {s.Constant(0.5f), value});
      change("rows", 3, {s.Constant(Tensor::Vector<int32_t>({1})), value});
    }
    EXPECT_TRUE(s.ok()) << s.status();
    SessionOptions options;
    options.devices = *DeviceSet::Create({{kCpu, 1}, {kSim, 1}});
    options.default_device = absl::StrCat("/device:", device, ":0");
    auto session = Session::Create(*s.graph(), options);
    EXPECT_TRUE(session.ok()) << session.status();
    session_ = *std::move(session);
  }

  Floats Run(const Tensor& x) { return Fetch("y", {{"x", x}}); }
  Floats RunFed(const Tensor& x, const Tensor& w) { return Fetch("y", {{"x", x}, {"w", w}}); }
  Tensor Filter() {
    const auto result = session_->Run({}, {"read"});
    EXPECT_TRUE(result.ok()) << result.status();
    return *(*result)[0].Clone();
  }
  void Change(const std::string& how, const Tensor& value) {
    const auto result = session_->Run({{"value", value}}, {}, {how});
    EXPECT_TRUE(result.ok()) << how << ": " << result.status();
  }

 private:
  Floats Fetch(const std::string& name, const Session::Feeds& feeds) {
    const auto result = session_->Run(feeds, {name});
    EXPECT_TRUE(result.ok()) << result.status();
    return result.ok() ? Values((*result)[0]) : Floats{};
  }

  std::unique_ptr<Session> session_;
};

int64_t Kept() { return PackedBudget::Process().used(); }

class PackedFiltersTest : public ::testing::TestWithParam<std::tuple<std::string, std::string>> {
 protected:
  const std::string op_ = std::get<0>(GetParam());
  const std::string device_ = std::get<1>(GetParam());
};

TEST_P(PackedFiltersTest, AConstantFilterIsKeptWhileItsSessionLives) {
  Model fed(op_, "Fed", device_);
  const int64_t before = Kept();
  {
    Model constant(op_, "Constant", device_);
    for (int64_t batch = 1; batch <= 5; ++batch) {
      const Tensor x = Images(batch);
      const Floats expected = fed.RunFed(x, FilterOf(2));
      EXPECT_EQ(constant.Run(x), expected);
      EXPECT_EQ(constant.Run(x), expected);
    }
    EXPECT_GT(Kept(), before);
  }
  EXPECT_EQ(Kept(), before);
}

TEST_P(PackedFiltersTest, EachSessionHasItsOwnConstants) {
  Model fed(op_, "Fed", device_);
  Model one(op_, "Constant", device_, 11);
  Model other(op_, "Constant", device_, 12);
  const Tensor x = Images(2);
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(one.Run(x), fed.RunFed(x, FilterOf(11)));
    EXPECT_EQ(other.Run(x), fed.RunFed(x, FilterOf(12)));
  }
}

TEST_P(PackedFiltersTest, AFedFilterIsNotKept) {
  Model fed(op_, "Fed", device_);
  Model constant(op_, "Constant", device_, 4);
  const int64_t before = Kept();
  const Tensor x = Images(2);
  Tensor mine = FilterOf(3);
  for (int i = 0; i < 20; ++i) fed.RunFed(x, mine);
  EXPECT_EQ(Kept(), before);
  const Tensor other = FilterOf(4);
  std::copy_n(other.Elements<float>().data(), other.num_elements(),
              mine.MutableElements<float>().data());
  EXPECT_EQ(fed.RunFed(x, mine), constant.Run(x));
}

TEST_P(PackedFiltersTest, AVariableIsNeverStale) {
  for (const char* kind : {"Variable", "Reference"}) {
    SCOPED_TRACE(kind);
    Model fed(op_, "Fed", device_);
    const int64_t before = Kept();
    {
      Model model(op_, kind, device_);
      const Tensor x = Images(2);
      unsigned seed = 20;
      model.Change("assign", FilterOf(seed));
      for (int round = 0; round < 3; ++round) {
        for (const char* how : {"assign", "add", "descend", "rows"}) {
          const bool rows = std::string(how) == "rows";
          model.Change(how,
                       Numbers(rows ? Shape({1, 3, kChannels, kChannels}) : kFilterShape, ++seed));
          const Floats expected = fed.RunFed(x, model.Filter());
          for (int i = 0; i < 12; ++i) ASSERT_EQ(model.Run(x), expected) << how << ", run " << i;
        }
      }
      for (int i = 0; i < 100; ++i) model.Run(x);
      EXPECT_GT(Kept(), before);
    }
    EXPECT_EQ(Kept(), before);
  }
}

// Also where something about the numbers themselves is kept (_FusedConv2D).
TEST_P(PackedFiltersTest, WhatIsNoNumberComesThroughAfterAnAssignment) {
  Model fed(op_, "Fed", device_);
  Model model(op_, "Variable", device_);
  const Tensor x = Images(2);
  for (const float odd : {NAN, INFINITY, -INFINITY}) {
    model.Change("assign", FilterOf(2));
    for (int i = 0; i < 12; ++i) model.Run(x);
    Tensor filter = FilterOf(2);
    filter.MutableElements<float>()[700] = odd;
    model.Change("assign", filter);
    const Floats expected = fed.RunFed(x, filter);
    const Floats found = model.Run(x);
    ASSERT_EQ(found.size(), expected.size());
    EXPECT_EQ(std::memcmp(found.data(), expected.data(), sizeof(float) * found.size()), 0);
    EXPECT_GT(absl::c_count_if(found, [](float y) { return !std::isfinite(y); }), 0);
  }
}

TEST_P(PackedFiltersTest, RunsAtOnceSeeTheValueThatWasAssignedLast) {
  constexpr int kVersions = 12;
  Model fed(op_, "Fed", device_);
  Model model(op_, "Variable", device_);
  const Tensor x = Images(2);
  std::vector<Floats> expected;
  for (unsigned version = 0; version < kVersions; ++version) {
    expected.push_back(fed.RunFed(x, FilterOf(100 + version)));
  }
  model.Change("assign", FilterOf(100));
  std::atomic<int> assigned{0};
  std::atomic<bool> ends{false};
  std::vector<std::thread> readers;
  for (int t = 0; t < 3; ++t) {
    readers.emplace_back([&] {
      while (!ends) {
        const int least = assigned.load();
        const Floats y = model.Run(x);
        int seen = kVersions;
        while (--seen >= 0 && y != expected[static_cast<size_t>(seen)]) {
        }
        EXPECT_GE(seen, least);
      }
    });
  }
  for (int version = 1; version < kVersions; ++version) {
    for (int i = 0; i < 30; ++i) {
      EXPECT_EQ(model.Run(x), expected[static_cast<size_t>(version) - 1]);
    }
    model.Change("assign", FilterOf(100 + static_cast<unsigned>(version)));
    assigned = version;
  }
  ends = true;
  for (std::thread& reader : readers) reader.join();
}

INSTANTIATE_TEST_SUITE_P(Ops, PackedFiltersTest,
                         ::testing::Combine(::testing::Values("Conv2D", "_FusedConv2D",
                                                              "Conv2DBackpropInput"),
                                            ::testing::Values("CPU", "SIM")),
                         [](const auto& info) {
                           std::string name = std::get<0>(info.param) + std::get<1>(info.param);
                           return name[0] == '_' ? name.substr(1) : name;
                         });

}  // namespace
}  // namespace tandem
