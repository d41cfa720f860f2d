#include "core/graph/attr_proto.h"

#include <algorithm>

#include "core/base/status.h"
#include "core/tensor/tensor_proto.h"
#include "proto/attr_value.pb.h"

namespace tandem {
namespace {

// Function values may hold function values. TensorFlow nests two deep; the limit keeps a message
// from spending the stack.
constexpr int kMaxDepth = 32;

absl::StatusOr<DataType> TypeFromProto(int type) {
  if (!tensorflow::DataType_IsValid(type)) {
    return errors::InvalidArgument("type ", type, " does not exist");
  }
  return static_cast<DataType>(type);
}

// What the tensor takes, strings and handles included as far as their size is known.
size_t MemoryOf(const Tensor& tensor) {
  size_t bytes = tensor.num_bytes();
  if (tensor.dtype() == kString) {
    for (const std::string& text : tensor.Elements<std::string>()) bytes += text.size();
  }
  return bytes;
}

absl::StatusOr<Tensor> TensorOf(const tensorflow::TensorProto& proto, TensorBudget* budget) {
  TANDEM_ASSIGN_OR_RETURN(Tensor tensor,
                          TensorFromProto(proto, std::min(budget->bytes, kMaxTensorProtoBytes)));
  budget->bytes -= std::min(budget->bytes, MemoryOf(tensor));
  return tensor;
}

absl::StatusOr<AttrValue> FromProto(const tensorflow::AttrValue& proto, int depth,
                                    TensorBudget* budget);

absl::StatusOr<FunctionRef> FunctionOf(const tensorflow::NameAttrList& proto, int depth,
                                       TensorBudget* budget) {
  if (depth >= kMaxDepth) {
    return errors::InvalidArgument("function values are nested more than ", kMaxDepth, " deep");
  }
  FunctionRef function;
  function.name = proto.name();
  for (const auto& [name, attr] : proto.attr()) {
    absl::StatusOr<AttrValue> value = FromProto(attr, depth + 1, budget);
    if (!value.ok()) {
      return WithContext(value.status(),
                         absl::StrCat("attribute '", name, "' of function '", proto.name(), "'"));
    }
    function.attrs.emplace(name, *std::move(value));
  }
  return function;
}

absl::StatusOr<AttrValue> ListFromProto(const tensorflow::AttrValue::ListValue& list, int depth,
                                        TensorBudget* budget) {
  const int kinds = (list.s_size() > 0) + (list.i_size() > 0) + (list.f_size() > 0) +
                    (list.b_size() > 0) + (list.type_size() > 0) + (list.shape_size() > 0) +
                    (list.tensor_size() > 0) + (list.func_size() > 0);
  if (kinds == 0) return AttrValue(AttrValue::EmptyList());
  if (kinds > 1) return errors::InvalidArgument("a list holds values of ", kinds, " kinds");
  if (list.s_size() > 0) return std::vector<std::string>(list.s().begin(), list.s().end());
  if (list.i_size() > 0) return std::vector<int64_t>(list.i().begin(), list.i().end());
  if (list.f_size() > 0) return std::vector<float>(list.f().begin(), list.f().end());
  if (list.b_size() > 0) return std::vector<bool>(list.b().begin(), list.b().end());
  if (list.type_size() > 0) {
    std::vector<DataType> types;
    for (const int number : list.type()) {
      TANDEM_ASSIGN_OR_RETURN(const DataType type, TypeFromProto(number));
      types.push_back(type);
    }
    return types;
  }
  if (list.shape_size() > 0) {
    std::vector<PartialShape> shapes;
    for (const auto& message : list.shape()) {
      TANDEM_ASSIGN_OR_RETURN(PartialShape shape, PartialShapeFromProto(message));
      shapes.push_back(std::move(shape));
    }
    return shapes;
  }
  if (list.tensor_size() > 0) {
    std::vector<Tensor> tensors;
    for (const auto& message : list.tensor()) {
      TANDEM_ASSIGN_OR_RETURN(Tensor tensor, TensorOf(message, budget));
      tensors.push_back(std::move(tensor));
    }
    return tensors;
  }
  std::vector<FunctionRef> functions;
  for (const auto& message : list.func()) {
    TANDEM_ASSIGN_OR_RETURN(FunctionRef function, FunctionOf(message, depth, budget));
    functions.push_back(std::move(function));
  }
  return functions;
}

absl::StatusOr<AttrValue> FromProto(const tensorflow::AttrValue& proto, int depth,
                                    TensorBudget* budget) {
  switch (proto.value_case()) {
    case tensorflow::AttrValue::kS:
      return AttrValue(proto.s());
    case tensorflow::AttrValue::kI:
      return AttrValue(static_cast<int64_t>(proto.i()));
    case tensorflow::AttrValue::kF:
      return AttrValue(proto.f());
    case tensorflow::AttrValue::kB:
      return AttrValue(proto.b());
    case tensorflow::AttrValue::kType: {
      TANDEM_ASSIGN_OR_RETURN(const DataType type, TypeFromProto(proto.type()));
      return type;
    }
    case tensorflow::AttrValue::kShape: {
      TANDEM_ASSIGN_OR_RETURN(PartialShape shape, PartialShapeFromProto(proto.shape()));
      return shape;
    }
    case tensorflow::AttrValue::kTensor: {
      TANDEM_ASSIGN_OR_RETURN(Tensor tensor, TensorOf(proto.tensor(), budget));
      return tensor;
    }
    case tensorflow::AttrValue::kList:
      return ListFromProto(proto.list(), depth, budget);
    case tensorflow::AttrValue::kFunc: {
      TANDEM_ASSIGN_OR_RETURN(FunctionRef function, FunctionOf(proto.func(), depth, budget));
      return function;
    }
    case tensorflow::AttrValue::kPlaceholder:
      return AttrValue(AttrValue::Placeholder{proto.placeholder()});
    case tensorflow::AttrValue::VALUE_NOT_SET:
      break;
  }
  return AttrValue();
}

absl::Status FunctionToProto(const FunctionRef& function, tensorflow::NameAttrList* proto) {
  proto->set_name(function.name);
  for (const auto& [name, value] : function.attrs) {
    TANDEM_RETURN_IF_ERROR(AttrToProto(value, &(*proto->mutable_attr())[name]));
  }
  return absl::OkStatus();
}

absl::Status ListToProto(const AttrValue& value, tensorflow::AttrValue::ListValue* list) {
  if (const auto* texts = value.Get<std::vector<std::string>>()) {
    for (const std::string& text : *texts) list->add_s(text);
  } else if (const auto* ints = value.Get<std::vector<int64_t>>()) {
    list->mutable_i()->Add(ints->begin(), ints->end());
  } else if (const auto* floats = value.Get<std::vector<float>>()) {
    list->mutable_f()->Add(floats->begin(), floats->end());
  } else if (const auto* bools = value.Get<std::vector<bool>>()) {
    for (const bool item : *bools) list->add_b(item);
  } else if (const auto* types = value.Get<std::vector<DataType>>()) {
    for (const DataType type : *types) list->add_type(static_cast<tensorflow::DataType>(type));
  } else if (const auto* shapes = value.Get<std::vector<PartialShape>>()) {
    for (const PartialShape& shape : *shapes) ShapeToProto(shape, list->add_shape());
  } else if (const auto* tensors = value.Get<std::vector<Tensor>>()) {
    for (const Tensor& tensor : *tensors) {
      TANDEM_RETURN_IF_ERROR(TensorToProto(tensor, list->add_tensor()));
    }
  } else if (const auto* functions = value.Get<std::vector<FunctionRef>>()) {
    for (const FunctionRef& function : *functions) {
      TANDEM_RETURN_IF_ERROR(FunctionToProto(function, list->add_func()));
    }
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<AttrValue> AttrFromProto(const tensorflow::AttrValue& proto, TensorBudget* budget) {
  return FromProto(proto, 0, budget);
}

absl::StatusOr<AttrValue> AttrFromProto(const tensorflow::AttrValue& proto) {
  TensorBudget budget{kMaxTensorProtoBytes};
  return FromProto(proto, 0, &budget);
}

absl::Status AttrToProto(const AttrValue& value, tensorflow::AttrValue* proto) {
  proto->Clear();
  if (const auto* text = value.Get<std::string>()) {
    proto->set_s(*text);
  } else if (const auto* integer = value.Get<int64_t>()) {
    proto->set_i(*integer);
  } else if (const auto* number = value.Get<float>()) {
    proto->set_f(*number);
  } else if (const auto* truth = value.Get<bool>()) {
    proto->set_b(*truth);
  } else if (const auto* type = value.Get<DataType>()) {
    proto->set_type(static_cast<tensorflow::DataType>(*type));
  } else if (const auto* shape = value.Get<PartialShape>()) {
    ShapeToProto(*shape, proto->mutable_shape());
  } else if (const auto* tensor = value.Get<Tensor>()) {
    return TensorToProto(*tensor, proto->mutable_tensor());
  } else if (const auto* function = value.Get<FunctionRef>()) {
    return FunctionToProto(*function, proto->mutable_func());
  } else if (const auto* placeholder = value.Get<AttrValue::Placeholder>()) {
    proto->set_placeholder(placeholder->name);
  } else if (value.Get<AttrValue::EmptyList>() != nullptr || IsList(value.kind())) {
    return ListToProto(value, proto->mutable_list());
  }
  return absl::OkStatus();
}

}  // namespace tandem
