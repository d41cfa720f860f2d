#include "tests/clients/formats/tensors_file.h"

#include "core/base/status.h"
#include "core/io/coding.h"
#include "core/io/file.h"
#include "core/tensor/tensor_proto.h"
#include "proto/named_tensor.pb.h"

namespace tandem::formats {

absl::StatusOr<NamedTensors> ReadTensors(const std::string& path) {
  TANDEM_ASSIGN_OR_RETURN(const std::string bytes, ReadFile(PosixFileSystem(), path));
  NamedTensors tensors;
  absl::string_view rest = bytes;
  while (!rest.empty()) {
    uint64_t size = 0;
    if (rest.size() < sizeof(size) || (size = DecodeFixed64(rest.data())) > rest.size() - 8) {
      return errors::DataLoss(path, " is cut off");
    }
    tensorflow::NamedTensorProto message;
    if (!message.ParseFromArray(rest.data() + 8, static_cast<int>(size))) {
      return errors::DataLoss(path, ": no NamedTensorProto");
    }
    TANDEM_ASSIGN_OR_RETURN(Tensor tensor, TensorFromProto(message.tensor()));
    tensors.emplace_back(message.name(), std::move(tensor));
    rest.remove_prefix(8 + size);
  }
  return tensors;
}

absl::Status WriteTensors(const std::string& path, const NamedTensors& tensors) {
  std::string bytes;
  for (const auto& [name, tensor] : tensors) {
    tensorflow::NamedTensorProto message;
    message.set_name(name);
    TANDEM_RETURN_IF_ERROR(
        WithContext(TensorToProto(tensor, message.mutable_tensor()), absl::StrCat("'", name, "'")));
    const std::string serialized = message.SerializeAsString();
    AppendFixed64(serialized.size(), &bytes);
    bytes += serialized;
  }
  return WriteFileAtomically(PosixFileSystem(), path, bytes);
}

}  // namespace tandem::formats
