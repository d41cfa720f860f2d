#include "core/graph/device_name.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace tandem {
namespace {

using ::testing::HasSubstr;

DeviceName Name(absl::string_view text) {
  absl::StatusOr<DeviceName> name = DeviceName::Parse(text);
  EXPECT_TRUE(name.ok()) << name.status();
  return name.ok() ? *name : DeviceName();
}

TEST(DeviceNameTest, AFullNameSetsAllParts) {
  const DeviceName name = Name("/job:worker/replica:0/task:1/device:CPU:2");
  EXPECT_EQ(*name.job, "worker");
  EXPECT_EQ(*name.replica, 0);
  EXPECT_EQ(*name.task, 1);
  EXPECT_EQ(*name.type, "CPU");
  EXPECT_EQ(*name.id, 2);
  EXPECT_TRUE(name.IsComplete());
  EXPECT_EQ(name.TaskName(), "/job:worker/replica:0/task:1");
  EXPECT_EQ(name.LocalName(), "CPU:2");
}

TEST(DeviceNameTest, EveryFormHasItsCanonicalText) {
  const std::pair<const char*, const char*> forms[] = {
      {"", ""},
      {"/", ""},
      {"/job:ps", "/job:ps"},
      {"/task:3/job:ps", "/job:ps/task:3"},
      {"/job:*/task:*/device:CPU:*", "/device:CPU:*"},
      {"/device:GPU", "/device:GPU:*"},
      {"/device:GPU:*", "/device:GPU:*"},
      {"/device:*", ""},
      {"/device:*:1", "/device:*:1"},
      {"/cpu:0", "/device:CPU:0"},
      {"/CPU:1", "/device:CPU:1"},
      {"/gpu:*", "/device:GPU:*"},
      {"/job:worker/task:0/gpu:1", "/job:worker/task:0/device:GPU:1"},
      {"CPU:0", "/device:CPU:0"},
      {"cpu:0", "/device:CPU:0"},
      {"SIM:3", "/device:SIM:3"},
      {"XLA_CPU:0", "/device:XLA_CPU:0"},
      {"/device:XLA_CPU:0", "/device:XLA_CPU:0"},
      {"/device:cpu:0", "/device:cpu:0"},
      {"/job:a/job:b", "/job:b"},
      {"/task:1/task:2", "/task:2"},
  };
  for (const auto& [text, canonical] : forms) {
    EXPECT_EQ(Name(text).ToString(), canonical) << text;
    EXPECT_EQ(Name(canonical), Name(text)) << text;
  }
}

TEST(DeviceNameTest, MalformedNamesAreShown) {
  for (const char* text : {"job:worker",
                           "/job:",
                           "/job:1a",
                           "/job:a b",
                           "/replica:-1",
                           "/task:x",
                           "/task:99999999999",
                           "/device:",
                           "/device:CPU:",
                           "/device:CPU:0x",
                           "/cpu",
                           "/tpu:0",
                           "CPU",
                           "CPU:",
                           "CPU:*",
                           "*",
                           "/cpu:0/",
                           "//",
                           "/job:worker task:0",
                           "/cpu:0CPU:0"}) {
    const absl::StatusOr<DeviceName> name = DeviceName::Parse(text);
    EXPECT_EQ(name.status().code(), absl::StatusCode::kInvalidArgument) << text;
    EXPECT_THAT(std::string(name.status().message()), HasSubstr(text));
  }
}

TEST(DeviceNameTest, APatternMatchesCompleteNamesThatAgree) {
  const DeviceName name = Name("/job:worker/replica:0/task:1/device:CPU:0");
  EXPECT_TRUE(Matches(Name(""), name));
  EXPECT_TRUE(Matches(Name("/job:worker/cpu:0"), name));
  EXPECT_FALSE(Matches(Name("/job:ps/cpu:0"), name));
  EXPECT_FALSE(Matches(Name("/cpu:1"), name));
  EXPECT_FALSE(Matches(Name(""), Name("/cpu:0")));
}

TEST(DeviceNameTest, SpecificationAndCompatibilityLookAtSetParts) {
  EXPECT_TRUE(IsSpecification(Name("/job:a"), Name("/job:a/task:1")));
  EXPECT_FALSE(IsSpecification(Name("/job:a/task:1"), Name("/job:a")));
  EXPECT_TRUE(AreCompatible(Name("/job:a"), Name("/task:1/cpu:0")));
  EXPECT_FALSE(AreCompatible(Name("/job:a/task:0"), Name("/task:1/cpu:0")));
}

TEST(DeviceNameTest, TasksAreTheSameOnlyWhenNamed) {
  const DeviceName name = Name("/job:a/replica:0/task:1/cpu:0");
  EXPECT_TRUE(IsSameTask(name, Name("/job:a/replica:0/task:1/gpu:3")));
  EXPECT_FALSE(IsSameTask(name, Name("/job:a/replica:0/task:2")));
  EXPECT_FALSE(IsSameTask(Name("/cpu:0"), Name("/cpu:0")));
}

TEST(DeviceNameTest, StrictMergeJoinsPartsAndRefusesConflicts) {
  DeviceName target = Name("/job:a/task:1");
  ASSERT_TRUE(MergeDevice(Name("/replica:0/cpu:0"), DeviceMerge::kStrict, &target).ok());
  EXPECT_EQ(target.ToString(), "/job:a/replica:0/task:1/device:CPU:0");

  const std::pair<const char*, const char*> conflicts[] = {{"/job:b", "jobs"},
                                                           {"/replica:1", "replicas"},
                                                           {"/task:2", "tasks"},
                                                           {"/gpu:0", "types"},
                                                           {"/cpu:1", "ids"}};
  for (const auto& [other, part] : conflicts) {
    const absl::Status status = MergeDevice(Name(other), DeviceMerge::kStrict, &target);
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(std::string(status.message()),
                HasSubstr(absl::StrCat("Cannot merge devices with incompatible ", part, ": '")));
    EXPECT_EQ(target.ToString(), "/job:a/replica:0/task:1/device:CPU:0");
  }
}

TEST(DeviceNameTest, SoftMergeDropsWhatDiffersOfTheDevice) {
  DeviceName target = Name("/job:a/gpu:1");
  ASSERT_TRUE(MergeDevice(Name("/task:0/cpu:0"), DeviceMerge::kSoftPlacement, &target).ok());
  EXPECT_EQ(target.ToString(), "/job:a/task:0");

  target = Name("/gpu:1");
  ASSERT_TRUE(MergeDevice(Name("/gpu:0"), DeviceMerge::kSoftPlacement, &target).ok());
  EXPECT_EQ(target.ToString(), "/device:GPU:*");

  EXPECT_FALSE(
      MergeDevice(Name("/job:b"), DeviceMerge::kSoftPlacement, &(target = Name("/job:a"))).ok());
}

TEST(DeviceNameTest, OverridingMergeTakesTheOthersDevice) {
  DeviceName target = Name("/job:a/gpu:1");
  ASSERT_TRUE(MergeDevice(Name("/cpu:0"), DeviceMerge::kOverride, &target).ok());
  EXPECT_EQ(target.ToString(), "/job:a/device:CPU:0");
  EXPECT_FALSE(MergeDevice(Name("/job:b"), DeviceMerge::kOverride, &target).ok());
}

TEST(DeviceNameTest, AnInnerScopeCountsPartByPart) {
  EXPECT_EQ(NestDevice(Name("/job:a/task:1/cpu:0"), Name("/cpu:1")).ToString(),
            "/job:a/task:1/device:CPU:1");
}

TEST(DeviceNameTest, CompletionTakesUnsetPartsFromTheBase) {
  const DeviceName base = Name("/job:localhost/replica:0/task:0/cpu:0");
  EXPECT_EQ(CompleteDeviceName("/gpu:2", base)->ToString(),
            "/job:localhost/replica:0/task:0/device:GPU:2");
  EXPECT_EQ(CompleteDeviceName("/gpu:2", Name("/job:a")).status().code(),
            absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace tandem
