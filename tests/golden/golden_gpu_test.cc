// Runs every case that is a single op with a kernel for GPUs on one, and compares the answer with
// TensorFlow's: on the machine's GPU when TANDEM_TEST_GPU=1 is set, else on the emulated one.
//
// Where TensorFlow has an error there must be one; its code is golden_test's.
#include <cstdlib>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "core/graph/attr_proto.h"
#include "core/op/registry.h"
#include "gtest/gtest.h"
#include "runtime/device/conformance/op_on_device.h"
#include "runtime/device/cuda/emulated/emulated_cublas.h"
#include "runtime/device/device.h"
#include "tests/golden/golden_cases.h"

namespace tandem::testing {
namespace {

// Ops that have golden cases and a kernel for GPUs.
std::vector<std::string> OpsOfGpus() {
  std::vector<std::string> ops;
  for (const std::string& name : GoldenOps()) {
    const OpDef* const op = OpRegistry::Global().Find(name);
    if (op == nullptr || op->is_stateful) continue;
    for (const KernelDef* kernel : OpRegistry::Global().Kernels(*op)) {
      if (kernel->device != kCuda) continue;
      ops.push_back(name);
      break;
    }
  }
  return ops;
}

Device& Gpu() {
  static Device* const gpu = [] {
    const char* const real = std::getenv("TANDEM_TEST_GPU");
    if (real == nullptr || absl::string_view(real) != "1") {
      UseEmulatedGpus(1);
    }
    static const auto devices = DeviceSet::Create({{kCuda, 1}});
    if (!devices.ok()) {
      ADD_FAILURE() << devices.status();
      std::exit(1);
    }
    return (*devices)->Find(absl::StrCat((*devices)->prefix(), "/device:GPU:0"));
  }();
  return *gpu;
}

// Cases that end otherwise on GPUs, by design.
//
// Labels lie on the device, where nobody can refuse them without a wait: their rows become not a
// number, as in TensorFlow.
const std::set<std::string>& DifferentOnGpus(const std::string& op) {
  static const std::set<std::string> none;
  static const std::set<std::string> labels = {"error/label", "error/label_negative"};
  return op == "SparseSoftmaxCrossEntropyWithLogits" ? labels : none;
}

class GoldenOnGpu : public ::testing::TestWithParam<std::string> {};

TEST_P(GoldenOnGpu, AnswersAsTensorFlow) {
  const absl::StatusOr<GoldenFile> file = LoadGoldenFile(GetParam());
  ASSERT_TRUE(file.ok()) << file.status();
  const std::set<std::string> deviations = CasesThatDeviate(GetParam());
  int could_run = 0;
  int ran = 0;
  for (const Case& c : file->case_()) {
    if (!c.has_node() || deviations.count(c.name()) > 0) continue;
    if (DifferentOnGpus(GetParam()).count(c.name()) > 0) continue;
    ++could_run;
    SCOPED_TRACE(absl::StrCat("case ", c.name()));
    AttrMap attrs;
    for (const auto& [name, proto] : c.node().attr()) {
      absl::StatusOr<AttrValue> value = AttrFromProto(proto);
      ASSERT_TRUE(value.ok()) << value.status();
      attrs.emplace(name, *std::move(value));
    }
    const absl::StatusOr<std::vector<Tensor>> inputs = TensorsFromProtos(c.input());
    const absl::StatusOr<std::vector<Tensor>> wanted = TensorsFromProtos(c.output());
    ASSERT_TRUE(inputs.ok()) << inputs.status();
    ASSERT_TRUE(wanted.ok()) << wanted.status();
    if (!HasKernelOn(Gpu(), GetParam(), *inputs, attrs)) continue;
    const absl::StatusOr<std::vector<Tensor>> found = RunOpOn(Gpu(), GetParam(), *inputs, attrs);
    // A form of the op that stays with the CPU, and says so.
    if (absl::IsUnimplemented(found.status()) &&
        absl::StrContains(found.status().message(), "on a GPU")) {
      continue;
    }
    ++ran;
    if (c.error_code() != 0) {
      EXPECT_FALSE(found.ok()) << "no error; TensorFlow's code is " << c.error_code();
      continue;
    }
    ASSERT_TRUE(found.ok()) << found.status();
    EXPECT_EQ(Difference(*found, *wanted, c.unchecked_output(), c.rtol(), c.atol()), "");
  }
  EXPECT_EQ(ran > 0, could_run > 0) << "no case has types that the kernel takes";
}

INSTANTIATE_TEST_SUITE_P(Ops, GoldenOnGpu, ::testing::ValuesIn(OpsOfGpus()),
                         [](const auto& info) { return info.param; });

}  // namespace
}  // namespace tandem::testing
