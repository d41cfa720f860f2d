// What is a GPU's own; what it shares with all devices is in runtime/device/conformance.
#include "runtime/device/cuda/gpu_device.h"

#include <cstdint>
#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

#include "core/base/mutex.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "runtime/device/conformance/device_calls.h"
#include "runtime/device/cuda/emulated/emulated_gpu.h"

namespace tandem {
namespace {

using ::tandem::testing::Input;
using ::tandem::testing::KernelCall;
using ::tandem::testing::MakeKernelOn;
using ::tandem::testing::ToDevice;
using ::tandem::testing::ToHost;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

class GpuDeviceTest : public ::testing::Test {
 protected:
  void SetUp() override {
    auto device = MakeGpuDevice(platform_, "/job:a/replica:0/task:0/device:GPU:0", 0);
    ASSERT_TRUE(device.ok()) << device.status();
    device_ = *std::move(device);
    add_one_ = *MakeKernelOn(*device_, "_ConformanceAddOne");
  }

  absl::StatusOr<Tensor> AddOne(Tensor x) {
    KernelCall call(*device_, *add_one_, {Input::LastUse(std::move(x))}, {kInt32});
    const absl::Status status = call.Run();
    if (!status.ok()) return status;
    return call.TakeOutput(0);
  }

  EmulatedGpuPlatform platform_;
  std::unique_ptr<Device> device_;
  std::unique_ptr<Kernel> add_one_;
};

TEST_F(GpuDeviceTest, AStepMakesTheHostWaitOnceForItsFetch) {
  const int64_t before = platform_.counts().waits_of_host;
  Tensor x = *ToDevice(*device_, Tensor::Vector<int32_t>({1, 2, 3}));
  for (int i = 0; i < 100; ++i) x = *AddOne(std::move(x));
  EXPECT_EQ(platform_.counts().waits_of_host, before);
  EXPECT_EQ(platform_.counts().launches, 100);
  const Tensor back = *ToHost(*device_, x);
  EXPECT_THAT(back.Elements<int32_t>(), ElementsAre(101, 102, 103));
  EXPECT_EQ(platform_.counts().waits_of_host, before + 1);
}

TEST_F(GpuDeviceTest, BatchesThatComeAndGoDoNotOverwriteEachOther) {
  std::vector<Tensor> results;
  for (int i = 0; i < 20; ++i) {
    // Each goes before anything of it was computed.
    results.push_back(*AddOne(*ToDevice(*device_, Tensor::FromValues<int32_t>({1}, {10 * i}))));
  }
  for (int i = 0; i < 20; ++i) {
    EXPECT_THAT(ToHost(*device_, results[static_cast<size_t>(i)])->Elements<int32_t>(),
                ElementsAre(10 * i + 1));
  }
}

TEST_F(GpuDeviceTest, HostsMemoryIsFreeAgainAfterTheCopyWasStarted) {
  Tensor source = Tensor::Vector<int32_t>({1, 2, 3});
  const Tensor there = *ToDevice(*device_, source);
  // The copy has not run.
  for (int32_t& element : source.MutableElements<int32_t>()) element = -1;
  EXPECT_THAT(ToHost(*device_, there)->Elements<int32_t>(), ElementsAre(1, 2, 3));
}

TEST_F(GpuDeviceTest, WhatTheHostGotGoesBackWithoutAnotherCopyOfIt) {
  const Tensor there = *ToDevice(*device_, Tensor::Vector<int32_t>({4, 5}));
  const Tensor back = *ToHost(*device_, there);
  const Tensor again = *ToDevice(*device_, back);
  EXPECT_THAT(ToHost(*device_, again)->Elements<int32_t>(), ElementsAre(4, 5));
}

TEST_F(GpuDeviceTest, ADeviceThatBrokeSaysSoAndEndsNothingElse) {
  const Tensor x = *ToDevice(*device_, Tensor::Scalar(1));
  platform_.BreakAt("ConformanceAddOne");
  const absl::StatusOr<Tensor> y = AddOne(x);
  ASSERT_TRUE(y.ok()) << "it has not run yet";
  const absl::StatusOr<Tensor> back = ToHost(*device_, *y);
  ASSERT_EQ(back.status().code(), absl::StatusCode::kInternal);
  EXPECT_THAT(std::string(back.status().message()), HasSubstr("ILLEGAL_ADDRESS"));
  EXPECT_FALSE(AddOne(x).ok());
  EXPECT_FALSE(ToDevice(*device_, Tensor::Scalar(1)).ok());
  Event ended;
  device_->AfterQueue([&](absl::Status status) {
    EXPECT_FALSE(status.ok());
    ended.Set();
  });
  EXPECT_TRUE(ended.Wait(absl::Now() + absl::Minutes(1)));
}

TEST(GpuDevice, WhenBlockingTheErrorIsThatOfItsOp) {
  ::setenv("TANDEM_GPU_BLOCKING", "1", 1);
  EmulatedGpuPlatform platform;
  auto device = *MakeGpuDevice(platform, "/job:a/replica:0/task:0/device:GPU:0", 0);
  ::unsetenv("TANDEM_GPU_BLOCKING");
  const auto kernel = *MakeKernelOn(*device, "_ConformanceAddOne");
  const Tensor x = *ToDevice(*device, Tensor::Scalar(1));
  platform.BreakAt("ConformanceAddOne");
  KernelCall call(*device, *kernel, {Input::LastUse(x)}, {kInt32});
  EXPECT_THAT(std::string(call.Run().message()), HasSubstr("ILLEGAL_ADDRESS"));
}

TEST(GpuDevice, SaysHowManyGpusThereAre) {
  EmulatedGpuPlatform platform({.devices = 2});
  const auto device = MakeGpuDevice(platform, "/job:a/replica:0/task:0/device:GPU:2", 2);
  ASSERT_EQ(device.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(device.status().message()), HasSubstr("shows 2"));
}

}  // namespace
}  // namespace tandem
