#include "runtime/rpc/listen_address.h"

#include "gtest/gtest.h"

namespace tandem {
namespace {

TEST(ListenAddress, LoopbackIsWhatTheFiguresSay) {
  for (const char* host : {"localhost", "127.0.0.1", "127.3.2.1", "::1", "::ffff:127.0.0.1"}) {
    EXPECT_TRUE(IsLoopback(host)) << host;
  }
  for (const char* host : {"127.example.org", "127.0.0.1.example.org", "127.", "127.0.0.256", "",
                           "0.0.0.0", "::", "192.0.2.127", "::2", "localhost.example.org"}) {
    EXPECT_FALSE(IsLoopback(host)) << host;
  }
}

TEST(ListenAddress, AnOwnAddressIsListenedOnAndNothingElse) {
  EXPECT_EQ(ListenHost("localhost"), "127.0.0.1");
  EXPECT_EQ(ListenHost("127.0.0.5"), "127.0.0.5");
  EXPECT_EQ(ListenHost("::1"), "::1");
}

TEST(ListenAddress, AnAddressOfSomebodyElseStandsForAllInterfaces) {
  // Addresses that are set aside for documentation: nobody has them.
  EXPECT_EQ(ListenHost("192.0.2.1"), "::");
  EXPECT_EQ(ListenHost("2001:db8::1"), "::");
}

}  // namespace
}  // namespace tandem
