// Multinomial: classes drawn with the probabilities that rows of logits give.
//
// A class is found in the running sum of the exponentials by a uniform number times their total.
#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "core/base/status.h"
#include "core/kernel/factories.h"
#include "core/op/registry.h"
#include "core/op/shape_context.h"
#include "kernels/common/arguments.h"
#include "kernels/random/distributions.h"
#include "kernels/random/generator.h"

namespace tandem::random {
namespace {

absl::Status MultinomialShape(ShapeContext& c) {
  TANDEM_RETURN_IF_ERROR(c.RequireRank(0, 2));
  TANDEM_RETURN_IF_ERROR(c.RequireRank(1, 0));
  PartialShape output = PartialShape::UnknownOfRank(2);
  if (c.input(0).has_rank()) output.SetDim(0, c.input(0).dim(0));
  const absl::optional<int64_t> samples = c.InputAsInt(1);
  if (samples.has_value()) {
    if (*samples < 0) {
      return errors::InvalidArgument("num_samples is ", *samples, "; it must not be negative");
    }
    output.SetDim(1, *samples);
  }
  return c.SetOutput(0, std::move(output));
}

// What a row takes of the stream, with what TensorFlow adds to it: two words for a draw, a row a
// multiple of eight.
int64_t WordsPerRow(int64_t samples) { return (samples + 3) / 4 * 4 * 2; }

template <typename T>
class MultinomialKernel : public GeneratorKernel {
 public:
  absl::Status Compute(KernelContext& c) override {
    const Tensor& logits = c.input(0);
    TANDEM_ASSIGN_OR_RETURN(const int64_t samples, ScalarArgument(c.input(1), "num_samples"));
    if (!logits.shape().IsMatrix()) {
      return errors::InvalidArgument("logits must be a matrix; they have shape ",
                                     logits.shape().DebugString());
    }
    if (samples < 0) {
      return errors::InvalidArgument("num_samples is ", samples, "; it must not be negative");
    }
    const int64_t batch = logits.shape().dim(0);
    const int64_t classes = logits.shape().dim(1);
    if (classes <= 0) {
      return errors::InvalidArgument("logits have shape ", logits.shape().DebugString(),
                                     "; there must be at least one class");
    }
    TANDEM_ASSIGN_OR_RETURN(const Shape shape, Shape::FromDims({batch, samples}));
    TANDEM_ASSIGN_OR_RETURN(Tensor * output, c.AllocateOutput(0, shape));
    if (output->num_elements() == 0) return absl::OkStatus();

    const Philox from = generator_.Reserve(ReservedBlocks(batch * WordsPerRow(samples)));
    const T* const values = logits.Elements<T>().data();
    const double cost = 10 * static_cast<double>(classes) + 20 * static_cast<double>(samples);
    c.parallel().For(batch, cost, [&](int64_t begin, int64_t end) {
      std::vector<double> sums(static_cast<size_t>(classes));
      for (int64_t row = begin; row < end; ++row) {
        RunningSums(values + row * classes, sums);
        DrawRow(from, row * samples, samples, sums, *output);
      }
    });
    return absl::OkStatus();
  }

 private:
  static void RunningSums(const T* logits, std::vector<double>& sums) {
    double largest = std::numeric_limits<double>::lowest();
    for (size_t i = 0; i < sums.size(); ++i) {
      const auto value = static_cast<double>(logits[i]);
      if (std::isfinite(value)) largest = std::max(largest, value);
    }
    double total = 0;
    for (size_t i = 0; i < sums.size(); ++i) {
      const auto value = static_cast<double>(logits[i]);
      if (std::isfinite(value)) total += std::exp(value - largest);
      sums[i] = total;
    }
  }

  // Draw number n, counted over all rows, takes words 2n and 2n + 1 of the stream.
  static void DrawRow(const Philox& from, int64_t first, int64_t samples,
                      const std::vector<double>& sums, Tensor& output) {
    WordStream words(from.After(static_cast<uint64_t>(first / 2)));
    if (first % 2 != 0) {
      words.Next();
      words.Next();
    }
    for (int64_t i = 0; i < samples; ++i) {
      const uint32_t high = words.Next();
      const uint32_t low = words.Next();
      const double wanted = UniformDouble(high, low) * sums.back();
      const auto found = std::upper_bound(sums.begin(), sums.end(), wanted) - sums.begin();
      const auto at = static_cast<size_t>(first + i);
      if (output.dtype() == kInt32) {
        output.MutableElements<int32_t>()[at] = static_cast<int32_t>(found);
      } else {
        output.MutableElements<int64_t>()[at] = found;
      }
    }
  }
};

TANDEM_OP("Multinomial")
    .Inputs("logits:T, num_samples:int32")
    .Outputs("output:output_dtype")
    .Attrs(
        "seed:int=0; seed2:int=0; "
        "T:type{float32,float64,int32,uint8,int16,int8,int64,bfloat16,uint16,float16,uint32,"
        "uint64}; output_dtype:type{int32,int64}=int64")
    .Stateful()
    .Shape(MultinomialShape)
    .NotDifferentiable()
    .HostMemory({"num_samples"})
    .Cpu(ByType<MultinomialKernel, float, double, Float16, Bfloat16>("T"));

}  // namespace
}  // namespace tandem::random
