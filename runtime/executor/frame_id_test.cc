#include "runtime/executor/frame_id.h"

#include "gtest/gtest.h"

namespace tandem {
namespace {

// tf.strings.to_hash_bucket(text, n) gives these modulo n.
TEST(FrameId, HashesTextAsTensorFlowDoes) {
  EXPECT_EQ(HashOfText(""), 0x81769421199f9e3bu);
  EXPECT_EQ(HashOfText("a"), 0x29962dc026eac9fcu);
  EXPECT_EQ(HashOfText("abcdefg"), 0xa91542ec03c92e40u);
  EXPECT_EQ(HashOfText("abcdefgh"), 0x2f994778e453fc52u);
  EXPECT_EQ(HashOfText("while/while_context"), 0xbff3656e447e77d6u);
  EXPECT_EQ(HashOfText("while/body/inner_loop"), 0x8da723fd95cece38u);
}

// Keys of TensorFlow's tasks carry these numbers.
TEST(FrameId, IsThatOfTensorFlowsTasks) {
  const uint64_t outer = ChildFrameId(0, 0, "while/while_context");
  EXPECT_EQ(outer, 18186195969791715286u);
  EXPECT_EQ(ChildFrameId(outer, 3, "inner"), 18037844149497261253u);
}

TEST(FrameId, DiffersByNameParentAndIteration) {
  const uint64_t id = ChildFrameId(0, 0, "loop");
  EXPECT_NE(id, 0u);
  EXPECT_NE(id, ChildFrameId(0, 1, "loop"));
  EXPECT_NE(id, ChildFrameId(1, 0, "loop"));
  EXPECT_NE(id, ChildFrameId(0, 0, "loop_1"));
}

}  // namespace
}  // namespace tandem
