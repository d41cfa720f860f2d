#include "core/passes/place.h"

#include "absl/strings/match.h"
#include "core/graph/scope.h"
#include "gtest/gtest.h"

namespace tandem {
namespace {

const char kCpu0[] = "/job:a/replica:0/task:0/device:CPU:0";
const char kCpu1[] = "/job:a/replica:0/task:0/device:CPU:1";
const char kSim0[] = "/job:a/replica:0/task:0/device:SIM:0";

PlaceOptions Options() {
  PlaceOptions options;
  options.devices = {kCpu0, kCpu1, kSim0};
  return options;
}

// The graph x -> y, where y wishes for `device`.
Scope Wishing(const std::string& device) {
  Scope s = Scope::NewRoot();
  const Output x = s.WithOpName("x").Call("Placeholder", {}, {{"dtype", kFloat32}});
  s.WithDevice(device).WithOpName("y").Call("Neg", {x});
  EXPECT_TRUE(s.ok()) << s.status();
  return s;
}

std::string PlaceOf(const Scope& scope, const std::string& node) {
  return scope.graph()->GetOutput(node)->node->device();
}

TEST(Place, APartialNameIsAPattern) {
  for (const auto& [wish, place] :
       std::vector<std::pair<std::string, std::string>>{{"", kCpu0},
                                                        {"/device:CPU:1", kCpu1},
                                                        {"/device:SIM:*", kSim0},
                                                        {"/job:a/device:SIM:0", kSim0},
                                                        {"/task:0", kCpu0},
                                                        {kCpu1, kCpu1}}) {
    const Scope s = Wishing(wish);
    const absl::Status status = Place(Options(), *s.graph());
    ASSERT_TRUE(status.ok()) << status;
    EXPECT_EQ(PlaceOf(s, "y"), place) << wish;
    EXPECT_EQ(PlaceOf(s, "x"), kCpu0);
  }
}

TEST(Place, TheDefaultIsForWhoHasNoWish) {
  PlaceOptions options = Options();
  options.default_device = kCpu1;
  const Scope s = Wishing("/device:SIM:0");
  ASSERT_TRUE(Place(options, *s.graph()).ok());
  EXPECT_EQ(PlaceOf(s, "x"), kCpu1);
  EXPECT_EQ(PlaceOf(s, "y"), kSim0);
}

TEST(Place, AWishThatNoDeviceFulfilsIsAnError) {
  for (const char* wish : {"/device:GPU:0", "/device:CPU:7", "/job:b"}) {
    const Scope s = Wishing(wish);
    const absl::Status status = Place(Options(), *s.graph());
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status;
    EXPECT_TRUE(absl::StrContains(status.message(), "'y'")) << status;
    EXPECT_TRUE(absl::StrContains(status.message(), wish)) << status;
  }
}

TEST(Place, SoftPlacementTakesAnotherDeviceOfTheTaskAndSaysSo) {
  for (const char* wish : {"/device:GPU:0", "/device:CPU:7"}) {
    std::vector<std::string> moved;
    PlaceOptions options = Options();
    options.soft = true;
    options.moved = &moved;
    const Scope s = Wishing(wish);
    const absl::Status status = Place(options, *s.graph());
    ASSERT_TRUE(status.ok()) << status;
    EXPECT_EQ(PlaceOf(s, "y"), kCpu0);
    ASSERT_EQ(moved.size(), 1u);
    EXPECT_TRUE(absl::StrContains(moved[0], "node 'y'")) << moved[0];
    EXPECT_TRUE(absl::StrContains(moved[0], wish)) << moved[0];
    EXPECT_TRUE(absl::StrContains(moved[0], kCpu0)) << moved[0];
  }
}

TEST(Place, SoftPlacementMovesNobodyWhoseWishCanBeFulfilled) {
  std::vector<std::string> moved;
  PlaceOptions options = Options();
  options.soft = true;
  options.moved = &moved;
  const Scope s = Wishing("/device:SIM:0");
  ASSERT_TRUE(Place(options, *s.graph()).ok());
  EXPECT_EQ(PlaceOf(s, "y"), kSim0);
  EXPECT_TRUE(moved.empty());
}

TEST(Place, SoftPlacementDoesNotLeaveTheTask) {
  PlaceOptions options = Options();
  options.soft = true;
  const Scope s = Wishing("/job:b/device:CPU:0");
  EXPECT_EQ(Place(options, *s.graph()).code(), absl::StatusCode::kInvalidArgument);
}

// A handle's users run where the variable lives, whatever else was the first choice.
TEST(Place, WhoeverHoldsAHandleFollowsTheVariable) {
  Scope s = Scope::NewRoot();
  const Output v = s.WithDevice("/device:CPU:1")
                       .WithOpName("v")
                       .Call("VarHandleOp", {}, {{"dtype", kFloat32}, {"shape", PartialShape({})}});
  s.WithOpName("read").Call("ReadVariableOp", {v}, {{"dtype", kFloat32}});
  ASSERT_TRUE(s.ok()) << s.status();
  ASSERT_TRUE(Place(Options(), *s.graph()).ok());
  EXPECT_EQ(PlaceOf(s, "read"), kCpu1);
}

// As in TensorFlow: a device scope around a reader says where the rest of a model runs.
TEST(Place, WhoeverHoldsAHandleFollowsTheVariableAlsoAgainstItsOwnWish) {
  Scope s = Scope::NewRoot();
  const auto read_of = [](const Scope& where, const char* name, const Output& v) {
    where.WithOpName(name).Call("ReadVariableOp", {v}, {{"dtype", kFloat32}});
  };
  const Output v = s.WithDevice("/device:CPU:1")
                       .WithOpName("v")
                       .Call("VarHandleOp", {}, {{"dtype", kFloat32}, {"shape", PartialShape({})}});
  read_of(s.WithDevice("/device:CPU:0"), "read", v);
  // A variable that goes anywhere goes where its readers wish.
  const Output free = s.WithOpName("free").Call("VarHandleOp", {},
                                                {{"dtype", kFloat32}, {"shape", PartialShape({})}});
  read_of(s.WithDevice("/device:CPU:1"), "read_free", free);
  ASSERT_TRUE(s.ok()) << s.status();
  ASSERT_TRUE(Place(Options(), *s.graph()).ok());
  EXPECT_EQ(PlaceOf(s, "read"), kCpu1);
  EXPECT_EQ(PlaceOf(s, "free"), kCpu1);
}

TEST(Place, WishesThatContradictEachOtherAreAnError) {
  Scope s = Scope::NewRoot();
  const auto variable = [&s](const char* device, const char* name, AttrMap attrs) {
    attrs["dtype"] = kFloat32;
    attrs["shape"] = PartialShape({});
    return s.WithDevice(device).WithOpName(name).Call("VarHandleOp", {}, attrs);
  };
  variable("/device:CPU:1", "v", {});
  variable("/device:CPU:0", "w", {{"_class", std::vector<std::string>{"loc:@v"}}});
  ASSERT_TRUE(s.ok()) << s.status();
  const absl::Status status = Place(Options(), *s.graph());
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status;
  EXPECT_TRUE(absl::StrContains(status.message(), "'w'")) << status;
}

}  // namespace
}  // namespace tandem
