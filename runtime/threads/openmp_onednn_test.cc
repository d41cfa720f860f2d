// oneDNN on Tandem's OpenMP: it really is ours that it calls, and the results are right, and the
// same, whatever else goes on. Linked twice: to shared objects, as tests are,
// and into one executable, as programs are.
#include <atomic>
#include <cstdint>
#include <cstring>
#include <thread>
#include <utility>
#include <vector>

#include "dnnl.hpp"
#include "gtest/gtest.h"
#include "runtime/threads/inner_loop.h"
#include "runtime/threads/openmp.h"
#include "runtime/threads/run_tokens.h"

namespace tandem {
namespace {

using dnnl::memory;
using Floats = std::vector<float>;
using Tag = memory::format_tag;

Floats Values(int64_t count, unsigned seed) {
  Floats values(count);
  for (float& value : values) {
    seed = seed * 1664525u + 1013904223u;
    value = static_cast<float>(seed >> 8) / (1 << 24) - 0.5f;
  }
  return values;
}

// One stack a test: an engine and a stream.
struct Cpu {
  dnnl::engine engine{dnnl::engine::kind::cpu, 0};
  dnnl::stream stream{engine};

  memory Wrap(const memory::dims& dims, Tag tag, Floats& data) {
    return memory({dims, memory::data_type::f32, tag}, engine, data.data());
  }
  memory Reorder(memory from, const memory::desc& to) {
    memory result(to, engine);
    dnnl::reorder(from, result).execute(stream, from, result);
    stream.wait();
    return result;
  }
  void Read(memory from, const memory::dims& dims, Tag tag, Floats& into) {
    memory plain = Wrap(dims, tag, into);
    dnnl::reorder(from, plain).execute(stream, from, plain);
    stream.wait();
  }
};

// A convolution with stride 1 and same padding: batch, side, channels in and out, kernel.
struct Conv {
  int64_t batch, side, in, out, kernel;

  memory::dims Source() const { return {batch, in, side, side}; }
  memory::dims Filter() const { return {out, in, kernel, kernel}; }
  memory::dims Result() const { return {batch, out, side, side}; }
  memory::dims Padding() const { return {kernel / 2, kernel / 2}; }
};

int64_t Count(const memory::dims& dims) {
  int64_t count = 1;
  for (int64_t dim : dims) count *= dim;
  return count;
}

memory::desc Any(const memory::dims& dims) {
  return memory::desc(dims, memory::data_type::f32, Tag::any);
}

dnnl::convolution_forward::primitive_desc Forward(Cpu& cpu, const Conv& conv) {
  return {{dnnl::prop_kind::forward_training,
           dnnl::algorithm::convolution_direct,
           Any(conv.Source()),
           Any(conv.Filter()),
           Any(conv.Result()),
           {1, 1},
           conv.Padding(),
           conv.Padding()},
          cpu.engine};
}

// Result and weight gradient, computed by primitives that are made for and run on `threads`.
std::pair<Floats, Floats> Convolve(const Conv& conv, Floats source, Floats filter, Floats dy,
                                   int threads) {
  ScopedInnerParallelism limit(threads);
  Cpu cpu;
  auto forward = Forward(cpu, conv);
  memory x = cpu.Reorder(cpu.Wrap(conv.Source(), Tag::nchw, source), forward.src_desc());
  memory w = cpu.Reorder(cpu.Wrap(conv.Filter(), Tag::oihw, filter), forward.weights_desc());
  memory y(forward.dst_desc(), cpu.engine);
  dnnl::convolution_forward(forward).execute(
      cpu.stream, {{DNNL_ARG_SRC, x}, {DNNL_ARG_WEIGHTS, w}, {DNNL_ARG_DST, y}});

  dnnl::convolution_backward_weights::primitive_desc backward({dnnl::algorithm::convolution_direct,
                                                               Any(conv.Source()),
                                                               Any(conv.Filter()),
                                                               Any(conv.Result()),
                                                               {1, 1},
                                                               conv.Padding(),
                                                               conv.Padding()},
                                                              cpu.engine, forward);
  memory x2 = cpu.Reorder(cpu.Wrap(conv.Source(), Tag::nchw, source), backward.src_desc());
  memory dy2 = cpu.Reorder(cpu.Wrap(conv.Result(), Tag::nchw, dy), backward.diff_dst_desc());
  memory dw(backward.diff_weights_desc(), cpu.engine);
  dnnl::convolution_backward_weights(backward).execute(
      cpu.stream, {{DNNL_ARG_SRC, x2}, {DNNL_ARG_DIFF_DST, dy2}, {DNNL_ARG_DIFF_WEIGHTS, dw}});
  cpu.stream.wait();

  Floats result(Count(conv.Result())), gradient(Count(conv.Filter()));
  cpu.Read(y, conv.Result(), Tag::nchw, result);
  cpu.Read(dw, conv.Filter(), Tag::oihw, gradient);
  return {result, gradient};
}

// The same by the definition, in double.
std::pair<Floats, Floats> ConvolveSlowly(const Conv& c, const Floats& source, const Floats& filter,
                                         const Floats& dy) {
  std::vector<double> result(Count(c.Result())), gradient(Count(c.Filter()));
  for (int64_t n = 0; n < c.batch; ++n)
    for (int64_t o = 0; o < c.out; ++o)
      for (int64_t i = 0; i < c.in; ++i)
        for (int64_t ky = 0; ky < c.kernel; ++ky)
          for (int64_t kx = 0; kx < c.kernel; ++kx) {
            const int64_t f = ((o * c.in + i) * c.kernel + ky) * c.kernel + kx;
            for (int64_t y = 0; y < c.side; ++y)
              for (int64_t x = 0; x < c.side; ++x) {
                const int64_t sy = y + ky - c.kernel / 2, sx = x + kx - c.kernel / 2;
                if (sy < 0 || sy >= c.side || sx < 0 || sx >= c.side) continue;
                const int64_t s = ((n * c.in + i) * c.side + sy) * c.side + sx;
                const int64_t r = ((n * c.out + o) * c.side + y) * c.side + x;
                result[r] += static_cast<double>(source[s]) * filter[f];
                gradient[f] += static_cast<double>(source[s]) * dy[r];
              }
          }
  return {Floats(result.begin(), result.end()), Floats(gradient.begin(), gradient.end())};
}

Floats Multiply(int64_t m, int64_t k, int64_t n, Floats a, Floats b, int threads) {
  ScopedInnerParallelism limit(threads);
  Cpu cpu;
  memory left = cpu.Wrap({m, k}, Tag::ab, a), right = cpu.Wrap({k, n}, Tag::ab, b);
  Floats result(m * n);
  memory product = cpu.Wrap({m, n}, Tag::ab, result);
  dnnl::matmul::primitive_desc matmul({left.get_desc(), right.get_desc(), product.get_desc()},
                                      cpu.engine);
  dnnl::matmul(matmul).execute(
      cpu.stream, {{DNNL_ARG_SRC, left}, {DNNL_ARG_WEIGHTS, right}, {DNNL_ARG_DST, product}});
  cpu.stream.wait();
  return result;
}

// `bound` times the unit roundoff of float: sums of a few thousand terms of about 0.1 each.
void ExpectNear(const Floats& got, const Floats& expected, float bound) {
  ASSERT_EQ(got.size(), expected.size());
  for (size_t i = 0; i < got.size(); ++i) ASSERT_NEAR(got[i], expected[i], bound) << "at " << i;
}

bool SameBits(const Floats& a, const Floats& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

class OpenMpOneDnnTest : public testing::Test {
 protected:
  void SetUp() override { RunTokens::Process().SetCapacity(2); }
  void TearDown() override { RunTokens::Process().SetCapacity(before_); }
  const int before_ = RunTokens::Process().capacity();
};

constexpr Conv kConvs[] = {
    {8, 14, 1, 64, 3}, {4, 14, 16, 32, 3}, {2, 9, 3, 8, 5}, {1, 28, 8, 16, 1}};

TEST_F(OpenMpOneDnnTest, TheEntryPointsAreOurs) {
  EXPECT_EQ(CheckOpenMpIsOurs(), absl::OkStatus());
}

TEST_F(OpenMpOneDnnTest, APrimitiveForTwoThreadsRunsAsATeam) {
  const OpenMpCounts before = GetOpenMpCounts();
  Multiply(256, 256, 256, Values(256 * 256, 1), Values(256 * 256, 2), 2);
  EXPECT_GT(GetOpenMpCounts().teams, before.teams);
}

TEST_F(OpenMpOneDnnTest, APrimitiveForOneThreadStaysAlone) {
  const OpenMpCounts before = GetOpenMpCounts();
  Multiply(256, 256, 256, Values(256 * 256, 1), Values(256 * 256, 2), 1);
  EXPECT_EQ(GetOpenMpCounts().teams, before.teams);
}

TEST_F(OpenMpOneDnnTest, ProductsAreRight) {
  const int64_t m = 65, k = 130, n = 97;
  const Floats a = Values(m * k, 1), b = Values(k * n, 2);
  Floats expected(m * n);
  for (int64_t i = 0; i < m; ++i)
    for (int64_t j = 0; j < n; ++j) {
      double sum = 0;
      for (int64_t l = 0; l < k; ++l) sum += static_cast<double>(a[i * k + l]) * b[l * n + j];
      expected[i * n + j] = static_cast<float>(sum);
    }
  for (int threads : {1, 2, 3}) ExpectNear(Multiply(m, k, n, a, b, threads), expected, 1e-5f);
}

TEST_F(OpenMpOneDnnTest, ConvolutionsAndTheirWeightGradientsAreRight) {
  for (const Conv& conv : kConvs) {
    const Floats x = Values(Count(conv.Source()), 1), w = Values(Count(conv.Filter()), 2),
                 dy = Values(Count(conv.Result()), 3);
    const auto [result, gradient] = ConvolveSlowly(conv, x, w, dy);
    for (int threads : {1, 2, 3}) {
      SCOPED_TRACE(testing::Message()
                   << conv.in << " to " << conv.out << " channels, " << threads << " threads");
      const auto [y, dw] = Convolve(conv, x, w, dy, threads);
      ExpectNear(y, result, 1e-4f);
      ExpectNear(dw, gradient, 1e-3f);
    }
  }
}

// However the members of a team get their threads: the bits are the same, since they follow from
// index and team size.
TEST_F(OpenMpOneDnnTest, ResultsDoNotDependOnTheTokensThatWereFree) {
  for (const Conv& conv : kConvs) {
    const Floats x = Values(Count(conv.Source()), 1), w = Values(Count(conv.Filter()), 2),
                 dy = Values(Count(conv.Result()), 3);
    for (int threads : {2, 3}) {
      RunTokens::Process().SetCapacity(1);
      const auto alone = Convolve(conv, x, w, dy, threads);
      RunTokens::Process().SetCapacity(3);
      for (int i = 0; i < 3; ++i) {
        const auto together = Convolve(conv, x, w, dy, threads);
        EXPECT_TRUE(SameBits(alone.first, together.first));
        EXPECT_TRUE(SameBits(alone.second, together.second));
      }
    }
  }
}

TEST_F(OpenMpOneDnnTest, CallersAtOnceStayWithinTheTokensAndGetTheSameBits) {
  const Conv conv = kConvs[0];
  const Floats x = Values(Count(conv.Source()), 1), w = Values(Count(conv.Filter()), 2),
               dy = Values(Count(conv.Result()), 3);
  const auto expected = Convolve(conv, x, w, dy, 2);
  RunTokens::Process().ResetHighWater();
  std::vector<std::thread> callers;
  std::atomic<int> wrong{0};
  for (int t = 0; t < 4; ++t) {
    callers.emplace_back([&] {
      for (int i = 0; i < 5; ++i) {
        const auto got = Convolve(conv, x, w, dy, 2);
        if (!SameBits(got.first, expected.first) || !SameBits(got.second, expected.second)) ++wrong;
      }
    });
  }
  for (std::thread& caller : callers) caller.join();
  EXPECT_EQ(wrong, 0);
  EXPECT_LE(RunTokens::Process().high_water(), 2);
}

}  // namespace
}  // namespace tandem
