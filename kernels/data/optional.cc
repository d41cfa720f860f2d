// Optionals: a list of tensors, or nothing, as one value. The gradient of a conditional hands on
// through them what only one of the branches computes.
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "core/base/status.h"
#include "core/kernel/factories.h"
#include "core/op/gradient_context.h"
#include "core/op/registry.h"
#include "core/op/shape_context.h"
#include "core/tensor/variant.h"

namespace tandem::data {
namespace {

class Optional final : public VariantValue {
 public:
  explicit Optional(std::vector<Tensor> components)
      : has_value(true), components(std::move(components)) {}
  Optional() = default;

  absl::string_view TypeName() const override { return "tensorflow::data::Optional"; }
  std::string DebugString() const override {
    return has_value ? absl::StrCat("optional of ", components.size(), " tensors")
                     : "optional without a value";
  }

  absl::StatusOr<RefPtr<VariantValue>> ZerosLike(ZerosLikeFunction zeros_like) const override {
    if (!has_value) return RefPtr<VariantValue>(MakeRef<Optional>());
    std::vector<Tensor> zeros;
    for (const Tensor& component : components) {
      TANDEM_ASSIGN_OR_RETURN(Tensor zero, zeros_like(component));
      zeros.push_back(std::move(zero));
    }
    return RefPtr<VariantValue>(MakeRef<Optional>(std::move(zeros)));
  }

  // InvalidArgument: only one has a value, or they hold different numbers of tensors.
  absl::StatusOr<RefPtr<VariantValue>> Add(const VariantValue& other,
                                           AddFunction add) const override {
    const auto* const optional = dynamic_cast<const Optional*>(&other);
    if (optional == nullptr || optional->has_value != has_value ||
        optional->components.size() != components.size()) {
      return errors::InvalidArgument("an ", DebugString(), " and an ", other.DebugString(),
                                     " cannot be added");
    }
    if (!has_value) return RefPtr<VariantValue>(MakeRef<Optional>());
    std::vector<Tensor> sums;
    for (size_t i = 0; i < components.size(); ++i) {
      TANDEM_ASSIGN_OR_RETURN(Tensor sum, add(components[i], optional->components[i]));
      sums.push_back(std::move(sum));
    }
    return RefPtr<VariantValue>(MakeRef<Optional>(std::move(sums)));
  }

  const bool has_value = false;
  const std::vector<Tensor> components{};
};

absl::StatusOr<const Optional*> OptionalInput(const KernelContext& c) {
  const Tensor& tensor = c.input(0);
  if (!tensor.shape().IsScalar()) {
    return errors::InvalidArgument("an optional must be a scalar; it has shape ",
                                   tensor.shape().DebugString());
  }
  const Variant& variant = tensor.ScalarValue<Variant>();
  const Optional* const optional = variant.Get<Optional>();
  if (optional == nullptr) {
    return errors::InvalidArgument("the input is no optional but ", variant.DebugString());
  }
  return optional;
}

absl::Status None(KernelContext& c) {
  c.SetOutput(0, Tensor::Scalar(Variant(MakeRef<Optional>())));
  return absl::OkStatus();
}

absl::Status FromValue(KernelContext& c) {
  std::vector<Tensor> components;
  for (int i = 0; i < c.num_inputs(); ++i) components.push_back(c.TakeInput(i));
  c.SetOutput(0, Tensor::Scalar(Variant(MakeRef<Optional>(std::move(components)))));
  return absl::OkStatus();
}

absl::Status HasValue(KernelContext& c) {
  TANDEM_ASSIGN_OR_RETURN(const Optional* optional, OptionalInput(c));
  c.SetOutput(0, Tensor::Scalar<bool>(optional->has_value));
  return absl::OkStatus();
}

class GetValueKernel : public Kernel {
 public:
  absl::Status Init(KernelInit& init) {
    shapes_ = init.Attr<std::vector<PartialShape>>("output_shapes");
    if (static_cast<int>(shapes_.size()) == init.num_outputs()) return absl::OkStatus();
    return errors::InvalidArgument("output_shapes has ", shapes_.size(), " shapes and the node ",
                                   init.num_outputs(), " outputs");
  }

  absl::Status Compute(KernelContext& c) override {
    TANDEM_ASSIGN_OR_RETURN(const Optional* optional, OptionalInput(c));
    if (!optional->has_value) return errors::InvalidArgument("the optional has no value");
    if (static_cast<int>(optional->components.size()) != c.num_outputs()) {
      return errors::InvalidArgument("the optional holds ", optional->components.size(),
                                     " tensors; ", c.num_outputs(), " are wanted");
    }
    for (int i = 0; i < c.num_outputs(); ++i) {
      Tensor component = optional->components[static_cast<size_t>(i)];
      const PartialShape& shape = shapes_[static_cast<size_t>(i)];
      if (component.dtype() != c.output_dtype(i) || !shape.IsCompatibleWith(component.shape())) {
        return errors::InvalidArgument(
            "component ", i, " of the optional is ", DataTypeName(component.dtype()),
            component.shape().DebugString(), "; ", DataTypeName(c.output_dtype(i)),
            shape.DebugString(), " is wanted");
      }
      component.Localize();
      c.SetOutput(i, std::move(component));
    }
    return absl::OkStatus();
  }

 private:
  std::vector<PartialShape> shapes_;
};

absl::Status DeclaredShapes(ShapeContext& c) {
  const auto& shapes = c.Attr<std::vector<PartialShape>>("output_shapes");
  if (static_cast<int>(shapes.size()) != c.num_outputs()) {
    return errors::InvalidArgument("output_shapes has ", shapes.size(), " shapes and the node ",
                                   c.num_outputs(), " outputs");
  }
  for (int i = 0; i < c.num_outputs(); ++i) {
    TANDEM_RETURN_IF_ERROR(c.SetOutput(i, shapes[static_cast<size_t>(i)]));
  }
  return absl::OkStatus();
}

// The gradient of an optional is the optional of its components' gradients.
absl::Status FromValueGradient(GradientContext& g) {
  if (!g.HasOutputGradient(0)) return absl::OkStatus();
  std::vector<PartialShape> shapes;
  for (int i = 0; i < g.num_inputs(); ++i) shapes.push_back(g.input(i).shape());
  const std::vector<Output> components =
      g.CallMulti("OptionalGetValue", {g.OutputGradient(0)},
                  {{"output_types", g.Attr<std::vector<DataType>>("Toutput_types")},
                   {"output_shapes", shapes}});
  for (size_t i = 0; i < components.size(); ++i) {
    g.SetInputGradient(static_cast<int>(i), components[i]);
  }
  return absl::OkStatus();
}

absl::Status GetValueGradient(GradientContext& g) {
  std::vector<Output> components;
  for (int i = 0; i < g.num_outputs(); ++i) components.push_back(g.OutputGradient(i));
  g.SetInputGradient(0, g.Call("OptionalFromValue", std::move(components)));
  return absl::OkStatus();
}

TANDEM_OP("OptionalNone")
    .Outputs("optional:variant")
    .Shape(ScalarShape)
    .HostMemory({"optional"})
    .Cheap()
    .Cpu(Function(None));

TANDEM_OP("OptionalFromValue")
    .Inputs("components:Toutput_types")
    .Outputs("optional:variant")
    .Attrs("Toutput_types:list(type)>=1")
    .Shape(ScalarShape)
    .Gradient(FromValueGradient)
    .HostMemory({"optional"})
    .Cheap()
    .Cpu(Function(FromValue));

TANDEM_OP("OptionalHasValue")
    .Inputs("optional:variant")
    .Outputs("has_value:bool")
    .Shape(ScalarShape)
    .HostMemory({"optional", "has_value"})
    .Cheap()
    .Cpu(Function(HasValue));

TANDEM_OP("OptionalGetValue")
    .Inputs("optional:variant")
    .Outputs("components:output_types")
    .Attrs("output_types:list(type)>=1; output_shapes:list(shape)>=1")
    .Shape(DeclaredShapes)
    .Gradient(GetValueGradient)
    .HostMemory({"optional"})
    .Cheap()
    .Cpu(Make<GetValueKernel>());

}  // namespace
}  // namespace tandem::data
