#include "runtime/rpc/listen_address.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include "absl/strings/match.h"
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

TEST(ListenAddress, WhatAUserWroteIsAnAddressOrAName) {
  EXPECT_EQ(*ResolveBindAddress("localhost"), "127.0.0.1");
  EXPECT_EQ(*ResolveBindAddress("0.0.0.0"), "0.0.0.0");
  EXPECT_EQ(*ResolveBindAddress("[::1]"), "::1");
  for (const char* nonsense : {"no address at all", "127.0.0.256", "[::1", "127.0.0.1:80"}) {
    const auto resolved = ResolveBindAddress(nonsense);
    EXPECT_EQ(resolved.status().code(), absl::StatusCode::kInvalidArgument) << nonsense;
    EXPECT_TRUE(absl::StrContains(resolved.status().message(), nonsense)) << resolved.status();
  }
}

TEST(ListenAddress, TheReasonIsTheSystems) {
  const int number = socket(AF_INET, SOCK_STREAM, 0);
  ASSERT_GE(number, 0);
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t length = sizeof(address);
  ASSERT_EQ(bind(number, reinterpret_cast<const sockaddr*>(&address), length), 0);
  ASSERT_EQ(listen(number, 1), 0);
  ASSERT_EQ(getsockname(number, reinterpret_cast<sockaddr*>(&address), &length), 0);
  const absl::Status taken = CheckCanListen("127.0.0.1", ntohs(address.sin_port));
  close(number);
  EXPECT_EQ(taken.code(), absl::StatusCode::kUnavailable);
  EXPECT_TRUE(absl::StrContains(taken.message(), "in use")) << taken;
  // An address that is set aside for documentation.
  const absl::Status foreign = CheckCanListen("192.0.2.1", 0);
  EXPECT_EQ(foreign.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_TRUE(absl::StrContains(foreign.message(), "no interface")) << foreign;
  EXPECT_TRUE(CheckCanListen("127.0.0.1", 0).ok());
}

TEST(ListenAddress, AFreePortIsPickedAndKnown) {
  for (const char* host : {"127.0.0.1", "::"}) {
    const auto listener = ListenOn(host, 0);
    ASSERT_TRUE(listener.ok()) << listener.status();
    const auto port = PortOf(*listener);
    ASSERT_TRUE(port.ok()) << port.status();
    EXPECT_GT(*port, 0);
    EXPECT_EQ(CheckCanListen(host, *port).code(), absl::StatusCode::kUnavailable);
  }
}

}  // namespace
}  // namespace tandem
