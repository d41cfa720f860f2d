// Tensor lists, optionals and queues, where the cases of tests/golden do not reach: values that are
// shared, gradients, numbers from outside, and who waits for a queue.
#include <string>
#include <vector>

#include "core/graph/scope.h"
#include "core/io/file.h"
#include "core/op/gradients.h"
#include "core/tensor/tensor_proto.h"
#include "gtest/gtest.h"
#include "kernels/data/queue.h"
#include "kernels/data/tensor_list.h"
#include "kernels/testing/op_runner.h"
#include "proto/tensor.pb.h"
#include "runtime/session/session.h"

namespace tandem::data {
namespace {

using ::tandem::testing::RunOp;

Tensor ListOf(const std::vector<Tensor>& elements, RefPtr<TensorList>* list = nullptr) {
  auto made = MakeRef<TensorList>(kFloat32, PartialShape::Unknown());
  made->elements = elements;
  if (list != nullptr) *list = made;
  return Tensor::Scalar(Variant(std::move(made)));
}

const TensorList& ListIn(const Tensor& tensor) {
  return *tensor.ScalarValue<Variant>().Get<TensorList>();
}

TEST(TensorList, ChangingOneLeavesThoseThatShareItAlone) {
  RefPtr<TensorList> held;
  const Tensor list = ListOf({Tensor::Scalar<float>(1)}, &held);
  const auto pushed = RunOp("TensorListPushBack", {list, Tensor::Scalar<float>(2)});
  ASSERT_TRUE(pushed.ok()) << pushed.status();
  EXPECT_EQ(ListIn((*pushed)[0]).elements.size(), 2u);
  EXPECT_EQ(held->elements.size(), 1u);
  const auto set =
      RunOp("TensorListSetItem", {list, Tensor::Scalar<int32_t>(0), Tensor::Scalar<float>(3)});
  ASSERT_TRUE(set.ok()) << set.status();
  EXPECT_EQ(ListIn((*set)[0]).elements[0].ScalarValue<float>(), 3);
  EXPECT_EQ(held->elements[0].ScalarValue<float>(), 1);
}

// What TensorFlow wrote (core/io/testdata/variant), byte for byte: two scalars.
TEST(TensorList, AsAMessageIsThatOfTensorFlow) {
  tensorflow::TensorProto proto;
  proto.set_dtype(tensorflow::DT_VARIANT);
  proto.mutable_tensor_shape();
  std::string golden = *ReadFile(PosixFileSystem(), "core/io/testdata/variant.data-00000-of-00001");
  golden.resize(1 + 0x3e);  // The first of two tensors; behind it lie its checksum and a number.
  proto.set_tensor_content(golden);
  const auto read = TensorFromProto(proto);
  ASSERT_TRUE(read.ok()) << read.status();
  const TensorList& list = ListIn(*read);
  ASSERT_EQ(list.elements.size(), 2u);
  EXPECT_EQ(list.dtype, kFloat32);
  EXPECT_EQ(list.max_elements, TensorList::kNoLimit);
  EXPECT_EQ(list.element_shape.rank(), 0);
  EXPECT_EQ(list.elements[1].ScalarValue<float>(), 2);
  tensorflow::TensorProto written;
  ASSERT_TRUE(TensorToProto(*read, &written, TensorProtoForm::kContent).ok());
  EXPECT_EQ(written.tensor_content(), golden);
}

TEST(TensorList, AsAMessageKeepsWhatIsNotSet) {
  RefPtr<TensorList> list;
  const Tensor tensor = ListOf({Tensor(), Tensor::Vector<float>({4}), Tensor()}, &list);
  tensorflow::TensorProto proto;
  ASSERT_TRUE(TensorToProto(tensor, &proto).ok());
  const auto back = TensorFromProto(proto);
  ASSERT_TRUE(back.ok()) << back.status();
  ASSERT_EQ(ListIn(*back).elements.size(), 3u);
  EXPECT_FALSE(ListIn(*back).elements[0].is_valid());
  EXPECT_EQ(ListIn(*back).elements[1].Elements<float>()[0], 4);
  EXPECT_FALSE(ListIn(*back).elements[2].is_valid());
  // Each byte of the metadata cut off, or another: never a crash, and no list that breaks its
  // rules.
  const std::string metadata = proto.variant_val(0).metadata();
  for (size_t i = 0; i < metadata.size(); ++i) {
    for (int change = 0; change < 256; change += change < 8 ? 1 : 31) {
      std::string damaged = metadata;
      damaged[i] = static_cast<char>(damaged[i] ^ change);
      if (change == 0) damaged.resize(i);
      proto.mutable_variant_val(0)->set_metadata(damaged);
      const auto result = TensorFromProto(proto);
      if (!result.ok()) {
        EXPECT_EQ(result.status().code(), absl::StatusCode::kInvalidArgument) << result.status();
      } else {
        EXPECT_EQ(ListIn(*result).dtype, kFloat32);
      }
    }
  }
}

TEST(TensorList, IsSavedAndRestored) {
  const std::string prefix = ::testing::TempDir() + "/list";
  Scope s = Scope::NewRoot();
  const Output list = s.Call("TensorListFromTensor", {s.Constant(Tensor::Vector<float>({5, 6})),
                                                      s.Constant(Tensor::Vector<int32_t>({}))});
  const Output names = s.Constant(Tensor::Vector<std::string>({"list"}));
  const Output slices = s.Constant(Tensor::Vector<std::string>({""}));
  s.WithOpName("save").AddNode("SaveV2", {prefix, names, slices, list});
  const Output restored = s.WithOpName("restore").Call(
      "RestoreV2", {prefix, names, slices}, {{"dtypes", std::vector<DataType>{kVariant}}});
  s.WithOpName("stack").Call("TensorListStack", {restored, s.Constant(Tensor::Vector<int32_t>({}))},
                             {{"element_dtype", kFloat32}});
  const auto session = Session::Create(*s.graph());
  ASSERT_TRUE(session.ok()) << session.status();
  const auto saved = (*session)->Run({}, {}, {"save"});
  ASSERT_TRUE(saved.ok()) << saved.status();
  const auto values = (*session)->Run({}, {"stack:0"});
  ASSERT_TRUE(values.ok()) << values.status();
  EXPECT_EQ((*values)[0].Elements<float>()[1], 6);
}

TEST(TensorList, RefusesNumbersThatWouldTakeAllMemory) {
  const Tensor any_shape = Tensor::Scalar<int32_t>(-1);
  EXPECT_EQ(RunOp("TensorListReserve", {any_shape, Tensor::Scalar<int32_t>(2147483647)},
                  {{"element_dtype", kFloat32}})
                .status()
                .code(),
            absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(RunOp("TensorListSetItem",
                  {ListOf({}), Tensor::Scalar<int32_t>(2147483647), Tensor::Scalar<float>(1)},
                  {{"resize_if_index_out_of_bounds", true}})
                .status()
                .code(),
            absl::StatusCode::kResourceExhausted);
}

TEST(TensorList, RefusesWhatIsNoList) {
  EXPECT_EQ(RunOp("TensorListLength", {Tensor::Scalar(Variant())}).status().code(),
            absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(RunOp("TensorListLength", {Tensor(kVariant, Shape({2}))}).status().code(),
            absl::StatusCode::kInvalidArgument);
  const auto optional = RunOp("OptionalNone", {});
  ASSERT_TRUE(optional.ok()) << optional.status();
  EXPECT_EQ(RunOp("TensorListLength", {(*optional)[0]}).status().code(),
            absl::StatusCode::kInvalidArgument);
}

TEST(TensorList, RefusesAnElementShapeThatIsNone) {
  const Tensor limit = Tensor::Scalar<int32_t>(-1);
  for (const Tensor& shape :
       {Tensor::Scalar<int32_t>(3), Tensor::Vector<int32_t>({-2}), Tensor(kInt32, Shape({1, 1}))}) {
    EXPECT_EQ(
        RunOp("EmptyTensorList", {shape, limit}, {{"element_dtype", kFloat32}}).status().code(),
        absl::StatusCode::kInvalidArgument);
  }
}

TEST(Optional, GivesBackWhatWentIn) {
  const auto made =
      RunOp("OptionalFromValue", {Tensor::Scalar<float>(2), Tensor::Scalar<std::string>("text")});
  ASSERT_TRUE(made.ok()) << made.status();
  EXPECT_TRUE((*RunOp("OptionalHasValue", *made))[0].ScalarValue<bool>());
  const AttrMap types = {{"output_types", std::vector<DataType>{kFloat32, kString}},
                         {"output_shapes", std::vector<PartialShape>(2)}};
  const auto values = RunOp("OptionalGetValue", *made, types);
  ASSERT_TRUE(values.ok()) << values.status();
  EXPECT_EQ((*values)[0].ScalarValue<float>(), 2);
  EXPECT_EQ((*values)[1].ScalarValue<std::string>(), "text");
  const auto none = RunOp("OptionalNone", {});
  ASSERT_TRUE(none.ok()) << none.status();
  EXPECT_FALSE((*RunOp("OptionalHasValue", *none))[0].ScalarValue<bool>());
  EXPECT_EQ(RunOp("OptionalGetValue", *none, types).status().code(),
            absl::StatusCode::kInvalidArgument);
}

TEST(TensorList, SumsCountElementsThatAreNotSetAsZeros) {
  const Tensor a = ListOf({Tensor::Vector<float>({1, 2}), Tensor::Scalar<float>(3), Tensor()});
  const Tensor b = ListOf({Tensor::Vector<float>({10, 20}), Tensor(), Tensor()});
  const auto sum = RunOp("AddN", {a, b, b});
  ASSERT_TRUE(sum.ok()) << sum.status();
  const TensorList& list = ListIn((*sum)[0]);
  ASSERT_EQ(list.elements.size(), 3u);
  EXPECT_EQ(list.elements[0].Elements<float>()[0], 21);
  EXPECT_EQ(list.elements[0].Elements<float>()[1], 42);
  EXPECT_EQ(list.elements[1].ScalarValue<float>(), 3);
  EXPECT_FALSE(list.elements[2].is_valid());
  // What was added is as it was.
  EXPECT_EQ(ListIn(a).elements[0].Elements<float>()[0], 1);
}

TEST(TensorList, SumsOfHalfPrecisionAndOfListsInLists) {
  const auto half = [](float value) { return Tensor::Scalar<Bfloat16>(Bfloat16(value)); };
  const auto nested = [&](float value) {
    auto inner = MakeRef<TensorList>(kBfloat16, PartialShape::Unknown());
    inner->elements = {half(value)};
    auto outer = MakeRef<TensorList>(kVariant, PartialShape::Unknown());
    outer->elements = {Tensor::Scalar(Variant(std::move(inner)))};
    return Tensor::Scalar(Variant(std::move(outer)));
  };
  const auto sum = RunOp("AddN", {nested(1.5f), nested(2)});
  ASSERT_TRUE(sum.ok()) << sum.status();
  const TensorList& inner = ListIn(ListIn((*sum)[0]).elements[0]);
  EXPECT_EQ(static_cast<float>(inner.elements[0].ScalarValue<Bfloat16>()), 3.5f);
}

TEST(TensorList, SumsRefuseListsOfOtherLengthTypeAndShape) {
  const Tensor one = ListOf({Tensor::Scalar<float>(1)});
  const auto code = [&](const Tensor& other) {
    return RunOp("AddN", {one, other}).status().code();
  };
  EXPECT_EQ(code(ListOf({})), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(code(ListOf({Tensor::Vector<float>({1})})), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(code(Tensor::Scalar(Variant(MakeRef<TensorList>(kInt32, PartialShape::Unknown())))),
            absl::StatusCode::kInvalidArgument);
  const auto optional = RunOp("OptionalFromValue", {Tensor::Scalar<float>(1)});
  ASSERT_TRUE(optional.ok()) << optional.status();
  EXPECT_EQ(code((*optional)[0]), absl::StatusCode::kInvalidArgument);
  EXPECT_TRUE(RunOp("AddN", {one, Tensor::Scalar(Variant())}).ok());
}

TEST(TensorList, ZerosLikeOneHaveItsShapes) {
  const Tensor list = ListOf({Tensor::Vector<float>({1, 2}), Tensor()});
  const auto zeros = RunOp("ZerosLike", {list});
  ASSERT_TRUE(zeros.ok()) << zeros.status();
  const TensorList& made = ListIn((*zeros)[0]);
  ASSERT_EQ(made.elements.size(), 2u);
  EXPECT_EQ(made.elements[0].shape(), Shape({2}));
  EXPECT_EQ(made.elements[0].Elements<float>()[1], 0);
  EXPECT_FALSE(made.elements[1].is_valid());
  EXPECT_EQ(ListIn(list).elements[0].Elements<float>()[1], 2);
}

TEST(Optional, SumsAndZeros) {
  const auto optional = RunOp("OptionalFromValue", {Tensor::Scalar<float>(2)});
  const auto none = RunOp("OptionalNone", {});
  ASSERT_TRUE(optional.ok()) << optional.status();
  ASSERT_TRUE(none.ok()) << none.status();
  const AttrMap attrs = {{"output_types", std::vector<DataType>{kFloat32}},
                         {"output_shapes", std::vector<PartialShape>{PartialShape({})}}};
  const auto value = [&](const Tensor& of) {
    const auto results = RunOp("OptionalGetValue", {of}, attrs);
    EXPECT_TRUE(results.ok()) << results.status();
    return results.ok() ? (*results)[0].ScalarValue<float>() : -1;
  };
  const auto sum = RunOp("AddN", {(*optional)[0], (*optional)[0]});
  ASSERT_TRUE(sum.ok()) << sum.status();
  EXPECT_EQ(value((*sum)[0]), 4);
  const auto zeros = RunOp("ZerosLike", {(*optional)[0]});
  ASSERT_TRUE(zeros.ok()) << zeros.status();
  EXPECT_EQ(value((*zeros)[0]), 0);
  EXPECT_EQ(RunOp("AddN", {(*optional)[0], (*none)[0]}).status().code(),
            absl::StatusCode::kInvalidArgument);
}

TEST(TensorList, GradientsTravelThroughLists) {
  Scope s = Scope::NewRoot();
  const Output x = s.Constant({1.f, 2.f, 3.f});
  const Output shape = s.Constant(Tensor(kInt32, Shape({0})));  // Elements are scalars.
  const Output z = s.Constant(4.f);
  Output list = s.Call("TensorListFromTensor", {x, shape});
  list = s.Call("TensorListPushBack", {list, z});
  list = s.Call("TensorListSetItem", {list, 0, s.Call("Mul", {z, z})});
  const Output other = s.Call("TensorListFromTensor", {x, shape});
  const Output item = s.Call("TensorListGetItem", {other, 1, shape}, {{"element_dtype", kFloat32}});
  const Output all = s.Call("TensorListStack", {list, shape}, {{"element_dtype", kFloat32}});
  // all = [z², x1, x2, z], item = x1: the sum of squares, and 10 x1.
  const Output y =
      s.Call("AddV2", {s.Call("Sum", {s.Call("Mul", {all, all}), 0}), s.Call("Mul", {item, 10.f})});
  ASSERT_TRUE(s.ok()) << s.status();
  const auto gradients = AddGradients(s.graph(), {y}, {x, z});
  ASSERT_TRUE(gradients.ok()) << gradients.status();
  s.WithOpName("dx").Call("Identity", {(*gradients)[0].values});
  s.WithOpName("dz").Call("Identity", {(*gradients)[1].values});
  ASSERT_TRUE(s.ok()) << s.status();
  const auto session = Session::Create(*s.graph());
  ASSERT_TRUE(session.ok()) << session.status();
  const auto results = (*session)->Run({}, {"dx", "dz"});
  ASSERT_TRUE(results.ok()) << results.status();
  const auto dx = (*results)[0].Elements<float>();
  EXPECT_EQ(std::vector<float>(dx.begin(), dx.end()), (std::vector<float>{0, 14, 6}));
  // d(z⁴ + z²)/dz at 4.
  EXPECT_EQ((*results)[1].ScalarValue<float>(), 4 * 64 + 8);
}

class QueueTest : public ::testing::Test {
 protected:
  // Notes how each operation ended, by name: "taken 3", "put", or the code of the error.
  FifoQueue::Done Note(const std::string& name) {
    return [this, name](absl::StatusOr<FifoQueue::Element> element) {
      std::string how = absl::StatusCodeToString(element.status().code());
      if (element.ok() && !element->empty()) {
        how = absl::StrCat((*element)[0].ScalarValue<int32_t>());
      }
      ended_.push_back(absl::StrCat(name, " ", how));
    };
  }
  void Put(int32_t value) {
    queue_->Enqueue({Tensor::Scalar<int32_t>(value)}, &step_, Note(absl::StrCat("put", value)));
  }
  void Take(const std::string& name, CancellationManager* step = nullptr) {
    queue_->Dequeue({kInt32}, step == nullptr ? &step_ : step, Note(name));
  }
  std::vector<std::string> Ended() { return std::exchange(ended_, {}); }

  using Texts = std::vector<std::string>;
  CancellationManager step_;
  RefPtr<FifoQueue> queue_ =
      MakeRef<FifoQueue>("q", std::vector<DataType>{kInt32}, std::vector<PartialShape>{}, 1);
  std::vector<std::string> ended_;
};

TEST_F(QueueTest, ServesThoseWhoWaitInOrder) {
  Take("a");
  Take("b");
  EXPECT_EQ(Ended(), Texts{});
  Put(1);
  EXPECT_EQ(Ended(), (Texts{"put1 OK", "a 1"}));
  Put(2);
  EXPECT_EQ(Ended(), (Texts{"put2 OK", "b 2"}));
  Put(3);
  Put(4);
  Put(5);
  EXPECT_EQ(Ended(), Texts{"put3 OK"});
  Take("c");
  EXPECT_EQ(Ended(), (Texts{"c 3", "put4 OK"}));
}

TEST_F(QueueTest, OneWhoIsCancelledLosesItsTurnOnly) {
  CancellationManager other;
  Take("a", &other);
  Take("b");
  other.Cancel(absl::AbortedError("enough"));
  EXPECT_EQ(Ended(), Texts{"a CANCELLED"});
  Put(1);
  EXPECT_EQ(Ended(), (Texts{"put1 OK", "b 1"}));
  Take("c", &other);
  EXPECT_EQ(Ended(), Texts{"c CANCELLED"}) << "the step had ended before";
}

TEST_F(QueueTest, ClosingLetsPendingEnqueuesThrough) {
  Put(1);
  Put(2);
  EXPECT_EQ(Ended(), Texts{"put1 OK"});
  EXPECT_TRUE(queue_->Close(false).ok());
  Put(3);
  EXPECT_EQ(Ended(), Texts{"put3 CANCELLED"});
  Take("a");
  Take("b");
  Take("c");
  EXPECT_EQ(Ended(), (Texts{"a 1", "put2 OK", "b 2", "c OUT_OF_RANGE"}));
  EXPECT_TRUE(absl::IsCancelled(queue_->Close(false)));
}

TEST_F(QueueTest, ClosingMayCancelPendingEnqueues) {
  Put(1);
  Put(2);
  EXPECT_TRUE(queue_->Close(true).ok());
  Take("a");
  Take("b");
  EXPECT_EQ(Ended(), (Texts{"put1 OK", "put2 CANCELLED", "a 1", "b OUT_OF_RANGE"}));
}

// x goes through arrays by every pair of ops that writes and reads them; each way multiplies by a
// number of its own.
TEST(TensorArray, GradientsComeBackThroughTheArrayOfGradients) {
  Scope s = Scope::NewRoot();
  const Output x = s.WithOpName("x").Call("Placeholder", {},
                                          {{"dtype", kFloat32}, {"shape", PartialShape({3})}});
  const auto array = [&] { return s.CallMulti("TensorArrayV3", {3}, {{"dtype", kFloat32}}); };
  const AttrMap of_float = {{"dtype", kFloat32}};
  const std::vector<Output> a = array();
  const std::vector<Output> b = array();
  const std::vector<Output> c = array();
  ASSERT_TRUE(s.ok()) << s.status();
  const Output scattered = s.Call("TensorArrayScatterV3", {a[0], {2, 0, 1}, x, a[1]});
  const Output gathered = s.Call("TensorArrayGatherV3", {a[0], {0, 1, 2}, scattered}, of_float);
  const Output lengths = s.Constant(Tensor::Vector<int64_t>({1, 0, 2}));
  const Output split = s.Call("TensorArraySplitV3", {b[0], x, lengths, b[1]});
  const Output joined = s.Call("TensorArrayConcatV3", {b[0], split}, of_float);
  const Output written = s.Call("TensorArrayWriteV3", {c[0], 1, x, c[1]});
  const Output read = s.Call("TensorArrayReadV3", {c[0], 1, written}, of_float);
  const Output factors = s.Constant({1.f, 10.f, 100.f});
  const Output y = s.Call("AddN", {{s.Call("Mul", {gathered, factors}),
                                    s.Call("Mul", {joined, 1000.f}), s.Call("Mul", {read, 2.f})}});
  ASSERT_TRUE(s.ok()) << s.status();
  const auto gradients = AddGradients(s.graph(), {y}, {x});
  ASSERT_TRUE(gradients.ok()) << gradients.status();
  s.WithOpName("dx").Call("Identity", {(*gradients)[0].values});
  const auto session = Session::Create(*s.graph());
  ASSERT_TRUE(session.ok()) << session.status();
  const auto results = (*session)->Run({{"x", Tensor::Vector<float>({1, 2, 3})}}, {"dx"});
  ASSERT_TRUE(results.ok()) << results.status();
  const absl::Span<const float> dx = (*results)[0].Elements<float>();
  EXPECT_EQ(std::vector<float>(dx.begin(), dx.end()), std::vector<float>({1102.f, 1003.f, 1012.f}));
}

}  // namespace
}  // namespace tandem::data
