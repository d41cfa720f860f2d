// How a program says what it ends with.
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tandem.h"

namespace tandem {
namespace {

using ::testing::internal::CaptureStderr;
using ::testing::internal::GetCapturedStderr;

TEST(Exit, PrintsTheErrorWithoutWhatIsForPrograms) {
  absl::Status status = absl::CancelledError("training was stopped after step 3");
  status.SetPayload("tandem.dev/exit_code", absl::Cord("143"));
  CaptureStderr();
  EXPECT_EQ(Exit(status), 143);
  EXPECT_EQ(GetCapturedStderr(), "CANCELLED: training was stopped after step 3\n");
}

// Of a server, when its job has ended.
TEST(Exit, SaysNothingOfAnEndThatIsNoError) {
  absl::Status status = absl::CancelledError("it has served until its job had ended");
  status.SetPayload("tandem.dev/exit_code", absl::Cord("0"));
  CaptureStderr();
  EXPECT_EQ(Exit(status), 0);
  EXPECT_EQ(GetCapturedStderr(), "");
}

TEST(Exit, SaysNothingOfSuccess) {
  CaptureStderr();
  EXPECT_EQ(Exit(absl::OkStatus()), 0);
  EXPECT_EQ(GetCapturedStderr(), "");
}

}  // namespace
}  // namespace tandem
