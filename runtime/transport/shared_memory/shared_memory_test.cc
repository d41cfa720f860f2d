// Values that are lent and borrowed; both ends are in this process, and do not know it.
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstring>
#include <numeric>
#include <string>
#include <thread>
#include <vector>

#include "absl/time/clock.h"
#include "core/base/status.h"
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

TEST_F(SharedMemoryTest, AnEndpointsConnectionsEndWithIt) {
  const RefPtr<Buffer> held = Transfer(Numbered(100'000));
  ASSERT_TRUE(held);
  const std::string connection(shared_memory::View(borrower_->NewRequest()->connection()));
  receives_.reset();
  // Somebody still has the borrower, and what was borrowed.
  EXPECT_FALSE(borrower_->is_open());
  const absl::Time deadline = Soon();
  while (sends_->FindLender(connection) != nullptr && absl::Now() < deadline) {
    std::this_thread::yield();
  }
  EXPECT_EQ(sends_->FindLender(connection), nullptr);
  EXPECT_EQ(lender_->stats().lent_segments, 0);
  EXPECT_EQ(static_cast<char*>(held->data())[255], '\xff');
}

TEST(SharedMemoryHeldTest, WhoHoldsMuchAsksForNoMore) {
  const auto sends = *SharedMemoryEndpoint::Create();
  const auto receives = *SharedMemoryEndpoint::Create();
  const auto borrower =
      receives->Connect(sends->socket_name(), sends->secret(), /*most_held_bytes=*/150'000);
  ASSERT_TRUE(borrower.ok()) << borrower.status();
  std::vector<RefPtr<Buffer>> held;
  const auto borrow = [&] {
    const absl::Time deadline = Soon();
    auto request = (*borrower)->NewRequest();
    while (!request.has_value() && held.empty() && absl::Now() < deadline) {
      std::this_thread::yield();
      request = (*borrower)->NewRequest();
    }
    if (!request.has_value()) return false;
    const auto lender = sends->FindLender(shared_memory::View(request->connection()));
    const auto segment = lender->Lend(request->ticket(), Numbered(100'000));
    auto buffer = (*std::move(request)).Take(segment.value_or(0), 100'000);
    EXPECT_TRUE(buffer.ok()) << buffer.status();
    if (buffer.ok()) held.push_back(*std::move(buffer));
    return true;
  };
  EXPECT_TRUE(borrow());
  EXPECT_TRUE(borrow());
  EXPECT_FALSE(borrow());
  held.pop_back();
  EXPECT_TRUE(borrow());
}

// More than may be strangers; each is heard as soon as it has said hello.
TEST(SharedMemoryEndpointTest, ManyThatComeAtOnceAreAllHeard) {
  const auto sends = *SharedMemoryEndpoint::Create();
  const auto receives = *SharedMemoryEndpoint::Create();
  std::vector<std::shared_ptr<SegmentBorrower>> borrowers;
  const absl::Time deadline = Soon();
  while (borrowers.size() < 300 && absl::Now() < deadline) {
    // There is room for some that wait to be accepted.
    auto borrower = receives->Connect(sends->socket_name(), sends->secret());
    if (borrower.ok()) borrowers.push_back(*std::move(borrower));
  }
  for (const auto& borrower : borrowers) {
    while (!borrower->NewRequest().has_value() && borrower->is_open() && absl::Now() < deadline) {
      std::this_thread::yield();
    }
    EXPECT_TRUE(borrower->is_open());
    EXPECT_TRUE(borrower->NewRequest().has_value());
  }
}

// A lender that offers values to another process.
class OffersTest : public ::testing::Test {
 protected:
  void SetUp() override {
    takes_ = *SharedMemoryEndpoint::Create();
    offers_ = *SharedMemoryEndpoint::Create();
    auto lender = offers_->ConnectToOffer(takes_->socket_name(), takes_->secret());
    ASSERT_TRUE(lender.ok()) << lender.status();
    lender_ = *std::move(lender);
    const absl::Time deadline = Soon();
    while (!lender_->takes_offers() && absl::Now() < deadline) std::this_thread::yield();
    ASSERT_TRUE(lender_->takes_offers());
    borrower_ = takes_->FindBorrower(Name());
    ASSERT_NE(borrower_, nullptr);
  }

  std::string Name() const { return std::string(shared_memory::View(lender_->connection())); }
  absl::StatusOr<RefPtr<Buffer>> Take(const SegmentLender::Offered& offered, size_t bytes) {
    return borrower_->Take(offered.ticket(), offered.segment(), bytes);
  }

  std::unique_ptr<SharedMemoryEndpoint> takes_;
  std::unique_ptr<SharedMemoryEndpoint> offers_;
  std::shared_ptr<SegmentLender> lender_;
  std::shared_ptr<SegmentBorrower> borrower_;
};

TEST_F(OffersTest, AValueThatWasTakenIsTheBorrowersUntilItGivesItBack) {
  const std::vector<char> first = Numbered(100'000);
  absl::StatusOr<RefPtr<Buffer>> taken = errors::Internal("");
  {
    const auto offered = lender_->Offer(first);
    ASSERT_TRUE(offered.has_value());
    taken = Take(*offered, first.size());
    ASSERT_TRUE(taken.ok()) << taken.status();
    // Only once.
    EXPECT_TRUE(absl::IsNotFound(Take(*offered, first.size()).status()));
  }
  // The request is over, and its value is still used.
  EXPECT_EQ(lender_->stats().lent_segments, 1);
  const auto second = lender_->Offer(std::vector<char>(100'000, 'x'));
  ASSERT_TRUE(second.has_value());
  EXPECT_EQ(std::memcmp((*taken)->data(), first.data(), first.size()), 0);
  EXPECT_EQ(lender_->stats().lent_segments, 2);
  void* const where = (*taken)->data();
  taken->reset();
  EXPECT_EQ(lender_->stats().lent_segments, 1);
  const auto third = lender_->Offer(first);
  ASSERT_TRUE(third.has_value());
  taken = Take(*third, first.size());
  ASSERT_TRUE(taken.ok()) << taken.status();
  EXPECT_EQ((*taken)->data(), where);
}

TEST_F(OffersTest, AnOfferThatWasWithdrawnIsNotTaken) {
  absl::optional<SegmentLender::Offered> offered = lender_->Offer(Numbered(5000));
  ASSERT_TRUE(offered.has_value());
  const Ticket ticket = offered->ticket();
  const uint64_t segment = offered->segment();
  offered.reset();
  EXPECT_TRUE(absl::IsNotFound(borrower_->Take(ticket, segment, 5000).status()));
  EXPECT_EQ(lender_->stats().lent_segments, 0);
  EXPECT_EQ(lender_->stats().idle_segments, 1);
  // The row serves again, under another number.
  offered = lender_->Offer(Numbered(5000));
  ASSERT_TRUE(offered.has_value());
  EXPECT_EQ(offered->segment(), segment);
  EXPECT_TRUE(absl::IsNotFound(borrower_->Take(ticket, segment, 5000).status()));
  EXPECT_TRUE(Take(*offered, 5000).ok());
}

TEST_F(OffersTest, TicketsEndAndCome) {
  std::vector<SegmentLender::Offered> offered;
  for (uint32_t i = 0; i < LoanBoard::kRows; ++i) {
    auto one = lender_->Offer(Numbered(10));
    // The other end has to take in what it is sent, segment by segment.
    const absl::Time deadline = Soon();
    while (!one.has_value() && absl::Now() < deadline) {
      std::this_thread::yield();
      one = lender_->Offer(Numbered(10));
    }
    ASSERT_TRUE(one.has_value()) << i;
    offered.push_back(*std::move(one));
  }
  EXPECT_FALSE(lender_->Offer(Numbered(10)).has_value());
  offered.pop_back();
  EXPECT_TRUE(lender_->Offer(Numbered(10)).has_value());
}

TEST_F(OffersTest, WhatCannotBeIsRefused) {
  const auto offered = lender_->Offer(Numbered(5000));
  ASSERT_TRUE(offered.has_value());
  EXPECT_TRUE(
      absl::IsNotFound(borrower_->Take({LoanBoard::kRows, 1}, offered->segment(), 5000).status()));
  EXPECT_TRUE(
      absl::IsNotFound(borrower_->Take({0xffffffff, 1}, offered->segment(), 5000).status()));
  EXPECT_TRUE(Take(*offered, 5000).ok());
  const auto more = lender_->Offer(Numbered(5000));
  ASSERT_TRUE(more.has_value());
  EXPECT_TRUE(absl::IsInternal(Take(*more, 1 << 20).status()));
  EXPECT_FALSE(borrower_->is_open());
  const absl::Time deadline = Soon();
  while (lender_->takes_offers() && absl::Now() < deadline) std::this_thread::yield();
  EXPECT_FALSE(lender_->Offer(Numbered(5000)).has_value());
}

TEST_F(OffersTest, ValuesOutliveTheirLender) {
  const std::vector<char> value = Numbered(100'000);
  absl::optional<SegmentLender::Offered> offered = lender_->Offer(value);
  ASSERT_TRUE(offered.has_value());
  const auto taken = Take(*offered, value.size());
  ASSERT_TRUE(taken.ok()) << taken.status();
  offered.reset();
  lender_.reset();
  offers_.reset();
  const absl::Time deadline = Soon();
  while (borrower_->is_open() && absl::Now() < deadline) std::this_thread::yield();
  EXPECT_FALSE(borrower_->is_open());
  EXPECT_EQ(std::memcmp((*taken)->data(), value.data(), value.size()), 0);
}

TEST_F(OffersTest, ABorrowerThatIsGoneTakesNothing) {
  ASSERT_EQ(shutdown(borrower_->socket().get(), SHUT_RDWR), 0);
  const absl::Time deadline = Soon();
  while (lender_->takes_offers() && absl::Now() < deadline) std::this_thread::yield();
  EXPECT_FALSE(lender_->takes_offers());
  EXPECT_FALSE(lender_->Offer(Numbered(5000)).has_value());
  EXPECT_EQ(lender_->stats().idle_segments, 0);
}

TEST_F(OffersTest, MemoryThatNobodyUsesGoesBackToTheSystem) {
  EXPECT_TRUE(lender_->Offer(Numbered(100'000)).has_value());
  EXPECT_TRUE(lender_->Trim());
  EXPECT_FALSE(lender_->Trim());
  EXPECT_EQ(lender_->stats().idle_segments, 0);
  const auto offered = lender_->Offer(Numbered(100'000));
  ASSERT_TRUE(offered.has_value());
  EXPECT_TRUE(Take(*offered, 100'000).ok());
}

TEST_F(OffersTest, WhoeverDoesNotKnowTheSecretIsTurnedAway) {
  std::string wrong(takes_->secret());
  wrong[0] ^= 1;
  const auto stranger = offers_->ConnectToOffer(takes_->socket_name(), wrong);
  // It may be turned away before it has said all that it says.
  if (stranger.ok()) {
    const absl::Time deadline = Soon();
    absl::Status status;
    while (status.ok() && absl::Now() < deadline) status = (*stranger)->Read();
    EXPECT_FALSE(status.ok());
    EXPECT_FALSE((*stranger)->takes_offers());
    EXPECT_EQ(takes_->FindBorrower(shared_memory::View((*stranger)->connection())), nullptr);
  } else {
    EXPECT_TRUE(absl::IsUnavailable(stranger.status())) << stranger.status();
  }
  EXPECT_TRUE(
      absl::IsInvalidArgument(offers_->ConnectToOffer(takes_->socket_name(), "x").status()));
  EXPECT_TRUE(absl::IsUnavailable(offers_->ConnectToOffer("nobody", takes_->secret()).status()));
}

// Speaks to an endpoint as a lender that offers, without being one.
class Offerer {
 public:
  explicit Offerer(const SharedMemoryEndpoint& endpoint)
      : socket_(*ConnectToUnixSocket(endpoint.socket_name())) {
    Message hello;
    hello.kind = shared_memory::Kind::kOffers;
    std::memcpy(hello.secret.data(), endpoint.secret().data(), hello.secret.size());
    Send(hello);
  }

  using Message = shared_memory::Message;

  void Send(const Message& message, absl::Span<const int> fds = {}) {
    // Whoever was turned away is not heard.
    SendWithFds(socket_, Bytes(message), fds).IgnoreError();
  }
  void SendBoard() {
    MemfdSegment board = *MemfdSegment::Create("board", LoanBoard::kBytes);
    Message message;
    message.kind = shared_memory::Kind::kBoard;
    message.bytes = board.size();
    const int fds[] = {board.fd().get()};
    Send(message, fds);
  }
  void SendSegment(uint64_t number, uint64_t bytes) {
    MemfdSegment memory = *MemfdSegment::Create("segment", 4096);
    Message message;
    message.kind = shared_memory::Kind::kSegment;
    message.segment = number;
    message.bytes = bytes;
    const int fds[] = {memory.fd().get()};
    Send(message, fds);
  }
  bool IsTurnedAway() {
    Message message;
    const absl::Time deadline = Soon();
    while (absl::Now() < deadline) {
      if (!ReceiveWithFds(socket_, Room(&message)).ok()) return true;
      std::this_thread::yield();
    }
    return false;
  }

 private:
  OwnedFd socket_;
};

TEST_F(OffersTest, OffersThatCannotBeEndTheirConnectionAndNoOther) {
  {
    Offerer more_than_there_is(*takes_);
    more_than_there_is.SendBoard();
    more_than_there_is.SendSegment(1, 8192);
    EXPECT_TRUE(more_than_there_is.IsTurnedAway());
  }
  {
    // As large as it says; memory is taken for it only when somebody maps it.
    Offerer too_much(*takes_);
    too_much.SendBoard();
    constexpr size_t kTooMuch = shared_memory::kMostOfferedBytes + 4096;
    const OwnedFd file(memfd_create("too much", MFD_CLOEXEC | MFD_ALLOW_SEALING));
    ASSERT_EQ(ftruncate(file.get(), static_cast<off_t>(kTooMuch)), 0);
    ASSERT_EQ(fcntl(file.get(), F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL), 0);
    Offerer::Message message;
    message.kind = shared_memory::Kind::kSegment;
    message.segment = 1;
    message.bytes = kTooMuch;
    const int fds[] = {file.get()};
    too_much.Send(message, fds);
    EXPECT_TRUE(too_much.IsTurnedAway());
  }
  {
    Offerer twice(*takes_);
    twice.SendBoard();
    twice.SendSegment(1, 4096);
    twice.SendSegment(1, 4096);
    EXPECT_TRUE(twice.IsTurnedAway());
  }
  {
    Offerer without_board(*takes_);
    without_board.SendSegment(1, 4096);
    EXPECT_TRUE(without_board.IsTurnedAway());
  }
  const auto offered = lender_->Offer(Numbered(5000));
  ASSERT_TRUE(offered.has_value());
  EXPECT_TRUE(Take(*offered, 5000).ok());
}

TEST_F(OffersTest, ANameThatIsTakenIsNotGivenTwice) {
  Offerer first(*takes_);
  first.SendBoard();
  const std::string name(shared_memory::kSecretBytes, '\0');
  const absl::Time deadline = Soon();
  while (takes_->FindBorrower(name) == nullptr && absl::Now() < deadline) std::this_thread::yield();
  const auto borrower = takes_->FindBorrower(name);
  ASSERT_NE(borrower, nullptr);
  Offerer second(*takes_);
  second.SendBoard();
  EXPECT_TRUE(second.IsTurnedAway());
  EXPECT_EQ(takes_->FindBorrower(name), borrower);
}

}  // namespace
}  // namespace tandem
