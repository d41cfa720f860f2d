#include "core/io/npy.h"

#include <sys/stat.h>
#include <unistd.h>

#include <complex>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <thread>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace tandem {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Matcher;

constexpr size_t kDataAt = 128;  // In all files that these tests make.

// A file of version 1.0 as NumPy lays it out.
std::string File(const std::string& header, const std::string& data) {
  std::string bytes("\x93NUMPY\x01\x00\x76\x00", 10);
  bytes += header;
  bytes.resize(kDataAt - 1, ' ');
  return bytes + "\n" + data;
}
std::string File(const std::string& descr, const std::string& shape, const std::string& data,
                 const std::string& fortran_order = "False") {
  return File("{'descr': '" + descr + "', 'fortran_order': " + fortran_order +
                  ", 'shape': " + shape + ", }",
              data);
}

std::string Bytes(std::initializer_list<int> values) {
  std::string bytes;
  for (int value : values) bytes.push_back(static_cast<char>(value));
  return bytes;
}

Tensor Parse(const std::string& bytes) {
  absl::StatusOr<Tensor> tensor = ParseNpy(bytes, "x.npy");
  EXPECT_TRUE(tensor.ok()) << tensor.status();
  return tensor.ok() ? *tensor : Tensor();
}

void ExpectError(const std::string& bytes, absl::StatusCode code,
                 const Matcher<std::string>& message) {
  const absl::Status status = ParseNpy(bytes, "x.npy").status();
  EXPECT_EQ(status.code(), code) << status;
  EXPECT_THAT(std::string(status.message()), AllOf(HasSubstr("x.npy"), message));
}
void ExpectInvalid(const std::string& bytes, const Matcher<std::string>& message) {
  ExpectError(bytes, absl::StatusCode::kInvalidArgument, message);
}

class TempFile {
 public:
  TempFile() {
    const char* const folder = std::getenv("TEST_TMPDIR");
    path_ = std::string(folder != nullptr ? folder : "/tmp") + "/npy_test.XXXXXX";
    const int descriptor = mkstemp(path_.data());
    EXPECT_GE(descriptor, 0);
    close(descriptor);
  }
  ~TempFile() { unlink(path_.c_str()); }
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

TEST(Npy, ReadsNumbersOfEveryType) {
  EXPECT_THAT(Parse(File("<i2", "(2, 3)", Bytes({1, 0, 2, 0, 3, 0, 4, 0, 5, 0, 0xff, 0xff})))
                  .Elements<int16_t>(),
              ElementsAre(1, 2, 3, 4, 5, -1));
  EXPECT_EQ(Parse(File("<f4", "()", Bytes({0, 0, 0xc0, 0x3f}))).DebugString(), "float32[] = 1.5");
  EXPECT_EQ(Parse(File("|b1", "(2,)", Bytes({1, 0}))).DebugString(), "bool[2] = true false");
  EXPECT_EQ(Parse(File("<f2", "(1,)", Bytes({0, 0x3c}))).DebugString(), "float16[1] = 1");
  EXPECT_EQ(Parse(File("<c8", "(1,)", Bytes({0, 0, 0x80, 0x3f, 0, 0, 0, 0x40}))).DebugString(),
            "complex64[1] = (1,2)");
  const struct {
    const char* descr;
    DataType dtype;
  } types[] = {{"|i1", kInt8},   {"<i4", kInt32},   {"<i8", kInt64},
               {"|u1", kUint8},  {"<u2", kUint16},  {"<u4", kUint32},
               {"<u8", kUint64}, {"<f8", kFloat64}, {"<c16", kComplex128}};
  for (const auto& type : types) {
    const Tensor tensor =
        Parse(File(type.descr, "(2,)", std::string(2 * DataTypeSize(type.dtype), 0)));
    EXPECT_EQ(tensor.dtype(), type.dtype) << type.descr;
    EXPECT_EQ(tensor.shape(), Shape({2}));
  }
  EXPECT_EQ(Parse(File("<f2", "(0, 3)", "")).shape(), Shape({0, 3}));
}

TEST(Npy, TurnsFortranOrderIntoRows) {
  EXPECT_THAT(Parse(File("<i2", "(2, 3)", Bytes({1, 0, 4, 0, 2, 0, 5, 0, 3, 0, 6, 0}), "True"))
                  .Elements<int16_t>(),
              ElementsAre(1, 2, 3, 4, 5, 6));
  EXPECT_THAT(
      Parse(File("|u1", "(2, 2, 2)", Bytes({0, 4, 2, 6, 1, 5, 3, 7}), "True")).Elements<uint8_t>(),
      ElementsAre(0, 1, 2, 3, 4, 5, 6, 7));
  EXPECT_THAT(Parse(File("|u1", "(3,)", Bytes({1, 2, 3}), "True")).Elements<uint8_t>(),
              ElementsAre(1, 2, 3));
  EXPECT_THAT(Parse(File("|S1", "(2, 2)", "acbd", "True")).Elements<std::string>(),
              ElementsAre("a", "b", "c", "d"));
  EXPECT_EQ(Parse(File("|u1", "(2, 0)", "", "True")).shape(), Shape({2, 0}));
}

TEST(Npy, ReadsStringsWithoutTheirPadding) {
  EXPECT_THAT(Parse(File("|S3", "(3,)", std::string("ab\0c\0d\0\0\0", 9))).Elements<std::string>(),
              ElementsAre("ab", std::string("c\0d", 3), ""));
  // "aé€😀", as NumPy writes it, and the empty string.
  EXPECT_THAT(Parse(File("<U4", "(2,)",
                         Bytes({0x61, 0, 0, 0, 0xe9, 0, 0, 0, 0xac, 0x20, 0, 0, 0, 0xf6, 1, 0,
                                0,    0, 0, 0, 0,    0, 0, 0, 0,    0,    0, 0, 0, 0,    0, 0})))
                  .Elements<std::string>(),
              ElementsAre("a\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80", ""));
}

TEST(Npy, ReadsEveryVersionAndLooseHeaders) {
  std::string version2("\x93NUMPY\x02\x00\x3a\x00\x00\x00", 12);
  version2 += "{'descr': '|u1', 'fortran_order': False, 'shape': (2,)   }";
  EXPECT_THAT(Parse(version2 + "ab").Elements<uint8_t>(), ElementsAre('a', 'b'));
  version2[6] = 3;
  EXPECT_THAT(Parse(version2 + "ab").Elements<uint8_t>(), ElementsAre('a', 'b'));
  EXPECT_EQ(
      Parse(File("{\"shape\":(1L ,2), \"fortran_order\":False,\"descr\":\"|i1\"}", "ab")).shape(),
      Shape({1, 2}));
}

TEST(Npy, SaysWhatIsWrongAndWhere) {
  ExpectInvalid("", AllOf(HasSubstr("byte 0"), HasSubstr("the end of the file")));
  ExpectInvalid("PK\x03\x04 and more", AllOf(HasSubstr("NUMPY"), HasSubstr("PK\\x03\\x04")));
  ExpectInvalid("\x93NUMPY", HasSubstr("byte 6"));
  ExpectInvalid("\x93NUMPY\x04\x01..", AllOf(HasSubstr("byte 6"), HasSubstr("found 4")));
  ExpectInvalid(std::string("\x93NUMPY\x01\x00\x76", 9), HasSubstr("byte 8"));
  ExpectInvalid(std::string("\x93NUMPY\x01\x00\x76\x00{", 11),
                AllOf(HasSubstr("118 bytes"), HasSubstr("found 1 ")));
  ExpectInvalid(std::string("\x93NUMPY\x02\x00\xff\xff\xff\xff{", 13), HasSubstr("4294967295"));
  ExpectInvalid(File("<f4", "(2,)", "1234567"),
                AllOf(HasSubstr("byte 128"), HasSubstr("2 elements of 4 bytes"), HasSubstr("[2]"),
                      HasSubstr("found 7 bytes")));
  ExpectInvalid(File("<f4", "(2,)", "123456789"), HasSubstr("found 9 bytes"));
  ExpectInvalid(File("|b1", "(3,)", Bytes({1, 0, 7})),
                AllOf(HasSubstr("byte 130"), HasSubstr("found 7")));
  ExpectInvalid(File("<U1", "(2,)", Bytes({0x61, 0, 0, 0, 0, 0xd8, 0, 0})),
                AllOf(HasSubstr("byte 132"), HasSubstr("d800")));
  ExpectInvalid(File("<U1", "(1,)", Bytes({0, 0, 0x11, 0})), HasSubstr("110000"));
}

TEST(Npy, DamagedHeadersAreRefused) {
  const std::string good = "{'descr': '|u1', 'fortran_order': False, 'shape': (1,), }";
  ExpectInvalid(File("", "a"), HasSubstr("byte 128"));
  ExpectInvalid(File("[1]", "a"), HasSubstr("expected \"{\""));
  ExpectInvalid(File("{'descr': '|u1', 'fortran_order': False}", "a"), HasSubstr("no 'shape'"));
  ExpectInvalid(File("{'descr': '|u1', 'shape': (1,)}", "a"), HasSubstr("no 'fortran_order'"));
  ExpectInvalid(File("{'fortran_order': False, 'shape': (1,)}", "a"), HasSubstr("no 'descr'"));
  ExpectInvalid(File("{'colour': '|u1'}", "a"), HasSubstr("found 'colour'"));
  ExpectInvalid(File("{'descr': '|u1', 'fortran_order': 0}", "a"), HasSubstr("True or False"));
  ExpectInvalid(File("{'descr': '|u1", "a"), HasSubstr("the end of a string"));
  ExpectInvalid(File("{'descr' '|u1'}", "a"), HasSubstr("\":\""));
  ExpectInvalid(File("{'descr': '|u1' 'shape': (1,)}", "a"), HasSubstr("\",\" or \"}\""));
  ExpectInvalid(File(good + "x", "a"), HasSubstr("only spaces"));
  ExpectInvalid(File("|u1", "(1 2)", "a"), HasSubstr("size"));
  ExpectInvalid(File("|u1", "(-1,)", "a"), HasSubstr("size"));
  ExpectInvalid(File("|u1", "(,)", "a"), HasSubstr("size"));
  ExpectInvalid(File("|u1", "(99999999999999999999,)", "a"), HasSubstr("64 bits"));
  ExpectInvalid(File("|u1", "(1,", "a"), HasSubstr("size"));
  ExpectInvalid(File("|u1", "3", "a"), HasSubstr("tuple"));
  EXPECT_EQ(Parse(File(good, "a")).shape(), Shape({1}));
}

TEST(Npy, AHeaderCannotAskForMemoryThatTheFileDoesNotHave) {
  const int64_t before = HostAllocator()->stats().peak_bytes;
  ExpectInvalid(File("<f4", "(1099511627776,)", "abcd"), HasSubstr("found 4 bytes"));
  ExpectInvalid(File("<c16", "(1152921504606846976,)", ""), HasSubstr("found 0 bytes"));
  ExpectInvalid(File("|u1", "(4294967296, 4294967296)", "a"), HasSubstr("64 bits"));
  ExpectInvalid(File("|S4294967295", "(4294967296,)", "a"), HasSubstr("found 1 bytes"));
  ExpectError(File("|S0", "(1099511627776,)", ""), absl::StatusCode::kUnimplemented,
              HasSubstr("no bytes"));
  EXPECT_EQ(HostAllocator()->stats().peak_bytes, before);
}

TEST(Npy, TypesWithoutACounterpartAreUnimplemented) {
  for (const char* descr : {"|O", "<M8[ns]", "|V2", ">f4", ">U3", "<f16", "", "f", "|Sx"}) {
    ExpectError(File(descr, "(1,)", "abcd"), absl::StatusCode::kUnimplemented, HasSubstr(descr));
  }
  ExpectError(File("{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (1,)}", "abcd"),
              absl::StatusCode::kUnimplemented, HasSubstr("records"));
}

TEST(Npy, WritesTheBytesOfNumpy) {
  EXPECT_EQ(*SerializeNpy(Tensor::FromValues<int16_t>({2, 3}, {1, 2, 3, 4, 5, 6})),
            File("<i2", "(2, 3)", Bytes({1, 0, 2, 0, 3, 0, 4, 0, 5, 0, 6, 0})));
  EXPECT_EQ(*SerializeNpy(Tensor::Scalar(1.5f)), File("<f4", "()", Bytes({0, 0, 0xc0, 0x3f})));
  EXPECT_EQ(*SerializeNpy(Tensor::Vector<bool>({true, false})), File("|b1", "(2,)", Bytes({1, 0})));
  EXPECT_EQ(*SerializeNpy(Tensor(kFloat16, {0, 3})), File("<f2", "(0, 3)", ""));
  EXPECT_EQ(*SerializeNpy(Tensor::Vector<std::string>({"ab", "c"})),
            File("|S2", "(2,)", std::string("abc\0", 4)));
  EXPECT_EQ(*SerializeNpy(Tensor::Scalar<std::string>("")), File("|S1", "()", std::string(1, 0)));
  EXPECT_EQ(*SerializeNpy(Tensor::Scalar(Bfloat16(1.5f))),
            File("<f4", "()", Bytes({0, 0, 0xc0, 0x3f})));
}

TEST(Npy, DataBeginsAtAMultipleOf64WhateverTheRank) {
  for (int rank : {0, 1, 10, 60, kMaxRank}) {
    const Shape shape(std::vector<int64_t>(static_cast<size_t>(rank), 1));
    const std::string bytes = *SerializeNpy(Tensor::Zeros(kUint8, shape));
    EXPECT_EQ(bytes.size() % 64, 1u) << rank;
    EXPECT_EQ(Parse(bytes).shape(), shape);
  }
}

TEST(Npy, WhatTheFormatCannotHoldIsRefused) {
  EXPECT_EQ(SerializeNpy(Tensor()).status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(SerializeNpy(Tensor(kResource, {})).status().code(), absl::StatusCode::kUnimplemented);
  const absl::Status status =
      SerializeNpy(Tensor::Vector<std::string>({"a", std::string("b\0", 2)})).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()), HasSubstr("element 1"));
}

TEST(Npy, FilesComeBackAsTheyWere) {
  TempFile file;
  for (const Tensor& tensor :
       {Tensor::FromValues<double>({1, 2}, {1, 2}), Tensor::Vector<std::string>({"ab", "c"}),
        Tensor::Vector<std::complex<double>>({{1, 2}}), Tensor(kInt64, {0})}) {
    ASSERT_TRUE(WriteNpy(file.path(), tensor).ok());
    const absl::StatusOr<Tensor> back = ReadNpy(file.path());
    ASSERT_TRUE(back.ok()) << back.status();
    EXPECT_EQ(back->DebugString(), tensor.DebugString());
  }
  // Larger than the reader's buffer.
  Tensor large = Tensor::Zeros(kInt32, {300, 1000});
  for (int32_t i = 0; i < 300000; ++i) large.MutableElements<int32_t>()[static_cast<size_t>(i)] = i;
  ASSERT_TRUE(WriteNpy(file.path(), large).ok());
  const absl::StatusOr<Tensor> back = ReadNpy(file.path());
  ASSERT_TRUE(back.ok()) << back.status();
  EXPECT_EQ(back->shape(), large.shape());
  EXPECT_EQ(back->Elements<int32_t>(), large.Elements<int32_t>());
}

TEST(Npy, ReadsFromAPipe) {
  TempFile file;
  unlink(file.path().c_str());
  ASSERT_EQ(mkfifo(file.path().c_str(), 0600), 0);
  std::thread writer([&] { EXPECT_TRUE(WriteNpy(file.path(), Tensor::Scalar<int32_t>(7)).ok()); });
  const absl::StatusOr<Tensor> tensor = ReadNpy(file.path());
  writer.join();
  ASSERT_TRUE(tensor.ok()) << tensor.status();
  EXPECT_EQ(tensor->ScalarValue<int32_t>(), 7);
}

TEST(Npy, TheSystemsErrorsNameTheFile) {
  const absl::Status missing = ReadNpy("/nowhere/x.npy").status();
  EXPECT_EQ(missing.code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(std::string(missing.message()), HasSubstr("/nowhere/x.npy"));
  EXPECT_THAT(std::string(WriteNpy("/nowhere/x.npy", Tensor::Scalar(1.f)).message()),
              HasSubstr("/nowhere/x.npy"));
  EXPECT_FALSE(ReadNpy("/").ok());
}

TEST(Npy, AFullDiskIsReported) {
  const absl::Status status = WriteNpy("/dev/full", Tensor::Scalar(1.f));
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("/dev/full"));
}

// Every cut and every changed byte ends in a tensor or a status; the sanitizers watch.
TEST(Npy, DamagedFilesNeverDoHarm) {
  const std::string files[] = {
      File("<i2", "(2, 3)", "abcdefghijkl", "True"),
      File("<U2", "(1,)", Bytes({0x61, 0, 0, 0, 0xe9, 0, 0, 0})),
      File("|S2", "(2, 1)", "abcd"),
  };
  int read = 0;
  for (const std::string& file : files) {
    for (size_t i = 0; i < file.size(); ++i) {
      EXPECT_FALSE(ParseNpy(absl::string_view(file).substr(0, i), "x").ok()) << i;
      for (int change : {0x01, 0x04, 0x10, 0x7f, 0xff}) {
        std::string changed = file;
        changed[i] = static_cast<char>(changed[i] ^ change);
        if (ParseNpy(changed, "x").ok()) ++read;
      }
    }
  }
  EXPECT_GT(read, 0);
}

}  // namespace
}  // namespace tandem
