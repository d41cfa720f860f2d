#include "runtime/parameter_server/pieces.h"

#include <string>
#include <utility>
#include <vector>

#include "core/base/status.h"
#include "gtest/gtest.h"

namespace tandem::parameter_server {
namespace {

Tensor Numbers(Shape shape, float first) {
  Tensor tensor(kFloat32, std::move(shape));
  for (float& value : tensor.MutableElements<float>()) value = first++;
  return tensor;
}

NamedValues Values() {
  return {
      {"scalar", Tensor::Scalar<int64_t>(5)}, {"table", Numbers(Shape({1000, 3}), 1)},
      {"empty", Numbers(Shape({0, 4}), 0)},   {"words", Tensor::Vector<std::string>({"a", "bc"})},
      {"flag", Tensor::Scalar<bool>(true)},   {"row", Numbers(Shape({1, 400}), 7)}};
}

// Cuts the values into messages of so many bytes and joins them again.
absl::StatusOr<NamedValues> CutAndJoin(const NamedValues& values, size_t most_bytes,
                                       int* messages) {
  JoinedPieces joined(1 << 20);
  Position next;
  *messages = 0;
  while (next.variable() < static_cast<int64_t>(values.size())) {
    PieceList pieces;
    TANDEM_ASSIGN_OR_RETURN(std::vector<NamedTensor> taken,
                            TakePieces(values, most_bytes, &next, &pieces));
    NamedValues some;
    size_t bytes = 0;
    for (NamedTensor& tensor : taken) {
      bytes += tensor.value.num_bytes();
      some.emplace_back(tensor.name, *tensor.value.Clone());
    }
    // One row may be larger; it comes alone then.
    EXPECT_TRUE(bytes <= most_bytes || some.size() == 1) << bytes;
    TANDEM_RETURN_IF_ERROR(joined.Add(pieces, std::move(some)));
    ++*messages;
  }
  return joined.Finish();
}

TEST(Pieces, ValuesComeOutAsTheyWentIn) {
  const NamedValues values = Values();
  for (const size_t most : {size_t{1}, size_t{100}, size_t{12'000}, size_t{1} << 20}) {
    SCOPED_TRACE(most);
    int messages = 0;
    const auto joined = CutAndJoin(values, most, &messages);
    ASSERT_TRUE(joined.ok()) << joined.status();
    ASSERT_EQ(joined->size(), values.size());
    for (size_t i = 0; i < values.size(); ++i) {
      EXPECT_EQ((*joined)[i].first, values[i].first);
      ASSERT_EQ((*joined)[i].second.dtype(), values[i].second.dtype());
      ASSERT_EQ((*joined)[i].second.shape(), values[i].second.shape());
      if (IsTriviallyCopyable(values[i].second.dtype())) {
        EXPECT_EQ(std::string(static_cast<const char*>((*joined)[i].second.data()),
                              (*joined)[i].second.num_bytes()),
                  std::string(static_cast<const char*>(values[i].second.data()),
                              values[i].second.num_bytes()));
      } else {
        EXPECT_EQ((*joined)[i].second.Elements<std::string>()[1], "bc");
      }
    }
    // A row a message, of the table with 12 bytes a row; all at once.
    if (most == 1) {
      EXPECT_EQ(messages, 1005);
    } else if (most == size_t{1} << 20) {
      EXPECT_EQ(messages, 1);
    }
  }
}

TEST(Pieces, APositionOutsideIsRefused) {
  const NamedValues values = Values();
  const auto take = [&](int variable, int64_t row) {
    Position next;
    next.set_variable(variable);
    next.set_row(row);
    PieceList pieces;
    return TakePieces(values, 100, &next, &pieces).status();
  };
  EXPECT_TRUE(absl::IsInvalidArgument(take(-1, 0)));
  EXPECT_TRUE(absl::IsInvalidArgument(take(7, 0)));
  EXPECT_TRUE(absl::IsInvalidArgument(take(0, 1))) << "a scalar has no rows";
  EXPECT_TRUE(absl::IsInvalidArgument(take(1, 1000)));
  EXPECT_TRUE(absl::IsInvalidArgument(take(1, -1)));
  EXPECT_TRUE(take(6, 0).ok());
}

struct Sent {
  int64_t rows;
  int64_t first;
  std::string name;
  Tensor value;
};

absl::Status Join(std::vector<Sent> sent, uint64_t most_bytes) {
  JoinedPieces joined(most_bytes);
  for (Sent& one : sent) {
    PieceList pieces;
    Piece* const piece = pieces.Add();
    piece->set_rows(one.rows);
    piece->set_first_row(one.first);
    piece->set_is_whole(one.rows < 0);
    TANDEM_RETURN_IF_ERROR(joined.Add(pieces, {{one.name, one.value}}));
  }
  return joined.Finish().status();
}

TEST(Pieces, WhatDoesNotFollowIsRefused) {
  const Tensor two = Numbers(Shape({2, 3}), 0);
  EXPECT_TRUE(Join({{4, 0, "v", two}, {4, 2, "v", two}}, 1000).ok());
  const std::vector<std::vector<Sent>> wrong = {
      {{4, 0, "v", two}},                                          // Half of it.
      {{4, 2, "v", two}},                                          // Not from the beginning.
      {{4, 0, "v", two}, {4, 1, "v", two}},                        // A row twice.
      {{4, 0, "v", two}, {4, 2, "w", two}},                        // Another one's.
      {{4, 0, "v", two}, {4, 0, "v", two}},                        // From the beginning again.
      {{4, 0, "v", two}, {5, 2, "v", two}},                        // Of another number of rows.
      {{3, 0, "v", two}, {3, 2, "v", two}},                        // More than there are.
      {{4, 0, "v", two}, {4, 2, "v", Numbers(Shape({2, 2}), 0)}},  // Other rows.
      {{4, 0, "v", two}, {4, 2, "v", Tensor::Zeros(kInt32, Shape({2, 3}))}},
      {{4, 0, "v", two}, {-1, 0, "w", two}},  // Another one before it is complete.
      {{4, 0, "v", Tensor::Scalar<float>(1)}},
      {{4, 0, "v", Tensor::Vector<std::string>({"a"})}},
      {{1, 0, "v", two}},
      {{4, 0, "v", Tensor()}},
      {{-1, 0, "v", Tensor()}},
  };
  for (size_t i = 0; i < wrong.size(); ++i) {
    EXPECT_TRUE(absl::IsInvalidArgument(Join(wrong[i], 1000))) << i;
  }
}

TEST(Pieces, AClaimOfMoreThanIsAllowedTakesNoMemory) {
  const Tensor two = Numbers(Shape({2, 3}), 0);
  EXPECT_TRUE(absl::IsResourceExhausted(Join({{int64_t{1} << 60, 0, "v", two}}, 1000)));
  EXPECT_TRUE(absl::IsResourceExhausted(Join({{-1, 0, "v", two}}, 23)));
  EXPECT_TRUE(absl::IsResourceExhausted(Join({{-1, 0, "v", two}, {-1, 0, "w", two}}, 47)));
  EXPECT_TRUE(Join({{-1, 0, "v", two}, {-1, 0, "w", two}}, 48).ok());
}

TEST(Pieces, EveryValueIsDescribed) {
  JoinedPieces joined(1000);
  PieceList pieces;
  EXPECT_TRUE(absl::IsInvalidArgument(joined.Add(pieces, {{"v", Tensor::Scalar<float>(1)}})));
}

}  // namespace
}  // namespace tandem::parameter_server
