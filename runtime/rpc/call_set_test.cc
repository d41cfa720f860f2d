#include "runtime/rpc/call_set.h"

#include <atomic>
#include <thread>

#include "grpcpp/client_context.h"
#include "gtest/gtest.h"

namespace tandem {
namespace {

TEST(CallSet, WhoeverEndsItWaitsForItsCalls) {
  CallSet calls;
  grpc::ClientContext context;
  calls.Begin(&context);
  calls.Begin();
  std::atomic<bool> over{false};
  std::thread call([&] {
    calls.Forget(&context);
    calls.End();
    over = true;
    calls.End();
  });
  calls.EndAll(absl::ZeroDuration());
  EXPECT_TRUE(over);
  call.join();
  // There is nothing to wait for any more.
  calls.EndAll(absl::Seconds(60));
}

}  // namespace
}  // namespace tandem
