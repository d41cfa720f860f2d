#include "runtime/checkpoint/object_graph.h"

#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "proto/trackable_object_graph.pb.h"

namespace tandem {
namespace {

using ::testing::HasSubstr;

// A model with a weight, an optimizer with a slot of it, and an object of Python's own.
tensorflow::TrackableObjectGraph Graph() {
  tensorflow::TrackableObjectGraph graph;
  const auto add_child = [&](int parent, int child, const std::string& name) {
    auto* const reference = graph.mutable_nodes(parent)->add_children();
    reference->set_node_id(child);
    reference->set_local_name(name);
  };
  const auto add_attribute = [&](int node, const std::string& name, const std::string& key) {
    auto* const attribute = graph.mutable_nodes(node)->add_attributes();
    attribute->set_name(name);
    attribute->set_full_name(key + "_full");
    attribute->set_checkpoint_key(key);
  };
  for (int i = 0; i < 6; ++i) graph.add_nodes();
  add_child(0, 1, "model");
  add_child(0, 2, "optimizer");
  add_child(1, 3, "a/b.c");
  add_child(1, 0, "parent");  // A cycle.
  add_child(0, 5, "state");
  add_attribute(3, "VARIABLE_VALUE", "weight");
  add_attribute(4, "VARIABLE_VALUE", "slot");
  add_attribute(5, "OBJECT_CONFIG_JSON", "config");
  auto* const slot = graph.mutable_nodes(2)->add_slot_variables();
  slot->set_original_variable_node_id(3);
  slot->set_slot_name("m");
  slot->set_slot_variable_node_id(4);
  return graph;
}

ObjectGraph Parsed() {
  const auto graph = ObjectGraph::Parse(Graph().SerializeAsString());
  EXPECT_TRUE(graph.ok()) << graph.status();
  return *graph;
}

TEST(ObjectGraph, FindsTensorsByPath) {
  const ObjectGraph graph = Parsed();
  EXPECT_EQ(*graph.Find("model/a.Sb..c"), "weight");
  EXPECT_EQ(*graph.Find("model/a.Sb..c/.ATTRIBUTES/VARIABLE_VALUE"), "weight");
  EXPECT_EQ(*graph.Find("model/parent/model/a.Sb..c"), "weight");
  EXPECT_EQ(*graph.Find("state"), "config");
  EXPECT_EQ(graph.Attributes().size(), 3u);
}

TEST(ObjectGraph, FindsSlotsOfOptimizers) {
  const ObjectGraph graph = Parsed();
  EXPECT_EQ(*graph.Find("model/a.Sb..c/.OPTIMIZER_SLOT/optimizer/m"), "slot");
  const absl::Status other = graph.Find("model/a.Sb..c/.OPTIMIZER_SLOT/optimizer/v").status();
  EXPECT_EQ(other.code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(other.message(), HasSubstr("but m"));
  EXPECT_EQ(graph.Find("model/.OPTIMIZER_SLOT/optimizer/m").status().code(),
            absl::StatusCode::kNotFound);
  EXPECT_EQ(graph.Find("model/.OPTIMIZER_SLOT").status().code(), absl::StatusCode::kNotFound);
}

TEST(ObjectGraph, SaysWhereAPathEnds) {
  const ObjectGraph graph = Parsed();
  const absl::Status child = graph.Find("model/weights").status();
  EXPECT_EQ(child.code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(child.message(),
              AllOf(HasSubstr("'model' has no child 'weights'"), HasSubstr("a/b.c")));
  const absl::Status attribute = graph.Find("model").status();
  EXPECT_EQ(attribute.code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(attribute.message(), HasSubstr("VARIABLE_VALUE"));
  for (const char* path : {"", "/", "model/", "//", ".ATTRIBUTES", ".ATTRIBUTES/x", "."}) {
    EXPECT_EQ(graph.Find(path).status().code(), absl::StatusCode::kNotFound) << path;
  }
}

TEST(ObjectGraph, RefusesWhatIsDamaged) {
  EXPECT_EQ(ObjectGraph::Parse("").status().code(), absl::StatusCode::kDataLoss);
  EXPECT_EQ(ObjectGraph::Parse("\x0a\x7f").status().code(), absl::StatusCode::kDataLoss);
  for (const int node : {-1, 6}) {
    auto graph = Graph();
    graph.mutable_nodes(0)->mutable_children(0)->set_node_id(node);
    EXPECT_EQ(ObjectGraph::Parse(graph.SerializeAsString()).status().code(),
              absl::StatusCode::kDataLoss);
    graph = Graph();
    graph.mutable_nodes(2)->mutable_slot_variables(0)->set_slot_variable_node_id(node);
    EXPECT_EQ(ObjectGraph::Parse(graph.SerializeAsString()).status().code(),
              absl::StatusCode::kDataLoss);
  }
}

}  // namespace
}  // namespace tandem
