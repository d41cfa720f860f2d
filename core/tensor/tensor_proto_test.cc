#include "core/tensor/tensor_proto.h"

#include <complex>
#include <limits>
#include <string>
#include <vector>

#include "absl/strings/escaping.h"
#include "core/base/status.h"
#include "core/tensor/variant_codec.h"
#include "gmock/gmock.h"
#include "google/protobuf/text_format.h"
#include "gtest/gtest.h"
#include "proto/resource_handle.pb.h"
#include "proto/tensor.pb.h"
#include "proto/tensor_shape.pb.h"

namespace tandem {
namespace {

using ::tensorflow::TensorProto;
using ::tensorflow::TensorShapeProto;
using ::testing::AllOf;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Matcher;

TensorProto Parse(const std::string& text) {
  TensorProto proto;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(text, &proto)) << text;
  return proto;
}

Tensor Read(const TensorProto& proto) {
  absl::StatusOr<Tensor> tensor = TensorFromProto(proto);
  EXPECT_TRUE(tensor.ok()) << tensor.status();
  return tensor.ok() ? *tensor : Tensor();
}
Tensor Read(const std::string& text) { return Read(Parse(text)); }

TensorProto Write(const Tensor& tensor, TensorProtoForm form = TensorProtoForm::kCompact) {
  TensorProto proto;
  const absl::Status status = TensorToProto(tensor, &proto, form);
  EXPECT_TRUE(status.ok()) << status;
  return proto;
}

void ExpectError(const absl::Status& status, absl::StatusCode code,
                 const Matcher<std::string>& message) {
  EXPECT_EQ(status.code(), code) << status;
  EXPECT_THAT(std::string(status.message()), message);
}
void ExpectInvalid(const TensorProto& proto, const Matcher<std::string>& message) {
  ExpectError(TensorFromProto(proto).status(), absl::StatusCode::kInvalidArgument, message);
}
void ExpectInvalid(const std::string& text, const Matcher<std::string>& message) {
  ExpectInvalid(Parse(text), message);
}

template <typename T>
void ExpectValues(const Tensor& tensor, const Shape& shape, const std::vector<T>& values) {
  ASSERT_EQ(tensor.dtype(), DataTypeOf<T>());
  ASSERT_EQ(tensor.shape(), shape);
  const absl::Span<const T> found = tensor.Elements<T>();
  ASSERT_EQ(found.size(), values.size());
  for (size_t i = 0; i < values.size(); ++i) EXPECT_EQ(found[i], values[i]) << i;
}

// Messages as TensorFlow 2.21 wrote them: [[0, 1], [1, 3]] (bool: [[false, true], [true, true]]),
// with its C++ encoder and, where that one differs, with make_tensor_proto of Python.
struct Recorded {
  DataType dtype;
  const char* hex;
  bool written_by_cpp;
};
constexpr Recorded kRecorded[] = {
    {kFloat32, "0801120812020802120208022210000000000000803f0000803f00004040", true},
    {kFloat64,
     "08021208120208021202080222200000000000000000000000000000f03f000000000000f03f0000000000000840",
     true},
    {kInt8, "080612081202080212020802220400010103", true},
    {kInt16, "08051208120208021202080222080000010001000300", true},
    {kInt32, "080312081202080212020802221000000000010000000100000003000000", true},
    {kInt64,
     "08091208120208021202080222200000000000000000010000000000000001000000000000000300000000000000",
     true},
    {kUint8, "080412081202080212020802220400010103", true},
    {kUint16, "08111208120208021202080222080000010001000300", true},
    {kUint16, "0811120812020802120208023a0400010103", false},
    {kUint32, "081612081202080212020802221000000000010000000100000003000000", true},
    {kUint64,
     "08171208120208021202080222200000000000000000010000000000000001000000000000000300000000000000",
     true},
    {kBool, "080a12081202080212020802220400010101", true},
    {kBool, "080a120812020802120208025a0400010101", false},
    {kFloat16, "08131208120208021202080222080000003c003c0042", true},
    {kBfloat16, "080e1208120208021202080222080000803f803f4040", true},
    {kComplex64,
     "080812081202080212020802222000000000000000000000803f000000000000803f000000000000404000000000",
     true},
    {kComplex64,
     "0808120812020802120208024a2000000000000000000000803f000000000000803f000000000000404000000000",
     false},
    {kComplex128,
     "081212081202080212020802224000000000000000000000000000000000000000000000f03f0000000000000000"
     "000000000000f03f000000000000000000000000000008400000000000000000",
     true},
    {kComplex128,
     "081212081202080212020802624000000000000000000000000000000000000000000000f03f0000000000000000"
     "000000000000f03f000000000000000000000000000008400000000000000000",
     false},
};

template <typename T>
void ExpectRecorded(const Tensor& tensor, T one, T three) {
  ExpectValues<T>(tensor, {2, 2}, {T(), one, one, three});
}

TEST(TensorProto, ReadsAndWritesTheBytesOfTensorFlow) {
  for (const Recorded& recorded : kRecorded) {
    SCOPED_TRACE(DataTypeName(recorded.dtype));
    const std::string bytes = absl::HexStringToBytes(recorded.hex);
    TensorProto proto;
    ASSERT_TRUE(proto.ParseFromString(bytes));
    const Tensor tensor = Read(proto);
    ASSERT_EQ(tensor.dtype(), recorded.dtype);
    switch (recorded.dtype) {
      case kFloat32:
        ExpectRecorded<float>(tensor, 1, 3);
        break;
      case kFloat64:
        ExpectRecorded<double>(tensor, 1, 3);
        break;
      case kInt8:
        ExpectRecorded<int8_t>(tensor, 1, 3);
        break;
      case kInt16:
        ExpectRecorded<int16_t>(tensor, 1, 3);
        break;
      case kInt32:
        ExpectRecorded<int32_t>(tensor, 1, 3);
        break;
      case kInt64:
        ExpectRecorded<int64_t>(tensor, 1, 3);
        break;
      case kUint8:
        ExpectRecorded<uint8_t>(tensor, 1, 3);
        break;
      case kUint16:
        ExpectRecorded<uint16_t>(tensor, 1, 3);
        break;
      case kUint32:
        ExpectRecorded<uint32_t>(tensor, 1, 3);
        break;
      case kUint64:
        ExpectRecorded<uint64_t>(tensor, 1, 3);
        break;
      case kBool:
        ExpectRecorded<bool>(tensor, true, true);
        break;
      case kFloat16:
        ExpectRecorded<Float16>(tensor, Float16(1), Float16(3));
        break;
      case kBfloat16:
        ExpectRecorded<Bfloat16>(tensor, Bfloat16(1), Bfloat16(3));
        break;
      case kComplex64:
        ExpectRecorded<std::complex<float>>(tensor, 1.f, 3.f);
        break;
      case kComplex128:
        ExpectRecorded<std::complex<double>>(tensor, 1., 3.);
        break;
      default:
        FAIL();
    }
    const TensorProtoForm form =
        recorded.written_by_cpp ? TensorProtoForm::kContent : TensorProtoForm::kLists;
    EXPECT_EQ(Write(tensor, form).SerializeAsString(), bytes);
  }
}

TEST(TensorProto, EveryTypeSurvivesTheWayThereAndBackInEveryForm) {
  std::vector<Tensor> tensors;
  for (const Recorded& recorded : kRecorded) {
    TensorProto proto;
    ASSERT_TRUE(proto.ParseFromString(absl::HexStringToBytes(recorded.hex)));
    const Tensor tensor = Read(proto);
    tensors.push_back(tensor);
    tensors.push_back(*tensor.Slice(1, 2).Reshaped({2}));
    tensors.push_back(Tensor(recorded.dtype, {3, 0}));
  }
  tensors.push_back(Tensor::Vector<int8_t>({-128, 127}));
  tensors.push_back(Tensor::Vector<int64_t>({std::numeric_limits<int64_t>::min(), -1}));
  tensors.push_back(Tensor::Vector<uint64_t>({std::numeric_limits<uint64_t>::max(), 0}));
  tensors.push_back(Tensor::Vector<uint32_t>({std::numeric_limits<uint32_t>::max()}));
  tensors.push_back(
      Tensor::Vector<float>({-0.0f, std::numeric_limits<float>::quiet_NaN(), -HUGE_VALF}));
  tensors.push_back(Tensor::Scalar(Float16::FromBits(0xfe01)));
  tensors.push_back(Tensor::Scalar(Bfloat16::FromBits(0xffc1)));
  for (const Tensor& tensor : tensors) {
    for (TensorProtoForm form :
         {TensorProtoForm::kCompact, TensorProtoForm::kContent, TensorProtoForm::kLists}) {
      SCOPED_TRACE(tensor.DebugString());
      const Tensor back = Read(Write(tensor, form));
      ASSERT_EQ(back.dtype(), tensor.dtype());
      ASSERT_EQ(back.shape(), tensor.shape());
      EXPECT_EQ(std::string(static_cast<const char*>(back.data()), back.num_bytes()),
                std::string(static_cast<const char*>(tensor.data()), tensor.num_bytes()));
    }
  }
}

TEST(TensorProto, CompactFormIsAListForAHandfulAndContentForMore) {
  TensorProto few = Write(Tensor::Vector<float>({1, 2}));
  EXPECT_EQ(few.float_val_size(), 2);
  EXPECT_TRUE(few.tensor_content().empty());
  TensorProto many = Write(Tensor::Vector<float>({1, 2, 3, 4, 5}));
  EXPECT_EQ(many.float_val_size(), 0);
  EXPECT_EQ(many.tensor_content().size(), 20u);
  TensorProto words = Write(Tensor::Vector<std::string>({"a", "b", "c", "d", "e", "f"}));
  EXPECT_EQ(words.string_val_size(), 6);
  EXPECT_TRUE(words.tensor_content().empty());
}

TEST(TensorProto, WritingReplacesWhatWasThere) {
  TensorProto proto = Parse("dtype: DT_INT32 int_val: 7 version_number: 3 tensor_content: 'abc'");
  ASSERT_TRUE(TensorToProto(Tensor::Scalar(1.5f), &proto).ok());
  EXPECT_EQ(proto.DebugString(),
            Parse("dtype: DT_FLOAT tensor_shape {} float_val: 1.5").DebugString());
}

TEST(TensorProto, AShortListRepeatsItsLastEntry) {
  ExpectValues<float>(Read("dtype: DT_FLOAT tensor_shape { dim { size: 2 } dim { size: 2 } } "
                           "float_val: [1, 2]"),
                      {2, 2}, {1, 2, 2, 2});
  ExpectValues<std::string>(
      Read("dtype: DT_STRING tensor_shape { dim { size: 3 } } string_val: ['a', 'b']"), {3},
      {"a", "b", "b"});
  ExpectValues<std::complex<float>>(
      Read("dtype: DT_COMPLEX64 tensor_shape { dim { size: 2 } } scomplex_val: [1, 2]"), {2},
      {{1, 2}, {1, 2}});
  ExpectValues<Float16>(Read("dtype: DT_HALF tensor_shape { dim { size: 2 } } half_val: 15360"),
                        {2}, {Float16(1), Float16(1)});
  ExpectValues<bool>(Read("dtype: DT_BOOL tensor_shape { dim { size: 2 } } bool_val: true"), {2},
                     {true, true});
}

TEST(TensorProto, AnEmptyListMeansZerosAndEmptyStrings) {
  ExpectValues<double>(Read("dtype: DT_DOUBLE tensor_shape { dim { size: 2 } }"), {2}, {0, 0});
  ExpectValues<bool>(Read("dtype: DT_BOOL"), {}, {false});
  ExpectValues<std::string>(Read("dtype: DT_STRING tensor_shape { dim { size: 2 } }"), {2},
                            {"", ""});
  ExpectValues<std::complex<double>>(Read("dtype: DT_COMPLEX128"), {}, {0.});
}

TEST(TensorProto, EntriesThatAreTooManyOrOfAnotherListAreIgnored) {
  ExpectValues<float>(
      Read("dtype: DT_FLOAT tensor_shape { dim { size: 1 } } float_val: [1, 2] int_val: 9"), {1},
      {1});
  ExpectValues<float>(Read("dtype: DT_FLOAT int_val: 9"), {}, {0});
  ExpectValues<std::string>(Read("dtype: DT_STRING string_val: ['a', 'b']"), {}, {"a"});
}

TEST(TensorProto, EntriesThatDoNotFitIntoTheTypeKeepTheirLowBits) {
  ExpectValues<int8_t>(Read("dtype: DT_INT8 tensor_shape { dim { size: 2 } } int_val: [300, -200]"),
                       {2}, {44, 56});
  ExpectValues<uint16_t>(Read("dtype: DT_UINT16 int_val: -1"), {}, {0xffff});
  EXPECT_EQ(Read("dtype: DT_HALF half_val: -1").ScalarValue<Float16>().bits, 0xffff);
}

TEST(TensorProto, OfAnEmptyTensorOnlyTypeAndShapeMatter) {
  const Tensor tensor = Read(
      "dtype: DT_FLOAT tensor_shape { dim { size: 0 } dim { size: 3 } } tensor_content: 'ab' "
      "float_val: 1");
  EXPECT_EQ(tensor.shape(), Shape({0, 3}));
  EXPECT_EQ(Read("dtype: DT_STRING tensor_shape { dim { size: 0 } } tensor_content: 'ab'").shape(),
            Shape({0}));
  const TensorProto proto = Write(Tensor(kFloat32, {0, 3}), TensorProtoForm::kContent);
  EXPECT_TRUE(proto.tensor_content().empty());
}

TEST(TensorProto, StringsLieInContentAsLengthsAndThenCharacters) {
  const std::string large(300, 'x');
  const Tensor words = Tensor::Vector<std::string>({"ab", "", large, std::string("\0c", 2)});
  const TensorProto proto = Write(words, TensorProtoForm::kContent);
  EXPECT_EQ(proto.tensor_content(),
            std::string("\x02\x00\xac\x02\x02", 5) + "ab" + large + std::string("\0c", 2));
  EXPECT_EQ(proto.string_val_size(), 0);
  EXPECT_THAT(Read(proto).Elements<std::string>(),
              ElementsAre("ab", "", large, std::string("\0c", 2)));
  // A varint may be longer than it needs to be.
  EXPECT_EQ(Read("dtype: DT_STRING tensor_content: '\\x81\\x80\\x80\\x80\\x00a'")
                .ScalarValue<std::string>(),
            "a");
}

TEST(TensorProto, DamagedStringContentIsRefused) {
  const std::string head = "dtype: DT_STRING tensor_shape { dim { size: 2 } } tensor_content: ";
  ExpectInvalid(head + "'\\x01'",
                AllOf(HasSubstr("string[2]"), HasSubstr("1 bytes"), HasSubstr("2 elements")));
  ExpectInvalid(head + "'\\x01\\x02ab'", AllOf(HasSubstr("3 bytes"), HasSubstr("2 bytes follow")));
  ExpectInvalid(head + "'\\x01\\x01abc'", AllOf(HasSubstr("2 bytes"), HasSubstr("3 bytes follow")));
  ExpectInvalid(head + "'\\x01\\x80'", HasSubstr("element 1"));
  ExpectInvalid(head + "'\\xff\\xff\\xff\\xff\\x7f\\x00'", HasSubstr("element 0"));
  ExpectInvalid(head + "'\\x80\\x80\\x80\\x80\\x80\\x00'", HasSubstr("32 bits"));
  ExpectInvalid(head + "'\\xff\\xff\\xff\\xff\\x0f\\xff\\xff\\xff\\xff\\x0f'",
                HasSubstr("8589934590 bytes"));
}

TEST(TensorProto, ContentThatDoesNotMatchTheShapeIsRefusedWithBothNumbers) {
  ExpectInvalid(
      "dtype: DT_FLOAT tensor_shape { dim { size: 2 } dim { size: 3 } } tensor_content: 'abcde'",
      AllOf(HasSubstr("float32[2,3]"), HasSubstr("5 bytes"), HasSubstr("6 elements of 4 bytes")));
  ExpectInvalid("dtype: DT_INT64 tensor_content: 'abcdefghi'", HasSubstr("9 bytes"));
  // The product of count and size would not fit into 64 bits.
  ExpectInvalid(
      "dtype: DT_COMPLEX128 tensor_shape { dim { size: 4611686018427387904 } } "
      "tensor_content: 'abcdefghijklmnop'",
      HasSubstr("16 bytes"));
}

TEST(TensorProto, ABoolIsZeroOrOne) {
  ExpectInvalid("dtype: DT_BOOL tensor_shape { dim { size: 2 } } tensor_content: '\\x01\\x02'",
                AllOf(HasSubstr("byte 2"), HasSubstr("element 1")));
}

TEST(TensorProto, AComplexListOfOddLengthIsRefused) {
  ExpectInvalid("dtype: DT_COMPLEX64 tensor_shape { dim { size: 2 } } scomplex_val: [1, 2, 3]",
                HasSubstr("3 numbers"));
}

TEST(TensorProto, TypesThatCannotBeAreRefused) {
  ExpectInvalid("tensor_shape {}", HasSubstr("without a type"));
  ExpectInvalid("dtype: DT_FLOAT_REF", HasSubstr("float32_ref"));
  TensorProto unknown;
  unknown.set_dtype(static_cast<tensorflow::DataType>(77));
  ExpectInvalid(unknown, HasSubstr("type 77"));
  unknown.set_dtype(static_cast<tensorflow::DataType>(-5));
  ExpectInvalid(unknown, HasSubstr("type -5"));
  ExpectError(TensorFromProto(Parse("dtype: DT_QINT8 int_val: 1")).status(),
              absl::StatusCode::kUnimplemented, HasSubstr("qint8"));
}

TEST(TensorProto, ShapesThatCannotBeAreRefused) {
  ExpectInvalid("dtype: DT_FLOAT tensor_shape { dim { size: -1 } }", HasSubstr("[?]"));
  ExpectInvalid("dtype: DT_FLOAT tensor_shape { dim { size: -2 } }", HasSubstr("-2"));
  ExpectInvalid("dtype: DT_FLOAT tensor_shape { unknown_rank: true }", HasSubstr("<unknown>"));
  ExpectInvalid(
      "dtype: DT_FLOAT tensor_shape { dim { size: 9223372036854775807 } dim { size: 2 } }",
      HasSubstr("64 bits"));
  TensorProto deep = Parse("dtype: DT_FLOAT");
  for (int i = 0; i < 255; ++i) deep.mutable_tensor_shape()->add_dim()->set_size(1);
  ExpectInvalid(deep, HasSubstr("255 dimensions"));
}

TEST(TensorProto, AFewBytesCannotAskForMemoryWithoutLimit) {
  const int64_t before = HostAllocator()->stats().peak_bytes;
  const char* const hostile[] = {
      "dtype: DT_FLOAT tensor_shape { dim { size: 1099511627776 } } float_val: 1",
      "dtype: DT_FLOAT tensor_shape { dim { size: 9223372036854775807 } }",
      "dtype: DT_STRING tensor_shape { dim { size: 1099511627776 } }",
      "dtype: DT_RESOURCE tensor_shape { dim { size: 1099511627776 } }",
      "dtype: DT_VARIANT tensor_shape { dim { size: 1099511627776 } }",
  };
  for (const char* text : hostile) {
    ExpectError(TensorFromProto(Parse(text)).status(), absl::StatusCode::kResourceExhausted,
                HasSubstr("limit of 2147483648"));
  }
  EXPECT_EQ(HostAllocator()->stats().peak_bytes, before);
}

TEST(TensorProto, TheLimitCountsElementsAndWhatTheyPointAt) {
  const TensorProto numbers =
      Parse("dtype: DT_FLOAT tensor_shape { dim { size: 8 } } float_val: 1");
  EXPECT_TRUE(TensorFromProto(numbers, 32).ok());
  EXPECT_EQ(TensorFromProto(numbers, 31).status().code(), absl::StatusCode::kResourceExhausted);

  TensorProto strings = Parse("dtype: DT_STRING tensor_shape { dim { size: 10 } }");
  strings.add_string_val(std::string(1000, 'x'));
  const size_t needed = 10 * (sizeof(std::string) + 1000);
  EXPECT_TRUE(TensorFromProto(strings, needed).ok());
  EXPECT_EQ(TensorFromProto(strings, needed - 1).status().code(),
            absl::StatusCode::kResourceExhausted);

  TensorProto handles = Parse("dtype: DT_RESOURCE tensor_shape { dim { size: 2 } }");
  handles.set_tensor_content(std::string("\x04\x04", 2) + "\x1a\x02vw" + "\x1a\x02vw");
  EXPECT_TRUE(TensorFromProto(handles).ok());
  EXPECT_EQ(TensorFromProto(handles, 2 * sizeof(ResourceHandle) + 20).status().code(),
            absl::StatusCode::kResourceExhausted);
}

constexpr char kHandle[] =
    "dtype: DT_RESOURCE tensor_shape { dim { size: 2 } } resource_handle_val { "
    "device: '/job:worker/replica:0/task:0/device:CPU:0' container: 'c' name: 'n' hash_code: 77 "
    "maybe_type_name: 'T' dtypes_and_shapes { dtype: DT_FLOAT shape { dim { size: -1 } } } }";

TEST(TensorProto, HandlesComeBackAsTheyWereAndDoNotRepeat) {
  const Tensor tensor = Read(kHandle);
  const absl::Span<const ResourceHandle> handles = tensor.Elements<ResourceHandle>();
  ASSERT_FALSE(handles[0].empty());
  EXPECT_TRUE(handles[1].empty());
  const ResourceHandle::Description& description = handles[0].description();
  EXPECT_EQ(description.device, "/job:worker/replica:0/task:0/device:CPU:0");
  EXPECT_EQ(description.container, "c");
  EXPECT_EQ(description.name, "n");
  EXPECT_EQ(description.type_hash, 77u);
  EXPECT_EQ(description.type_name, "T");
  ASSERT_EQ(description.dtypes_and_shapes.size(), 1u);
  EXPECT_EQ(description.dtypes_and_shapes[0].first, kFloat32);
  EXPECT_EQ(description.dtypes_and_shapes[0].second, PartialShape({-1}));
  EXPECT_FALSE(description.resource) << "a message cannot point into this process";

  TensorProto expected = Parse(kHandle);
  expected.add_resource_handle_val();
  EXPECT_EQ(Write(tensor).DebugString(), expected.DebugString());
  const TensorProto content = Write(tensor, TensorProtoForm::kContent);
  EXPECT_EQ(content.resource_handle_val_size(), 0);
  EXPECT_EQ(Write(Read(content)).DebugString(), expected.DebugString());
}

TEST(TensorProto, DamagedHandlesAreRefused) {
  ExpectInvalid("dtype: DT_RESOURCE tensor_content: '\\x02\\x0a\\x09'",
                AllOf(HasSubstr("element 0"), HasSubstr("ResourceHandleProto")));
  ExpectInvalid(
      "dtype: DT_RESOURCE resource_handle_val { name: 'n' dtypes_and_shapes { shape { "
      "dim { size: -2 } } } }",
      AllOf(HasSubstr("'n'"), HasSubstr("-2")));
}

class TestValue : public VariantValue {
 public:
  absl::string_view TypeName() const override { return "tandem::TestValue"; }
  std::string DebugString() const override { return "a test value"; }
};

TEST(TensorProto, VariantsWithoutACodecAreNotConverted) {
  const Tensor empty(kVariant, {2});
  for (TensorProtoForm form : {TensorProtoForm::kCompact, TensorProtoForm::kContent}) {
    const Tensor back = Read(Write(empty, form));
    EXPECT_EQ(back.shape(), Shape({2}));
    EXPECT_TRUE(back.Elements<Variant>()[1].empty());
  }
  TensorProto proto;
  ExpectError(TensorToProto(Tensor::Scalar(Variant(MakeRef<TestValue>())), &proto),
              absl::StatusCode::kUnimplemented, HasSubstr("tandem::TestValue"));
  ExpectError(TensorFromProto(
                  Parse("dtype: DT_VARIANT variant_val { type_name: 'tensorflow::TensorList' }"))
                  .status(),
              absl::StatusCode::kUnimplemented, HasSubstr("tensorflow::TensorList"));
  ExpectError(
      TensorFromProto(Parse("dtype: DT_VARIANT tensor_content: '\\x03\\x0a\\x01x'")).status(),
      absl::StatusCode::kUnimplemented, HasSubstr("'x'"));
  ExpectInvalid("dtype: DT_VARIANT tensor_content: '\\x02\\x0a\\x09'",
                HasSubstr("VariantTensorDataProto"));
}

// Holds a tensor.
class Box : public VariantValue {
 public:
  explicit Box(Tensor content) : content(std::move(content)) {}
  absl::string_view TypeName() const override { return "tandem::Box"; }
  std::string DebugString() const override { return "a box"; }

  const Tensor content;
};

const VariantCodecRegistration box(
    "tandem::Box", {[](const VariantValue& value, VariantCodec::WriteTensor write,
                       tensorflow::VariantTensorDataProto* to) {
                      to->set_metadata("box");
                      return write(dynamic_cast<const Box&>(value).content, to->add_tensors());
                    },
                    [](const tensorflow::VariantTensorDataProto& from,
                       VariantCodec::ReadTensor read) -> absl::StatusOr<RefPtr<VariantValue>> {
                      if (from.metadata() != "box" || from.tensors_size() != 1) {
                        return absl::InvalidArgumentError("no box");
                      }
                      absl::StatusOr<Tensor> content = read(from.tensors(0));
                      if (!content.ok()) return content.status();
                      return RefPtr<VariantValue>(MakeRef<Box>(*std::move(content)));
                    }});

Tensor BoxWith(Tensor content) { return Tensor::Scalar(Variant(MakeRef<Box>(std::move(content)))); }

TEST(TensorProto, VariantsWithACodecComeBack) {
  Tensor tensor(kVariant, {3});
  tensor.MutableElements<Variant>()[0] = Variant(MakeRef<Box>(Tensor::Vector<float>({1, 2})));
  tensor.MutableElements<Variant>()[2] =
      Variant(MakeRef<Box>(BoxWith(Tensor::Scalar<std::string>("deep"))));
  for (TensorProtoForm form :
       {TensorProtoForm::kCompact, TensorProtoForm::kContent, TensorProtoForm::kLists}) {
    const Tensor back = Read(Write(tensor, form));
    const auto values = back.Elements<Variant>();
    ASSERT_NE(values[0].Get<Box>(), nullptr);
    EXPECT_EQ(values[0].Get<Box>()->content.Elements<float>()[1], 2);
    EXPECT_TRUE(values[1].empty());
    const Tensor& inner = values[2].Get<Box>()->content;
    EXPECT_EQ(inner.ScalarValue<Variant>().Get<Box>()->content.ScalarValue<std::string>(), "deep");
  }
  ExpectInvalid("dtype: DT_VARIANT variant_val { type_name: 'tandem::Box' metadata: 'bag' }",
                AllOf(HasSubstr("element 0"), HasSubstr("tandem::Box"), HasSubstr("no box")));
}

// A message could nest them until the stack ends, and tensors inside could ask for any memory.
TEST(TensorProto, VariantsInVariantsHaveLimits) {
  Tensor deep = Tensor::Scalar<float>(1);
  TensorProto proto;
  for (int i = 0; i < kMaxVariantDepth; ++i) deep = BoxWith(deep);
  ASSERT_TRUE(TensorToProto(deep, &proto, TensorProtoForm::kContent).ok());
  EXPECT_TRUE(TensorFromProto(proto).ok());
  ExpectError(TensorToProto(BoxWith(deep), &proto), absl::StatusCode::kInvalidArgument,
              HasSubstr("16 deep"));
  ASSERT_TRUE(TensorToProto(deep, &proto, TensorProtoForm::kContent).ok());
  TensorProto outer;
  outer.set_dtype(tensorflow::DT_VARIANT);
  outer.mutable_tensor_shape();
  auto* const value = outer.add_variant_val();
  value->set_type_name("tandem::Box");
  value->set_metadata("box");
  *value->add_tensors() = proto;
  ExpectError(TensorFromProto(outer).status(), absl::StatusCode::kInvalidArgument,
              HasSubstr("16 deep"));

  TensorProto large = Parse(
      "dtype: DT_VARIANT variant_val { type_name: 'tandem::Box' metadata: 'box' tensors { "
      "dtype: DT_FLOAT tensor_shape { dim { size: 1000000 } } } }");
  EXPECT_TRUE(TensorFromProto(large, 5000000).ok());
  ExpectError(TensorFromProto(large, 3000000).status(), absl::StatusCode::kResourceExhausted,
              HasSubstr("3000000"));
}

TEST(TensorProto, NoTensorCannotBeWritten) {
  TensorProto proto;
  EXPECT_EQ(TensorToProto(Tensor(), &proto).code(), absl::StatusCode::kInvalidArgument);
}

TEST(TensorProto, ReadNumbersAreAligned) {
  const Tensor tensor = Read(
      "dtype: DT_INT32 tensor_shape { dim { size: 5 } } tensor_content: 'abcdefghijklmnopqrst'");
  EXPECT_EQ(reinterpret_cast<uintptr_t>(tensor.data()) % kBufferAlignment, 0u);
}

TEST(ShapeProto, ComesBackAsItWas) {
  for (const PartialShape& shape : {PartialShape(), PartialShape(Shape()), PartialShape({0}),
                                    PartialShape({-1, 3}), PartialShape({int64_t{1} << 40, 2})}) {
    TensorShapeProto proto;
    proto.add_dim()->set_size(99);  // To be replaced.
    ShapeToProto(shape, &proto);
    const absl::StatusOr<PartialShape> back = PartialShapeFromProto(proto);
    ASSERT_TRUE(back.ok()) << back.status();
    EXPECT_EQ(*back, shape);
    EXPECT_EQ(ShapeFromProto(proto).ok(), shape.IsFullyDefined());
  }
}

TEST(ShapeProto, RefusesAnUnknownRankWithSizes) {
  TensorShapeProto proto;
  proto.set_unknown_rank(true);
  proto.add_dim()->set_size(2);
  ExpectError(PartialShapeFromProto(proto).status(), absl::StatusCode::kInvalidArgument,
              HasSubstr("1 dimensions"));
}

// Whatever bytes arrive, reading ends in a tensor or a status: every cut and every changed byte of
// messages of each form, which the sanitizers watch.
TEST(TensorProto, DamagedMessagesNeverDoHarm) {
  const Tensor words = Tensor::Vector<std::string>({"ab", std::string(20, 'x')});
  std::vector<std::string> messages;
  for (TensorProtoForm form : {TensorProtoForm::kContent, TensorProtoForm::kLists}) {
    messages.push_back(Write(words, form).SerializeAsString());
    messages.push_back(Write(Read(kHandle), form).SerializeAsString());
    messages.push_back(Write(Tensor(kVariant, {2}), form).SerializeAsString());
    messages.push_back(Write(Tensor::Vector<Float16>({Float16(1)}), form).SerializeAsString());
  }
  int read = 0;
  const auto attempt = [&read](const std::string& bytes) {
    TensorProto proto;
    if (!proto.ParseFromString(bytes)) return;
    const absl::StatusOr<Tensor> tensor = TensorFromProto(proto, size_t{1} << 20);
    if (!tensor.ok()) return;
    ++read;
    tensor->DebugString();
  };
  for (const std::string& message : messages) {
    for (size_t i = 0; i < message.size(); ++i) {
      attempt(message.substr(0, i));
      for (int change : {0x01, 0x7f, 0x80, 0xff}) {
        std::string changed = message;
        changed[i] = static_cast<char>(changed[i] ^ change);
        attempt(changed);
      }
    }
  }
  EXPECT_GT(read, 0);
}

}  // namespace
}  // namespace tandem
