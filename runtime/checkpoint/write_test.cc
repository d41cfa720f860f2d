#include "runtime/checkpoint/write.h"

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "core/io/bundle_reader.h"
#include "core/io/testing/faulty_file_system.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace tandem {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// Eleven tensors of unequal sizes, strings and empty ones among them.
NamedTensors Tensors(float first = 0) {
  NamedTensors tensors;
  for (int i = 0; i < 8; ++i) {
    Tensor tensor(kFloat32, Shape({i, 3}));
    for (float& value : tensor.MutableElements<float>()) value = first++;
    tensors.emplace_back(absl::StrCat("w", i), std::move(tensor));
  }
  tensors.emplace_back("words", Tensor::Vector<std::string>({"a", "bcd"}));
  tensors.emplace_back("step", Tensor::Scalar<int64_t>(42));
  tensors.emplace_back("flags", Tensor::Vector<bool>({true, false}));
  return tensors;
}

void ExpectTensors(FileSystem* files, const std::string& prefix, float first = 0) {
  const auto reader = BundleReader::Open(files, prefix);
  ASSERT_TRUE(reader.ok()) << reader.status();
  const NamedTensors wanted = Tensors(first);
  EXPECT_EQ((*reader)->Names().size(), wanted.size());
  for (const auto& [name, value] : wanted) {
    const absl::StatusOr<Tensor> tensor = (*reader)->Read(name);
    ASSERT_TRUE(tensor.ok()) << tensor.status();
    EXPECT_EQ(tensor->DebugString(100), value.DebugString(100));
  }
}

TEST(WriteCheckpoint, AnyNumberOfShardsHoldsTheSame) {
  for (int shards = 1; shards <= 8; ++shards) {
    FaultyFileSystem files;
    ASSERT_TRUE(WriteCheckpoint(&files, "/run/ckpt-1", Tensors(), shards).ok());
    EXPECT_EQ(files.ListDirectory("/run")->size(), static_cast<size_t>(shards) + 1) << shards;
    ExpectTensors(&files, "/run/ckpt-1");
  }
}

TEST(WriteCheckpoint, OneLazyTensorIsWrittenBeforeTheNextIsRead) {
  for (const int shards : {1, 3}) {
    FaultyFileSystem files;
    std::vector<LazyTensor> lazy;
    std::vector<int64_t> effects;
    for (int i = 0; i < 4; ++i) {
      lazy.push_back({absl::StrCat("t", i), int64_t{4} << 20, [&files, &effects, i] {
                        effects.push_back(files.effects());
                        Tensor tensor = Tensor::Zeros(kFloat32, Shape({1 << 20}));
                        tensor.MutableElements<float>()[7] = static_cast<float>(i);
                        return absl::StatusOr<Tensor>(std::move(tensor));
                      }});
    }
    ASSERT_TRUE(WriteCheckpointLazily(&files, "/run/ckpt-1", lazy, shards).ok());
    ASSERT_EQ(effects.size(), 4u);
    for (size_t i = 1; i < effects.size(); ++i) EXPECT_GT(effects[i], effects[i - 1]);
    const auto reader = BundleReader::Open(&files, "/run/ckpt-1");
    ASSERT_TRUE(reader.ok()) << reader.status();
    EXPECT_EQ((*reader)->num_shards(), shards);
    for (int i = 0; i < 4; ++i) {
      const auto tensor = (*reader)->Read(absl::StrCat("t", i));
      ASSERT_TRUE(tensor.ok()) << tensor.status();
      EXPECT_EQ(tensor->Elements<float>()[7], static_cast<float>(i));
    }
  }
}

TEST(WriteCheckpoint, ALazyTensorThatCannotBeReadLeavesTheCheckpointThatWasThere) {
  FaultyFileSystem files;
  ASSERT_TRUE(WriteCheckpoint(&files, "/run/ckpt-1", Tensors()).ok());
  const std::vector<std::string> before = *files.ListDirectory("/run");
  for (const int shards : {1, 2}) {
    const std::vector<LazyTensor> lazy = {
        {"a", 4, [] { return absl::StatusOr<Tensor>(Tensor::Scalar<float>(1)); }},
        {"b", 4, [] { return absl::StatusOr<Tensor>(absl::DataLossError("torn")); }}};
    EXPECT_EQ(WriteCheckpointLazily(&files, "/run/ckpt-1", lazy, shards).code(),
              absl::StatusCode::kDataLoss);
    EXPECT_EQ(*files.ListDirectory("/run"), before);
    ExpectTensors(&files, "/run/ckpt-1");
  }
}

TEST(WriteCheckpoint, WhatWasReadFromAnyNumberOfShardsIsWrittenToAnyOther) {
  for (int from = 1; from <= 8; ++from) {
    FaultyFileSystem files;
    ASSERT_TRUE(WriteCheckpoint(&files, "/from", Tensors(), from).ok());
    const auto reader = BundleReader::Open(&files, "/from");
    ASSERT_TRUE(reader.ok()) << reader.status();
    for (int to = 1; to <= 8; ++to) {
      NamedTensors tensors;
      for (const std::string& name : (*reader)->Names()) {
        tensors.emplace_back(name, *(*reader)->Read(name));
      }
      const std::string prefix = absl::StrCat("/to-", to);
      ASSERT_TRUE(WriteCheckpoint(&files, prefix, std::move(tensors), to).ok());
      ExpectTensors(&files, prefix);
    }
  }
}

TEST(WriteCheckpoint, ShardsAreOfLikeSize) {
  FaultyFileSystem files;
  ASSERT_TRUE(WriteCheckpoint(&files, "/run/c", Tensors(), 2).ok());
  const int64_t first = files.Stat("/run/c.data-00000-of-00002")->size;
  const int64_t second = files.Stat("/run/c.data-00001-of-00002")->size;
  EXPECT_LT(std::max(first, second), 2 * std::min(first, second));
}

TEST(WriteCheckpoint, WithMoreShardsThanTensorsSomeAreEmpty) {
  FaultyFileSystem files;
  ASSERT_TRUE(WriteCheckpoint(&files, "/c", {{"a", Tensor::Scalar<float>(1)}}, 3).ok());
  const auto reader = BundleReader::Open(&files, "/c");
  ASSERT_TRUE(reader.ok()) << reader.status();
  EXPECT_EQ((*reader)->num_shards(), 3);
  EXPECT_TRUE((*reader)->Read("a").ok());
}

TEST(WriteCheckpoint, ReplacesOneOfTheSamePrefixAndLeavesNothingOfIt) {
  FaultyFileSystem files;
  for (int i = 0; i < 4; ++i) {
    ASSERT_TRUE(WriteCheckpoint(&files, "/run/c", Tensors(static_cast<float>(i)), 2).ok());
    ExpectTensors(&files, "/run/c", static_cast<float>(i));
    const auto reader = BundleReader::Open(&files, "/run/c");
    EXPECT_EQ(files.ListDirectory("/run")->size(),
              static_cast<size_t>((*reader)->num_shards()) + 1);
  }
}

// The old one or the new one is there, whole, after a crash at any moment.
TEST(WriteCheckpoint, ACrashLeavesTheOldOneOrTheNewOne) {
  for (const int shards : {1, 3}) {
    for (int64_t at = 0;; ++at) {
      bool fired = true;
      for (const auto unsynced :
           {FaultyFileSystem::Unsynced::kKept, FaultyFileSystem::Unsynced::kLost,
            FaultyFileSystem::Unsynced::kMixed}) {
        FaultyFileSystem files;
        ASSERT_TRUE(WriteCheckpoint(&files, "/run/c", Tensors(0), shards).ok());
        files.CrashAt(at);
        const absl::Status status = WriteCheckpoint(&files, "/run/c", Tensors(100), shards);
        fired = files.fired();
        files.Restart(unsynced, static_cast<uint32_t>(at));
        const auto reader = BundleReader::Open(&files, "/run/c");
        ASSERT_TRUE(reader.ok()) << "crash at " << at << ": " << reader.status();
        const absl::StatusOr<Tensor> w1 = (*reader)->Read("w1");
        ASSERT_TRUE(w1.ok()) << "crash at " << at << ": " << w1.status();
        const bool is_new = w1->Elements<float>()[0] == 100;
        if (status.ok()) {
          EXPECT_TRUE(is_new);
        }
        ExpectTensors(&files, "/run/c", is_new ? 100 : 0);
      }
      if (!fired) break;
    }
  }
}

TEST(WriteCheckpoint, AFailureLeavesNothingBehind) {
  for (const int shards : {1, 3}) {
    for (int64_t at = 0;; ++at) {
      FaultyFileSystem files;
      ASSERT_TRUE(files.MakeDirectories("/run").ok());
      files.FailAt(at, absl::ResourceExhaustedError("the disk is full"));
      const absl::Status status = WriteCheckpoint(&files, "/run/c", Tensors(), shards);
      if (!files.fired()) break;
      // What fails after the checkpoint is complete does no harm.
      if (status.ok()) {
        ExpectTensors(&files, "/run/c");
        continue;
      }
      EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
      const std::vector<std::string> names = *files.ListDirectory("/run");
      for (const std::string& name : names) {
        EXPECT_THAT(name, ::testing::Not(HasSubstr("temp"))) << "failure at " << at;
      }
    }
  }
}

TEST(WriteCheckpoint, RefusesWhatCannotBeWritten) {
  FaultyFileSystem files;
  for (const int shards : {0, -1, kMaxCheckpointShards + 1}) {
    EXPECT_EQ(WriteCheckpoint(&files, "/c", Tensors(), shards).code(),
              absl::StatusCode::kInvalidArgument);
  }
  const Tensor one = Tensor::Scalar<float>(1);
  EXPECT_EQ(WriteCheckpoint(&files, "/c", {{"a", one}, {"a", one}}).code(),
            absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(WriteCheckpoint(&files, "/c", {{"", one}}).code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(WriteCheckpoint(&files, "/c", {{"a", Tensor()}}).code(),
            absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace tandem
