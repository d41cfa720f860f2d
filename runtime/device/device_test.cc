#include "runtime/device/device.h"

#include "absl/strings/match.h"
#include "gtest/gtest.h"

namespace tandem {
namespace {

std::string Parsed(absl::string_view text) {
  const auto counts = ParseDeviceCounts(text);
  if (!counts.ok()) {
    EXPECT_EQ(counts.status().code(), absl::StatusCode::kInvalidArgument);
    return std::string(counts.status().message());
  }
  std::string result;
  for (const DeviceCount& count : *counts) {
    absl::StrAppend(&result, count.type, "=", count.count, ";");
  }
  return result;
}

TEST(ParseDeviceCounts, TypesAndCounts) {
  EXPECT_EQ(Parsed("CPU:2,SIM:1"), "CPU=2;SIM=1;");
  EXPECT_EQ(Parsed("cpu"), "CPU=1;");
  EXPECT_EQ(Parsed(" SIM : 3 , CPU:2 ,"), "SIM=3;CPU=2;");
  EXPECT_EQ(Parsed(""), "");
}

TEST(ParseDeviceCounts, WhatMakesNoSenseIsNamed) {
  for (const char* text : {":2", "CPU:", "CPU:two", "CPU:1:2", "CPU:1.5", "CPU:99999999999"}) {
    EXPECT_TRUE(absl::StrContains(Parsed(text), "not of the form TYPE:COUNT")) << Parsed(text);
  }
  for (const char* text : {"CPU:0", "CPU:-1", "SIM:1000000"}) {
    EXPECT_TRUE(absl::StrContains(Parsed(text), "are possible")) << Parsed(text);
  }
  EXPECT_TRUE(absl::StrContains(Parsed("CPU:1,SIM:1,cpu:2"), "names type CPU twice"));
}

}  // namespace
}  // namespace tandem
