#include "runtime/transport/memfd_segment.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>
#include <limits>
#include <utility>

#include "gtest/gtest.h"

namespace tandem {
namespace {

OwnedFd Duplicate(const OwnedFd& fd) { return OwnedFd(fcntl(fd.get(), F_DUPFD_CLOEXEC, 0)); }

TEST(MemfdSegmentTest, BothMappingsShowTheSameBytes) {
  auto made = MemfdSegment::Create("tandem-test", 10'000);
  ASSERT_TRUE(made.ok()) << made.status();
  EXPECT_EQ(made->size(), 10'000);
  auto opened = MemfdSegment::Open(Duplicate(made->fd()), 10'000);
  ASSERT_TRUE(opened.ok()) << opened.status();
  made->fd().Reset();
  std::memcpy(made->data(), "hello", 6);
  EXPECT_STREQ(static_cast<const char*>(opened->data()), "hello");
  static_cast<char*>(opened->data())[9'999] = 'x';
  EXPECT_EQ(static_cast<const char*>(made->data())[9'999], 'x');
}

TEST(MemfdSegmentTest, ItOutlivesWhoeverMadeIt) {
  auto made = MemfdSegment::Create("tandem-test", 4096);
  ASSERT_TRUE(made.ok()) << made.status();
  std::memcpy(made->data(), "hello", 6);
  auto opened = MemfdSegment::Open(Duplicate(made->fd()), 4096);
  ASSERT_TRUE(opened.ok()) << opened.status();
  *made = MemfdSegment();
  EXPECT_STREQ(static_cast<const char*>(opened->data()), "hello");
}

TEST(MemfdSegmentTest, ItsOwnerCanNeitherShrinkNorGrowIt) {
  auto made = MemfdSegment::Create("tandem-test", 8192);
  ASSERT_TRUE(made.ok()) << made.status();
  EXPECT_NE(ftruncate(made->fd().get(), 0), 0);
  EXPECT_NE(ftruncate(made->fd().get(), 16'384), 0);
  EXPECT_NE(fcntl(made->fd().get(), F_ADD_SEALS, F_SEAL_FUTURE_WRITE), 0);
}

TEST(MemfdSegmentTest, WhatCouldShrinkUnderItsReadersIsRefused) {
  OwnedFd unsealed(memfd_create("tandem-test", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  ASSERT_EQ(ftruncate(unsealed.get(), 4096), 0);
  const absl::Status status = MemfdSegment::Open(std::move(unsealed), 4096).status();
  EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
}

TEST(MemfdSegmentTest, WhatIsSmallerThanItsSenderSaysIsRefused) {
  auto made = MemfdSegment::Create("tandem-test", 4096);
  ASSERT_TRUE(made.ok()) << made.status();
  const absl::Status status = MemfdSegment::Open(Duplicate(made->fd()), 4097).status();
  EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
}

TEST(MemfdSegmentTest, WhatIsNoSharedMemoryIsRefused) {
  EXPECT_TRUE(absl::IsInvalidArgument(
      MemfdSegment::Open(OwnedFd(open("/dev/zero", O_RDWR | O_CLOEXEC)), 4096).status()));
  EXPECT_TRUE(absl::IsInvalidArgument(MemfdSegment::Open(OwnedFd(), 4096).status()));
}

TEST(MemfdSegmentTest, SizesThatCannotBeAreErrors) {
  EXPECT_TRUE(absl::IsInvalidArgument(MemfdSegment::Create("tandem-test", 0).status()));
  EXPECT_FALSE(MemfdSegment::Create("tandem-test", std::numeric_limits<size_t>::max()).ok());
  // More than any machine has: an error here, and not a fault later.
  EXPECT_TRUE(
      absl::IsResourceExhausted(MemfdSegment::Create("tandem-test", size_t{1} << 55).status()));
}

}  // namespace
}  // namespace tandem
