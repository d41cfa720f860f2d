#include "runtime/input/input_test_util.h"

#include <gtest/gtest.h>
#include <zlib.h>

#include <fstream>

#include "absl/strings/str_cat.h"

namespace tandem::data {
namespace {

std::string Text(const Element& element) {
  std::string text;
  for (const Tensor& tensor : element) {
    absl::StrAppend(&text, text.empty() ? "" : "; ", tensor.DebugString(/*max_values=*/1000));
  }
  return text;
}

}  // namespace

std::vector<std::string> Rest(Iterator& iterator) {
  std::vector<std::string> result;
  for (;;) {
    const absl::StatusOr<MaybeElement> element = iterator.Next();
    if (!element.ok()) {
      result.push_back(absl::StrCat("error: ", element.status().ToString()));
      return result;
    }
    if (!element->has_value()) return result;
    result.push_back(Text(**element));
  }
}

std::vector<std::string> All(const Dataset& dataset, uint64_t iteration) {
  const auto iterator = dataset.Open(iteration);
  if (!iterator.ok()) return {absl::StrCat("error: ", iterator.status().ToString())};
  return Rest(**iterator);
}

std::vector<int64_t> Ints(const Dataset& dataset, uint64_t iteration) {
  std::vector<int64_t> result;
  const auto iterator = dataset.Open(iteration);
  EXPECT_TRUE(iterator.ok()) << iterator.status();
  if (!iterator.ok()) return result;
  for (;;) {
    const absl::StatusOr<MaybeElement> element = (*iterator)->Next();
    EXPECT_TRUE(element.ok()) << element.status();
    if (!element.ok() || !element->has_value()) return result;
    const absl::Span<const int64_t> values = (**element)[0].Elements<int64_t>();
    result.insert(result.end(), values.begin(), values.end());
  }
}

void ExpectSameAfterRestoreEverywhere(const Dataset& dataset) {
  const std::vector<std::string> expected = All(dataset, 1);
  ASSERT_FALSE(expected.empty());
  const auto bytes = dataset.Serialize();
  ASSERT_TRUE(bytes.ok()) << bytes.status();
  const auto walk = dataset.Open(1);
  ASSERT_TRUE(walk.ok()) << walk.status();
  for (size_t position = 0; position <= expected.size(); ++position) {
    SCOPED_TRACE(absl::StrCat("saved at position ", position));
    const auto state = (*walk)->SaveState();
    ASSERT_TRUE(state.ok()) << state.status();

    // As another process does it: nothing is shared but the bytes.
    const auto copy = Dataset::Parse(*bytes);
    ASSERT_TRUE(copy.ok()) << copy.status();
    const auto fresh = copy->Open();
    ASSERT_TRUE(fresh.ok()) << fresh.status();
    absl::Status restored = (*fresh)->RestoreState(*state);
    ASSERT_TRUE(restored.ok()) << restored;
    const auto again = (*fresh)->SaveState();
    ASSERT_TRUE(again.ok()) << again.status();
    const std::vector<std::string> rest(expected.begin() + static_cast<std::ptrdiff_t>(position),
                                        expected.end());
    EXPECT_EQ(Rest(**fresh), rest);
    restored = (*fresh)->RestoreState(*again);
    ASSERT_TRUE(restored.ok()) << restored;
    EXPECT_EQ(Rest(**fresh), rest);

    const auto next = (*walk)->Next();
    ASSERT_TRUE(next.ok()) << next.status();
    ASSERT_EQ(next->has_value(), position < expected.size());
    if (next->has_value()) {
      EXPECT_EQ(Text(**next), expected[position]);
    }
  }
}

absl::Status OpenStatus(const Dataset& dataset) { return dataset.Open().status(); }

absl::Status FirstError(const Dataset& dataset) {
  const auto iterator = dataset.Open();
  if (!iterator.ok()) return iterator.status();
  for (;;) {
    const auto element = (*iterator)->Next();
    if (!element.ok()) return element.status();
    if (!element->has_value()) return absl::OkStatus();
  }
}

std::string WriteFile(const std::string& name, absl::string_view contents) {
  const std::string path = absl::StrCat(testing::TempDir(), "/", name);
  std::ofstream file(path, std::ios::binary | std::ios::trunc);
  file.write(contents.data(), static_cast<std::streamsize>(contents.size()));
  file.close();
  EXPECT_TRUE(file.good()) << path;
  return path;
}

std::string Gzip(absl::string_view contents) {
  z_stream stream = {};
  EXPECT_EQ(deflateInit2(&stream, Z_BEST_SPEED, Z_DEFLATED, MAX_WBITS + 16, 8, Z_DEFAULT_STRATEGY),
            Z_OK);
  std::string packed(deflateBound(&stream, contents.size()), '\0');
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(contents.data()));
  stream.avail_in = static_cast<uInt>(contents.size());
  stream.next_out = reinterpret_cast<Bytef*>(packed.data());
  stream.avail_out = static_cast<uInt>(packed.size());
  EXPECT_EQ(deflate(&stream, Z_FINISH), Z_STREAM_END);
  packed.resize(stream.total_out);
  deflateEnd(&stream);
  return packed;
}

std::string IdxBytes(uint32_t magic, const std::vector<uint32_t>& sizes, absl::string_view values) {
  std::string bytes;
  const auto append = [&bytes](uint32_t value) {
    for (int shift = 24; shift >= 0; shift -= 8) bytes.push_back(static_cast<char>(value >> shift));
  };
  append(magic);
  for (const uint32_t size : sizes) append(size);
  absl::StrAppend(&bytes, values);
  return bytes;
}

}  // namespace tandem::data
