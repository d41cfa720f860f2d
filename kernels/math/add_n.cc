// AddN, AccumulateNV2: the sum of any number of tensors of one shape, added in order.
#include <algorithm>

#include "core/base/status.h"
#include "core/kernel/factories.h"
#include "core/op/gradient_context.h"
#include "core/op/registry.h"
#include "kernels/common/half.h"
#include "kernels/math/arithmetic.h"

namespace tandem::math {
namespace {

// So many elements of the output stay in the first-level cache while all inputs are added to them.
constexpr int64_t kBlock = 1024;

absl::Status CheckShapes(KernelContext& c) {
  for (int i = 1; i < c.num_inputs(); ++i) {
    if (c.input(i).shape() == c.input(0).shape()) continue;
    return errors::InvalidArgument("input ", i, " has shape ", c.input(i).shape().DebugString(),
                                   " and input 0 has ", c.input(0).shape().DebugString(),
                                   "; all must be equal");
  }
  return absl::OkStatus();
}

// Added up in float and rounded once. At most kBlock elements.
template <typename H>
void AddHalf(absl::Span<const char* const> inputs, size_t offset, char* to, int64_t n) {
  static const BinaryLoop add = AdditionLoop(kFloat32);
  float sum[kBlock];
  float next[kBlock];
  ToFloat(reinterpret_cast<const H*>(inputs[0] + offset), sum, n);
  for (const char* input : inputs.subspan(1)) {
    ToFloat(reinterpret_cast<const H*>(input + offset), next, n);
    add(sum, next, sum, n);
  }
  FromFloat(sum, reinterpret_cast<H*>(to + offset), n);
}

// to = Σ inputs, elements [begin, end) of tensors of this type. `add` is its AdditionLoop.
void AddRange(DataType dtype, BinaryLoop add, absl::Span<const char* const> inputs, char* to,
              int64_t begin, int64_t end) {
  for (int64_t i = begin; i < end; i += kBlock) {
    const int64_t n = std::min(kBlock, end - i);
    const size_t offset = static_cast<size_t>(i) * DataTypeSize(dtype);
    if (dtype == kFloat16) {
      AddHalf<Float16>(inputs, offset, to, n);
    } else if (dtype == kBfloat16) {
      AddHalf<Bfloat16>(inputs, offset, to, n);
    } else {
      add(inputs[0] + offset, inputs[1] + offset, to + offset, n);
      for (const char* input : inputs.subspan(2)) {
        add(to + offset, input + offset, to + offset, n);
      }
    }
  }
}

class SumKernel final : public Kernel {
 public:
  absl::Status Init(KernelInit& init) {
    dtype_ = init.output_dtype(0);
    add_ = AdditionLoop(dtype_);
    if (add_ == nullptr) {
      return errors::Unimplemented("tensors of ", DataTypeName(dtype_), " do not add");
    }
    return absl::OkStatus();
  }

  absl::Status Compute(KernelContext& c) override {
    TANDEM_RETURN_IF_ERROR(CheckShapes(c));
    if (c.num_inputs() == 1) {
      c.SetOutput(0, c.TakeInput(0));
      return absl::OkStatus();
    }
    const int64_t n = c.input(0).num_elements();
    absl::InlinedVector<const char*, 8> inputs;
    for (int i = 0; i < c.num_inputs(); ++i) {
      inputs.push_back(static_cast<const char*>(c.input(i).data()));
    }
    // Only the first: the others are read after the output has been written to.
    TANDEM_ASSIGN_OR_RETURN(Tensor * sum, c.ForwardOrAllocate({0}, 0, c.input(0).shape()));
    char* const to = static_cast<char*>(sum->mutable_data());
    const auto body = [&](int64_t begin, int64_t end) {
      AddRange(dtype_, add_, inputs, to, begin, end);
    };
    c.parallel().For(n, 0.3 * static_cast<double>(inputs.size()), body);
    return absl::OkStatus();
  }

 private:
  DataType dtype_ = DataType::kInvalid;
  BinaryLoop add_ = nullptr;
};

absl::StatusOr<Tensor> AddTensors(KernelContext& c, const Tensor& a, const Tensor& b);

// An empty variant counts as zero.
absl::StatusOr<Variant> AddTwo(KernelContext& c, const Variant& a, const Variant& b) {
  if (a.empty() || b.empty()) return a.empty() ? b : a;
  TANDEM_ASSIGN_OR_RETURN(RefPtr<VariantValue> sum,
                          a.value()->Add(*b.value(), [&c](const Tensor& x, const Tensor& y) {
                            return AddTensors(c, x, y);
                          }));
  return Variant(std::move(sum));
}

// The sum of two tensors that lie in variants.
absl::StatusOr<Tensor> AddTensors(KernelContext& c, const Tensor& a, const Tensor& b) {
  if (a.dtype() != b.dtype() || a.shape() != b.shape()) {
    return errors::InvalidArgument(DataTypeName(a.dtype()), a.shape().DebugString(), " and ",
                                   DataTypeName(b.dtype()), b.shape().DebugString(),
                                   " cannot be added");
  }
  TANDEM_ASSIGN_OR_RETURN(Tensor sum, c.AllocateTemporary(a.dtype(), a.shape()));
  if (a.dtype() == kVariant) {
    for (size_t i = 0; i < sum.MutableElements<Variant>().size(); ++i) {
      TANDEM_ASSIGN_OR_RETURN(sum.MutableElements<Variant>()[i],
                              AddTwo(c, a.Elements<Variant>()[i], b.Elements<Variant>()[i]));
    }
    return sum;
  }
  const BinaryLoop add = AdditionLoop(a.dtype());
  if (add == nullptr) {
    return errors::Unimplemented("tensors of ", DataTypeName(a.dtype()), " do not add");
  }
  Tensor x = a;
  Tensor y = b;
  x.Localize();
  y.Localize();
  const char* const inputs[] = {static_cast<const char*>(x.data()),
                                static_cast<const char*>(y.data())};
  AddRange(a.dtype(), add, inputs, static_cast<char*>(sum.mutable_data()), 0, sum.num_elements());
  return sum;
}

absl::Status AddVariants(KernelContext& c) {
  TANDEM_RETURN_IF_ERROR(CheckShapes(c));
  Tensor sum = c.input(0);
  for (int i = 1; i < c.num_inputs(); ++i) {
    TANDEM_ASSIGN_OR_RETURN(sum, AddTensors(c, sum, c.input(i)));
  }
  c.SetOutput(0, std::move(sum));
  return absl::OkStatus();
}
KernelDef VariantKernel() {
  KernelDef def = Function(AddVariants);
  def.types = {{"T", {kVariant}}};
  return def;
}

absl::Status SumGradient(GradientContext& g) {
  for (int i = 0; i < g.num_inputs(); ++i) g.SetInputGradient(i, g.RawOutputGradient(0));
  return absl::OkStatus();
}

KernelDef NumberKernel() {
  return Make<SumKernel>("T", {kFloat32, kFloat64, kFloat16, kBfloat16, kComplex64, kComplex128,
                               kInt8, kInt16, kInt32, kInt64, kUint8, kUint16, kUint32, kUint64});
}

TANDEM_OP("AddN")
    .Inputs("inputs:N*T")
    .Outputs("sum:T")
    .Attrs(
        "N:int>=1; T:type{float32,float64,int32,uint8,int16,int8,complex64,int64,qint8,quint8,"
        "qint32,bfloat16,qint16,quint16,uint16,complex128,float16,uint32,uint64,variant}")
    .Commutative()
    .Shape(MergedShape)
    .Gradient(SumGradient)
    .Cpu(NumberKernel())
    .Cpu(VariantKernel());

absl::Status AccumulateShape(ShapeContext& c) {
  PartialShape shape = c.Attr<PartialShape>("shape");
  for (int i = 0; i < c.num_inputs(); ++i) {
    TANDEM_ASSIGN_OR_RETURN(shape, shape.MergeWith(c.input(i)));
  }
  return c.SetOutput(0, shape);
}
TANDEM_OP("AccumulateNV2")
    .Inputs("inputs:N*T")
    .Outputs("sum:T")
    .Attrs(
        "N:int>=1; T:type{float32,float64,int32,uint8,int16,int8,complex64,int64,qint8,quint8,"
        "qint32,bfloat16,qint16,quint16,uint16,complex128,float16,uint32,uint64}; shape:shape")
    .Commutative()
    .Shape(AccumulateShape)
    .Gradient(SumGradient)
    .Cpu(NumberKernel());

}  // namespace
}  // namespace tandem::math
