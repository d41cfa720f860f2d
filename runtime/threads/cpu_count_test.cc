#include "runtime/threads/cpu_count.h"

#include <filesystem>
#include <fstream>
#include <string>

#include "gtest/gtest.h"

namespace tandem {
namespace {

class CgroupTest : public testing::Test {
 protected:
  void SetUp() override {
    root_ = testing::TempDir() + "/cgroup_" +
            testing::UnitTest::GetInstance()->current_test_info()->name();
    std::filesystem::remove_all(root_);
  }
  void TearDown() override { std::filesystem::remove_all(root_); }
  void Write(const std::string& path, const std::string& text) {
    const std::filesystem::path file = root_ + "/" + path;
    std::filesystem::create_directories(file.parent_path());
    std::ofstream(file) << text;
  }
  std::string root_;
};

TEST(CpuCountTest, IsAtLeastOne) { EXPECT_GE(CpuCount(), 1); }

TEST_F(CgroupTest, NoFilesMeanNoQuota) {
  EXPECT_EQ(CgroupCpuQuota("0::/\n", root_), 0);
  EXPECT_EQ(CgroupCpuQuota("", root_), 0);
  EXPECT_EQ(CgroupCpuQuota("nonsense\n::::\n", root_), 0);
}

TEST_F(CgroupTest, Version2TakesTheLeastOfTheGroupAndItsAncestors) {
  Write("a/cpu.max", "150000 100000\n");
  Write("a/b/cpu.max", "400000 100000\n");
  EXPECT_EQ(CgroupCpuQuota("0::/a/b\n", root_), 1.5);
}

TEST_F(CgroupTest, Version2MaxIsNoLimit) {
  Write("cpu.max", "max 100000\n");
  EXPECT_EQ(CgroupCpuQuota("0::/\n", root_), 0);
}

TEST_F(CgroupTest, Version1HasQuotaAndPeriodInFiles) {
  Write("cpu,cpuacct/box/cpu.cfs_quota_us", "300000\n");
  Write("cpu,cpuacct/box/cpu.cfs_period_us", "100000\n");
  EXPECT_EQ(CgroupCpuQuota("4:memory:/box\n3:cpu,cpuacct:/box\n", root_), 3);
  EXPECT_EQ(CgroupCpuQuota("3:cpuset:/box\n", root_), 0);
}

TEST_F(CgroupTest, Version1MinusOneIsNoLimit) {
  Write("cpu/cpu.cfs_quota_us", "-1\n");
  Write("cpu/cpu.cfs_period_us", "100000\n");
  EXPECT_EQ(CgroupCpuQuota("1:cpu:/\n", root_), 0);
}

}  // namespace
}  // namespace tandem
