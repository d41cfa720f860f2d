// Variables and optimizers on a GPU, the emulated one, end as they do on the CPU. Each runs through
// a session that keeps all of it on one device.
#include <memory>
#include <string>
#include <vector>

#include "core/graph/scope.h"
#include "gtest/gtest.h"
#include "runtime/device/cuda/emulated/emulated_cublas.h"
#include "runtime/session/session.h"

namespace tandem {
namespace {

[[maybe_unused]] EmulatedGpuPlatform& gpus = UseEmulatedGpus(1);

// An update of variables by `scalars` and a gradient, which are given in the op's order.
struct Rule {
  const char* op;
  int variables;
  std::vector<float> scalars;
  bool nesterov = false;
  bool gradient_last = true;  // Of momentum: before the last scalar.
};
void PrintTo(const Rule& rule, std::ostream* out) { *out << rule.op << rule.nesterov; }

Tensor Start(int variable) {
  const float x = 0.5f * static_cast<float>(variable + 1);
  return Tensor::FromValues<float>({2, 2}, {x, x + 0.25f, x + 1, 2});
}

// The variables after three updates with other gradients, and what was read before the last one.
std::vector<Tensor> Train(const Rule& rule, const std::string& device) {
  const Scope root = Scope::NewRoot();
  const Scope s = root.WithDevice(device);
  const PartialShape shape({2, 2});
  const Output gradient =
      s.WithOpName("gradient").Call("Placeholder", {}, {{"dtype", kFloat32}, {"shape", shape}});
  NodeSpec update;
  update.name = "update";
  update.op = rule.op;
  update.device = device;
  std::vector<std::string> fetches;
  std::vector<std::string> assigns;
  for (int i = 0; i < rule.variables; ++i) {
    const std::string name = absl::StrCat("v", i);
    const Output handle = s.WithOpName(name).Call(
        "VarHandleOp", {}, {{"dtype", kFloat32}, {"shape", shape}, {"shared_name", name}});
    const Output value = s.WithOpName("start" + name).Call("Identity", {s.Constant(Start(i))});
    assigns.push_back("assign" + name);
    s.WithOpName(assigns.back()).AddNode("AssignVariableOp", {handle, value});
    fetches.push_back("read" + name);
    s.WithOpName(fetches.back()).Call("ReadVariableOp", {handle}, {{"dtype", kFloat32}});
    update.inputs.push_back(handle);
  }
  for (const float scalar : rule.scalars) {
    update.inputs.push_back(s.Constant(Tensor::Scalar(scalar)));
  }
  update.inputs.insert(update.inputs.end() - (rule.gradient_last ? 0 : 1), gradient);
  if (rule.nesterov) update.attrs.emplace("use_nesterov", true);
  EXPECT_TRUE(s.ok()) << s.status();
  const absl::StatusOr<Node*> added = s.graph()->AddNode(update);
  EXPECT_TRUE(added.ok()) << added.status();

  SessionOptions options;
  options.devices = *DeviceSet::Create({{"CPU", 1}, {"GPU", 1}});
  const auto session = Session::Create(*s.graph(), options);
  EXPECT_TRUE(session.ok()) << session.status();
  if (!session.ok()) return {};
  EXPECT_TRUE((*session)->Run({}, {}, assigns).ok());
  std::vector<Tensor> values;
  for (int step = 0; step < 3; ++step) {
    const auto read = (*session)->Run({}, fetches);
    EXPECT_TRUE(read.ok()) << read.status();
    if (!read.ok()) return {};
    values.insert(values.end(), read->begin(), read->end());
    const float g = static_cast<float>(step) - 0.75f;
    const Tensor fed = Tensor::FromValues<float>({2, 2}, {g, 2 * g, -g, 0.1f});
    const auto updated = (*session)->Run({{"gradient", fed}}, {}, {"update"});
    EXPECT_TRUE(updated.ok()) << updated.status();
  }
  const auto read = (*session)->Run({}, fetches);
  EXPECT_TRUE(read.ok()) << read.status();
  if (read.ok()) values.insert(values.end(), read->begin(), read->end());
  return values;
}

class UpdatesOnGpu : public ::testing::TestWithParam<Rule> {};

TEST_P(UpdatesOnGpu, EndAsOnTheCpu) {
  const std::vector<Tensor> expected = Train(GetParam(), "/device:CPU:0");
  const std::vector<Tensor> found = Train(GetParam(), "/device:GPU:0");
  ASSERT_EQ(expected.size(), static_cast<size_t>(4 * GetParam().variables));
  ASSERT_EQ(found.size(), expected.size());
  for (size_t i = 0; i < found.size(); ++i) {
    for (size_t j = 0; j < 4; ++j) {
      EXPECT_NEAR(found[i].Elements<float>()[j], expected[i].Elements<float>()[j], 1e-6)
          << "value " << i << ", element " << j;
    }
  }
  EXPECT_NE(expected.front().Elements<float>()[0],
            expected[static_cast<size_t>(3 * GetParam().variables)].Elements<float>()[0]);
}

INSTANTIATE_TEST_SUITE_P(
    Rules, UpdatesOnGpu,
    ::testing::Values(
        Rule{"AssignAddVariableOp", 1, {}}, Rule{"AssignSubVariableOp", 1, {}},
        Rule{"ResourceApplyGradientDescent", 1, {0.1f}},
        Rule{"ResourceApplyMomentum", 2, {0.1f, 0.9f}, false, false},
        Rule{"ResourceApplyMomentum", 2, {0.1f, 0.9f}, true, false},
        Rule{"ResourceApplyKerasMomentum", 2, {0.1f, 0.9f}, false, false},
        Rule{"ResourceApplyKerasMomentum", 2, {0.1f, 0.9f}, true, false},
        Rule{"ResourceApplyAdam", 3, {0.9f, 0.999f, 0.01f, 0.9f, 0.999f, 1e-7f}},
        Rule{"ResourceApplyAdam", 3, {0.9f, 0.999f, 0.01f, 0.9f, 0.999f, 1e-7f}, true}));

}  // namespace
}  // namespace tandem
