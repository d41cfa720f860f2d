#include "core/io/table.h"

#include <snappy.h>

#include <map>
#include <random>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "core/base/status.h"
#include "core/io/testing/faulty_file_system.h"
#include "core/io/testing/raw_table.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace tandem {
namespace {

using ::testing::HasSubstr;

constexpr char kPath[] = "/d/table";
using Entries = std::map<std::string, std::string>;

std::string Bytes(absl::string_view hex) {
  std::string digits;
  for (const char c : hex) {
    if (c != ' ' && c != '\n') digits.push_back(c);
  }
  return absl::HexStringToBytes(digits);
}

class TableTest : public ::testing::Test {
 protected:
  TableTest() { EXPECT_TRUE(files_.MakeDirectories("/d").ok()); }

  std::string Write(const Entries& entries, const TableWriterOptions& options = {}) {
    const auto file = *files_.OpenToWrite(kPath, WriteMode::kReplace);
    TableWriter writer(file.get(), options);
    for (const auto& [key, value] : entries) EXPECT_TRUE(writer.Add(key, value).ok());
    EXPECT_TRUE(writer.Finish().ok());
    return *ReadFile(&files_, kPath);
  }

  absl::StatusOr<Entries> Read(const std::string& contents) {
    files_.SetContents(kPath, contents);
    const auto file = *files_.OpenToRead(kPath);
    Entries entries;
    TANDEM_RETURN_IF_ERROR(
        ReadTable(*file, [&](absl::string_view key, absl::string_view value) -> absl::Status {
          EXPECT_TRUE(entries.emplace(std::string(key), std::string(value)).second);
          return absl::OkStatus();
        }));
    return entries;
  }

  FaultyFileSystem files_;
};

Entries ManyEntries(int count) {
  std::mt19937 random(1);
  Entries entries;
  for (int i = 0; i < count; ++i) {
    entries[absl::StrFormat("layer_%d/weight/%x", i / 7, random())] =
        std::string(random() % 40, static_cast<char>(random()));
  }
  return entries;
}

// The index of a checkpoint with one tensor, as TensorFlow writes it.
TEST_F(TableTest, HasTensorFlowsBytes) {
  const Entries entries = {{"", Bytes("08 01 1a 02 08 01")},
                           {"v", Bytes("08 01 12 04 12 02 08 02 28 08 35 59 3c e5 35")}};
  const std::string expected = Bytes(
      "00 00 06 08 01 1a 02 08 01 00 01 0f 76 08 01 12 04 12 02 08 02 28 08 35 59 3c e5 35 00 00 "
      "00 00"
      "01 00 00 00 00 30 55 93 58 00 00 00 00 01 00 00 00 00 c0 f2 a1 b0 00 01 02 77 00 24 00 00 "
      "00 00"
      "01 00 00 00 00 94 60 b2 cd 29 08 36 0e 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 "
      "00 00"
      "00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 57 fb 80 8b 24 75 47 db");
  EXPECT_EQ(absl::BytesToHexString(Write(entries)), absl::BytesToHexString(expected));
  EXPECT_EQ(*Read(expected), entries);
}

TEST_F(TableTest, ComesBackInBlocksOfEverySize) {
  for (const int count : {0, 1, 16, 17, 1000}) {
    const Entries entries = ManyEntries(count);
    for (const size_t block_bytes : {1, 100, 4096, 1 << 18}) {
      const absl::StatusOr<Entries> read = Read(Write(entries, {.block_bytes = block_bytes}));
      ASSERT_TRUE(read.ok()) << read.status();
      EXPECT_EQ(*read, entries) << count << " " << block_bytes;
    }
  }
}

TEST_F(TableTest, IndexKeysAreTheShortestThatSeparateBlocks) {
  const std::string table = Write(
      {{"abcdefg", "1"}, {"abzz", "2"}, {"abzza", "3"}, {"\xff\xff", "4"}}, {.block_bytes = 1});
  // After "abcdefg" comes "abd", a key that is less than "abzz" is its own separator before
  // "abzza", and of "\xff\xff" there is no shorter successor.
  EXPECT_THAT(table, HasSubstr(Bytes("00 03 02") + "abd"));
  EXPECT_THAT(table, HasSubstr(Bytes("00 04 02") + "abzz"));
  EXPECT_THAT(table, HasSubstr(Bytes("00 01 02") + "b"));
  EXPECT_THAT(table, HasSubstr(Bytes("00 02 02") + "\xff\xff"));
}

TEST_F(TableTest, KeysMustIncrease) {
  const auto file = *files_.OpenToWrite(kPath, WriteMode::kReplace);
  TableWriter writer(file.get());
  ASSERT_TRUE(writer.Add("b", "").ok());
  EXPECT_EQ(writer.Add("b", "").code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(writer.Add("a", "").code(), absl::StatusCode::kInvalidArgument);
}

TEST_F(TableTest, SnappyBlocksAreRead) {
  const std::string block = RawEntry(0, "k", "vv") + OneRestart();
  const Entries expected = {{"k", "vv"}};
  EXPECT_EQ(*Read(RawTable(block, 0, "k")), expected);
  std::string packed;
  snappy::Compress(block.data(), block.size(), &packed);
  EXPECT_EQ(*Read(RawTable(packed, 1, "k")), expected);
  EXPECT_EQ(Read(RawTable(packed, 2, "k")).status().code(), absl::StatusCode::kUnimplemented);
  EXPECT_EQ(Read(RawTable(block, 1, "k")).status().code(), absl::StatusCode::kDataLoss);
  // It says that it unpacks to 4 GiB.
  EXPECT_EQ(Read(RawTable(Bytes("ff ff ff ff 0f 00"), 1, "k")).status().code(),
            absl::StatusCode::kDataLoss);
}

// Checksums that fit do not make a table sound.
TEST_F(TableTest, HostileBlocksAreRefused) {
  const std::string restarts = OneRestart();
  for (const std::string& block :
       {std::string(), Bytes("01 00 00"), Bytes("ff ff ff ff"), Bytes("00 00 00 00 ff 00 00 00"),
        Bytes("05 01 00 6b") + restarts,              // Shares more than there is.
        Bytes("00 09 00 6b") + restarts,              // The key is longer than the block.
        Bytes("00 01 09 6b") + restarts,              // The value is.
        Bytes("00 ff ff ff ff 7f 00") + restarts,     // A number of more than 32 bits.
        Bytes("00 01 00 6b 00 01 00 61") + restarts,  // Out of order.
        Bytes("00 01 00 6b 00 01 00 6b") + restarts,  // Twice.
        Bytes("00 01 00 7a") + restarts}) {           // Behind the index's key.
    const absl::Status status = Read(RawTable(block, 0, "k")).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss) << absl::BytesToHexString(block);
    EXPECT_THAT(std::string(status.message()), HasSubstr("/d/table: at offset"));
  }
}

TEST_F(TableTest, EveryCutIsReported) {
  const std::string table = Write(ManyEntries(60), {.block_bytes = 256});
  for (size_t size = 0; size < table.size(); ++size) {
    const absl::Status status = Read(table.substr(0, size)).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss) << size;
    EXPECT_THAT(std::string(status.message()), HasSubstr(kPath));
  }
}

TEST_F(TableTest, EveryFlippedBitIsReportedOrChangesNothing) {
  const Entries entries = ManyEntries(20);
  const std::string table = Write(entries, {.block_bytes = 256});
  size_t unnoticed = 0;
  for (size_t bit = 0; bit < 8 * table.size(); ++bit) {
    std::string damaged = table;
    damaged[bit / 8] = static_cast<char>(damaged[bit / 8] ^ (1 << bit % 8));
    const absl::StatusOr<Entries> read = Read(damaged);
    if (read.ok()) {
      EXPECT_EQ(*read, entries) << bit;
      ++unnoticed;
    } else {
      EXPECT_EQ(read.status().code(), absl::StatusCode::kDataLoss);
      EXPECT_THAT(std::string(read.status().message()), HasSubstr(kPath));
    }
  }
  EXPECT_LE(unnoticed, 8u * 40);  // Only in the padding of the footer.
}

TEST_F(TableTest, AnErrorOfTheVisitorEndsTheReading) {
  files_.SetContents(kPath, Write({{"a", ""}, {"b", ""}}));
  const auto file = *files_.OpenToRead(kPath);
  int calls = 0;
  const absl::Status status = ReadTable(*file, [&](absl::string_view, absl::string_view) {
    ++calls;
    return errors::Cancelled("enough");
  });
  EXPECT_EQ(status.code(), absl::StatusCode::kCancelled);
  EXPECT_EQ(calls, 1);
}

}  // namespace
}  // namespace tandem
