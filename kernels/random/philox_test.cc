#include "kernels/random/philox.h"

#include <vector>

#include "gtest/gtest.h"

namespace tandem::random {
namespace {

// The known answers that the authors of the paper publish with their code (Random123, kat_vectors).
TEST(Philox, GivesTheAuthorsKnownAnswers) {
  EXPECT_EQ((Philox{{0, 0, 0, 0}, {0, 0}}.Here()),
            (Philox::Block{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  EXPECT_EQ(
      (Philox{{0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff}, {0xffffffff, 0xffffffff}}.Here()),
      (Philox::Block{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
  EXPECT_EQ(
      (Philox{{0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, {0xa4093822, 0x299f31d0}}.Here()),
      (Philox::Block{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

TEST(Philox, CountsWithCarriesThroughAllWordsAndWrapsAround) {
  const Philox low{{0xffffffff, 0, 0, 0}, {1, 2}};
  EXPECT_EQ(low.After(1).counter, (Philox::Block{0, 1, 0, 0}));
  const Philox half{{0xffffffff, 0xffffffff, 0xffffffff, 7}, {1, 2}};
  EXPECT_EQ(half.After(1).counter, (Philox::Block{0, 0, 0, 8}));
  const Philox last{{0xfffffffe, 0xffffffff, 0xffffffff, 0xffffffff}, {1, 2}};
  EXPECT_EQ(last.After(3).counter, (Philox::Block{1, 0, 0, 0}));
  EXPECT_EQ(last.After(3).key, last.key);
}

TEST(Philox, SeedsAreKeyAndUpperHalfOfTheCounter) {
  const Philox p = Philox::FromSeeds(0x1122334455667788, 0x99aabbccddeeff00);
  EXPECT_EQ(p.key[0], 0x55667788u);
  EXPECT_EQ(p.key[1], 0x11223344u);
  EXPECT_EQ(p.counter, (Philox::Block{0, 0, 0xddeeff00, 0x99aabbcc}));
}

// The side-by-side form is the one-by-one form, also where a carry falls between its lanes.
TEST(FillWords, AgreesWithSingleBlocksForAnyNumberOfThem) {
  for (const Philox& from :
       {Philox{{5, 0, 9, 1}, {3, 4}}, Philox{{0xfffffff9, 0xffffffff, 0xffffffff, 0}, {3, 4}}}) {
    for (const int64_t blocks : {0, 1, 15, 16, 17, 40}) {
      std::vector<uint32_t> words(static_cast<size_t>(blocks * 4) + 1, 77);
      FillWords(from, blocks, words.data());
      WordStream stream(from);
      for (int64_t i = 0; i < blocks * 4; ++i) {
        ASSERT_EQ(words[static_cast<size_t>(i)], stream.Next()) << blocks << " blocks, word " << i;
      }
      EXPECT_EQ(words.back(), 77u) << "wrote beyond the end";
    }
  }
}

}  // namespace
}  // namespace tandem::random
