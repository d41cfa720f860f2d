#include "runtime/rpc/session_config.h"

#include "absl/strings/match.h"
#include "gtest/gtest.h"
#include "proto/cluster.pb.h"

namespace tandem {
namespace {

using tensorflow::RewriterConfig;

TEST(OptimizeOptionsOf, WithoutWishesAllPassesRun) {
  const OptimizeOptions passes = OptimizeOptionsOf({});
  EXPECT_TRUE(passes.fold_constants);
  EXPECT_TRUE(passes.merge_common);
  EXPECT_TRUE(passes.fuse_elementwise);
}

TEST(OptimizeOptionsOf, WhatIsSwitchedOffDoesNotRun) {
  tensorflow::GraphOptions options;
  options.mutable_rewrite_options()->set_constant_folding(RewriterConfig::OFF);
  EXPECT_FALSE(OptimizeOptionsOf(options).fold_constants);
  EXPECT_TRUE(OptimizeOptionsOf(options).merge_common);
  options.mutable_rewrite_options()->set_common_subgraph_elimination(RewriterConfig::OFF);
  EXPECT_FALSE(OptimizeOptionsOf(options).merge_common);
  EXPECT_TRUE(OptimizeOptionsOf(options).fuse_updates);
  options.mutable_rewrite_options()->set_remapping(RewriterConfig::OFF);
  EXPECT_FALSE(OptimizeOptionsOf(options).fuse_bias_and_activation);
  EXPECT_FALSE(OptimizeOptionsOf(options).fuse_elementwise);
  EXPECT_FALSE(OptimizeOptionsOf(options).fuse_updates);
}

TEST(OptimizeOptionsOf, LevelZeroAndTheMetaOptimizersSwitchAreForSeveral) {
  tensorflow::GraphOptions options;
  options.mutable_optimizer_options()->set_opt_level(tensorflow::OptimizerOptions::L0);
  EXPECT_FALSE(OptimizeOptionsOf(options).fold_constants);
  EXPECT_FALSE(OptimizeOptionsOf(options).merge_common);
  EXPECT_TRUE(OptimizeOptionsOf(options).fuse_elementwise);
  options.mutable_optimizer_options()->set_do_constant_folding(true);
  EXPECT_TRUE(OptimizeOptionsOf(options).fold_constants);
  options.mutable_rewrite_options()->set_disable_meta_optimizer(true);
  EXPECT_FALSE(OptimizeOptionsOf(options).fold_constants);
  EXPECT_FALSE(OptimizeOptionsOf(options).fuse_elementwise);
}

constexpr char kOwn[] = "/job:worker/replica:0/task:0";

tensorflow::ClusterDef Cluster(const std::string& job, int index, const std::string& address) {
  tensorflow::ClusterDef cluster;
  tensorflow::JobDef* const def = cluster.add_job();
  def->set_name(job);
  (*def->mutable_tasks())[index] = address;
  return cluster;
}

TEST(OwnTaskIn, IsFoundByTheAddress) {
  const auto none = OwnTaskIn({}, "grpc://host:1", kOwn);
  ASSERT_TRUE(none.ok()) << none.status();
  EXPECT_FALSE(none->has_value());
  for (const char* target : {"grpc://host:1", "host:1"}) {
    const auto task = OwnTaskIn(Cluster("trainer", 3, "host:1"), target, kOwn);
    ASSERT_TRUE(task.ok()) << task.status();
    ASSERT_TRUE(task->has_value());
    EXPECT_EQ((*task)->ToString(), "/job:trainer/replica:0/task:3");
  }
}

TEST(OwnTaskIn, RefusesWhatCannotBe) {
  const auto elsewhere = OwnTaskIn(Cluster("trainer", 0, "host:2"), "grpc://host:1", kOwn);
  EXPECT_EQ(elsewhere.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_TRUE(absl::StrContains(elsewhere.status().message(), "host:1")) << elsewhere.status();
  const auto same = OwnTaskIn(Cluster("worker", 0, "host:1"), "grpc://host:1", kOwn);
  EXPECT_EQ(same.status().code(), absl::StatusCode::kInvalidArgument);
  tensorflow::ClusterDef two = Cluster("trainer", 0, "host:1");
  (*two.mutable_job(0)->mutable_tasks())[1] = "host:2";
  EXPECT_EQ(OwnTaskIn(two, "grpc://host:1", kOwn).status().code(),
            absl::StatusCode::kUnimplemented);
}

}  // namespace
}  // namespace tandem
