// DecodeRaw: the bytes of strings as numbers, in one more dimension.
#include <algorithm>
#include <complex>
#include <cstring>
#include <string>
#include <type_traits>

#include "core/base/status.h"
#include "core/kernel/factories.h"
#include "core/op/registry.h"
#include "core/op/shape_context.h"

namespace tandem::strings {
namespace {

absl::Status DecodeShape(ShapeContext& c) {
  PartialShape shape = c.input(0);
  if (shape.has_rank()) shape.AddDim(PartialShape::kUnknownDim);
  return c.SetOutput(0, std::move(shape));
}

template <typename T>
class DecodeRawKernel final : public Kernel {
 public:
  absl::Status Init(KernelInit& init) {
    little_endian_ = init.Attr<bool>("little_endian");
    return absl::OkStatus();
  }

  absl::Status Compute(KernelContext& c) override {
    const auto strings = c.input(0).Elements<std::string>();
    const size_t size = strings.empty() ? 0 : strings[0].size();
    for (size_t i = 1; i < strings.size(); ++i) {
      if (strings[i].size() == size) continue;
      return errors::InvalidArgument("string ", i, " has ", strings[i].size(),
                                     " bytes, and the first one ", size, "; all must have as many");
    }
    if (size % sizeof(T) != 0) {
      return errors::InvalidArgument("the strings have ", size, " bytes, which is no multiple of ",
                                     sizeof(T), ", the size of ", DataTypeName(DataTypeOf<T>()));
    }
    const Shape& shape = c.input(0).shape();
    Shape::Dims dims(shape.dims().begin(), shape.dims().end());
    dims.push_back(static_cast<int64_t>(size / sizeof(T)));
    TANDEM_ASSIGN_OR_RETURN(Shape output_shape, Shape::FromDims(dims));
    TANDEM_ASSIGN_OR_RETURN(Tensor * output, c.AllocateOutput(0, std::move(output_shape)));
    char* to = static_cast<char*>(output->mutable_data());
    for (const std::string& bytes : strings) {
      if (size > 0) std::memcpy(to, bytes.data(), size);
      to += size;
    }
    if (!little_endian_) Swap(output);
    if constexpr (std::is_same_v<T, bool>) {
      // Any other byte would be no bool.
      for (char& byte : absl::MakeSpan(static_cast<char*>(output->mutable_data()),
                                       static_cast<size_t>(output->num_elements()))) {
        byte = byte != 0;
      }
    }
    return absl::OkStatus();
  }

 private:
  // The bytes of each number, or half of a complex one, the other way round: this machine has the
  // lowest first.
  static void Swap(Tensor* tensor) {
    constexpr size_t kPart = sizeof(T) / (kIsPair ? 2 : 1);
    char* const bytes = static_cast<char*>(tensor->mutable_data());
    for (size_t i = 0; i < tensor->num_bytes(); i += kPart) {
      std::reverse(bytes + i, bytes + i + kPart);
    }
  }
  static constexpr bool kIsPair =
      std::is_same_v<T, std::complex<float>> || std::is_same_v<T, std::complex<double>>;

  bool little_endian_ = true;
};

TANDEM_OP("DecodeRaw")
    .Inputs("bytes:string")
    .Outputs("output:out_type")
    .Attrs(
        "out_type:type{float16,float32,float64,int32,uint16,uint8,int16,int8,int64,complex64,"
        "complex128,bool,bfloat16}; little_endian:bool=True")
    .Shape(DecodeShape)
    .NotDifferentiable()
    .HostMemory({"bytes"})
    .Cpu(
        ByType<DecodeRawKernel, Float16, float, double, int32_t, uint16_t, uint8_t, int16_t, int8_t,
               int64_t, std::complex<float>, std::complex<double>, bool, Bfloat16>("out_type"));

}  // namespace
}  // namespace tandem::strings
