// ArgMax, ArgMin: where the largest or smallest element along an axis stands; the first of equal
// ones.
#include <algorithm>
#include <limits>

#include "core/base/status.h"
#include "core/kernel/factories.h"
#include "core/op/registry.h"
#include "core/op/shape_context.h"
#include "kernels/common/arguments.h"
#include "kernels/common/half.h"
#include "kernels/math/gradient_helpers.h"
#include "kernels/math/loops.h"

namespace tandem::math {
namespace {

constexpr int64_t kColumns = 256;

template <typename T>
using Comparable = std::conditional_t<kIsHalf<T>, float, T>;

// The places of the extremes of `columns` neighbouring columns, along `length` rows that lie
// `stride` elements apart. A NaN is never taken; without anything to take the place is 0.
template <typename T, bool kLargest>
void Places(const void* data, int64_t length, int64_t stride, int64_t columns, int64_t* places) {
  using C = Comparable<T>;
  const T* row = static_cast<const T*>(data);
  C best[kColumns];
  // Infinities of the right sign are not beyond this, and 0 is where they would be found.
  std::fill_n(best, columns,
              kLargest ? std::numeric_limits<C>::lowest() : std::numeric_limits<C>::max());
  std::fill_n(places, columns, int64_t{0});
  for (int64_t i = 0; i < length; ++i, row += stride) {
    for (int64_t j = 0; j < columns; ++j) {
      const C x = static_cast<C>(row[j]);
      const bool better = kLargest ? x > best[j] : x < best[j];
      best[j] = better ? x : best[j];
      places[j] = better ? i : places[j];
    }
  }
}

using PlacesLoop = void (*)(const void* data, int64_t length, int64_t stride, int64_t columns,
                            int64_t* places);

template <bool kLargest>
PlacesLoop LoopFor(DataType type) {
  switch (type) {
#define TANDEM_CASE_(T) \
  case DataTypeOf<T>(): \
    return Places<T, kLargest>;
    TANDEM_CASE_(bool)
    TANDEM_CASE_(float)
    TANDEM_CASE_(double)
    TANDEM_CASE_(Float16)
    TANDEM_CASE_(Bfloat16)
    TANDEM_CASE_(int8_t)
    TANDEM_CASE_(int16_t)
    TANDEM_CASE_(int32_t)
    TANDEM_CASE_(int64_t)
    TANDEM_CASE_(uint8_t)
    TANDEM_CASE_(uint16_t)
    TANDEM_CASE_(uint32_t)
    TANDEM_CASE_(uint64_t)
#undef TANDEM_CASE_
    default:
      return nullptr;
  }
}

void Store(Tensor* output, int64_t first, const int64_t* places, int64_t n) {
  const auto copy = [&](auto* to) {
    using Index = std::remove_pointer_t<decltype(to)>;
    for (int64_t i = 0; i < n; ++i) to[first + i] = static_cast<Index>(places[i]);
  };
  switch (output->dtype()) {
    case kInt16:
      return copy(output->MutableElements<int16_t>().data());
    case kUint16:
      return copy(output->MutableElements<uint16_t>().data());
    case kInt32:
      return copy(output->MutableElements<int32_t>().data());
    default:
      return copy(output->MutableElements<int64_t>().data());
  }
}

template <bool kLargest>
class ArgKernel final : public Kernel {
 public:
  absl::Status Init(KernelInit& init) {
    size_ = DataTypeSize(init.input_dtype(0));
    loop_ = LoopFor<kLargest>(init.input_dtype(0));
    return loop_ != nullptr
               ? absl::OkStatus()
               : errors::Unimplemented("tensors of ", DataTypeName(init.input_dtype(0)),
                                       " have no order");
  }

  absl::Status Compute(KernelContext& c) override {
    const Tensor& x = c.input(0);
    TANDEM_ASSIGN_OR_RETURN(const int axis,
                            AxisArgument(c.input(1), "dimension", x.shape().rank()));
    const int64_t length = x.shape().dim(axis);
    Shape shape = x.shape();
    shape.RemoveDim(axis);
    if (length == 0 && shape.num_elements() > 0) {
      return errors::InvalidArgument("axis ", axis, " of ", x.shape().DebugString(),
                                     " has size 0: there is nothing to choose from");
    }
    int64_t inner = 1;
    for (int d = axis + 1; d < x.shape().rank(); ++d) inner *= x.shape().dim(d);
    TANDEM_ASSIGN_OR_RETURN(Tensor * y, c.AllocateOutput(0, shape));
    if (shape.num_elements() == 0) return absl::OkStatus();
    const int64_t outer = shape.num_elements() / inner;
    const int64_t chunks = (inner + kColumns - 1) / kColumns;
    const char* const data = static_cast<const char*>(x.data());
    const double cost = 1.0 * static_cast<double>(length * std::min(inner, kColumns)) + 10;
    c.parallel().For(outer * chunks, cost, [&](int64_t begin, int64_t end) {
      int64_t places[kColumns];
      for (int64_t unit = begin; unit < end; ++unit) {
        const int64_t first = unit % chunks * kColumns;
        const int64_t columns = std::min(kColumns, inner - first);
        const int64_t row = unit / chunks;
        loop_(data + static_cast<size_t>(row * length * inner + first) * size_, length, inner,
              columns, places);
        Store(y, row * inner + first, places, columns);
      }
    });
    return absl::OkStatus();
  }

 private:
  size_t size_ = 0;
  PlacesLoop loop_ = nullptr;
};

absl::Status ArgShape(ShapeContext& c) {
  TANDEM_RETURN_IF_ERROR(c.RequireRank(1, 0));
  const PartialShape& input = c.input(0);
  if (!input.has_rank()) return c.SetOutput(0, PartialShape::Unknown());
  TANDEM_RETURN_IF_ERROR(c.RequireRankAtLeast(0, 1));
  const absl::optional<int64_t> given = c.InputAsInt(1);
  if (!given.has_value()) return c.SetOutput(0, PartialShape::UnknownOfRank(input.rank() - 1));
  TANDEM_ASSIGN_OR_RETURN(const int axis, ShapeContext::ResolveAxis(*given, input.rank()));
  PartialShape shape = PartialShape({});
  for (int d = 0; d < input.rank(); ++d) {
    if (d != axis) shape.AddDim(input.dim(d));
  }
  return c.SetOutput(0, std::move(shape));
}

template <bool kLargest>
OpDefBuilder ArgOp(const char* name, const char* attrs, std::vector<DataType> output_types) {
  KernelDef kernel =
      Make<ArgKernel<kLargest>>("T", {kBool, kFloat32, kFloat64, kFloat16, kBfloat16, kInt8, kInt16,
                                      kInt32, kInt64, kUint8, kUint16, kUint32, kUint64});
  kernel.types.push_back({"output_type", std::move(output_types)});
  return OpDefBuilder(name)
      .Inputs("input:T, dimension:Tidx")
      .Outputs("output:output_type")
      .Attrs(attrs)
      .Shape(ArgShape)
      .Gradient(NoGradient)
      .HostMemory({"dimension"})
      .Cpu(std::move(kernel));
}

const OpRegistration arg_max(ArgOp<true>(
    "ArgMax",
    "T:type{float32,float64,int32,uint8,int16,int8,int64,bfloat16,uint16,float16,uint32,uint64,"
    "qint8,quint8,qint32,qint16,quint16,bool}; Tidx:type{int16,int32,int64}=int32; "
    "output_type:type{int16,uint16,int32,int64}=int64",
    {kInt16, kUint16, kInt32, kInt64}));
const OpRegistration arg_min(ArgOp<false>(
    "ArgMin",
    "T:type{float32,float64,int32,uint8,int16,int8,int64,bfloat16,uint16,float16,uint32,uint64,"
    "qint8,quint8,qint32,qint16,quint16,bool}; Tidx:type{int32,int64}=int32; "
    "output_type:type{int32,int64}=int64",
    {kInt32, kInt64}));

}  // namespace
}  // namespace tandem::math
