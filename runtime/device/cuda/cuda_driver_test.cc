#include "runtime/device/cuda/cuda_driver.h"

#include <cstdlib>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "runtime/device/device.h"

namespace tandem {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

TEST(CudaDriver, SaysWhichLibraryCannotBeOpened) {
  const auto calls = OpenCudaCalls("libno-such-driver.so.1");
  ASSERT_EQ(calls.status().code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(std::string(calls.status().message()),
              AllOf(HasSubstr("libno-such-driver.so.1"), HasSubstr("run on the CPU")));
}

TEST(CudaDriver, SaysWhichCallALibraryLacks) {
  const auto calls = OpenCudaCalls("libm.so.6");
  ASSERT_EQ(calls.status().code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(std::string(calls.status().message()),
              AllOf(HasSubstr("libm.so.6"), HasSubstr("cuInit")));
}

// The toolkit brings a library with all of the driver's names, whose calls do nothing.
TEST(CudaDriver, FindsEveryCallInTheToolkitsStub) {
  const char* const home = std::getenv("CUDA_HOME");
  const std::string stub =
      std::string(home != nullptr ? home : "/usr/local/cuda") + "/lib64/stubs/libcuda.so";
  const auto calls = OpenCudaCalls(stub);
  if (!calls.ok() && calls.status().message().find("no CUDA driver") == 0) {
    GTEST_SKIP() << "the CUDA toolkit is not installed";
  }
  ASSERT_TRUE(calls.ok()) << calls.status();
  EXPECT_NE((*calls)->cuInit(0), cuda::kSuccess) << "nothing works there";
}

TEST(CudaDriver, ADeviceOfAMachineWithoutAnySaysWhy) {
  if (CudaPlatform().ok()) GTEST_SKIP() << "this machine has a driver";
  const auto devices = DeviceSet::Create({{"GPU", 1}});
  ASSERT_EQ(devices.status().code(), absl::StatusCode::kUnavailable) << devices.status();
  EXPECT_THAT(std::string(devices.status().message()), HasSubstr("no CUDA driver"));
}

}  // namespace
}  // namespace tandem
