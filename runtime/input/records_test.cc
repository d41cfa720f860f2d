// Records and WriteRecords.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <filesystem>
#include <limits>
#include <random>
#include <system_error>
#include <thread>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "core/io/example_parser.h"
#include "core/io/record.h"
#include "core/io/testing/faulty_file_system.h"
#include "core/io/testing/mutations.h"
#include "proto/input.pb.h"
#include "runtime/input/dataset.h"
#include "runtime/input/input_test_util.h"
#include "runtime/input/record_compression.h"
#include "runtime/input/write_records.h"

namespace tandem::data {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

constexpr Compression kCompressions[] = {Compression::kNone, Compression::kZlib, Compression::kGzip,
                                         Compression::kSnappy};
constexpr size_t kFrameBytes = 16;  // Of a record, beside its data.

std::string WriteRecordFile(const std::string& name, const std::vector<std::string>& records,
                            Compression compression = Compression::kNone) {
  const std::string path = WriteFile(name, "");
  RecordWriterOptions options;
  options.compression = compression;
  const auto writer = RecordWriter::Open(PosixFileSystem(), path, options);
  EXPECT_TRUE(writer.ok()) << writer.status();
  for (const std::string& record : records) EXPECT_TRUE((*writer)->Write(record).ok());
  EXPECT_TRUE((*writer)->Close().ok());
  return path;
}

std::string Contents(const std::string& path) {
  const auto contents = ReadFile(PosixFileSystem(), path);
  EXPECT_TRUE(contents.ok()) << contents.status();
  return *contents;
}

std::string Text(absl::string_view text) { return absl::StrCat("string[] = \"", text, "\""); }

TEST(RecordsTest, ReadsFilesInEachCompressionAsTheirContentsShow) {
  std::vector<std::string> paths;
  std::vector<std::string> expected;
  for (const Compression compression : kCompressions) {
    const std::string name = absl::StrCat("c", static_cast<int>(compression));
    paths.push_back(WriteRecordFile(name, {name, "", "third"}, compression));
    expected.insert(expected.end(), {Text(name), Text(""), Text("third")});
    paths.push_back(WriteRecordFile(name + "_empty", {}, compression));
  }
  EXPECT_EQ(All(Dataset::Records(paths)), expected);
  for (size_t i = 0; i < std::size(kCompressions); ++i) {
    const auto file = PosixFileSystem()->OpenToRead(paths[2 * i]);
    ASSERT_TRUE(file.ok());
    const auto found = FindRecordCompression(**file);
    ASSERT_TRUE(found.ok()) << found.status();
    EXPECT_EQ(*found, kCompressions[i]);
    EXPECT_THAT(All(Dataset::Records({paths[2 * i]}, {.compression = kCompressions[i]})),
                ElementsAre(expected[3 * i], Text(""), Text("third")));
  }
}

TEST(RecordsTest, APlainRecordWhoseLengthLooksLikeAMarkIsPlain) {
  // The first two bytes are those of a gzip file, and of a zlib stream.
  for (const size_t size : {size_t{0x8b1f}, size_t{0x0178}}) {
    const std::string path = WriteRecordFile("mark", {std::string(size, 'x')});
    EXPECT_EQ(All(Dataset::Records({path})).size(), 1u);
  }
}

TEST(RecordsTest, EveryPositionCanBeRestored) {
  std::vector<std::string> paths;
  for (const Compression compression : kCompressions) {
    const std::string name = absl::StrCat("r", static_cast<int>(compression));
    paths.push_back(WriteRecordFile(name, {"a", std::string(1000, 'b'), ""}, compression));
  }
  paths.push_back(WriteRecordFile("none", {}));
  ExpectSameAfterRestoreEverywhere(Dataset::Records(paths));
  ExpectSameAfterRestoreEverywhere(Dataset::Records(paths).Shuffle(3, 1).Batch(2).Prefetch(2));
}

TEST(RecordsTest, AMissingFileIsNamedBeforeAnythingIsRead) {
  const absl::Status status = OpenStatus(Dataset::Records({testing::TempDir() + "/missing"}));
  EXPECT_EQ(status.code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(std::string(status.message()), AllOf(HasSubstr("Records: "), HasSubstr("/missing")));
  EXPECT_EQ(OpenStatus(Dataset::Records({})).code(), absl::StatusCode::kInvalidArgument);
}

TEST(RecordsTest, ADamagedRecordIsAnErrorWithFileAndOffsetAgainAndAgain) {
  std::string contents = Contents(WriteRecordFile("whole", {"first", "second", "third"}));
  contents[kFrameBytes + 5 + 12] ^= 1;
  const auto iterator = Dataset::Records({WriteFile("bad", contents)}).Open();
  ASSERT_TRUE(iterator.ok());
  EXPECT_THAT(Rest(**iterator),
              ElementsAre(Text("first"), AllOf(HasSubstr("DATA_LOSS: Records: "), HasSubstr("/bad"),
                                               HasSubstr("offset 21"))));
  EXPECT_THAT(Rest(**iterator), ElementsAre(HasSubstr("offset 21")));
  EXPECT_EQ((*iterator)->damaged(), 0);
}

TEST(RecordsTest, DamagedRecordsAreSkippedAndCountedOnRequest) {
  std::string contents = Contents(WriteRecordFile("whole", {"first", "second", "third", "4"}));
  contents[kFrameBytes + 5 + 12] ^= 1;  // The second's data.
  const std::string bad = WriteFile("bad", contents);
  contents.resize(contents.size() - 1);  // And the last one's end.
  const std::string cut = WriteFile("cut", contents);
  const Dataset dataset = Dataset::Records({bad, cut}, {.skip_damaged = true}).Repeat(2);
  const auto iterator = dataset.Open();
  ASSERT_TRUE(iterator.ok());
  EXPECT_EQ((*iterator)->damaged(), 0);
  const std::vector<std::string> once = {Text("first"), Text("third"), Text("4"), Text("first"),
                                         Text("third")};
  std::vector<std::string> twice = once;
  twice.insert(twice.end(), once.begin(), once.end());
  EXPECT_EQ(Rest(**iterator), twice);
  // One in the first file, two in the other, each once.
  EXPECT_EQ((*iterator)->damaged(), 3);
  ExpectSameAfterRestoreEverywhere(dataset);
}

TEST(RecordsTest, TheFilesWithDamageAreNamed) {
  std::string contents = Contents(WriteRecordFile("whole", {"first", "second", "third"}));
  contents[kFrameBytes + 5 + 12] ^= 1;
  const std::string one = WriteFile("one", contents);
  contents[12] ^= 1;
  const std::string two = WriteFile("two", contents);
  const auto iterator = Dataset::Records({one, two}, {.skip_damaged = true}).Open();
  ASSERT_TRUE(iterator.ok());
  EXPECT_EQ((*iterator)->DescribeDamage(), "");
  EXPECT_THAT(Rest(**iterator), ElementsAre(Text("first"), Text("third"), Text("third")));
  EXPECT_EQ((*iterator)->DescribeDamage(), two + " (2), " + one + " (1)");
}

// Behind the first record there is a terabyte of nothing, through which a search takes hours.
TEST(RecordsTest, TheSearchBehindDamageEndsWhenItIsCancelled) {
  const std::string path = WriteFile("hole", Contents(WriteRecordFile("whole", {"first"})));
  std::error_code error;
  std::filesystem::resize_file(path, uint64_t{1} << 40, error);
  ASSERT_FALSE(error) << error.message();
  const auto iterator = Dataset::Records({path}, {.skip_damaged = true}).Prefetch(2).Open();
  ASSERT_TRUE(iterator.ok());
  ASSERT_TRUE((*iterator)->Next().ok());
  (*iterator)->Cancel();  // The thread that reads ahead is looking for the second.
  EXPECT_EQ((*iterator)->Next().status().code(), absl::StatusCode::kCancelled);
  std::filesystem::remove(path, error);
}

TEST(RecordsTest, TheCountOfDamageSurvivesARestore) {
  std::string contents = Contents(WriteRecordFile("whole", {"first", "second", "third"}));
  contents[12] ^= 1;
  const std::string bad = WriteFile("bad1", contents);
  const std::string bad2 = WriteFile("bad2", contents);
  const Dataset dataset =
      Dataset::Files({bad, bad2})
          .InterleaveFiles(Dataset::Records({}, {.skip_damaged = true}), {.cycle = 1});
  const auto iterator = dataset.Open();
  ASSERT_TRUE(iterator.ok());
  for (int i = 0; i < 3; ++i) ASSERT_TRUE((*iterator)->Next().ok());
  EXPECT_EQ((*iterator)->damaged(), 2);
  const auto state = (*iterator)->SaveState();
  ASSERT_TRUE(state.ok());
  const auto fresh = dataset.Open();
  ASSERT_TRUE((*fresh)->RestoreState(*state).ok());
  EXPECT_EQ((*fresh)->damaged(), 2);
  EXPECT_THAT(Rest(**fresh), ElementsAre(Text("third")));
  EXPECT_EQ((*fresh)->damaged(), 2);
}

TEST(RecordsTest, DamageAnywhereGivesErrorsOrFewerRecordsAndNeverWrongOnes) {
  std::mt19937_64 random(1);
  const std::vector<std::string> records = {"one", std::string(300, 'x'), "", "four"};
  const std::vector<std::string> expected = {Text("one"), Text(std::string(300, 'x')), Text(""),
                                             Text("four")};
  for (const Compression compression : kCompressions) {
    const std::string whole = Contents(WriteRecordFile("whole", records, compression));
    for (int i = 0; i < 100; ++i) {
      const std::string path = WriteFile("mutated", Mutate(whole, random));
      // A cut or a copy of whole records is a sound file: texts are known, order and number are
      // not.
      std::vector<std::string> found = All(Dataset::Records({path}));
      if (!found.empty() && absl::StartsWith(found.back(), "error: ")) {
        EXPECT_THAT(found.back(), HasSubstr("/mutated"));
        found.pop_back();
      }
      for (const std::string& text : found) EXPECT_THAT(expected, testing::Contains(text));
      for (const std::string& text : All(Dataset::Records({path}, {.skip_damaged = true}))) {
        EXPECT_THAT(expected, testing::Contains(text));
      }
    }
  }
}

TEST(RecordsTest, StatesThatMakeNoSenseAreRefused) {
  const Dataset dataset = Dataset::Records({WriteRecordFile("few", {"a", "b"})});
  const auto iterator = dataset.Open();
  ASSERT_TRUE(iterator.ok());
  ASSERT_TRUE((*iterator)->Next().ok());
  const std::string state = *(*iterator)->SaveState();
  WriteRecordFile("few", {});
  EXPECT_THAT(std::string((*iterator)->RestoreState(state).message()),
              AllOf(HasSubstr("Records: "), HasSubstr("has no offset 17")));
  WriteRecordFile("few", {"a", "b"});
  const int64_t largest = std::numeric_limits<int64_t>::max();
  // File, position, damaged places before it.
  for (const std::vector<int64_t>& numbers : std::vector<std::vector<int64_t>>{{-1, 0, 0},
                                                                               {2, 0, 0},
                                                                               {1, 17, 0},
                                                                               {0, -1, 0},
                                                                               {0, largest, 0},
                                                                               {0, 17, -1},
                                                                               {0, 17, largest},
                                                                               {largest, 0, 0}}) {
    InputState bad;
    ASSERT_TRUE(bad.ParseFromString(state));
    bad.mutable_inputs(0)->mutable_numbers()->Assign(numbers.begin(), numbers.end());
    const auto fresh = dataset.Open();
    ASSERT_TRUE(fresh.ok());
    EXPECT_EQ((*fresh)->RestoreState(bad.SerializeAsString()).code(),
              absl::StatusCode::kInvalidArgument)
        << testing::PrintToString(numbers);
  }
}

TEST(RecordsTest, ACancelledIteratorStopsAmongManyRecords) {
  // Skip reads all of them in one call: it sees the cancellation, or the walk would end well.
  const std::string path = WriteRecordFile("many", std::vector<std::string>(1000, "x"));
  const Dataset dataset = Dataset::Records({path}).Repeat().Skip(int64_t{1} << 60);
  const auto iterator = dataset.Open();
  ASSERT_TRUE(iterator.ok());
  std::thread other([&] { (*iterator)->Cancel(); });
  EXPECT_EQ((*iterator)->Next().status().code(), absl::StatusCode::kCancelled);
  other.join();
}

absl::StatusOr<int64_t> Write(const Dataset& dataset, FileSystem* files, const std::string& path,
                              const WriteRecordsOptions& options = {}) {
  const auto iterator = dataset.Open();
  if (!iterator.ok()) return iterator.status();
  return WriteRecords(**iterator, files, path, options);
}

TEST(WriteRecordsTest, WhatWasWrittenIsRead) {
  const Dataset dataset =
      Dataset::FromTensors({Tensor::Vector<std::string>({"a", "", "c", "d", "e"})});
  for (const Compression compression : kCompressions) {
    WriteRecordsOptions options;
    options.records.compression = compression;
    const std::string path = testing::TempDir() + "/written";
    const auto written = Write(dataset, PosixFileSystem(), path, options);
    ASSERT_TRUE(written.ok()) << written.status();
    EXPECT_EQ(*written, 5);
    EXPECT_EQ(All(Dataset::Records({path})), All(dataset));
  }
}

TEST(WriteRecordsTest, ShardsTakeElementsInTurn) {
  const Dataset dataset = Dataset::FromTensors({Tensor::Vector<std::string>({"a", "b", "c"})});
  const std::string path = testing::TempDir() + "/turn";
  ASSERT_TRUE(Write(dataset, PosixFileSystem(), path, {.shards = 2}).ok());
  EXPECT_THAT(All(Dataset::Records({path + "-00000-of-00002"})), ElementsAre(Text("a"), Text("c")));
  EXPECT_THAT(All(Dataset::Records({path + "-00001-of-00002"})), ElementsAre(Text("b")));
}

TEST(WriteRecordsTest, ElementsWithNamesBecomeExamples) {
  const Dataset dataset = Dataset::FromTensors({Tensor::FromValues<float>({2, 2}, {1, 2, 3, 4}),
                                                Tensor::Vector<int32_t>({5, 6}),
                                                Tensor::Vector<std::string>({"x", "y"})});
  const std::string path = testing::TempDir() + "/examples";
  ASSERT_TRUE(Write(dataset, PosixFileSystem(), path, {.features = {"f", "i", "s"}}).ok());
  EXPECT_THAT(All(Dataset::Records({path}).ParseExamples({FeatureSpec::Fixed("f", kFloat32, {2}),
                                                          FeatureSpec::Fixed("i", kInt64, {}),
                                                          FeatureSpec::Fixed("s", kString, {})})),
              ElementsAre("float32[2] = 1 2; int64[] = 5; string[] = \"x\"",
                          "float32[2] = 3 4; int64[] = 6; string[] = \"y\""));
}

TEST(WriteRecordsTest, WhatIsNoRecordIsNamed) {
  FaultyFileSystem files;
  ASSERT_TRUE(files.MakeDirectories("/d").ok());
  const auto error = [&](const Dataset& dataset, const WriteRecordsOptions& options) {
    const auto written = Write(dataset, &files, "/d/f", options);
    EXPECT_EQ(written.status().code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(*files.ListDirectory("/d"), IsEmpty());
    return std::string(written.status().message());
  };
  EXPECT_THAT(error(Dataset::Range(3), {}), HasSubstr("element 0: is not one string"));
  EXPECT_THAT(error(Dataset::Range(3), {.features = {"a", "b"}}),
              HasSubstr("element 0: has 1 components, expected 2"));
  EXPECT_THAT(error(Dataset::Range(3), {.features = {"a", "a"}}), HasSubstr("two features"));
  EXPECT_THAT(error(Dataset::Range(3), {.shards = 0}), HasSubstr("shards is 0"));
  EXPECT_THAT(error(Dataset::FromTensors({Tensor::Vector<double>({1, 2})}), {.features = {"a"}}),
              HasSubstr("element 0: feature 'a'"));
}

TEST(WriteRecordsTest, AFaultAnywhereLeavesTheOldFile) {
  const Dataset old = Dataset::FromTensors({Tensor::Vector<std::string>({"old"})});
  const Dataset now = Dataset::FromTensors({Tensor::Vector<std::string>({"new", "newer"})});
  const auto contents = [](FaultyFileSystem& files) { return *ReadFile(&files, "/d/f"); };
  FaultyFileSystem clean;
  ASSERT_TRUE(clean.MakeDirectories("/d").ok());
  ASSERT_TRUE(Write(old, &clean, "/d/f").ok());
  const std::string before = contents(clean);
  const int64_t begin = clean.effects();
  ASSERT_TRUE(Write(now, &clean, "/d/f").ok());
  const int64_t effects = clean.effects() - begin;
  const std::string after = contents(clean);
  ASSERT_GT(effects, 4);
  for (int64_t n = 0; n < effects; ++n) {
    SCOPED_TRACE(n);
    FaultyFileSystem files;
    ASSERT_TRUE(files.MakeDirectories("/d").ok());
    ASSERT_TRUE(Write(old, &files, "/d/f").ok());
    files.CrashAt(n);
    EXPECT_FALSE(Write(now, &files, "/d/f").ok());
    files.Restart(FaultyFileSystem::Unsynced::kLost);
    EXPECT_EQ(contents(files), before);

    FaultyFileSystem full;
    ASSERT_TRUE(full.MakeDirectories("/d").ok());
    ASSERT_TRUE(Write(old, &full, "/d/f").ok());
    full.FailAt(n, absl::ResourceExhaustedError("the disk is full"));
    EXPECT_EQ(Write(now, &full, "/d/f").status().code(), absl::StatusCode::kResourceExhausted);
    EXPECT_THAT(contents(full), testing::AnyOf(before, after));
    EXPECT_THAT(*full.ListDirectory("/d"), ElementsAre("f"));
  }
}

}  // namespace
}  // namespace tandem::data
