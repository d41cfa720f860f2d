#include "runtime/transport/fd_passing.h"

#include <fcntl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <array>
#include <cstring>
#include <string>

#include "gtest/gtest.h"

namespace tandem {
namespace {

struct Pair {
  OwnedFd listener;
  OwnedFd client;
  OwnedFd server;
};

Pair Connect() {
  const std::string name = NewSocketName("tandem-test");
  Pair pair;
  pair.listener = *ListenOnUnixSocket(name);
  pair.client = *ConnectToUnixSocket(name);
  auto accepted = AcceptUnixConnection(pair.listener);
  EXPECT_TRUE(accepted.ok() && accepted->has_value());
  pair.server = *std::move(*accepted);
  return pair;
}

absl::Span<const char> Bytes(const std::string& text) { return {text.data(), text.size()}; }

TEST(FdPassingTest, NamesAreNotMetAgain) {
  EXPECT_NE(NewSocketName("x"), NewSocketName("x"));
  EXPECT_EQ(NewSocketName("x").size(), 2 + 32);
}

TEST(FdPassingTest, ADescriptorArrivesWithItsMessageAndShowsTheSameFile) {
  const Pair pair = Connect();
  std::array<int, 2> ends;
  ASSERT_EQ(pipe2(ends.data(), O_CLOEXEC), 0);
  const OwnedFd reader(ends[0]);
  {
    const OwnedFd writer(ends[1]);
    const int fds[] = {writer.get()};
    ASSERT_TRUE(SendWithFds(pair.client, Bytes("take this"), fds).ok());
  }
  std::array<char, 64> room;
  auto received = ReceiveWithFds(pair.server, absl::MakeSpan(room));
  ASSERT_TRUE(received.ok()) << received.status();
  ASSERT_TRUE(received->has_value());
  EXPECT_EQ(std::string(room.data(), (*received)->bytes), "take this");
  ASSERT_EQ((*received)->fds.size(), 1);
  EXPECT_NE(fcntl((*received)->fds[0].get(), F_GETFD) & FD_CLOEXEC, 0);
  ASSERT_EQ(write((*received)->fds[0].get(), "x", 1), 1);
  char read_back = 0;
  EXPECT_EQ(read(reader.get(), &read_back, 1), 1);
  EXPECT_EQ(read_back, 'x');
}

TEST(FdPassingTest, MessagesStayApartAndNothingYetIsNoError) {
  const Pair pair = Connect();
  ASSERT_TRUE(SendWithFds(pair.server, Bytes("one")).ok());
  ASSERT_TRUE(SendWithFds(pair.server, Bytes("three")).ok());
  std::array<char, 64> room;
  EXPECT_EQ((**ReceiveWithFds(pair.client, absl::MakeSpan(room))).bytes, 3);
  EXPECT_EQ((**ReceiveWithFds(pair.client, absl::MakeSpan(room))).bytes, 5);
  const auto none = ReceiveWithFds(pair.client, absl::MakeSpan(room));
  ASSERT_TRUE(none.ok()) << none.status();
  EXPECT_FALSE(none->has_value());
}

TEST(FdPassingTest, AnOtherEndThatIsGoneIsUnavailable) {
  Pair pair = Connect();
  ASSERT_TRUE(SendWithFds(pair.server, Bytes("last words")).ok());
  pair.server.Reset();
  std::array<char, 64> room;
  EXPECT_TRUE((*ReceiveWithFds(pair.client, absl::MakeSpan(room))).has_value());
  EXPECT_TRUE(absl::IsUnavailable(ReceiveWithFds(pair.client, absl::MakeSpan(room)).status()));
  EXPECT_TRUE(absl::IsUnavailable(SendWithFds(pair.client, Bytes("hello"))));
}

TEST(FdPassingTest, AnEndThatDoesNotReceiveIsResourceExhausted) {
  const Pair pair = Connect();
  absl::Status status;
  for (int i = 0; status.ok() && i < 1'000'000; ++i) status = SendWithFds(pair.client, Bytes("x"));
  EXPECT_TRUE(absl::IsResourceExhausted(status)) << status;
}

TEST(FdPassingTest, AMessageThatIsTooLongIsAnErrorAndItsDescriptorsAreClosed) {
  const Pair pair = Connect();
  std::array<int, 2> ends;
  ASSERT_EQ(pipe2(ends.data(), O_CLOEXEC), 0);
  const OwnedFd reader(ends[0]);
  {
    const OwnedFd writer(ends[1]);
    const int fds[] = {writer.get()};
    ASSERT_TRUE(SendWithFds(pair.client, Bytes(std::string(100, 'x')), fds).ok());
  }
  std::array<char, 64> room;
  EXPECT_TRUE(absl::IsInvalidArgument(ReceiveWithFds(pair.server, absl::MakeSpan(room)).status()));
  // Nobody has the other end any more.
  char unused = 0;
  EXPECT_EQ(read(reader.get(), &unused, 1), 0);
}

TEST(FdPassingTest, OneListensUnderAName) {
  const std::string name = NewSocketName("tandem-test");
  {
    const auto listener = ListenOnUnixSocket(name);
    ASSERT_TRUE(listener.ok()) << listener.status();
    EXPECT_EQ(ListenOnUnixSocket(name).status().code(), absl::StatusCode::kAlreadyExists);
    const auto nobody = AcceptUnixConnection(*listener);
    ASSERT_TRUE(nobody.ok()) << nobody.status();
    EXPECT_FALSE(nobody->has_value());
  }
  EXPECT_TRUE(absl::IsUnavailable(ConnectToUnixSocket(name).status()));
  EXPECT_TRUE(ListenOnUnixSocket(name).ok());
  EXPECT_TRUE(absl::IsInvalidArgument(ListenOnUnixSocket(std::string(200, 'x')).status()));
}

TEST(FdPassingTest, BothEndsOfThisUserKnowEachOther) {
  const Pair pair = Connect();
  EXPECT_TRUE(CheckSameUser(pair.client).ok());
  EXPECT_TRUE(CheckSameUser(pair.server).ok());
}

}  // namespace
}  // namespace tandem
