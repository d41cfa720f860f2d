// Graph::GrowNode: a call comes to take and give more than it did.
#include <vector>

#include "core/graph/graph.h"
#include "core/graph/scope.h"
#include "gtest/gtest.h"

namespace tandem {
namespace {

using Types = std::vector<DataType>;

class GrowNodeTest : public ::testing::Test {
 protected:
  Output Placeholder(DataType dtype) { return scope_.Call("Placeholder", {}, {{"dtype", dtype}}); }

  const Scope scope_ = Scope::NewRoot();
  Graph& graph_ = *scope_.graph();
  const Output x_ = Placeholder(kFloat32);
  Node* const call_ = scope_.AddNode("PartitionedCall", {x_},
                                     {{"f", FunctionRef{"f", {}}}, {"Tout", Types{kFloat32}}});
};

TEST_F(GrowNodeTest, KeepsItsNameEdgesAndOutputs) {
  ASSERT_TRUE(scope_.ok()) << scope_.status();
  const Output reader = scope_.Call("Identity", {call_->output(0)});
  const int id = call_->id();
  const Output y = Placeholder(kInt32);
  const absl::Status status = graph_.GrowNode(call_, {y},
                                              {{"f", FunctionRef{"g", {}}},
                                               {"Tin", Types{kFloat32, kInt32}},
                                               {"Tout", Types{kFloat32, kInt32, kBool}}});
  ASSERT_TRUE(status.ok()) << status;
  EXPECT_EQ(call_->id(), id);
  EXPECT_EQ(graph_.FindNode("PartitionedCall"), call_);
  ASSERT_EQ(call_->num_inputs(), 2);
  EXPECT_EQ(call_->input(0), x_);
  EXPECT_EQ(call_->input(1), y);
  ASSERT_EQ(call_->num_outputs(), 3);
  EXPECT_EQ(call_->output(2).dtype(), kBool);
  EXPECT_EQ(call_->Attr<FunctionRef>("f")->name, "g");
  EXPECT_EQ(reader.node->input(0), call_->output(0));
  ASSERT_EQ(y.node->consumers().size(), 1u);
  EXPECT_EQ(y.node->consumers()[0].node, call_);
}

TEST_F(GrowNodeTest, RefusesWhatChangesItsOutputsAndStaysAsItIs) {
  ASSERT_TRUE(scope_.ok()) << scope_.status();
  for (const Types& types : {Types{}, Types{kInt32}, Types{kInt32, kFloat32}}) {
    EXPECT_EQ(graph_.GrowNode(call_, {}, {{"Tout", types}}).code(),
              absl::StatusCode::kInvalidArgument);
  }
  EXPECT_EQ(graph_.GrowNode(call_, {Output()}, {}).code(), absl::StatusCode::kInvalidArgument);
  const Output y = Placeholder(kInt32);
  // The types of the inputs say that there is one.
  EXPECT_EQ(graph_.GrowNode(call_, {y}, {}).code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(call_->num_inputs(), 1);
  EXPECT_EQ(call_->num_outputs(), 1);
  EXPECT_TRUE(y.node->consumers().empty());
  EXPECT_EQ(*call_->Attr<Types>("Tout"), Types{kFloat32});
}

}  // namespace
}  // namespace tandem
