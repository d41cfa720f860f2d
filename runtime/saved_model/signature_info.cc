#include "runtime/saved_model/signature_info.h"

#include <utility>

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"
#include "core/base/status.h"
#include "core/tensor/tensor_proto.h"
#include "proto/meta_graph.pb.h"

namespace tandem {
namespace {

absl::Status AddTensor(const std::string& name, const std::string& tensor, DataType dtype,
                       PartialShape shape, std::vector<SignatureTensor>* tensors) {
  if (tensor.empty()) return errors::InvalidArgument("'", name, "' does not name its tensor");
  tensors->push_back({name, RemoveReference(dtype), std::move(shape), tensor});
  return absl::OkStatus();
}

// As deep as the message, whose depth the parser limits.
absl::Status AddInfo(const std::string& name, const tensorflow::TensorInfo& info,
                     std::vector<SignatureTensor>* tensors) {
  const auto dtype = static_cast<DataType>(info.dtype());
  if (info.has_coo_sparse()) {
    const tensorflow::TensorInfo::CooSparse& sparse = info.coo_sparse();
    TANDEM_RETURN_IF_ERROR(AddTensor(name + "/indices", sparse.indices_tensor_name(), kInt64,
                                     PartialShape::UnknownOfRank(2), tensors));
    TANDEM_RETURN_IF_ERROR(AddTensor(name + "/values", sparse.values_tensor_name(), dtype,
                                     PartialShape::UnknownOfRank(1), tensors));
    return AddTensor(name + "/dense_shape", sparse.dense_shape_tensor_name(), kInt64,
                     PartialShape::UnknownOfRank(1), tensors);
  }
  if (info.has_composite_tensor()) {
    int number = 0;
    for (const tensorflow::TensorInfo& component : info.composite_tensor().components()) {
      TANDEM_RETURN_IF_ERROR(AddInfo(absl::StrCat(name, "/", number++), component, tensors));
    }
    return absl::OkStatus();
  }
  absl::StatusOr<PartialShape> shape = PartialShape::Unknown();
  if (info.has_tensor_shape()) shape = PartialShapeFromProto(info.tensor_shape());
  if (!shape.ok()) return WithContext(shape.status(), absl::StrCat("'", name, "'"));
  return AddTensor(name, info.name(), dtype, *std::move(shape), tensors);
}

absl::Status AddAll(const google::protobuf::Map<std::string, tensorflow::TensorInfo>& infos,
                    std::vector<SignatureTensor>* tensors) {
  for (const auto& [name, info] : infos) TANDEM_RETURN_IF_ERROR(AddInfo(name, info, tensors));
  // The map's order differs from run to run.
  absl::c_sort(*tensors,
               [](const SignatureTensor& a, const SignatureTensor& b) { return a.name < b.name; });
  return absl::OkStatus();
}

absl::Status Read(const tensorflow::SignatureDef& signature, SignatureInfo* info) {
  info->method = signature.method_name();
  TANDEM_RETURN_IF_ERROR(WithContext(AddAll(signature.inputs(), &info->inputs), "input"));
  TANDEM_RETURN_IF_ERROR(WithContext(AddAll(signature.outputs(), &info->outputs), "output"));
  for (const auto& [name, proto] : signature.defaults()) {
    absl::StatusOr<Tensor> value = TensorFromProto(proto);
    if (!value.ok()) return WithContext(value.status(), absl::StrCat("default of '", name, "'"));
    info->defaults.emplace(name, *std::move(value));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<SignatureInfo> ReadSignature(const std::string& name,
                                            const tensorflow::SignatureDef& signature) {
  SignatureInfo info;
  info.name = name;
  const absl::Status status = Read(signature, &info);
  if (!status.ok()) return WithContext(status, absl::StrCat("signature '", name, "'"));
  return info;
}

}  // namespace tandem
