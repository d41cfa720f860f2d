// What every device promises (runtime/device/device.h), asked of each type. A new type joins with
// the lines at the foot.
//
// A host device runs kernels where they are called and copies nothing; the tests call it all the
// same, through device_calls.h.
#include <atomic>
#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "core/base/mutex.h"
#include "core/base/status.h"
#include "gtest/gtest.h"
#include "runtime/device/conformance/device_calls.h"
#include "runtime/device/cuda/emulated/emulated_gpu.h"
#include "runtime/device/cuda/gpu_device.h"
#include "runtime/device/device.h"
#include "runtime/device/sim/sim_device.h"

namespace tandem {
namespace {

using ::tandem::testing::Drain;
using ::tandem::testing::Input;
using ::tandem::testing::InputList;
using ::tandem::testing::KernelCall;
using ::tandem::testing::MakeKernelOn;
using ::tandem::testing::ToDevice;
using ::tandem::testing::ToHost;

// A device type under test.
struct Subject {
  const char* type;
  // A device with so many bytes of memory. Null for types whose memory is the host's.
  absl::StatusOr<std::unique_ptr<Device>> (*with_memory)(int64_t bytes);
};

// What stands in for GPUs here.
EmulatedGpuPlatform& EmulatedGpus() {
  static auto* const platform = new EmulatedGpuPlatform();
  return *platform;
}

std::vector<int32_t> Values(const Tensor& tensor) {
  const auto elements = tensor.Elements<int32_t>();
  return std::vector<int32_t>(elements.begin(), elements.end());
}

class DeviceConformance : public ::testing::TestWithParam<Subject> {
 protected:
  void SetUp() override {
    SetGpuPlatform(&EmulatedGpus());
    absl::StatusOr<std::shared_ptr<DeviceSet>> devices = DeviceSet::Create({{GetParam().type, 1}});
    ASSERT_TRUE(devices.ok()) << devices.status();
    devices_ = *devices;
    device_ = devices_->Find(absl::StrCat(devices_->prefix(), "/device:", GetParam().type, ":0"));
    ASSERT_NE(device_, nullptr);
  }

  Device& device() { return *device_; }
  int64_t LiveBytes() const { return device_->kernel_device().allocator->stats().live_bytes; }

  Kernel& KernelFor(const std::string& op) {
    absl::StatusOr<std::unique_ptr<Kernel>> kernel = MakeKernelOn(*device_, op);
    EXPECT_TRUE(kernel.ok()) << kernel.status();
    kernels_.push_back(*std::move(kernel));
    return *kernels_.back();
  }
  Tensor OnDevice(Tensor value) {
    absl::StatusOr<Tensor> copy = ToDevice(*device_, std::move(value));
    EXPECT_TRUE(copy.ok()) << copy.status();
    return copy.ok() ? *std::move(copy) : Tensor();
  }
  Tensor OnHost(Tensor value) {
    absl::StatusOr<Tensor> copy = ToHost(*device_, std::move(value));
    EXPECT_TRUE(copy.ok()) << copy.status();
    return copy.ok() ? *std::move(copy) : Tensor();
  }
  // A kernel with one output in the device's memory.
  Tensor Call(const std::string& op, std::vector<Input> inputs) {
    KernelCall call(*device_, KernelFor(op), std::move(inputs), {kInt32});
    const absl::Status status = call.Run();
    EXPECT_TRUE(status.ok()) << status;
    return call.TakeOutput(0);
  }
  RefPtr<Variable> VariableOf(Tensor value) {
    auto variable = MakeRef<Variable>(kInt32, PartialShape(value.shape()));
    KernelCall call(*device_, KernelFor("_ConformanceAssign"),
                    {Input::Reference(variable), Input::LastUse(OnDevice(std::move(value)))}, {});
    EXPECT_TRUE(call.Run().ok());
    return variable;
  }
  // As an executor on the host looks at a variable.
  std::vector<int32_t> ValuesOf(Variable& variable) {
    absl::StatusOr<Tensor> value = variable.Read("tested");
    EXPECT_TRUE(value.ok()) << value.status();
    return value.ok() ? Values(OnHost(*value)) : std::vector<int32_t>();
  }

 private:
  std::shared_ptr<DeviceSet> devices_;
  Device* device_ = nullptr;
  std::vector<std::unique_ptr<Kernel>> kernels_;
};

TEST_P(DeviceConformance, SaysWhatItIs) {
  EXPECT_EQ(device().type(), GetParam().type);
  EXPECT_EQ(device().name(),
            absl::StrCat("/job:localhost/replica:0/task:0/device:", GetParam().type, ":0"));
  EXPECT_EQ(device().kernel_device().ordinal, 0);
  EXPECT_GT(device().memory_limit(), 0);
  EXPECT_NE(device().kernel_device().allocator, nullptr);
  // Resources belong to sessions (session_devices.h).
  EXPECT_EQ(device().kernel_device().resources, nullptr);
  EXPECT_GE(device().kernel_device().parallel->parallelism(), 1);
}

TEST_P(DeviceConformance, EachLifeHasAnIncarnationOfItsOwn) {
  const auto again = DeviceSet::Create({{GetParam().type, 1}});
  ASSERT_TRUE(again.ok());
  EXPECT_NE((*again)->Find(device().name())->incarnation(), device().incarnation());
}

TEST_P(DeviceConformance, CopiesNumbersOfAllTypesThereAndBack) {
  for (int number = 1; number < 100; ++number) {
    const DataType type = static_cast<DataType>(number);
    if (!IsSupported(type) || !IsTriviallyCopyable(type)) continue;
    for (const Shape& shape :
         {Shape({}), Shape({0}), Shape({3, 5}), Shape({2, 0, 4}), Shape({4097})}) {
      Tensor source(type, shape);
      unsigned char* const bytes = static_cast<unsigned char*>(source.mutable_data());
      for (size_t i = 0; i < source.num_bytes(); ++i) bytes[i] = type == kBool ? i & 1 : i * 7 + 1;
      const Tensor back = OnHost(OnDevice(source));
      ASSERT_EQ(back.dtype(), type);
      ASSERT_EQ(back.shape(), shape);
      if (source.num_bytes() == 0) continue;
      EXPECT_EQ(std::memcmp(back.data(), source.data(), source.num_bytes()), 0)
          << DataTypeName(type) << shape.DebugString();
    }
  }
}

TEST_P(DeviceConformance, LeavesObjectsOfTheHostWhereTheyAre) {
  const Tensor words = Tensor::Vector<std::string>({"one", std::string(100, 'x'), ""});
  const Tensor there = OnDevice(words);
  ASSERT_EQ(there.dtype(), kString);
  EXPECT_EQ(there.Elements<std::string>()[1], std::string(100, 'x'));
  const Tensor back = OnHost(there);
  EXPECT_EQ(back.Elements<std::string>()[0], "one");
}

TEST_P(DeviceConformance, CopiesAPartOfATensor) {
  const Tensor source = Tensor::FromValues<int32_t>({4, 2}, {0, 1, 2, 3, 4, 5, 6, 7});
  const Tensor there = OnDevice(source.Slice(1, 3));
  EXPECT_EQ(Values(OnHost(there)), (std::vector<int32_t>{2, 3, 4, 5}));
  EXPECT_EQ(Values(OnHost(there.Slice(1, 2))), (std::vector<int32_t>{4, 5}));
  EXPECT_EQ(OnHost(there.Slice(2, 2)).num_elements(), 0);
}

TEST_P(DeviceConformance, KeepsTheSourceOfACopyAlive) {
  std::vector<std::shared_ptr<absl::StatusOr<Tensor>>> copies;
  for (int i = 0; i < 50; ++i) {
    Tensor source(kInt32, {10000});
    for (int32_t& element : source.MutableElements<int32_t>()) element = i;
    copies.push_back(std::make_shared<absl::StatusOr<Tensor>>());
    device().CopyToDevice(std::move(source), [to = copies.back()](absl::StatusOr<Tensor> copy) {
      *to = std::move(copy);
    });
  }
  ASSERT_TRUE(Drain(device()).ok());
  for (int i = 0; i < 50; ++i) {
    ASSERT_TRUE(copies[i]->ok()) << copies[i]->status();
    device().CopyToHost(**std::exchange(copies[i], nullptr), [i](absl::StatusOr<Tensor> copy) {
      ASSERT_TRUE(copy.ok());
      EXPECT_EQ(Values(*copy), std::vector<int32_t>(10000, i));
    });
  }
  ASSERT_TRUE(Drain(device()).ok());
}

TEST_P(DeviceConformance, KernelsFindInputsAndLeaveOutputsInTheirMemories) {
  const Tensor x = OnDevice(Tensor::Vector<int32_t>({1, 2, 3}));
  const Tensor y = Call("_ConformanceScale", {Input::Shared(x), Input::Shared(Tensor::Scalar(5))});
  EXPECT_EQ(Values(OnHost(y)), (std::vector<int32_t>{5, 10, 15}));

  KernelCall size(device(), KernelFor("_ConformanceSize"), {Input::Shared(y)}, {kInt32, kString},
                  /*host_outputs=*/3);
  ASSERT_TRUE(size.Run().ok());
  EXPECT_EQ(size.output(0).ScalarValue<int32_t>(), 3) << "read without a copy";
  EXPECT_EQ(size.output(1).ScalarValue<std::string>(), "3 elements");
}

TEST_P(DeviceConformance, PassesTheErrorOfAKernelOn) {
  const Tensor none = OnDevice(Tensor(kInt32, {0}));
  KernelCall call(device(), KernelFor("_ConformanceTail"), {Input::Shared(none)}, {kInt32});
  const absl::Status status = call.Run();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_NE(status.message().find("must have a first row"), absl::string_view::npos) << status;
  EXPECT_EQ(Values(OnHost(OnDevice(Tensor::Scalar(7)))), std::vector<int32_t>{7}) << "goes on";
}

TEST_P(DeviceConformance, OverwritesNoInputThatSomebodyElseHolds) {
  const std::vector<int32_t> before = {1, 2, 3};
  const std::vector<int32_t> after = {2, 3, 4};
  const Tensor x = OnDevice(Tensor::Vector<int32_t>({1, 2, 3}));
  // More consumers are to come.
  EXPECT_EQ(Values(OnHost(Call("_ConformanceAddOne", {Input::Shared(x)}))), after);
  EXPECT_EQ(Values(OnHost(x)), before);
  // The last consumer of this slot, but the tensor is held elsewhere.
  EXPECT_EQ(Values(OnHost(Call("_ConformanceAddOne", {Input::LastUse(x)}))), after);
  EXPECT_EQ(Values(OnHost(x)), before);
  // Held by a view of it only.
  Tensor y = OnDevice(Tensor::FromValues<int32_t>({3, 1}, {1, 2, 3}));
  const Tensor view = y.Slice(0, 2);
  EXPECT_EQ(Values(OnHost(Call("_ConformanceAddOne", InputList(Input::LastUse(std::move(y)))))),
            after);
  EXPECT_EQ(Values(OnHost(view)), (std::vector<int32_t>{1, 2}));
  // Held by nobody: either way is right.
  EXPECT_EQ(
      Values(OnHost(Call("_ConformanceAddOne",
                         InputList(Input::LastUse(OnDevice(Tensor::Vector<int32_t>({1, 2, 3}))))))),
      after);
}

TEST_P(DeviceConformance, ViewsShareMemoryHoweverLongTheChain) {
  constexpr int kRows = 200;
  Tensor rows(kInt32, {kRows});
  for (int32_t i = 0; i < kRows; ++i) rows.MutableElements<int32_t>()[static_cast<size_t>(i)] = i;
  const int64_t live_before = LiveBytes();
  Tensor view = OnDevice(rows);
  const int64_t live = LiveBytes();
  const Buffer* const buffer = view.buffer().get();
  for (int i = 1; i < kRows; ++i) {
    view = Call("_ConformanceTail", InputList(Input::LastUse(std::move(view))));
    ASSERT_EQ(view.buffer()->root(), buffer->root());
    ASSERT_EQ(view.buffer().get(), buffer) << "views of views would grow without end";
  }
  EXPECT_EQ(LiveBytes(), live);
  EXPECT_EQ(Values(OnHost(view)), std::vector<int32_t>{kRows - 1});
  if (device().is_queued()) {
    EXPECT_TRUE(view.OwnsBufferAlone());
    view = Tensor();
    EXPECT_EQ(LiveBytes(), live_before);
  }
}

TEST_P(DeviceConformance, VariablesCanBeUpdatedAndRead) {
  const RefPtr<Variable> variable = VariableOf(Tensor::Vector<int32_t>({1, 2}));
  EXPECT_EQ(ValuesOf(*variable), (std::vector<int32_t>{1, 2}));
  const Tensor read = Call("_ConformanceRead", {Input::Reference(variable)});
  KernelCall append(device(), KernelFor("_ConformanceAppend"),
                    {Input::Reference(variable), Input::Shared(Tensor::Scalar(10))}, {});
  ASSERT_TRUE(append.Run().ok());
  EXPECT_EQ(ValuesOf(*variable), (std::vector<int32_t>{12, 14}));
  EXPECT_EQ(Values(OnHost(read)), (std::vector<int32_t>{1, 2})) << "what was read stays";
  EXPECT_EQ(Values(OnHost(Call("_ConformanceRead", {Input::Reference(variable)}))),
            (std::vector<int32_t>{12, 14}));
  // A value that was read goes into another kernel, as the executor does it behind a reference.
  absl::StatusOr<Tensor> value = variable->Read("tested");
  ASSERT_TRUE(value.ok());
  EXPECT_EQ(Values(OnHost(Call("_ConformanceAddOne", {Input::Shared(*value)}))),
            (std::vector<int32_t>{13, 15}));
}

TEST_P(DeviceConformance, ReadsOfAVariableDoNotTearWhileItChanges) {
  const RefPtr<Variable> variable = VariableOf(Tensor::Zeros(kInt32, {5000}));
  Kernel& append = KernelFor("_ConformanceAppend");
  std::atomic<bool> ended{false};
  std::thread writer([&] {
    for (int i = 0; i < 300; ++i) {
      KernelCall call(device(), append,
                      {Input::Reference(variable), Input::Shared(Tensor::Scalar(i))}, {});
      EXPECT_TRUE(call.Run().ok());
    }
    ended = true;
  });
  do {
    const std::vector<int32_t> values = ValuesOf(*variable);
    ASSERT_EQ(values, std::vector<int32_t>(5000, values.front()));
  } while (!ended);
  writer.join();
}

TEST_P(DeviceConformance, RunsWhatIsQueuedInOrder) {
  constexpr int kCalls = 500;
  const RefPtr<Variable> variable = VariableOf(Tensor::Scalar(0));
  Kernel& append = KernelFor("_ConformanceAppend");
  std::vector<std::unique_ptr<KernelCall>> calls;
  uint32_t expected = 0;
  for (int i = 0; i < kCalls; ++i) {
    calls.push_back(std::make_unique<KernelCall>(
        device(), append,
        std::vector<Input>{Input::Reference(variable), Input::Shared(Tensor::Scalar(i * 31))},
        std::vector<DataType>{}));
    calls.back()->Start();
    expected = 2 * expected + static_cast<uint32_t>(i) * 31;
  }
  for (const auto& call : calls) ASSERT_TRUE(call->Wait().ok());
  EXPECT_EQ(ValuesOf(*variable), std::vector<int32_t>{static_cast<int32_t>(expected)});
}

TEST_P(DeviceConformance, AnEventComesAfterWhatWasQueuedBeforeIt) {
  std::atomic<int> done{0};
  for (int i = 0; i < 100; ++i) {
    device().CopyToDevice(Tensor::Zeros(kInt32, {1000}), [&](absl::StatusOr<Tensor> copy) {
      EXPECT_TRUE(copy.ok());
      ++done;
    });
  }
  int at_event = -1;
  device().AfterQueue([&](absl::Status status) {
    EXPECT_TRUE(status.ok());
    at_event = done;
  });
  ASSERT_TRUE(Drain(device()).ok());
  EXPECT_EQ(at_event, 100);
}

TEST_P(DeviceConformance, CallbacksMayQueueMore) {
  Event done;
  Tensor result;
  device().CopyToDevice(Tensor::Scalar(41), [&](absl::StatusOr<Tensor> there) {
    ASSERT_TRUE(there.ok());
    device().CopyToHost(*std::move(there), [&](absl::StatusOr<Tensor> back) {
      ASSERT_TRUE(back.ok());
      result = *std::move(back);
      done.Set();
    });
  });
  ASSERT_TRUE(done.Wait(absl::Now() + absl::Minutes(1)));
  EXPECT_EQ(result.ScalarValue<int32_t>(), 41);
}

TEST_P(DeviceConformance, ManyThreadsMayUseItAtOnce) {
  std::vector<std::thread> threads;
  Kernel& add_one = KernelFor("_ConformanceAddOne");
  for (int t = 0; t < 8; ++t) {
    threads.emplace_back([this, t, &add_one] {
      for (int i = 0; i < 50; ++i) {
        Tensor x = OnDevice(Tensor::Vector<int32_t>({t, i}));
        for (int n = 0; n < 3; ++n) {
          KernelCall call(device(), add_one, {Input::LastUse(std::move(x))}, {kInt32});
          ASSERT_TRUE(call.Run().ok());
          x = call.TakeOutput(0);
        }
        ASSERT_EQ(Values(OnHost(x)), (std::vector<int32_t>{t + 3, i + 3}));
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

TEST_P(DeviceConformance, ATensorLargerThanAllMemoryIsAnErrorAndNoMore) {
  KernelCall call(device(), KernelFor("_ConformanceFill"),
                  {Input::Shared(Tensor::Scalar<int64_t>(int64_t{1} << 57))}, {kInt32});
  const absl::Status status = call.Run();
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted) << status;
  EXPECT_EQ(Values(OnHost(Call("_ConformanceFill", {Input::Shared(Tensor::Scalar<int64_t>(2))}))),
            (std::vector<int32_t>{0, 0}));
}

TEST_P(DeviceConformance, MemoryThatRanOutIsThereAgainWhenTensorsGo) {
  if (GetParam().with_memory == nullptr) {
    EXPECT_FALSE(device().is_queued()) << "whoever has memory of its own has a limit";
    return;
  }
  constexpr int64_t kMemory = int64_t{1} << 20;
  const auto small = GetParam().with_memory(kMemory);
  ASSERT_TRUE(small.ok()) << small.status();
  EXPECT_EQ((*small)->memory_limit(), kMemory);
  for (int round = 0; round < 2; ++round) {
    std::vector<Tensor> tensors;
    absl::Status status;
    while (status.ok()) {
      absl::StatusOr<Tensor> there = ToDevice(**small, Tensor::Zeros(kUint8, {kMemory / 4}));
      status = there.status();
      if (status.ok()) tensors.push_back(*std::move(there));
      ASSERT_LE(tensors.size(), 4u);
    }
    EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted) << status;
    EXPECT_NE(status.message().find((*small)->name()), absl::string_view::npos) << status;
    EXPECT_GE(tensors.size(), 2u);
    EXPECT_TRUE(ToHost(**small, tensors.back()).ok());
  }
}

std::string TypeName(const ::testing::TestParamInfo<Subject>& info) { return info.param.type; }

INSTANTIATE_TEST_SUITE_P(Cpu, DeviceConformance, ::testing::Values(Subject{kCpu, nullptr}),
                         TypeName);

INSTANTIATE_TEST_SUITE_P(Sim, DeviceConformance,
                         ::testing::Values(Subject{kSim,
                                                   [](int64_t bytes) {
                                                     return MakeSimDevice(
                                                         "/job:a/replica:0/task:0/device:SIM:0", 0,
                                                         {.memory_limit = bytes});
                                                   }}),
                         TypeName);

INSTANTIATE_TEST_SUITE_P(Gpu, DeviceConformance,
                         ::testing::Values(Subject{kCuda,
                                                   [](int64_t bytes) {
                                                     return MakeGpuDevice(
                                                         EmulatedGpus(),
                                                         "/job:a/replica:0/task:0/device:GPU:0", 0,
                                                         {.memory_limit = bytes});
                                                   }}),
                         TypeName);

}  // namespace
}  // namespace tandem
