// What happens to a bundle when files are damaged, cut, swapped and made up, and when saving is
// interrupted: never a wrong value, never a crash, always a message with the file.
#include <limits>
#include <memory>
#include <random>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "core/base/status.h"
#include "core/io/bundle_reader.h"
#include "core/io/bundle_writer.h"
#include "core/io/checkpoint_state.h"
#include "core/io/crc32c.h"
#include "core/io/table.h"
#include "core/io/testing/faulty_file_system.h"
#include "core/io/testing/raw_table.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "proto/tensor_bundle.pb.h"

namespace tandem {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;
using Contents = std::vector<std::pair<std::string, std::string>>;  // Names and texts of tensors.

constexpr char kPrefix[] = "/d/model";

Tensor Random(DataType dtype, const Shape& shape, std::mt19937* random) {
  Tensor tensor(dtype, shape);
  if (dtype == kString) {
    for (std::string& value : tensor.MutableElements<std::string>()) {
      value = std::string((*random)() % 200, static_cast<char>((*random)()));
    }
  } else {
    for (size_t i = 0; i < tensor.num_bytes(); ++i) {
      static_cast<char*>(tensor.mutable_data())[i] =
          static_cast<char>((*random)() % (dtype == kBool ? 2 : 256));
    }
  }
  return tensor;
}

// Writes a bundle of two shards with many kinds of tensors, and returns what is in it.
void WriteBundle(FileSystem* files, const std::string& prefix, uint32_t seed) {
  std::mt19937 random(seed);
  const std::vector<std::string> parts = {prefix + "_temp/a", prefix + "_temp/b"};
  for (const std::string& part : parts) {
    const std::string name(FileNameOf(part));
    const auto writer = *BundleWriter::Create(files, part);
    for (const DataType dtype : {kFloat32, kInt64, kBool, kString}) {
      const Tensor tensor = Random(dtype, Shape({5, 3}), &random);
      ASSERT_TRUE(writer->Add(absl::StrCat(name, "/", DataTypeName(dtype)), tensor).ok());
    }
    ASSERT_TRUE(writer->Add(name + "/empty", Tensor(kFloat32, Shape({0}))).ok());
    const TensorSlice slice = *TensorSlice::Parse(name == "a" ? "0,1:-" : "1,4:-");
    ASSERT_TRUE(writer
                    ->AddSlice("w", Shape({5, 700}), slice,
                               Random(kFloat32, slice.Resolve(Shape({5, 700}))->shape(), &random))
                    .ok());
    ASSERT_TRUE(writer->Finish().ok());
  }
  ASSERT_TRUE(MergeBundles(files, parts, prefix).ok());
}

// Text of all tensors that can be read; the others' errors must name a file. A bundle that cannot
// be opened has none.
Contents ReadBundle(FileSystem* files, const std::string& prefix, int* errors) {
  Contents contents;
  const auto check = [&](const absl::Status& status) {
    ++*errors;
    EXPECT_TRUE(status.code() == absl::StatusCode::kDataLoss ||
                status.code() == absl::StatusCode::kNotFound)
        << status;
    EXPECT_TRUE(absl::StrContains(status.message(), prefix + ".")) << status;
  };
  const auto reader = BundleReader::Open(files, prefix);
  if (!reader.ok()) {
    check(reader.status());
    return contents;
  }
  for (const std::string& name : (*reader)->Names()) {
    const absl::StatusOr<Tensor> tensor = (*reader)->Read(name);
    const absl::Status verified = (*reader)->Verify(name);
    EXPECT_EQ(verified.ok(), tensor.ok()) << verified << tensor.status();
    if (tensor.ok()) {
      contents.emplace_back(name, tensor->DebugString(10000));
    } else {
      check(tensor.status());
    }
  }
  return contents;
}

class BundleDamageTest : public ::testing::Test {
 protected:
  BundleDamageTest() {
    WriteBundle(&files_, kPrefix, 1);
    int errors = 0;
    good_ = ReadBundle(&files_, kPrefix, &errors);
    EXPECT_EQ(errors, 0);
    EXPECT_EQ(good_.size(), 11u);
    for (const char* ending : {".index", ".data-00000-of-00002", ".data-00001-of-00002"}) {
      const std::string path = absl::StrCat(kPrefix, ending);
      originals_.emplace_back(path, *ReadFile(&files_, path));
    }
  }

  // Whatever is read equals what was written; returns the number of errors.
  int ReadDamaged() {
    int errors = 0;
    for (const auto& tensor : ReadBundle(&files_, kPrefix, &errors)) {
      EXPECT_THAT(good_, Contains(tensor));
    }
    return errors;
  }
  void Restore() {
    for (const auto& [path, contents] : originals_) files_.SetContents(path, contents);
  }

  FaultyFileSystem files_;
  Contents good_;
  Contents originals_;  // Files.
};

TEST_F(BundleDamageTest, EveryCutIsAnError) {
  for (const auto& [path, contents] : originals_) {
    // Of the index every byte, of the data the first and last of each 4 KiB too.
    for (size_t size = 0; size < contents.size(); ++size) {
      const bool is_data = absl::StrContains(path, ".data");
      if (is_data && size > 300 && size + 300 < contents.size() && size % 4096 > 1) continue;
      files_.SetContents(path, contents.substr(0, size));
      EXPECT_EQ(ReadDamaged(), 1) << path << " " << size;  // It cannot be opened.
    }
    Restore();
  }
}

TEST_F(BundleDamageTest, AThousandFlippedBitsNeverGiveAWrongValue) {
  std::mt19937 random(2);
  int unnoticed = 0;
  for (int i = 0; i < 1000; ++i) {
    const auto& [path, contents] = originals_[i % 2 == 0 ? 0 : 1 + random() % 2];
    std::string damaged = contents;
    const size_t at = random() % damaged.size();
    damaged[at] = static_cast<char>(damaged[at] ^ (1 << random() % 8));
    files_.SetContents(path, damaged);
    if (ReadDamaged() == 0) {
      ++unnoticed;
      EXPECT_EQ(path, "/d/model.index");  // Padding of the footer.
    }
    files_.SetContents(path, contents);
  }
  EXPECT_LT(unnoticed, 50);
}

TEST_F(BundleDamageTest, ZerosInPlaceOfTheTailAreNoticed) {
  for (const auto& [path, contents] : originals_) {
    for (const size_t zeros : {1, 8, 40, 400}) {
      std::string damaged = contents;
      damaged.replace(damaged.size() - zeros, zeros, zeros, '\0');
      files_.SetContents(path, damaged);
      EXPECT_GT(ReadDamaged(), 0) << path << " " << zeros;
    }
    Restore();
  }
}

TEST_F(BundleDamageTest, SwappedShardsAreNoticed) {
  files_.SetContents(originals_[1].first, originals_[2].second);
  files_.SetContents(originals_[2].first, originals_[1].second);
  EXPECT_GT(ReadDamaged(), 0);
}

TEST_F(BundleDamageTest, AnIndexOfAnotherSaveIsNoticed) {
  WriteBundle(&files_, "/d/other", 7);
  files_.SetContents("/d/model.index", *ReadFile(&files_, "/d/other.index"));
  EXPECT_GT(ReadDamaged(), 0);
}

TEST_F(BundleDamageTest, MissingFilesAreNamed) {
  for (const auto& [path, contents] : originals_) {
    ASSERT_TRUE(files_.Remove(path).ok());
    const absl::Status status = BundleReader::Open(&files_, kPrefix).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kNotFound);
    EXPECT_THAT(std::string(status.message()), HasSubstr(path));
    files_.SetContents(path, contents);
  }
  ASSERT_TRUE(files_.Remove(originals_[1].first).ok());
  const auto reader = BundleReader::Open(&files_, kPrefix, {.check_data = false});
  ASSERT_TRUE(reader.ok());
  EXPECT_EQ((*reader)->Read("b/float32").status().code(), absl::StatusCode::kNotFound);
}

class HostileBundleTest : public ::testing::Test {
 protected:
  HostileBundleTest() {
    files_.SetContents("/d/model.data-00000-of-00001", std::string(64, '\2'));
    entry_.set_dtype(tensorflow::DT_FLOAT);
    entry_.mutable_shape()->add_dim()->set_size(2);
    entry_.set_size(8);
    entry_.set_crc32c(MaskCrc32c(Crc32c(std::string(8, '\2'))));
    header_.set_num_shards(1);
  }

  absl::Status Read() {
    const auto file = *files_.OpenToWrite("/d/model.index", WriteMode::kReplace);
    TableWriter table(file.get());
    EXPECT_TRUE(table.Add("", header_.SerializeAsString()).ok());
    EXPECT_TRUE(table.Add("w", entry_.SerializeAsString()).ok());
    EXPECT_TRUE(table.Finish().ok());
    TANDEM_ASSIGN_OR_RETURN(const auto reader, BundleReader::Open(&files_, kPrefix));
    return reader->Read("w").status();
  }
  void ExpectDataLoss() {
    const absl::Status status = Read();
    EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss) << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr(kPrefix));
  }

  FaultyFileSystem files_;
  tensorflow::BundleHeaderProto header_;
  tensorflow::BundleEntryProto entry_;
};

TEST_F(HostileBundleTest, TheUnchangedEntryIsSound) { EXPECT_TRUE(Read().ok()); }

TEST_F(HostileBundleTest, ImpossiblePlacesAreRefused) {
  for (const auto& [shard, offset, size] : std::vector<std::tuple<int, int64_t, int64_t>>{
           {-1, 0, 8},
           {1, 0, 8},
           {0, -1, 8},
           {0, 57, 8},
           {0, 0, -8},
           {0, 0, 12},
           {0, std::numeric_limits<int64_t>::max(), 8}}) {
    entry_.set_shard_id(shard);
    entry_.set_offset(offset);
    entry_.set_size(size);
    ExpectDataLoss();
  }
}

TEST_F(HostileBundleTest, ImpossibleShapesAndTypesAreRefused) {
  auto* const dim = entry_.mutable_shape()->mutable_dim(0);
  for (const int64_t size : {int64_t{-1}, int64_t{3}, int64_t{1} << 62}) {
    dim->set_size(size);
    ExpectDataLoss();
    entry_.set_dtype(tensorflow::DT_STRING);
    ExpectDataLoss();
    entry_.set_dtype(tensorflow::DT_FLOAT);
  }
  dim->set_size(2);
  entry_.mutable_shape()->set_unknown_rank(true);
  ExpectDataLoss();
  entry_.mutable_shape()->set_unknown_rank(false);
  for (const int dtype : {0, -1, 101}) {
    entry_.set_dtype(static_cast<tensorflow::DataType>(dtype));
    ExpectDataLoss();
  }
  entry_.set_dtype(static_cast<tensorflow::DataType>(77));
  EXPECT_EQ(Read().code(), absl::StatusCode::kUnimplemented);
}

// The checksum fits, but C++ knows no such bool.
TEST_F(HostileBundleTest, BoolsOfOtherValuesAreRefused) {
  entry_.set_dtype(tensorflow::DT_BOOL);
  entry_.mutable_shape()->mutable_dim(0)->set_size(8);
  ExpectDataLoss();
}

TEST_F(HostileBundleTest, PartsWithoutEntriesAndOutsideAreRefused) {
  auto* const extent = entry_.add_slices()->add_extent();
  extent->set_start(1);
  extent->set_length(1);
  ExpectDataLoss();
  extent->set_start(2);
  ExpectDataLoss();
  extent->set_start(-1);
  ExpectDataLoss();
}

TEST_F(HostileBundleTest, AnotherVersionIsUnimplemented) {
  header_.mutable_version()->set_min_consumer(2);
  EXPECT_EQ(Read().code(), absl::StatusCode::kUnimplemented);
  header_.mutable_version()->set_min_consumer(1);
  header_.mutable_version()->add_bad_consumers(1);
  EXPECT_EQ(Read().code(), absl::StatusCode::kUnimplemented);
}

TEST_F(HostileBundleTest, StringsOfMadeUpLengthsAreRefused) {
  entry_.set_dtype(tensorflow::DT_STRING);
  entry_.set_size(64);
  for (const char c : {'\0', '\2', '\x3c', '\x7f', '\xff'}) {
    files_.SetContents("/d/model.data-00000-of-00001", std::string(64, c));
    ExpectDataLoss();
  }
}

TEST_F(HostileBundleTest, AnIndexThatUnfoldsIntoMuchMoreIsRefused) {
  const std::string key(10000, 'k');
  const std::string value = entry_.SerializeAsString();
  std::string block = RawEntry(0, "", header_.SerializeAsString()) + RawEntry(0, key, value);
  for (int i = 0; i < 20000; ++i) {
    const std::string number = absl::StrCat(100000 + i);
    block += RawEntry(key.size(), number, value);
  }
  files_.SetContents("/d/model.index", RawTable(block + OneRestart(), 0, "z"));
  const absl::Status status = BundleReader::Open(&files_, kPrefix).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("/d/model.index"));
}

TEST_F(HostileBundleTest, TheHeaderMustComeFirst) {
  files_.SetContents("/d/model.index",
                     RawTable(RawEntry(0, "w", entry_.SerializeAsString()) + OneRestart(), 0, "w"));
  EXPECT_EQ(BundleReader::Open(&files_, kPrefix).status().code(), absl::StatusCode::kDataLoss);
  files_.SetContents("/d/model.index", RawTable(OneRestart(), 0, ""));
  EXPECT_EQ(BundleReader::Open(&files_, kPrefix).status().code(), absl::StatusCode::kDataLoss);
}

// A step of training: a bundle, then the state file that makes it the newest.
absl::Status Save(FileSystem* files, int step) {
  const std::string prefix = absl::StrCat("/d/model-", step);
  TANDEM_ASSIGN_OR_RETURN(const auto writer, BundleWriter::Create(files, prefix));
  TANDEM_RETURN_IF_ERROR(writer->Add("step", Tensor::Scalar<int32_t>(step)));
  TANDEM_RETURN_IF_ERROR(writer->Add(
      "w", Tensor::FromValues<int32_t>(Shape({100000}), std::vector<int32_t>(100000, step))));
  TANDEM_RETURN_IF_ERROR(writer->Finish());
  CheckpointState state;
  state.latest = prefix;
  return WriteCheckpointState(files, "/d", state);
}

// The step of the newest checkpoint, all of which is there.
absl::StatusOr<int32_t> LoadNewest(FileSystem* files) {
  TANDEM_ASSIGN_OR_RETURN(const std::string prefix, LatestCheckpoint(files, "/d"));
  TANDEM_ASSIGN_OR_RETURN(const auto reader, BundleReader::Open(files, prefix));
  TANDEM_ASSIGN_OR_RETURN(const Tensor step, reader->Read("step"));
  TANDEM_ASSIGN_OR_RETURN(const Tensor w, reader->Read("w"));
  for (const int32_t value : w.Elements<int32_t>()) EXPECT_EQ(value, step.ScalarValue<int32_t>());
  return step.ScalarValue<int32_t>();
}

TEST(InterruptedSave, TheNewestCompleteCheckpointLoads) {
  using Unsynced = FaultyFileSystem::Unsynced;
  for (const Unsynced unsynced : {Unsynced::kKept, Unsynced::kLost, Unsynced::kMixed}) {
    for (uint32_t seed = 0; seed < (unsynced == Unsynced::kMixed ? 20 : 1); ++seed) {
      for (int64_t n = 0;; ++n) {
        FaultyFileSystem files;
        ASSERT_TRUE(Save(&files, 1).ok());
        files.CrashAt(n);
        const bool saved = Save(&files, 2).ok();
        const bool fired = files.fired();
        files.Restart(unsynced, seed);
        const absl::StatusOr<int32_t> step = LoadNewest(&files);
        ASSERT_TRUE(step.ok()) << step.status() << " after " << files.log().back();
        if (saved) {
          EXPECT_EQ(*step, 2);
        }
        // Who looks for checkpoints by their indexes finds whole ones too.
        if (files.Stat("/d/model-2.index").ok()) {
          const auto reader = BundleReader::Open(&files, "/d/model-2");
          ASSERT_TRUE(reader.ok()) << reader.status() << " after " << files.log().back();
          EXPECT_TRUE((*reader)->Verify("w").ok());
        }
        if (!fired) break;
      }
    }
  }
}

TEST(InterruptedSave, AfterAFullDiskTheOldCheckpointStaysAndNothingIsLeft) {
  for (int64_t n = 0;; ++n) {
    FaultyFileSystem files;
    ASSERT_TRUE(Save(&files, 1).ok());
    const std::vector<std::string> before = *files.ListDirectory("/d");
    files.FailAt(n, errors::ResourceExhausted("no space"));
    const absl::Status status = Save(&files, 2);
    if (!files.fired()) break;
    EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
    // Until the index has its name nothing of the new one stays, and after it all of it.
    if (!files.Stat("/d/model-2.index").ok()) {
      EXPECT_EQ(*files.ListDirectory("/d"), before) << files.log().back();
    } else {
      EXPECT_TRUE(BundleReader::Open(&files, "/d/model-2").ok());
    }
    EXPECT_TRUE(LoadNewest(&files).ok());
    EXPECT_TRUE(Save(&files, 3).ok());
    EXPECT_EQ(*LoadNewest(&files), 3);
  }
}

}  // namespace
}  // namespace tandem
