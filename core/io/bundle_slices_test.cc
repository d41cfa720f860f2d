// Tensors in parts, read in other parts; and bundles made of several.
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "core/base/status.h"
#include "core/io/bundle_reader.h"
#include "core/io/bundle_writer.h"
#include "core/io/testing/faulty_file_system.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace tandem {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr char kPrefix[] = "/d/model";

TensorSlice Slice(absl::string_view text) { return *TensorSlice::Parse(text); }

Tensor Counting(const Shape& shape) {
  Tensor tensor(kInt64, shape);
  int64_t next = 0;
  for (int64_t& value : tensor.MutableElements<int64_t>()) value = next++;
  return tensor;
}

Tensor PartOf(const Tensor& whole, const TensorSlice& slice) {
  const TensorSlice resolved = *slice.Resolve(whole.shape());
  Tensor part(whole.dtype(), resolved.shape());
  CopyCommonPart(whole, *TensorSlice(whole.shape().rank()).Resolve(whole.shape()), resolved, &part);
  return part;
}

Tensor AsStrings(const Tensor& numbers) {
  Tensor strings(kString, numbers.shape());
  for (int64_t i = 0; i < numbers.num_elements(); ++i) {
    const auto at = static_cast<size_t>(i);
    strings.MutableElements<std::string>()[at] = absl::StrCat(numbers.Elements<int64_t>()[at]);
  }
  return strings;
}

// Rows of `rows`, cut into `count` parts as evenly as they go.
std::vector<TensorSlice> CutRows(int64_t rows, int count, int rank) {
  std::vector<TensorSlice> slices;
  for (int i = 0; i < count; ++i) {
    const int64_t begin = rows * i / count;
    TensorSlice::Extents extents(static_cast<size_t>(rank));
    extents[0] = {begin, rows * (i + 1) / count - begin};
    slices.emplace_back(extents);
  }
  return slices;
}

class BundleSlicesTest : public ::testing::Test {
 protected:
  BundleSlicesTest() { EXPECT_TRUE(files_.MakeDirectories("/d").ok()); }

  // A bundle with `whole` in parts under the name "w".
  absl::Status Write(const std::string& prefix, const Tensor& whole,
                     const std::vector<TensorSlice>& slices) {
    TANDEM_ASSIGN_OR_RETURN(const auto writer, BundleWriter::Create(&files_, prefix));
    for (const TensorSlice& slice : slices) {
      TANDEM_RETURN_IF_ERROR(writer->AddSlice("w", whole.shape(), slice, PartOf(whole, slice)));
    }
    return writer->Finish();
  }
  absl::StatusOr<Tensor> Read(const std::string& slice) {
    TANDEM_ASSIGN_OR_RETURN(const auto reader, BundleReader::Open(&files_, kPrefix));
    return reader->ReadSlice("w", Slice(slice));
  }

  FaultyFileSystem files_;
};

TEST_F(BundleSlicesTest, AnyPartIsPutTogetherFromAnyParts) {
  const std::vector<std::vector<std::string>> cuts = {{"-:-:-"},
                                                      {"0,1:-:-", "1,2:-:-", "3,2:-:-"},
                                                      {"-:0,2:-", "-:2,4:-"},
                                                      {"0,2:0,3:-", "0,2:3,3:-", "2,3:0,6:0,2"},
                                                      {"-:-:0,1", "-:-:1,1"}};
  for (const bool strings : {false, true}) {
    const Tensor numbers = Counting(Shape({5, 6, 2}));
    const Tensor whole = strings ? AsStrings(numbers) : numbers;
    for (const auto& cut : cuts) {
      std::vector<TensorSlice> slices;
      for (const std::string& text : cut) slices.push_back(Slice(text));
      const absl::Status written = Write(kPrefix, whole, slices);
      ASSERT_TRUE(written.ok()) << written;
      const auto reader = *BundleReader::Open(&files_, kPrefix);
      EXPECT_THAT(reader->Names(), ElementsAre("w"));
      EXPECT_TRUE(reader->Verify("w").ok());
      for (const char* wanted : {"-:-:-", "0,1:-:-", "1,3:-:-", "4,1:-:-", "2,2:1,4:-", "-:5,1:1,1",
                                 "0,0:-:-", "0,5:0,6:0,2", "1,1:1,1:1,1"}) {
        const absl::StatusOr<Tensor> part = reader->ReadSlice("w", Slice(wanted));
        ASSERT_TRUE(part.ok()) << part.status();
        EXPECT_EQ(part->DebugString(1000), PartOf(whole, Slice(wanted)).DebugString(1000))
            << wanted;
      }
    }
  }
}

TEST_F(BundleSlicesTest, SavedInNPartsIsReadInMParts) {
  const Tensor whole = Counting(Shape({37, 3}));
  for (int n = 1; n <= 8; ++n) {
    ASSERT_TRUE(Write(kPrefix, whole, CutRows(37, n, 2)).ok());
    const auto reader = *BundleReader::Open(&files_, kPrefix);
    for (int m = 1; m <= 8; ++m) {
      for (const TensorSlice& slice : CutRows(37, m, 2)) {
        EXPECT_EQ(reader->ReadSlice("w", slice)->DebugString(1000),
                  PartOf(whole, slice).DebugString(1000));
      }
    }
  }
}

TEST_F(BundleSlicesTest, APartThatIsEverythingIsStoredAsAPlainTensor) {
  ASSERT_TRUE(Write(kPrefix, Counting(Shape({2, 3})), {Slice("0,2:-")}).ok());
  EXPECT_TRUE((*BundleReader::Open(&files_, kPrefix))->Find("w")->slices.empty());
}

TEST_F(BundleSlicesTest, MissingAndOverlappingPartsAreRefused) {
  const Tensor whole = Counting(Shape({4, 3}));
  ASSERT_TRUE(Write(kPrefix, whole, {Slice("0,1:-"), Slice("2,2:-")}).ok());
  EXPECT_TRUE(Read("2,1:-").ok());
  for (const char* wanted : {"-:-", "1,1:-", "0,2:0,1"}) {
    const absl::Status status = Read(wanted).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << wanted;
    EXPECT_THAT(std::string(status.message()), HasSubstr("tensor 'w'"));
  }
  EXPECT_EQ(Read("3,2:-").status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(Read("-").status().code(), absl::StatusCode::kInvalidArgument);
  ASSERT_TRUE(Write(kPrefix, whole, {Slice("0,3:-"), Slice("2,2:-")}).ok());
  EXPECT_THAT(std::string(Read("-:-").status().message()), HasSubstr("overlap"));
  EXPECT_TRUE(Read("0,2:-").ok());
}

TEST_F(BundleSlicesTest, PartsThatDoNotFitAreNotWritten) {
  const Tensor part = Counting(Shape({2, 3}));
  const auto refused = [&](const Shape& full, absl::string_view slice, const Tensor& tensor) {
    const auto writer = *BundleWriter::Create(&files_, kPrefix);
    EXPECT_TRUE(writer->Add("whole", part).ok());
    EXPECT_TRUE(writer->AddSlice("w", Shape({4, 3}), Slice("0,2:-"), part).ok());
    const absl::Status status = writer->AddSlice("w", full, Slice(slice), tensor);
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << slice;
    EXPECT_FALSE(writer->Finish().ok());
  };
  refused(Shape({4, 3}), "0,2:-", part);                                    // Twice.
  refused(Shape({5, 3}), "2,2:-", part);                                    // Of another shape.
  refused(Shape({4, 3}), "2,2:-", Tensor::Zeros(kFloat32, Shape({2, 3})));  // Of another type.
  refused(Shape({4, 3}), "3,1:-", part);                                    // Another size.
  refused(Shape({4, 3}), "3,2:-", part);                                    // Outside.
  const auto writer = *BundleWriter::Create(&files_, kPrefix);
  EXPECT_TRUE(writer->Add("whole", part).ok());
  EXPECT_FALSE(writer->AddSlice("whole", Shape({4, 3}), Slice("0,2:-"), part).ok());
}

class MergeBundlesTest : public BundleSlicesTest {
 protected:
  // Parts 0 … count - 1: each with a tensor of its own and some rows of "w".
  void WriteParts(int count) {
    whole_ = Counting(Shape({37, 3}));
    const std::vector<TensorSlice> slices = CutRows(37, count, 2);
    for (int i = 0; i < count; ++i) {
      prefixes_.push_back(absl::StrCat("/d/model_temp/part-", i));
      const auto writer = *BundleWriter::Create(&files_, prefixes_.back());
      const auto slice = slices[static_cast<size_t>(i)];
      ASSERT_TRUE(writer->Add(absl::StrCat("own", i), Tensor::Scalar<int32_t>(i)).ok());
      ASSERT_TRUE(writer->AddSlice("w", whole_.shape(), slice, PartOf(whole_, slice)).ok());
      ASSERT_TRUE(writer->Finish().ok());
    }
  }

  void ExpectMerged(int count) {
    const auto reader = BundleReader::Open(&files_, kPrefix);
    ASSERT_TRUE(reader.ok()) << reader.status();
    EXPECT_EQ((*reader)->num_shards(), count);
    EXPECT_EQ((*reader)->Read("w")->DebugString(1000), whole_.DebugString(1000));
    for (int i = 0; i < count; ++i) {
      const std::string name = absl::StrCat("own", i);
      EXPECT_EQ((*reader)->Read(name)->ScalarValue<int32_t>(), i);
      EXPECT_EQ((*reader)->Find(name)->shard, i);
    }
  }

  Tensor whole_;
  std::vector<std::string> prefixes_;
};

TEST_F(MergeBundlesTest, MakesOneOfMany) {
  WriteParts(3);
  const absl::Status status = MergeBundles(&files_, prefixes_, kPrefix);
  ASSERT_TRUE(status.ok()) << status;
  ExpectMerged(3);
  EXPECT_THAT(*files_.ListDirectory("/d"),
              ElementsAre("model.data-00000-of-00003", "model.data-00001-of-00003",
                          "model.data-00002-of-00003", "model.index"));
}

TEST_F(MergeBundlesTest, MergedBundlesAreMergedAgain) {
  WriteParts(4);
  ASSERT_TRUE(MergeBundles(&files_, {prefixes_[0], prefixes_[1]}, "/d/x/a").ok());
  ASSERT_TRUE(MergeBundles(&files_, {prefixes_[2], prefixes_[3]}, "/d/x/b").ok());
  ASSERT_TRUE(MergeBundles(&files_, {"/d/x/a", "/d/x/b"}, kPrefix).ok());
  ExpectMerged(4);
}

TEST_F(MergeBundlesTest, MissingPartsAreAnErrorOrPassedOver) {
  WriteParts(2);
  prefixes_.push_back("/d/model_temp/missing");
  EXPECT_EQ(MergeBundles(&files_, prefixes_, kPrefix).code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(MergeBundles(&files_, {"/d/no"}, kPrefix, {.allow_missing = true}).code(),
            absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(MergeBundles(&files_, {}, kPrefix).code(), absl::StatusCode::kInvalidArgument);
  ASSERT_TRUE(MergeBundles(&files_, prefixes_, kPrefix, {.allow_missing = true}).ok());
  ExpectMerged(2);
}

TEST_F(MergeBundlesTest, ATensorInTwoPartsIsRefusedAndNamedAndNothingIsMoved) {
  WriteParts(2);
  const auto writer = *BundleWriter::Create(&files_, "/d/model_temp/third");
  ASSERT_TRUE(writer->Add("own1", Tensor::Scalar(1.0f)).ok());
  ASSERT_TRUE(writer->Finish().ok());
  const std::vector<std::string> before = *files_.ListDirectory("/d/model_temp");
  prefixes_.push_back("/d/model_temp/third");
  absl::Status status = MergeBundles(&files_, prefixes_, kPrefix);
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()), HasSubstr("'own1'"));
  prefixes_.back() = prefixes_[0];
  EXPECT_EQ(MergeBundles(&files_, prefixes_, kPrefix).code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(*files_.ListDirectory("/d/model_temp"), before);
}

TEST_F(MergeBundlesTest, AnErrorAnywhereUndoesTheRenames) {
  for (int64_t n = 0;; ++n) {
    files_.Remove("/d/model.index").IgnoreError();
    prefixes_.clear();
    WriteParts(2);
    files_.FailAt(n, errors::ResourceExhausted("full"));
    const absl::Status status = MergeBundles(&files_, prefixes_, kPrefix);
    if (!files_.fired()) break;
    // What comes after the index has its name only tidies up.
    if (status.ok() || files_.Stat("/d/model.index").ok()) {
      ExpectMerged(2);
      continue;
    }
    EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
    EXPECT_THAT(std::string(status.message()), HasSubstr(kPrefix));
    const absl::Status again = MergeBundles(&files_, prefixes_, kPrefix);
    ASSERT_TRUE(again.ok()) << n << again;
    ExpectMerged(2);
  }
}

}  // namespace
}  // namespace tandem
