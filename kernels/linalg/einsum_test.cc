// Einsum against a sum over all labels, element by element, in layouts that need copies and in such
// that do not; and what it refuses.
#include <complex>
#include <map>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "kernels/linalg/einsum_equation.h"
#include "kernels/testing/op_runner.h"

namespace tandem::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

Tensor Values(Shape shape, unsigned seed) {
  Tensor t(kFloat64, std::move(shape));
  for (double& value : t.MutableElements<double>()) {
    seed = seed * 1664525u + 1013904223u;
    value = static_cast<double>(seed >> 8) / (1 << 24) - 0.5;
  }
  return t;
}

absl::StatusOr<Tensor> Einsum(const std::string& equation, std::vector<Tensor> inputs,
                              bool constant_inputs = false) {
  const auto n = static_cast<int64_t>(inputs.size());
  auto outputs =
      RunOp("Einsum", std::move(inputs), {{"equation", equation}, {"N", n}}, constant_inputs);
  if (!outputs.ok()) return outputs.status();
  return (*outputs)[0];
}

// Sums over all values of all labels. Labels only.
std::vector<double> Plain(const EinsumEquation& equation, const std::vector<Tensor>& inputs,
                          const Shape& output) {
  std::map<char, int64_t> sizes;
  for (size_t i = 0; i < inputs.size(); ++i) {
    for (int d = 0; d < inputs[i].shape().rank(); ++d) {
      sizes[equation.inputs[i][static_cast<size_t>(d)]] = inputs[i].shape().dim(d);
    }
  }
  int64_t total = 1;
  for (const auto& [label, size] : sizes) total *= size;
  std::vector<double> sums(static_cast<size_t>(output.num_elements()));
  for (int64_t i = 0; i < total; ++i) {
    std::map<char, int64_t> at;
    int64_t rest = i;
    for (const auto& [label, size] : sizes) {
      at[label] = rest % size;
      rest /= size;
    }
    const auto place = [&](const std::string& labels, const Shape& shape) {
      int64_t offset = 0;
      for (int d = 0; d < shape.rank(); ++d) {
        offset = offset * shape.dim(d) + at[labels[static_cast<size_t>(d)]];
      }
      return static_cast<size_t>(offset);
    };
    double product = 1;
    for (size_t j = 0; j < inputs.size(); ++j) {
      product *= inputs[j].Elements<double>()[place(equation.inputs[j], inputs[j].shape())];
    }
    sums[place(equation.output, output)] += product;
  }
  return sums;
}

class EinsumTest : public ::testing::TestWithParam<std::string> {};

TEST_P(EinsumTest, IsTheSumOverAllLabels) {
  const std::map<char, int64_t> sizes = {{'a', 3}, {'b', 4}, {'c', 5}, {'d', 2},
                                         {'e', 6}, {'f', 1}, {'i', 4}, {'j', 3}};
  const auto equation = EinsumEquation::Parse(GetParam());
  ASSERT_TRUE(equation.ok()) << equation.status();
  std::vector<Tensor> inputs;
  for (const std::string& labels : equation->inputs) {
    Shape shape;
    for (const char label : labels) shape.AddDim(sizes.at(label));
    inputs.push_back(Values(std::move(shape), static_cast<unsigned>(inputs.size()) + 1));
  }
  for (const bool constant_inputs : {false, true}) {
    const auto found = Einsum(GetParam(), inputs, constant_inputs);
    ASSERT_TRUE(found.ok()) << found.status();
    const std::vector<double> wanted = Plain(*equation, inputs, found->shape());
    for (size_t i = 0; i < wanted.size(); ++i) {
      ASSERT_NEAR(found->Elements<double>()[i], wanted[i], 1e-12) << "element " << i;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(
    Equations, EinsumTest,
    ::testing::Values("ab->ab", "ab->ba", "ab->", "ab->a", "ab->b", "abc->b", "abc->ca", "ii->",
                      "ii->i", "i->ii", "iai->a", "iai->ai", "iij->jji", "afb->fba", "->",
                      "ab,bc->ac", "ab,bc->ca", "ba,bc->ac", "ab,cb->ac", "ba,cb->ca",
                      "abc,cd->abd", "abc,cde->abde", "abc,bcd->ad", "abc,bcd->da", "abc,cbd->ad",
                      "abc,abc->abc", "abc,abc->", "abc,abc->a", "abc,b->abc", "abc,c->ab",
                      "a,b->ab", "a,b->ba", "a,b->", ",a->a", "ab,->ab", ",->", "abc,acd->abd",
                      "abcd,aecd->acbe", "acbe,aecd->abcd", "abcd,abed->bace", "ab,ab->ba",
                      "abe,acd->bd", "ab,cd->ad", "ii,ij->j", "ii,jj->ij", "ij,j->ii", "a,b->aab",
                      "aic,aid->acd", "fab,fbc->fac", "abf,fc->abc", "eab,eab->ab"));

TEST(Einsum, AnEllipsisBroadcasts) {
  const Tensor x = Tensor::FromValues<float>({2, 1, 2}, {1, 2, 3, 4});
  const Tensor y = Tensor::FromValues<float>({3, 2}, {1, 0, 0, 1, 1, 1});
  const auto sums = Einsum("...a,...a->...", {x, y});
  ASSERT_TRUE(sums.ok()) << sums.status();
  EXPECT_EQ(sums->shape(), Shape({2, 3}));
  EXPECT_THAT(sums->Elements<float>(), ElementsAre(1, 2, 3, 3, 4, 7));
  const auto products = Einsum("a...,b->b...a", {x, Tensor::Vector<float>({10, 100})}, true);
  ASSERT_TRUE(products.ok()) << products.status();
  EXPECT_EQ(products->shape(), Shape({2, 1, 2, 2}));
  EXPECT_THAT(products->Elements<float>(), ElementsAre(10, 30, 20, 40, 100, 300, 200, 400));
}

TEST(Einsum, ASumOfNothingIsZero) {
  const auto sums =
      Einsum("ab,bc->ac", {Tensor::Zeros(kFloat32, {2, 0}), Tensor::Zeros(kFloat32, {0, 2})});
  ASSERT_TRUE(sums.ok()) << sums.status();
  EXPECT_THAT(sums->Elements<float>(), ElementsAre(0, 0, 0, 0));
  const auto none =
      Einsum("ab,bc->ac", {Tensor::Zeros(kFloat32, {0, 3}), Tensor::Zeros(kFloat32, {3, 2})});
  ASSERT_TRUE(none.ok()) << none.status();
  EXPECT_EQ(none->shape(), Shape({0, 2}));
}

TEST(Einsum, TypesOtherThanDoubleAddUpTheSame) {
  const auto wrapped =
      Einsum("a,a->", {Tensor::Vector<int32_t>({1 << 30, 1}), Tensor::Vector<int32_t>({4, 7})});
  ASSERT_TRUE(wrapped.ok()) << wrapped.status();
  EXPECT_THAT(wrapped->Elements<int32_t>(), ElementsAre(7));
  using C = std::complex<float>;
  const auto complex = Einsum(
      "a,a->", {Tensor::Vector<C>({C(1, 2), C(0, 1)}), Tensor::Vector<C>({C(3, -1), C(0, 1)})});
  ASSERT_TRUE(complex.ok()) << complex.status();
  EXPECT_THAT(complex->Elements<C>(), ElementsAre(C(4, 5)));
  // 4097 ones: more than float16 can count one by one.
  Tensor ones(kFloat16, {4097});
  for (Float16& one : ones.MutableElements<Float16>()) one = Float16(1);
  const auto many = Einsum("a->", {ones});
  ASSERT_TRUE(many.ok()) << many.status();
  EXPECT_EQ(static_cast<float>(many->Elements<Float16>()[0]), 4096);
}

TEST(Einsum, RefusesWhatDoesNotFit) {
  const Tensor x = Tensor::Zeros(kFloat32, {2, 3});
  struct Case {
    const char* equation;
    std::vector<Tensor> inputs;
    const char* part;
  };
  const std::vector<Case> cases = {
      {"ab,bc", {x, x}, "'->'"},
      {"ab->a->b", {x}, "'->'"},
      {"ab,bc->ac", {x, x}, "sizes 3 and 2"},
      {"ab->ac", {x}, "'c'"},
      {"abc->a", {x}, "rank 2"},
      {"a..b->a", {x}, "ellipsis"},
      {"...a...->a", {x}, "ellipsis"},
      {"...a->a", {x}, "ellipsis"},
      {"ab->a", {x, x}, "1 inputs"},
      {"...a,...a->...", {x, Tensor::Zeros(kFloat32, {3, 3})}, "[2]"},
  };
  for (const Case& c : cases) {
    for (const bool constant_inputs : {false, true}) {
      const auto found = Einsum(c.equation, c.inputs, constant_inputs);
      EXPECT_EQ(found.status().code(), absl::StatusCode::kInvalidArgument) << c.equation;
      EXPECT_THAT(std::string(found.status().message()), HasSubstr(c.part)) << c.equation;
    }
  }
}

}  // namespace
}  // namespace tandem::testing
