#include "kernels/nn/packed_weights.h"

#include <cstring>
#include <stdexcept>
#include <thread>
#include <vector>

#include "gtest/gtest.h"

namespace tandem {
namespace {

constexpr int64_t kElements = 8;
constexpr size_t kBytes = kElements * sizeof(float);

Tensor Weights(float value) {
  Tensor weights(kFloat32, Shape({kElements}));
  for (float& x : weights.MutableElements<float>()) x = value;
  return weights;
}

// Packed weights whose layouts are numbers that are added to each weight.
class PackedWeightsTest : public ::testing::Test {
 protected:
  std::unique_ptr<PackedWeights<int>> Make(InputSource source, int64_t patience = 3) {
    PackedWeightsOptions options;
    options.source = source;
    options.allocator = HostAllocator();
    options.budget = &budget_;
    options.patience = patience;
    return std::make_unique<PackedWeights<int>>(options);
  }

  // Null, or a copy with the right numbers.
  PackedWeights<int>::Copy Get(PackedWeights<int>& weights, const Tensor& plain, int layout = 0) {
    auto copy = weights.Get(plain, layout, kBytes, [&](void* to) {
      ++packed_;
      for (int64_t i = 0; i < kElements; ++i) {
        static_cast<float*>(to)[i] =
            plain.Elements<float>()[static_cast<size_t>(i)] + static_cast<float>(layout);
      }
    });
    if (copy != nullptr) {
      EXPECT_EQ(static_cast<const float*>(copy->data())[kElements - 1],
                plain.Elements<float>()[0] + static_cast<float>(layout));
    }
    return copy;
  }

  PackedBudget budget_{1 << 20};
  std::atomic<int> packed_{0};
};

TEST_F(PackedWeightsTest, WhatACallerMayChangeIsNotKept) {
  const auto weights = Make(InputSource::kComputed);
  const Tensor plain = Weights(1);
  for (int i = 0; i < 20; ++i) EXPECT_EQ(Get(*weights, plain), nullptr);
  EXPECT_EQ(budget_.used(), 0);
  EXPECT_TRUE(plain.OwnsBufferAlone());
}

TEST_F(PackedWeightsTest, AConstantIsPackedOnceForEachLayout) {
  const auto weights = Make(InputSource::kConstant);
  const Tensor plain = Weights(1);
  for (int i = 0; i < 5; ++i) {
    EXPECT_NE(Get(*weights, plain, 0), nullptr);
    EXPECT_NE(Get(*weights, plain, 1), nullptr);
  }
  EXPECT_EQ(packed_, 2);
}

TEST_F(PackedWeightsTest, LayoutsAreBoundedInNumber) {
  const auto weights = Make(InputSource::kConstant);
  const Tensor plain = Weights(1);
  int kept = 0;
  for (int layout = 0; layout < 50; ++layout) kept += Get(*weights, plain, layout) != nullptr;
  EXPECT_GE(kept, 2);
  EXPECT_LE(kept, 8);
}

TEST_F(PackedWeightsTest, AVariableIsPackedOnceItHasBeenSteady) {
  const auto weights = Make(InputSource::kVariable);
  const Tensor value = Weights(1);
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(Get(*weights, value), nullptr);
    EXPECT_TRUE(value.OwnsBufferAlone());
  }
  for (int i = 0; i < 3; ++i) EXPECT_NE(Get(*weights, value), nullptr);
  EXPECT_EQ(packed_, 1);
  // So that its owner writes elsewhere.
  EXPECT_FALSE(value.OwnsBufferAlone());
}

TEST_F(PackedWeightsTest, AChangedVariableIsLetGoOf) {
  const auto weights = Make(InputSource::kVariable);
  const Tensor before = Weights(1);
  for (int i = 0; i < 10; ++i) Get(*weights, before);
  EXPECT_GT(budget_.used(), 0);
  const Tensor after = Weights(2);
  EXPECT_EQ(Get(*weights, after), nullptr);
  EXPECT_TRUE(before.OwnsBufferAlone());
  EXPECT_EQ(budget_.used(), 0);
  for (int i = 0; i < 10; ++i) Get(*weights, after);
  EXPECT_GT(budget_.used(), 0);
}

// As the update of a variable does it: over the old value where nobody else holds that.
TEST_F(PackedWeightsTest, TrainingStepsPackHardlyEver) {
  const auto weights = Make(InputSource::kVariable);
  Tensor value = Weights(0);
  for (int step = 1; step <= 4000; ++step) {
    Get(*weights, value);
    if (value.OwnsBufferAlone()) {
      for (float& x : value.MutableElements<float>()) x = static_cast<float>(step);
    } else {
      value = Weights(static_cast<float>(step));
    }
  }
  EXPECT_LE(packed_, 11);  // log2(4000 / 3)
}

TEST_F(PackedWeightsTest, AnotherPartOfTheSameMemoryIsNotTheSame) {
  const auto weights = Make(InputSource::kVariable, 0);
  const Tensor both = Tensor::FromValues<float>(Shape({2, kElements}),
                                                {1, 1, 1, 1, 1, 1, 1, 1, 2, 2, 2, 2, 2, 2, 2, 2});
  EXPECT_NE(Get(*weights, both.Slice(0, 1)), nullptr);
  Get(*weights, both.Slice(1, 2));
}

TEST_F(PackedWeightsTest, WithoutBudgetNothingIsKept) {
  budget_.Take((1 << 20) - static_cast<int64_t>(kBytes));
  const int64_t before = budget_.used();
  const auto weights = Make(InputSource::kVariable, 0);
  const Tensor value = Weights(1);
  for (int i = 0; i < 5; ++i) EXPECT_EQ(Get(*weights, value), nullptr);
  EXPECT_TRUE(value.OwnsBufferAlone());
  EXPECT_EQ(budget_.used(), before);
  budget_.GiveBack(before);
  EXPECT_NE(Get(*weights, value), nullptr);
}

TEST_F(PackedWeightsTest, TheBudgetGetsBackWhatEnds) {
  PackedWeights<int>::Copy copy;
  {
    const auto weights = Make(InputSource::kConstant);
    copy = Get(*weights, Weights(1));
  }
  EXPECT_GT(budget_.used(), 0);  // Whoever computes with it has it still.
  copy.reset();
  EXPECT_EQ(budget_.used(), 0);
}

TEST_F(PackedWeightsTest, WhatFailsIsNotKept) {
  const auto weights = Make(InputSource::kConstant);
  const Tensor plain = Weights(1);
  EXPECT_THROW(
      weights->Get(plain, 0, kBytes, [](void*) { throw std::runtime_error("no reorder"); }),
      std::runtime_error);
  EXPECT_EQ(budget_.used(), 0);
  EXPECT_NE(Get(*weights, plain), nullptr);
  EXPECT_EQ(packed_, 1);
}

// Readers take the value under a lock, as ReadVariableOp does, while a writer changes it.
TEST_F(PackedWeightsTest, ManyThreadsSeeTheValueThatTheyRead) {
  const auto weights = Make(InputSource::kVariable, 1);
  Mutex mu;
  Tensor value = Weights(0);
  std::atomic<bool> ends{false};
  std::vector<std::thread> readers;
  for (int t = 0; t < 4; ++t) {
    readers.emplace_back([&, t] {
      for (int i = 0; i < 2000; ++i) {
        Tensor read;
        {
          MutexLock lock(mu);
          read = value;
        }
        Get(*weights, read, (i + t) % 3);  // Compares the numbers.
      }
    });
  }
  std::thread writer([&] {
    for (int i = 1; !ends; ++i) {
      MutexLock lock(mu);
      if (value.OwnsBufferAlone()) {
        for (float& x : value.MutableElements<float>()) x = static_cast<float>(i % 1000);
      } else {
        value = Weights(static_cast<float>(i % 1000));
      }
    }
  });
  for (std::thread& reader : readers) reader.join();
  ends = true;
  writer.join();
}

}  // namespace
}  // namespace tandem
