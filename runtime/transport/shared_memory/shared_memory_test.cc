// Values that are lent and borrowed; both ends are in this process, and do not know it.
#include <sys/socket.h>

#include <cstring>
#include <numeric>
#include <thread>
#include <vector>

#include "absl/time/clock.h"
#include "gtest/gtest.h"
#include "runtime/transport/shared_memory/shared_memory_endpoint.h"

namespace tandem {
namespace {

absl::Time Soon() { return absl::Now() + absl::Seconds(60); }

// A borrower of `to`'s process at `from`, and the request that shows that it can be used.
std::shared_ptr<SegmentBorrower> Connect(SharedMemoryEndpoint& to, SharedMemoryEndpoint& from) {
  auto borrower = to.Connect(from.socket_name(), from.secret());
  EXPECT_TRUE(borrower.ok()) << borrower.status();
  if (!borrower.ok()) return nullptr;
  const absl::Time deadline = Soon();
  while (!(*borrower)->NewRequest().has_value() && absl::Now() < deadline) {
    EXPECT_TRUE((*borrower)->Read().ok());
    std::this_thread::yield();
  }
  return *borrower;
}

std::vector<char> Numbered(size_t size) {
  std::vector<char> bytes(size);
  std::iota(bytes.begin(), bytes.end(), '\0');
  return bytes;
}

class SharedMemoryTest : public ::testing::Test {
 protected:
  void SetUp() override {
    sends_ = *SharedMemoryEndpoint::Create();
    receives_ = *SharedMemoryEndpoint::Create();
    borrower_ = Connect(*receives_, *sends_);
    ASSERT_NE(borrower_, nullptr);
    const auto request = borrower_->NewRequest();
    ASSERT_TRUE(request.has_value());
    lender_ = sends_->FindLender(shared_memory::View(request->connection()));
    ASSERT_NE(lender_, nullptr);
  }

  // A value that went over.
  RefPtr<Buffer> Transfer(const std::vector<char>& value) {
    auto request = borrower_->NewRequest();
    EXPECT_TRUE(request.has_value());
    const auto segment = lender_->Lend(request->ticket(), value);
    EXPECT_TRUE(segment.has_value());
    if (!segment.has_value()) return nullptr;
    auto buffer = (*std::move(request)).Take(*segment, value.size());
    EXPECT_TRUE(buffer.ok()) << buffer.status();
    return buffer.ok() ? *std::move(buffer) : nullptr;
  }

  std::unique_ptr<SharedMemoryEndpoint> sends_;
  std::unique_ptr<SharedMemoryEndpoint> receives_;
  std::shared_ptr<SegmentBorrower> borrower_;
  std::shared_ptr<SegmentLender> lender_;
};

TEST_F(SharedMemoryTest, AValueArrivesAndItsMemoryIsUsedAgainOnlyWhenItWasGivenBack) {
  const std::vector<char> first = Numbered(100'000);
  const std::vector<char> second(100'000, 'x');
  RefPtr<Buffer> a = Transfer(first);
  ASSERT_TRUE(a);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(a->data()) % kBufferAlignment, 0);
  EXPECT_EQ(a->size(), first.size());
  const RefPtr<Buffer> b = Transfer(second);
  ASSERT_TRUE(b);
  EXPECT_EQ(std::memcmp(a->data(), first.data(), first.size()), 0);
  EXPECT_EQ(std::memcmp(b->data(), second.data(), second.size()), 0);
  EXPECT_EQ(lender_->stats().lent_segments, 2);
  void* const where = a->data();
  a.reset();
  EXPECT_EQ(lender_->stats().lent_segments, 1);
  EXPECT_EQ(lender_->stats().idle_segments, 1);
  const RefPtr<Buffer> c = Transfer(first);
  ASSERT_TRUE(c);
  EXPECT_EQ(c->data(), where);
  EXPECT_EQ(lender_->stats().idle_segments, 0);
}

TEST_F(SharedMemoryTest, TheReceiverMayWriteToItsValue) {
  const RefPtr<Buffer> value = Transfer(Numbered(5000));
  ASSERT_TRUE(value);
  std::memset(value->data(), 'y', value->size());
  EXPECT_EQ(static_cast<char*>(value->data())[4999], 'y');
}

TEST_F(SharedMemoryTest, SegmentsServeValuesOfAboutTheirSize) {
  (void)Transfer(Numbered(1 << 20));
  (void)Transfer(Numbered((1 << 20) - 5000));
  EXPECT_EQ(lender_->stats().idle_segments, 1);
  (void)Transfer(Numbered(5000));
  EXPECT_EQ(lender_->stats().idle_segments, 2);
}

TEST_F(SharedMemoryTest, ARequestThatNobodyAnsweredHoldsNothing) {
  Ticket given_up;
  {
    const auto request = borrower_->NewRequest();
    ASSERT_TRUE(request.has_value());
    given_up = request->ticket();
  }
  EXPECT_FALSE(lender_->Lend(given_up, Numbered(5000)).has_value());
  // The memory was taken, and is there for the next.
  EXPECT_EQ(lender_->stats().lent_segments, 0);
  EXPECT_EQ(lender_->stats().idle_segments, 1);
  // Its row's next ticket is another one.
  const auto next = borrower_->NewRequest();
  ASSERT_TRUE(next.has_value());
  EXPECT_EQ(next->ticket().row, given_up.row);
  EXPECT_FALSE(lender_->Lend(given_up, Numbered(5000)).has_value());
  EXPECT_TRUE(lender_->Lend(next->ticket(), Numbered(5000)).has_value());
}

TEST_F(SharedMemoryTest, ALoanWhoseAnswerIsLostComesBackWithItsRequest) {
  {
    const auto request = borrower_->NewRequest();
    ASSERT_TRUE(lender_->Lend(request->ticket(), Numbered(5000)).has_value());
    EXPECT_EQ(lender_->stats().lent_segments, 1);
    // One value for each ticket.
    EXPECT_FALSE(lender_->Lend(request->ticket(), Numbered(5000)).has_value());
  }
  EXPECT_EQ(lender_->stats().lent_segments, 0);
}

TEST_F(SharedMemoryTest, TicketsEndAndCome) {
  std::vector<SegmentBorrower::Request> requests;
  for (uint32_t i = 0; i < LoanBoard::kRows; ++i) {
    auto request = borrower_->NewRequest();
    ASSERT_TRUE(request.has_value());
    requests.push_back(*std::move(request));
  }
  EXPECT_FALSE(borrower_->NewRequest().has_value());
  requests.pop_back();
  EXPECT_TRUE(borrower_->NewRequest().has_value());
}

TEST_F(SharedMemoryTest, RowsThatAreNoneAreRefused) {
  EXPECT_FALSE(lender_->Lend({LoanBoard::kRows, 1}, Numbered(5000)).has_value());
  EXPECT_FALSE(lender_->Lend({0xffffffff, 1}, Numbered(5000)).has_value());
  EXPECT_FALSE(lender_->Lend({0, 77}, Numbered(5000)).has_value());
}

TEST_F(SharedMemoryTest, MemoryThatNobodyUsesGoesBackToTheSystem) {
  (void)Transfer(Numbered(100'000));
  EXPECT_TRUE(lender_->Trim());
  EXPECT_EQ(lender_->stats().idle_segments, 1);
  EXPECT_FALSE(lender_->Trim());
  EXPECT_EQ(lender_->stats().idle_segments, 0);
  // And the other end lets go of it, too; the next value gets another one.
  EXPECT_TRUE(Transfer(Numbered(100'000)));
}

TEST_F(SharedMemoryTest, ValuesOutliveTheirLender) {
  const std::vector<char> value = Numbered(100'000);
  RefPtr<Buffer> held = Transfer(value);
  ASSERT_TRUE(held);
  lender_.reset();
  sends_.reset();
  const absl::Time deadline = Soon();
  while (borrower_->is_open() && absl::Now() < deadline) std::this_thread::yield();
  EXPECT_FALSE(borrower_->is_open());
  EXPECT_FALSE(borrower_->NewRequest().has_value());
  EXPECT_EQ(std::memcmp(held->data(), value.data(), value.size()), 0);
  borrower_.reset();
  receives_.reset();
  EXPECT_EQ(std::memcmp(held->data(), value.data(), value.size()), 0);
}

TEST_F(SharedMemoryTest, WhatWasLentToABorrowerThatIsGoneIsNotKept) {
  const std::string connection(shared_memory::View(borrower_->NewRequest()->connection()));
  const RefPtr<Buffer> held = Transfer(Numbered(100'000));
  ASSERT_TRUE(held);
  // As when its process dies: nothing is given back.
  ASSERT_EQ(shutdown(borrower_->socket().get(), SHUT_RDWR), 0);
  const absl::Time deadline = Soon();
  while (sends_->FindLender(connection) != nullptr && absl::Now() < deadline) {
    std::this_thread::yield();
  }
  EXPECT_EQ(sends_->FindLender(connection), nullptr);
  EXPECT_EQ(lender_->stats().lent_segments, 0);
  EXPECT_FALSE(lender_->Lend({0, 1}, Numbered(5000)).has_value());
}

TEST_F(SharedMemoryTest, SegmentsThatWereNeverSentEndTheConnection) {
  auto request = borrower_->NewRequest();
  const auto nothing = (*std::move(request)).Take(12'345, 100);
  EXPECT_TRUE(absl::IsInternal(nothing.status())) << nothing.status();
  EXPECT_FALSE(borrower_->is_open());
}

TEST_F(SharedMemoryTest, WhoeverDoesNotKnowTheSecretIsTurnedAway) {
  std::string wrong(sends_->secret());
  wrong[0] ^= 1;
  const auto stranger = receives_->Connect(sends_->socket_name(), wrong);
  ASSERT_TRUE(stranger.ok()) << stranger.status();
  const absl::Time deadline = Soon();
  while ((*stranger)->is_open() && absl::Now() < deadline) std::this_thread::yield();
  EXPECT_FALSE((*stranger)->is_open());
  EXPECT_FALSE((*stranger)->NewRequest().has_value());
  EXPECT_TRUE(absl::IsInvalidArgument(receives_->Connect(sends_->socket_name(), "x").status()));
  EXPECT_TRUE(absl::IsUnavailable(receives_->Connect("nobody", sends_->secret()).status()));
  // Nobody else is disturbed.
  EXPECT_TRUE(Transfer(Numbered(5000)));
}

TEST_F(SharedMemoryTest, NonsenseInPlaceOfAHelloIsTurnedAway) {
  for (const size_t size : {size_t{1}, sizeof(shared_memory::Message), size_t{100}}) {
    auto socket = ConnectToUnixSocket(sends_->socket_name());
    ASSERT_TRUE(socket.ok()) << socket.status();
    ASSERT_TRUE(SendWithFds(*socket, std::vector<char>(size, '\1')).ok());
    std::vector<char> room(100);
    const absl::Time deadline = Soon();
    absl::Status ended;
    while (ended.ok() && absl::Now() < deadline) {
      const auto received = ReceiveWithFds(*socket, absl::MakeSpan(room));
      ended = received.status();
      ASSERT_FALSE(received.ok() && received->has_value());
    }
    EXPECT_TRUE(absl::IsUnavailable(ended)) << ended;
  }
  EXPECT_TRUE(Transfer(Numbered(5000)));
}

TEST_F(SharedMemoryTest, ManyThreadsLendAndBorrow) {
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < 200; ++i) {
        const std::vector<char> value(static_cast<size_t>(4000 + i * 50),
                                      static_cast<char>(t * 31 + i));
        const RefPtr<Buffer> arrived = Transfer(value);
        ASSERT_TRUE(arrived);
        ASSERT_EQ(std::memcmp(arrived->data(), value.data(), value.size()), 0);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(lender_->stats().lent_segments, 0);
}

}  // namespace
}  // namespace tandem
