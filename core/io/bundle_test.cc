#include <algorithm>
#include <complex>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "core/base/status.h"
#include "core/io/bundle_reader.h"
#include "core/io/bundle_writer.h"
#include "core/io/crc32c.h"
#include "core/io/testing/faulty_file_system.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace tandem {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr char kPrefix[] = "/d/model";
constexpr char kGolden[] = "core/io/testdata/bundle";

bool SameTensor(const Tensor& a, const Tensor& b) {
  if (a.dtype() != b.dtype() || a.shape() != b.shape()) return false;
  if (a.dtype() == kString) return a.Elements<std::string>() == b.Elements<std::string>();
  return absl::string_view(static_cast<const char*>(a.data()), a.num_bytes()) ==
         absl::string_view(static_cast<const char*>(b.data()), b.num_bytes());
}

template <typename T>
Tensor Counting(Shape shape, int first = 0) {
  Tensor tensor(DataTypeOf<T>(), shape);
  for (T& value : tensor.MutableElements<T>()) value = static_cast<T>(static_cast<float>(first++));
  return tensor;
}

// Runs the pieces on two threads, so that the thread sanitizer sees them.
void OnTwoThreads(int64_t count, absl::FunctionRef<void(int64_t)> body) {
  std::thread other([&] {
    for (int64_t i = 0; i < count; i += 2) body(i);
  });
  for (int64_t i = 1; i < count; i += 2) body(i);
  other.join();
}

class BundleTest : public ::testing::Test {
 protected:
  BundleTest() { EXPECT_TRUE(files_.MakeDirectories("/d").ok()); }

  std::unique_ptr<BundleWriter> Writer(const BundleWriterOptions& options = {}) {
    auto writer = BundleWriter::Create(&files_, kPrefix, options);
    EXPECT_TRUE(writer.ok()) << writer.status();
    return *std::move(writer);
  }
  std::unique_ptr<BundleReader> Reader(const BundleReaderOptions& options = {}) {
    auto reader = BundleReader::Open(&files_, kPrefix, options);
    EXPECT_TRUE(reader.ok()) << reader.status();
    return *std::move(reader);
  }

  FaultyFileSystem files_;
};

TEST_F(BundleTest, HasTensorFlowsBytes) {
  const auto writer = Writer();
  ASSERT_TRUE(writer->Add("v", Tensor::Vector<float>({1, 2})).ok());
  ASSERT_TRUE(writer->Finish().ok());
  EXPECT_EQ(absl::BytesToHexString(*ReadFile(&files_, "/d/model.data-00000-of-00001")),
            "0000803f00000040");
  EXPECT_EQ(absl::BytesToHexString(*ReadFile(&files_, "/d/model.index")),
            "0000060801"
            "1a02080100010f76080112041202080228"
            "0835593ce535"
            "0000000001000000"
            "0030559358"
            "0000000001000000"
            "00c0f2a1b0"
            "0001027700240000000001000000"
            "009460b2cd"
            "2908360e"
            "000000000000000000000000000000000000000000000000"
            "000000000000000000000000"
            "57fb808b247547db");
  EXPECT_THAT(*files_.ListDirectory("/d"), ElementsAre("model.data-00000-of-00001", "model.index"));
}

TEST_F(BundleTest, StringsHaveTensorFlowsBytes) {
  const auto writer = Writer();
  ASSERT_TRUE(writer->Add("s", Tensor::Vector<std::string>({"ab", "c"})).ok());
  ASSERT_TRUE(writer->Finish().ok());
  EXPECT_EQ(absl::BytesToHexString(*ReadFile(&files_, "/d/model.data-00000-of-00001")),
            "020103717c67616263");
  EXPECT_EQ(Reader()->Find("s")->crc, 0x5fd830d5u);
}

template <typename T>
void ExpectGolden(const BundleReader& reader, const char* name) {
  const absl::StatusOr<Tensor> tensor = reader.Read(name);
  ASSERT_TRUE(tensor.ok()) << tensor.status();
  EXPECT_TRUE(SameTensor(*tensor, Counting<T>(Shape({2, 3})))) << tensor->DebugString();
}

TEST(GoldenBundle, EveryTypeIsReadFromTensorFlowsFiles) {
  const auto reader = *BundleReader::Open(PosixFileSystem(), kGolden);
  ExpectGolden<float>(*reader, "float32");
  ExpectGolden<double>(*reader, "float64");
  ExpectGolden<Float16>(*reader, "float16");
  ExpectGolden<Bfloat16>(*reader, "bfloat16");
  ExpectGolden<int8_t>(*reader, "int8");
  ExpectGolden<int16_t>(*reader, "int16");
  ExpectGolden<int32_t>(*reader, "int32");
  ExpectGolden<int64_t>(*reader, "int64");
  ExpectGolden<uint8_t>(*reader, "uint8");
  ExpectGolden<uint16_t>(*reader, "uint16");
  ExpectGolden<uint32_t>(*reader, "uint32");
  ExpectGolden<uint64_t>(*reader, "uint64");
  ExpectGolden<std::complex<float>>(*reader, "complex64");
  ExpectGolden<std::complex<double>>(*reader, "complex128");
  EXPECT_THAT(reader->Read("bool")->Elements<bool>(),
              ElementsAre(false, true, false, true, false, true));
  EXPECT_EQ(reader->Read("scalar")->ScalarValue<float>(), 2.5f);
  EXPECT_EQ(reader->Read("empty")->shape(), Shape({0, 3}));
  EXPECT_EQ(reader->Read("empty_strings")->shape(), Shape({0}));
  EXPECT_THAT(reader->Read("strings")->Elements<std::string>(),
              ElementsAre("ab", "", "c", std::string(300, 'x')));
  EXPECT_TRUE(SameTensor(*reader->Read("parts"), Counting<float>(Shape({4, 5}))));
  EXPECT_EQ(reader->Find("parts")->slices.size(), 2u);
  EXPECT_EQ(reader->Names().size(), 27u);
}

TEST(GoldenBundle, TypesWithoutTensorsAreListedAndVerified) {
  const auto reader = *BundleReader::Open(PosixFileSystem(), kGolden);
  for (const char* name : {"qint8", "quint8", "qint16", "quint16", "qint32", "float8_e5m2"}) {
    ASSERT_NE(reader->Find(name), nullptr) << name;
    EXPECT_EQ(reader->Read(name).status().code(), absl::StatusCode::kUnimplemented);
  }
  for (const std::string& name : reader->Names()) {
    const absl::Status status = reader->Verify(name);
    EXPECT_TRUE(status.ok()) << status;
  }
}

TEST(GoldenBundle, AVariantWithAValueIsVerifiedAndNotRead) {
  const auto reader = *BundleReader::Open(PosixFileSystem(), "core/io/testdata/variant");
  EXPECT_TRUE(reader->Verify("list").ok());
  EXPECT_EQ(reader->Read("list").status().code(), absl::StatusCode::kUnimplemented);
  EXPECT_EQ(reader->Read("number")->ScalarValue<float>(), 1.0f);
}

TEST_F(BundleTest, AnIndexAndDataOfTensorFlowAreWrittenByteForByte) {
  for (const char* golden : {kGolden, "core/io/testdata/variant", "core/io/testdata/objects"}) {
    const absl::StatusOr<BundleIndex> index = ReadBundleIndex(PosixFileSystem(), golden);
    ASSERT_TRUE(index.ok()) << index.status();
    const std::string path = absl::StrCat("/d/", FileNameOf(golden), ".index");
    ASSERT_TRUE(WriteBundleIndex(&files_, path, *index).ok());
    EXPECT_EQ(*ReadFile(&files_, path), *ReadFile(PosixFileSystem(), BundleIndexPath(golden)));
  }
  const auto reader = *BundleReader::Open(PosixFileSystem(), "core/io/testdata/objects");
  std::vector<std::string> names = reader->Names();
  std::sort(names.begin(), names.end(), [&](const std::string& a, const std::string& b) {
    return reader->Find(a)->offset < reader->Find(b)->offset;
  });
  const auto writer = Writer();
  for (const std::string& name : names) {
    ASSERT_TRUE(writer->Add(name, *reader->Read(name)).ok());
  }
  ASSERT_TRUE(writer->Finish().ok());
  for (const char* ending : {".index", ".data-00000-of-00001"}) {
    EXPECT_EQ(*ReadFile(&files_, absl::StrCat(kPrefix, ending)),
              *ReadFile(PosixFileSystem(), absl::StrCat("core/io/testdata/objects", ending)));
  }
}

TEST_F(BundleTest, TensorsOfEverySizeComeBackWithOneAndTwoThreads) {
  const std::vector<int64_t> sizes = {0, 1, 1000, 70000, 300000, 3000001, 2, 2600000};
  for (const bool parallel : {false, true}) {
    const ParallelFor parallel_for = parallel ? ParallelFor(OnTwoThreads) : ParallelFor();
    const auto writer = Writer({.alignment = 64, .parallel_for = parallel_for});
    for (const int64_t size : sizes) {
      const auto tensor = Counting<float>(Shape({size}), static_cast<int>(size));
      ASSERT_TRUE(writer->Add(absl::StrCat("t", size), tensor).ok());
    }
    ASSERT_TRUE(writer->Finish().ok());
    const auto reader = Reader({.parallel_for = parallel_for});
    for (const int64_t size : sizes) {
      const auto tensor = Counting<float>(Shape({size}), static_cast<int>(size));
      const std::string name = absl::StrCat("t", size);
      EXPECT_TRUE(SameTensor(*reader->Read(name), tensor)) << size;
      Tensor given = Tensor::Zeros(kFloat32, Shape({size}));
      ASSERT_TRUE(reader->ReadInto(name, &given).ok());
      EXPECT_TRUE(SameTensor(given, tensor));
      EXPECT_EQ(reader->Find(name)->offset % 64, 0);
      EXPECT_TRUE(reader->Verify(name).ok());
    }
  }
}

TEST_F(BundleTest, ManyTensorsAreReadAtOnceInAnyOrder) {
  const std::vector<int64_t> sizes = {5, 70000, 0, 3000001, 300000, 1, 900000, 2600000, 1000, 4};
  const auto name_of = [](int64_t size) { return absl::StrCat("t", size); };
  const auto writer = Writer();
  for (const int64_t size : sizes) {
    ASSERT_TRUE(writer->Add(name_of(size), Counting<float>(Shape({size}), 3)).ok());
  }
  ASSERT_TRUE(writer->Add("words", Tensor::Vector<std::string>({"a", "bc"})).ok());
  ASSERT_TRUE(writer->Finish().ok());
  std::vector<std::string> names = {"words"};
  for (auto size = sizes.rbegin(); size != sizes.rend(); ++size) names.push_back(name_of(*size));
  for (const bool parallel : {false, true}) {
    const auto reader =
        Reader({.parallel_for = parallel ? ParallelFor(OnTwoThreads) : ParallelFor()});
    const auto tensors = reader->ReadAll(names);
    ASSERT_TRUE(tensors.ok()) << tensors.status();
    ASSERT_EQ(tensors->size(), names.size());
    for (size_t i = 0; i < names.size(); ++i) {
      EXPECT_TRUE(SameTensor((*tensors)[i], *reader->Read(names[i]))) << names[i];
    }
    EXPECT_TRUE(reader->VerifyAll().ok());
    EXPECT_TRUE(reader->ReadAll({})->empty());
    EXPECT_EQ(reader->ReadAll({"t5", "none"}).status().code(), absl::StatusCode::kNotFound);
  }

  // Of several that are damaged the first that was asked for is named.
  const std::string data = absl::StrCat(kPrefix, ".data-00000-of-00001");
  std::string damaged = *ReadFile(&files_, data);
  for (const char* const name : {"t70000", "t1000", "t3000001"}) {
    damaged[static_cast<size_t>(Reader()->Find(name)->offset)] ^= 1;
  }
  files_.SetContents(data, damaged);
  for (const bool parallel : {false, true}) {
    const auto reader =
        Reader({.parallel_for = parallel ? ParallelFor(OnTwoThreads) : ParallelFor()});
    const absl::Status status = reader->ReadAll({"t5", "t3000001", "t1000"}).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss) << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr("'t3000001'"));
    EXPECT_THAT(std::string(reader->VerifyAll().message()), HasSubstr("'t1000'"));
    EXPECT_TRUE(reader->ReadAll({"t5", "t4", "words"}).ok());
  }
}

TEST_F(BundleTest, EmptyVariantsComeBack) {
  const auto writer = Writer();
  ASSERT_TRUE(writer->Add("v", Tensor(kVariant, Shape({3}))).ok());
  ASSERT_TRUE(writer->Finish().ok());
  EXPECT_EQ(Reader()->Read("v")->shape(), Shape({3}));
}

TEST_F(BundleTest, WhatCannotBeWrittenSpoilsTheBundle) {
  const Tensor one = Tensor::Scalar(1.0f);
  const auto refused = [&](absl::string_view name, const Tensor& tensor) {
    const auto writer = Writer();
    EXPECT_TRUE(writer->Add("ok", one).ok());
    const absl::Status status = writer->Add(name, tensor);
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << name;
    EXPECT_EQ(writer->Add("more", one), status);
    EXPECT_EQ(writer->Finish(), status);
  };
  refused("", one);
  refused(absl::string_view("\0a", 2), one);
  refused("ok", one);
  refused("none", Tensor());
  refused("resource", Tensor(kResource, Shape()));
  EXPECT_THAT(*files_.ListDirectory("/d"), ElementsAre());
  EXPECT_FALSE(BundleWriter::Create(&files_, "/d/", {}).ok());
  EXPECT_FALSE(BundleWriter::Create(&files_, kPrefix, {.alignment = 0}).ok());
}

TEST_F(BundleTest, WhatIsAskedForMustBeThere) {
  const auto writer = Writer();
  ASSERT_TRUE(writer->Add("v", Tensor::Vector<float>({1, 2})).ok());
  ASSERT_TRUE(writer->Finish().ok());
  const auto reader = Reader();
  const absl::Status missing = reader->Read("w").status();
  EXPECT_EQ(missing.code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(std::string(missing.message()), HasSubstr("Key w not found in checkpoint"));
  EXPECT_EQ(reader->Find(""), nullptr);
  Tensor other(kFloat32, Shape({3}));
  const absl::Status status = reader->ReadInto("v", &other);
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()), HasSubstr("float32[2]"));
  EXPECT_THAT(std::string(status.message()), HasSubstr("float32[3]"));
  Tensor wrong_type(kInt32, Shape({2}));
  EXPECT_EQ(reader->ReadInto("v", &wrong_type).code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(BundleReader::Open(&files_, "/d/none").status().code(), absl::StatusCode::kNotFound);
}

// The same bundle with every number turned around, as a big-endian machine writes it.
TEST_F(BundleTest, BigEndianBundlesAreRead) {
  const auto data = [](absl::string_view hex) { return absl::HexStringToBytes(hex); };
  std::string bytes;
  BundleIndex index;
  index.big_endian = true;
  const auto add = [&](const char* name, DataType dtype, Shape shape, const std::string& content,
                       uint32_t crc) {
    index.entries[name] = {dtype,
                           shape,
                           0,
                           static_cast<int64_t>(bytes.size()),
                           static_cast<int64_t>(content.size()),
                           MaskCrc32c(crc),
                           {}};
    bytes += content;
  };
  const auto add_numbers = [&](const char* name, DataType dtype, const std::string& content) {
    add(name, dtype, Shape({2}), content, Crc32c(content));
  };
  add_numbers("u8", kUint8, data("0102"));
  add_numbers("i16", kInt16, data("00010002"));
  add_numbers("f32", kFloat32, data("3f80000040000000"));
  add_numbers("f64", kFloat64, data("3ff00000000000004000000000000000"));
  add_numbers("c64", kComplex64, data("3f800000400000000000000000000000"));
  const std::string lengths = data("0000000200000001");
  const uint32_t lengths_crc = MaskCrc32c(Crc32c(lengths));
  std::string checksum;
  for (int shift = 24; shift >= 0; shift -= 8) {
    checksum.push_back(static_cast<char>(lengths_crc >> shift));
  }
  add("s", kString, Shape({2}), data("0201") + checksum + "abc",
      Crc32c(lengths + checksum + "abc"));
  files_.SetContents("/d/model.data-00000-of-00001", bytes);
  ASSERT_TRUE(WriteBundleIndex(&files_, "/d/model.index", index).ok());

  const auto reader = Reader();
  EXPECT_THAT(reader->Read("u8")->Elements<uint8_t>(), ElementsAre(1, 2));
  EXPECT_THAT(reader->Read("i16")->Elements<int16_t>(), ElementsAre(1, 2));
  EXPECT_THAT(reader->Read("f32")->Elements<float>(), ElementsAre(1, 2));
  EXPECT_THAT(reader->Read("f64")->Elements<double>(), ElementsAre(1, 2));
  EXPECT_THAT(reader->Read("c64")->Elements<std::complex<float>>(),
              ElementsAre(std::complex<float>(1, 2), std::complex<float>(0, 0)));
  EXPECT_THAT(reader->Read("s")->Elements<std::string>(), ElementsAre("ab", "c"));
  EXPECT_THAT(reader->ReadSlice("f32", *TensorSlice::Parse("1,1"))->Elements<float>(),
              ElementsAre(2));
}

}  // namespace
}  // namespace tandem
