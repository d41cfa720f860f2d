// Damaged SavedModels: never a crash, and every error names the folder.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/base/log.h"
#include "core/io/testing/mutations.h"
#include "runtime/saved_model/test_models.h"

namespace tandem {
namespace {

using testing::HasSubstr;

class DamagedModel : public testing::TestWithParam<const char*> {
 protected:
  // Missing variables and such are logged.
  DamagedModel() {
    SetLogSink([](LogSeverity, absl::string_view) {});
  }
  ~DamagedModel() override { SetLogSink({}); }
};

// Loads the model and, if that works, runs its signatures. True when it loads.
bool Try(const std::string& folder) {
  const auto model = SavedModel::Load(folder);
  if (!model.ok()) {
    EXPECT_THAT(model.status().message(), HasSubstr(folder));
    return false;
  }
  RunOptions options;
  options.timeout = absl::Seconds(2);  // What was changed may be when a loop ends.
  for (const std::string& name : (*model)->signature_names()) {
    const ModelSignature signature = (*model)->signature(name);
    Session::Feeds inputs;
    for (const SignatureTensor& input : signature.info()->inputs) {
      std::vector<int64_t> dims;
      if (input.shape.has_rank()) {
        for (const int64_t dim : input.shape.dims()) dims.push_back(dim < 0 || dim > 100 ? 1 : dim);
      }
      if (!IsSupported(input.dtype) || input.dtype == kResource || input.dtype == kVariant) break;
      Tensor value(input.dtype, Shape(dims));
      if (value.is_valid()) inputs.emplace_back(input.name, std::move(value));
    }
    signature.Run(inputs, options).status().IgnoreError();
  }
  return true;
}

TEST_P(DamagedModel, ChangedAtRandomItLoadsOrSaysWhy) {
  const std::string folder = CopyModel(GetParam());
  const std::string path = JoinPath(folder, "saved_model.pb");
  const std::string whole = *ReadFile(PosixFileSystem(), path);
  ASSERT_TRUE(Try(folder));
  std::mt19937_64 random(1);
  int refused = 0;
  constexpr int kTrials = 150;
  for (int i = 0; i < kTrials; ++i) {
    SCOPED_TRACE(i);
    ASSERT_TRUE(WriteFileAtomically(PosixFileSystem(), path, Mutate(whole, random)).ok());
    refused += Try(folder) ? 0 : 1;
  }
  // Most changes break the form of the message or of the graph.
  EXPECT_GT(refused, kTrials / 4);
  RecordProperty("refused", refused);
}

TEST_P(DamagedModel, CutOffItIsRefused) {
  const std::string folder = CopyModel(GetParam());
  const std::string path = JoinPath(folder, "saved_model.pb");
  const std::string whole = *ReadFile(PosixFileSystem(), path);
  for (size_t size = 0; size < whole.size(); size += 1024) {
    SCOPED_TRACE(size);
    ASSERT_TRUE(WriteFileAtomically(PosixFileSystem(), path, whole.substr(0, size)).ok());
    EXPECT_FALSE(Try(folder));
  }
}

INSTANTIATE_TEST_SUITE_P(All, DamagedModel, testing::Values("tf1", "tf2", "keras"));

}  // namespace
}  // namespace tandem
