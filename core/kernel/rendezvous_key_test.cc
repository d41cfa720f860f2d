#include "core/kernel/rendezvous_key.h"

#include "absl/strings/match.h"
#include "gtest/gtest.h"

namespace tandem {
namespace {

constexpr char kText[] =
    "/job:worker/replica:0/task:0/device:CPU:0;00000000deadbeef;"
    "/job:worker/replica:0/task:1/device:CPU:0;edge_3_x;0:0";

TEST(RendezvousKey, ReadsWhatItWrites) {
  const absl::StatusOr<RendezvousKey> key = RendezvousKey::Parse(kText);
  ASSERT_TRUE(key.ok()) << key.status();
  EXPECT_EQ(key->source_device, "/job:worker/replica:0/task:0/device:CPU:0");
  EXPECT_EQ(key->source_incarnation, 0xdeadbeefu);
  EXPECT_EQ(key->destination_device, "/job:worker/replica:0/task:1/device:CPU:0");
  EXPECT_EQ(key->edge, "edge_3_x");
  EXPECT_EQ(key->ToString(), kText);
  EXPECT_EQ(key->Prefix() + "0:0", kText);
}

TEST(RendezvousKey, ItsPrefixIsThatOfAllRoundsOfALoop) {
  absl::StatusOr<RendezvousKey> key = RendezvousKey::Parse(kText);
  ASSERT_TRUE(key.ok()) << key.status();
  const std::string prefix = key->Prefix();
  key->frame = ~uint64_t{0};
  key->iteration = 7;
  EXPECT_EQ(key->Prefix(), prefix);
  EXPECT_EQ(RendezvousKey::Join(prefix, ~uint64_t{0}, 7), key->ToString());
}

TEST(RendezvousKey, TakesTheLargestNumbers) {
  const absl::StatusOr<RendezvousKey> key =
      RendezvousKey::Parse("a;ffffffffffffffff;b;x:0;18446744073709551615:12");
  ASSERT_TRUE(key.ok()) << key.status();
  EXPECT_EQ(key->source_incarnation, ~uint64_t{0});
  EXPECT_EQ(key->edge, "x:0");
  EXPECT_EQ(key->frame, ~uint64_t{0});
  EXPECT_EQ(key->iteration, 12);
}

TEST(RendezvousKey, SaysWhatIsWrong) {
  const std::pair<const char*, const char*> cases[] = {
      {"", "it has 1 parts"},
      {"a;0000000000000000;b;x", "it has 4 parts"},
      {"a;0000000000000000;b;x;0:0;", "it has 6 parts"},
      {"a;0000000000000000;;x;0:0", "a part is empty"},
      {"a;00;b;x;0:0", "the incarnation '00'"},
      {"a;000000000000000G;b;x;0:0", "the incarnation '000000000000000G'"},
      {"a;0000000000000000;b;x;0", "frame and iteration '0'"},
      {"a;0000000000000000;b;x;0:-1", "frame and iteration '0:-1'"},
      {"a;0000000000000000;b;x;0:0:0", "frame and iteration '0:0:0'"},
  };
  for (const auto& [text, message] : cases) {
    const absl::Status status = RendezvousKey::Parse(text).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << text;
    EXPECT_TRUE(absl::StrContains(status.message(), message)) << status;
  }
}

}  // namespace
}  // namespace tandem
