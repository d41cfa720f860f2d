// RandomShuffle: the rows of a tensor in random order.
#include <numeric>
#include <utility>
#include <vector>

#include "core/base/status.h"
#include "core/kernel/factories.h"
#include "core/op/registry.h"
#include "core/op/shape_context.h"
#include "kernels/array/elements.h"
#include "kernels/array/rows.h"
#include "kernels/random/generator.h"

namespace tandem::random {
namespace {

class ShuffleKernel : public GeneratorKernel {
 public:
  absl::Status Compute(KernelContext& c) override {
    const Shape& shape = c.input(0).shape();
    if (shape.num_elements() <= 1 || shape.dim(0) <= 1) {
      c.SetOutput(0, c.TakeInput(0));
      return absl::OkStatus();
    }
    const int64_t count = shape.dim(0);
    // Fisher and Yates: each place takes one of the rows that are left, by a remainder of 32 bits,
    // as TensorFlow does.
    constexpr uint64_t kWordsPerBlock = 4;
    WordStream words(
        generator_.Reserve((static_cast<uint64_t>(count) + kWordsPerBlock - 1) / kWordsPerBlock));
    std::vector<int64_t> rows(static_cast<size_t>(count));
    std::iota(rows.begin(), rows.end(), int64_t{0});
    for (int64_t i = 0; i + 1 < count; ++i) {
      const int64_t other = i + words.Next() % static_cast<uint32_t>(count - i);
      std::swap(rows[static_cast<size_t>(i)], rows[static_cast<size_t>(other)]);
    }

    const Tensor& value = c.input(0);
    const DataType dtype = value.dtype();
    TANDEM_ASSIGN_OR_RETURN(Tensor * output, c.AllocateOutput(0, shape));
    const int64_t row = shape.num_elements() / count;
    const double cost = 5 + array::kNanosecondsPerByte * static_cast<double>(row) *
                                static_cast<double>(DataTypeSize(dtype));
    c.parallel().For(count, cost, [&](int64_t begin, int64_t end) {
      array::GatherRows(dtype, array::ElementAt(dtype, output->mutable_data(), begin * row),
                        value.data(), row, rows.data() + begin, end - begin);
    });
    return absl::OkStatus();
  }
};

TANDEM_OP("RandomShuffle")
    .Inputs("value:T")
    .Outputs("output:T")
    .Attrs("seed:int=0; seed2:int=0; T:type")
    .Stateful()
    .Shape(UnchangedShape)
    .NotDifferentiable()
    .Cpu(Make<ShuffleKernel>("T", array::AllTypes()));

}  // namespace
}  // namespace tandem::random
