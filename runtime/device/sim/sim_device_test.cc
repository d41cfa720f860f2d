// What is SIM's own. What it shares with other devices is in runtime/device/conformance.
#include "runtime/device/sim/sim_device.h"

#include <cstdint>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "core/base/status.h"
#include "core/kernel/kernel.h"
#include "gtest/gtest.h"
#include "runtime/device/conformance/device_calls.h"
#include "runtime/threads/inner_loop.h"
#include "runtime/threads/run_tokens.h"

namespace tandem {
namespace {

using ::tandem::testing::Input;
using ::tandem::testing::InputList;
using ::tandem::testing::KernelCall;
using ::tandem::testing::ToDevice;
using ::tandem::testing::ToHost;

class LambdaKernel final : public Kernel {
 public:
  explicit LambdaKernel(std::function<absl::Status(KernelContext&)> body)
      : body_(std::move(body)) {}
  absl::Status Compute(KernelContext& c) override { return body_(c); }

 private:
  const std::function<absl::Status(KernelContext&)> body_;
};

class SimDeviceTest : public ::testing::Test {
 protected:
  void SetUp() override {
    GTEST_FLAG_SET(death_test_style, "threadsafe");
    absl::StatusOr<std::unique_ptr<Device>> device =
        MakeSimDevice("/job:a/replica:0/task:0/device:SIM:3", 3, {.memory_limit = 1 << 20});
    ASSERT_TRUE(device.ok()) << device.status();
    device_ = *std::move(device);
  }

  Tensor OnDevice(Tensor value) {
    absl::StatusOr<Tensor> copy = ToDevice(*device_, std::move(value));
    EXPECT_TRUE(copy.ok()) << copy.status();
    return copy.ok() ? *std::move(copy) : Tensor();
  }
  std::vector<float> Values(Tensor value) {
    const absl::StatusOr<Tensor> copy = ToHost(*device_, std::move(value));
    EXPECT_TRUE(copy.ok()) << copy.status();
    const auto elements = copy->Elements<float>();
    return std::vector<float>(elements.begin(), elements.end());
  }
  // Runs `body` as a kernel with one float output.
  Tensor Call(std::function<absl::Status(KernelContext&)> body, std::vector<Input> inputs = {},
              uint64_t host_outputs = 0) {
    LambdaKernel kernel(std::move(body));
    KernelCall call(*device_, kernel, std::move(inputs), {kFloat32}, host_outputs);
    const absl::Status status = call.Run();
    EXPECT_TRUE(status.ok()) << status;
    return call.TakeOutput(0);
  }

  std::unique_ptr<Device> device_;
};

// Fails, instead of dying, where the host can read the tensor.
void Read(const Tensor& tensor) {
  [[maybe_unused]] volatile float seen = tensor.ScalarValue<float>();
}

using SimDeviceDeathTest = SimDeviceTest;

// A sanitizer reports the signal itself and exits, so only the end is the same everywhere.
TEST_F(SimDeviceDeathTest, TheHostCannotTouchWhatWasCopied) {
  Tensor there = OnDevice(Tensor::Scalar(1.0f));
  EXPECT_DEATH(Read(there), "");
  EXPECT_DEATH(*static_cast<float*>(there.mutable_data()) = 2, "");
}

TEST_F(SimDeviceDeathTest, TheHostCannotTouchWhatAKernelMade) {
  const Tensor made = Call([](KernelContext& c) -> absl::Status {
    TANDEM_ASSIGN_OR_RETURN(Tensor * y, c.AllocateOutput(0, {}));
    y->MutableElements<float>()[0] = 5;
    return absl::OkStatus();
  });
  EXPECT_EQ(Values(made), std::vector<float>{5});
  EXPECT_DEATH(Read(made), "");
}

TEST_F(SimDeviceDeathTest, TheHostCannotTouchAViewThatAKernelMade) {
  const Tensor view = Call(
      [](KernelContext& c) {
        c.SetOutput(0, c.input(0).Slice(1, 2));
        return absl::OkStatus();
      },
      {Input::LastUse(OnDevice(Tensor::Vector<float>({1, 2, 3})))});
  EXPECT_EQ(Values(view), std::vector<float>{2});
  EXPECT_DEATH(Read(view), "");
}

TEST_F(SimDeviceDeathTest, TheHostCannotTouchTheValueOfAVariable) {
  const auto variable = MakeRef<Variable>(kFloat32, PartialShape(Shape{}));
  LambdaKernel assign([](KernelContext& c) -> absl::Status {
    TANDEM_ASSIGN_OR_RETURN(Tensor value, c.AllocateTemporary(kFloat32, {}));
    value.MutableElements<float>()[0] = 4;
    MutexLock lock(c.reference(0).mu());
    c.reference(0).value() = std::move(value);
    // What the kernel reads back it can use.
    if (c.reference(0).value().ScalarValue<float>() != 4) return errors::Internal("not 4");
    return absl::OkStatus();
  });
  KernelCall call(*device_, assign, {Input::Reference(variable)}, {});
  ASSERT_TRUE(call.Run().ok());
  const absl::StatusOr<Tensor> read = variable->Read("tested");
  ASSERT_TRUE(read.ok());
  EXPECT_EQ(Values(*read), std::vector<float>{4});
  EXPECT_DEATH(Read(*read), "");
  EXPECT_DEATH(
      {
        MutexLock lock(variable->mu());
        Read(variable->value());
      },
      "");
}

TEST_F(SimDeviceDeathTest, TheHostCannotTouchWhatAKernelPutIntoItsMemory) {
  // A kernel of the CPU may put out a tensor that it made or holds in host memory.
  const Tensor constant = Tensor::Scalar(6.0f);
  const Tensor out = Call([&](KernelContext& c) {
    c.SetOutput(0, constant);
    return absl::OkStatus();
  });
  EXPECT_EQ(Values(out), std::vector<float>{6});
  EXPECT_DEATH(Read(out), "");
}

TEST_F(SimDeviceTest, AHostOutputIsReadableWhereverTheKernelPutIt) {
  const Tensor passed_on = Call(
      [](KernelContext& c) {
        c.SetOutput(0, c.input(0));
        return absl::OkStatus();
      },
      {Input::Shared(OnDevice(Tensor::Scalar(7.0f)))}, /*host_outputs=*/1);
  EXPECT_EQ(passed_on.ScalarValue<float>(), 7);
}

TEST_F(SimDeviceTest, OverwritesAnInputThatNobodyElseNeeds) {
  Tensor x = OnDevice(Tensor::Vector<float>({1, 2}));
  const void* const place = x.data();
  const Tensor y = Call(
      [](KernelContext& c) -> absl::Status {
        TANDEM_ASSIGN_OR_RETURN(Tensor * out, c.ForwardOrAllocate({0}, 0, c.input(0).shape()));
        for (float& element : out->MutableElements<float>()) element *= 10;
        return absl::OkStatus();
      },
      InputList(Input::LastUse(std::move(x))));
  EXPECT_EQ(y.data(), place);
  EXPECT_TRUE(y.OwnsBufferAlone());
  EXPECT_EQ(Values(y), (std::vector<float>{10, 20}));
}

TEST_F(SimDeviceTest, AVariableTakesAValueThatNobodyElseNeeds) {
  const auto variable = MakeRef<Variable>(kFloat32, PartialShape(Shape{2}));
  LambdaKernel assign([](KernelContext& c) {
    MutexLock lock(c.reference(0).mu());
    c.reference(0).value() = c.TakeInput(1);
    return absl::OkStatus();
  });
  KernelCall call(
      *device_, assign,
      {Input::Reference(variable), Input::LastUse(OnDevice(Tensor::Vector<float>({1, 2})))}, {});
  ASSERT_TRUE(call.Run().ok());
  MutexLock lock(variable->mu());
  EXPECT_TRUE(variable->value().OwnsBufferAlone()) << "so that updates happen in place";
}

TEST_F(SimDeviceTest, PassesReferencesThrough) {
  const auto variable = MakeRef<Variable>(kFloat32, PartialShape(Shape{}));
  LambdaKernel identity([](KernelContext& c) {
    c.SetOutputReference(0, RefPtr<Variable>::Share(&c.reference(0)));
    return absl::OkStatus();
  });
  Slot input;
  input.reference = variable;
  input.state = Slot::State::kReference;
  Slot output;
  Slot* const inputs[] = {&input};
  const DataType types[] = {MakeReference(kFloat32)};
  KernelContext::Params params;
  params.device = &device_->kernel_device();
  params.inputs = inputs;
  params.outputs = &output;
  params.output_types = types;
  KernelContext context(params);
  Event done;
  device_->Enqueue(identity, context, [&](absl::Status status) {
    EXPECT_TRUE(status.ok()) << status;
    done.Set();
  });
  ASSERT_TRUE(done.Wait(absl::Now() + absl::Minutes(1)));
  EXPECT_EQ(output.state, Slot::State::kReference);
  EXPECT_EQ(output.reference.get(), variable.get());
}

TEST_F(SimDeviceTest, ComputesWithARunTokenAndOnOneThread) {
  bool holds = false;
  int threads = 0;
  int loop_threads = 0;
  Call([&](KernelContext& c) {
    holds = ThisThreadHoldsRunToken();
    threads = InnerParallelism();
    loop_threads = c.parallel().parallelism();
    return c.AllocateOutput(0, {}).status();
  });
  EXPECT_TRUE(holds);
  EXPECT_EQ(threads, 1);
  EXPECT_EQ(loop_threads, 1);
}

TEST_F(SimDeviceTest, KnowsItsNameAndNumber) {
  EXPECT_EQ(device_->name(), "/job:a/replica:0/task:0/device:SIM:3");
  EXPECT_EQ(device_->kernel_device().ordinal, 3);
  EXPECT_TRUE(device_->is_queued());
}

TEST_F(SimDeviceTest, ATensorMayOutliveItsDevice) {
  Tensor there = OnDevice(Tensor::Scalar(1.0f));
  device_.reset();
  EXPECT_EQ(there.num_elements(), 1);
  there = Tensor();
}

TEST_F(SimDeviceTest, EndsAfterWhatIsQueued) {
  int done = 0;
  for (int i = 0; i < 20; ++i) {
    device_->CopyToDevice(Tensor::Zeros(kFloat32, {100}), [&](absl::StatusOr<Tensor>) { ++done; });
  }
  device_.reset();
  EXPECT_EQ(done, 20);
}

TEST_F(SimDeviceTest, ACopyOfNothingIsAnError) {
  EXPECT_EQ(ToDevice(*device_, Tensor()).status().code(), absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace tandem
