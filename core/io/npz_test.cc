#include "core/io/npz.h"

#include <random>

#include "absl/strings/str_cat.h"
#include "core/io/testing/faulty_file_system.h"
#include "core/io/testing/mutations.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace tandem {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Matcher;

constexpr char kPath[] = "/d/a.npz";

// What testdata/make_npz_files.py wrote.
std::string TestData(const std::string& name) { return "core/io/testdata/" + name; }

template <typename Result>
void ExpectError(const Result& result, const Matcher<std::string>& message,
                 absl::StatusCode code = absl::StatusCode::kInvalidArgument) {
  EXPECT_EQ(result.status().code(), code) << result.status();
  EXPECT_THAT(std::string(result.status().message()), message);
}

class NpzTest : public ::testing::Test {
 protected:
  NpzTest() { EXPECT_TRUE(files_.MakeDirectories("/d").ok()); }

  std::string Write(const std::vector<NamedArray>& arrays, bool compress = false) {
    const absl::Status status = WriteNpz(&files_, kPath, arrays, compress);
    EXPECT_TRUE(status.ok()) << status;
    return *ReadFile(&files_, kPath);
  }
  absl::StatusOr<std::vector<NamedArray>> Read(const std::string& bytes) {
    files_.SetContents(kPath, bytes);
    return ReadNpz(&files_, kPath);
  }

  FaultyFileSystem files_;
};

std::vector<NamedArray> SomeArrays() {
  Tensor large = Tensor::Zeros(kInt32, {300, 100});
  for (int32_t i = 0; i < 30000; ++i) {
    large.MutableElements<int32_t>()[static_cast<size_t>(i)] = i / 7;
  }
  return {{"weights", Tensor::FromValues<float>({2, 2}, {1, 2, 3, 4})},
          {"folder/large", large},
          {"names", Tensor::Vector<std::string>({"ab", "c"})},
          {"empty", Tensor(kInt64, {0, 3})},
          {"scalar", Tensor::Scalar(1.5)}};
}

void ExpectEqual(const std::vector<NamedArray>& found, const std::vector<NamedArray>& expected) {
  ASSERT_EQ(found.size(), expected.size());
  for (size_t i = 0; i < found.size(); ++i) {
    EXPECT_EQ(found[i].name, expected[i].name);
    EXPECT_EQ(found[i].tensor.DebugString(1 << 20), expected[i].tensor.DebugString(1 << 20));
  }
}

TEST_F(NpzTest, ReadsWhatNumpyWrites) {
  for (const char* name : {"arrays.npz", "arrays_compressed.npz", "arrays_zip64.npz"}) {
    const absl::StatusOr<NpzReader> reader = NpzReader::Open(PosixFileSystem(), TestData(name));
    ASSERT_TRUE(reader.ok()) << reader.status();
    EXPECT_THAT(reader->names(), ElementsAre("floats", "layer/kernel", "text", "empty", "scalar"));
    EXPECT_EQ(reader->Read("floats")->DebugString(),
              Tensor::FromValues<float>({2, 3}, {0, 1, 2, 3, 4, 5}).DebugString());
    const Tensor kernel = *reader->Read("layer/kernel");
    ASSERT_EQ(kernel.shape(), Shape({500}));
    EXPECT_EQ(kernel.Elements<int64_t>()[499], 499 % 7);
    EXPECT_EQ(reader->Read("text")->DebugString(),
              Tensor::Vector<std::string>({"ab", "c"}).DebugString());
    EXPECT_EQ(reader->Read("empty")->shape(), Shape({0, 4}));
    EXPECT_EQ(reader->Read("scalar")->ScalarValue<double>(), 2.5);
  }
}

TEST_F(NpzTest, ArraysComeBackAsTheyWere) {
  for (const bool compress : {false, true}) {
    const std::string bytes = Write(SomeArrays(), compress);
    if (compress) {
      EXPECT_LT(bytes.size(), 60000u);
    }
    const auto back = Read(bytes);
    ASSERT_TRUE(back.ok()) << back.status();
    ExpectEqual(*back, SomeArrays());
    EXPECT_EQ(Write(SomeArrays(), compress), bytes);
  }
  const auto none = Read(Write({}));
  ASSERT_TRUE(none.ok()) << none.status();
  EXPECT_TRUE(none->empty());
}

TEST_F(NpzTest, SixtyFourBitSizesComeBack) {
  for (const bool deflate : {false, true}) {
    ZipWriter writer(*files_.OpenToWrite(kPath, WriteMode::kReplace),
                     {.deflate = deflate, .always_zip64 = true});
    ASSERT_TRUE(writer.Add("a", "contents").ok());
    ASSERT_TRUE(writer.Add("b", std::string(100000, 'x')).ok());
    ASSERT_TRUE(writer.Close().ok());
    EXPECT_FALSE(writer.Add("c", "").ok());
    const auto reader = ZipReader::Open(*files_.OpenToRead(kPath));
    ASSERT_TRUE(reader.ok()) << reader.status();
    ASSERT_EQ(reader->members().size(), 2u);
    EXPECT_EQ(*reader->Read(reader->members()[0]), "contents");
    EXPECT_EQ(*reader->Read(reader->members()[1]), std::string(100000, 'x'));
  }
}

// More than fit into the 16 bits of their count.
TEST_F(NpzTest, ManyMembersComeBack) {
  ZipWriter writer(*files_.OpenToWrite(kPath, WriteMode::kReplace), {});
  for (int i = 0; i < 70000; ++i) ASSERT_TRUE(writer.Add(absl::StrCat(i), "").ok());
  ASSERT_TRUE(writer.Close().ok());
  const auto reader = ZipReader::Open(*files_.OpenToRead(kPath));
  ASSERT_TRUE(reader.ok()) << reader.status();
  ASSERT_EQ(reader->members().size(), 70000u);
  EXPECT_EQ(reader->members().back().name, "69999");
}

TEST_F(NpzTest, AMissingArrayIsNotFoundAndTheOthersAreListed) {
  Write({{"a", Tensor::Scalar(1.f)}, {"b", Tensor::Scalar(1.f)}});
  ExpectError(NpzReader::Open(&files_, kPath)->Read("c"),
              AllOf(HasSubstr(kPath), HasSubstr("no array 'c'"), HasSubstr("a, b")),
              absl::StatusCode::kNotFound);
  ExpectError(ReadNpz(&files_, "/d/none.npz"), HasSubstr("/d/none.npz"),
              absl::StatusCode::kNotFound);
}

TEST_F(NpzTest, NamesAndTensorsAreCheckedWhenWriting) {
  const Tensor tensor = Tensor::Scalar(1.f);
  const auto write = [&](std::vector<NamedArray> arrays) {
    return absl::StatusOr<int>(WriteNpz(&files_, kPath, arrays));
  };
  ExpectError(write({{"a", tensor}, {"a", tensor}}), HasSubstr("two arrays are named 'a'"));
  ExpectError(write({{"", tensor}}), HasSubstr("no name"));
  ExpectError(write({{"a", Tensor()}}), AllOf(HasSubstr(kPath), HasSubstr("array 'a'")));
}

TEST_F(NpzTest, AFullDiskIsReported) {
  files_.FailAt(2, absl::ResourceExhaustedError("full"), 100);
  EXPECT_EQ(WriteNpz(&files_, kPath, SomeArrays()).code(), absl::StatusCode::kResourceExhausted);
}

TEST_F(NpzTest, AWrongByteIsFoundByTheChecksum) {
  for (const bool compress : {false, true}) {
    std::string bytes = Write({{"a", Tensor::Zeros(kUint8, {1000})}}, compress);
    bytes[compress ? 60 : 300] ^= 1;
    ExpectError(Read(bytes), AllOf(HasSubstr(kPath), HasSubstr("member 'a.npy'")));
  }
}

TEST_F(NpzTest, ACutFileIsNoArchive) {
  const std::string bytes = Write({{"a", Tensor::Scalar(1.f)}});
  for (size_t size = 0; size < bytes.size(); ++size) {
    ExpectError(Read(bytes.substr(0, size)), AllOf(HasSubstr(kPath), HasSubstr("cut off")));
  }
}

TEST_F(NpzTest, AFileCannotAskForMemoryThatItsBytesDoNotMakeUp) {
  const std::string bytes = Write({{"a", Tensor::Scalar(1.f)}}, /*compress=*/true);
  const size_t entry = bytes.find("PK\x01\x02");
  ASSERT_NE(entry, std::string::npos);
  std::string huge = bytes;
  huge.replace(entry + 24, 4, "\xf0\xff\xff\xff");  // The unpacked size.
  ExpectError(Read(huge), HasSubstr("4294967280 bytes cannot be made of"));
  std::string long_list = bytes;
  long_list.replace(long_list.size() - 10, 4, "\xf0\xff\xff\xff");
  ExpectError(Read(long_list), HasSubstr("4294967280 bytes"));
}

TEST_F(NpzTest, MembersMayNotOverlap) {
  // Two entries of the list for one member.
  const std::string bytes = Write({{"a", Tensor::Zeros(kUint8, {1000})}});
  const size_t entry = bytes.find("PK\x01\x02"), end = bytes.find("PK\x05\x06");
  std::string twice = bytes.substr(0, end) + bytes.substr(entry, end - entry) + bytes.substr(end);
  const size_t size_at = twice.size() - 10;
  twice[size_at] = static_cast<char>(2 * (end - entry));
  ExpectError(Read(twice), HasSubstr("overlaps"));
}

TEST_F(NpzTest, WhatIsNotSupportedIsSaid) {
  const std::string bytes = Write({{"a", Tensor::Scalar(1.f)}});
  const size_t entry = bytes.find("PK\x01\x02");
  std::string encrypted = bytes, packed = bytes;
  encrypted[entry + 8] = 1;
  ExpectError(Read(encrypted), HasSubstr("encrypted"), absl::StatusCode::kUnimplemented);
  packed[entry + 10] = 14;
  ExpectError(Read(packed), HasSubstr("method 14"), absl::StatusCode::kUnimplemented);
}

TEST_F(NpzTest, DamagedFilesNeverDoHarm) {
  std::mt19937_64 random(1);
  const int64_t peak = HostAllocator()->stats().peak_bytes;
  int read = 0, refused = 0;
  for (const char* name : {"arrays.npz", "arrays_compressed.npz", "arrays_zip64.npz"}) {
    const std::string bytes = *ReadFile(PosixFileSystem(), TestData(name));
    for (int i = 0; i < 2000; ++i) ++(Read(Mutate(bytes, random)).ok() ? read : refused);
  }
  EXPECT_GT(read, 0);
  EXPECT_GT(refused, 0);
  EXPECT_LT(HostAllocator()->stats().peak_bytes, peak + (int64_t{16} << 20));
}

}  // namespace
}  // namespace tandem
