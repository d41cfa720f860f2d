#include "runtime/rpc/step_transfers.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "core/base/status.h"
#include "core/tensor/tensor_proto.h"
#include "runtime/rpc/tensor_wire.h"

namespace tandem {

absl::Span<const char> LendableBytes(const Tensor& value, size_t least_bytes) {
  if (!value.is_valid() || !IsPlain(value.dtype()) || value.num_bytes() < least_bytes) return {};
  return {static_cast<const char*>(value.data()), value.num_bytes()};
}

absl::Status TakeLentTensors(
    const google::protobuf::RepeatedPtrField<step_extras::LentTensor>& lent,
    std::vector<ReadTensor>* tensors, TakeLent take) {
  for (const step_extras::LentTensor& loan : lent) {
    if (loan.index() >= tensors->size()) {
      return errors::InvalidArgument("a message of ", tensors->size(), " tensors says that number ",
                                     loan.index(), " was lent");
    }
    ReadTensor& tensor = (*tensors)[loan.index()];
    const auto dtype = static_cast<DataType>(tensor.proto.dtype());
    if (tensor.value.is_valid() || !IsPlain(dtype)) {
      return errors::InvalidArgument(
          "a message says that a tensor was lent which ",
          tensor.value.is_valid() ? "has its elements" : "is not of plain numbers");
    }
    TANDEM_ASSIGN_OR_RETURN(Shape shape, ShapeFromProto(tensor.proto.tensor_shape()));
    const size_t size = DataTypeSize(dtype);
    if (loan.bytes() % size != 0 ||
        static_cast<uint64_t>(shape.num_elements()) != loan.bytes() / size) {
      return errors::InvalidArgument("a message says that ", loan.bytes(), " bytes were lent for ",
                                     DataTypeName(dtype), shape.DebugString());
    }
    TANDEM_ASSIGN_OR_RETURN(RefPtr<Buffer> buffer, take(loan));
    void* const data = buffer->data();
    tensor.value = Tensor::FromBuffer(dtype, std::move(shape), std::move(buffer), data);
  }
  return absl::OkStatus();
}

StepTransfers::StepTransfers(SharedMemoryEndpoint* endpoint, step_extras::Request request)
    : endpoint_(endpoint), request_(std::move(request)) {}

uint64_t StepTransfers::OfferedBytes() const {
  uint64_t bytes = 0;
  for (const step_extras::LentTensor& feed : request_.feed()) {
    constexpr uint64_t kMost = std::numeric_limits<uint64_t>::max();
    bytes = feed.bytes() > kMost - bytes ? kMost : bytes + feed.bytes();
  }
  return bytes;
}

absl::StatusOr<bool> StepTransfers::TakeFeeds(std::vector<ReadTensor>* feeds) {
  if (request_.feed().empty()) return true;
  const std::shared_ptr<SegmentBorrower> borrower =
      endpoint_ == nullptr ? nullptr : endpoint_->FindBorrower(request_.offers());
  if (borrower == nullptr) return false;
  bool are_there = true;
  const absl::Status status =
      TakeLentTensors(request_.feed(), feeds,
                      [&](const step_extras::LentTensor& feed) -> absl::StatusOr<RefPtr<Buffer>> {
                        absl::StatusOr<RefPtr<Buffer>> buffer = borrower->Take(
                            {feed.row(), feed.number()}, feed.segment(), feed.bytes());
                        are_there = buffer.ok();
                        return buffer;
                      });
  // Whatever keeps one from being taken, a message does without it.
  if (!are_there) return false;
  TANDEM_RETURN_IF_ERROR(status);
  return true;
}

void StepTransfers::LendResults(std::vector<NamedTensor>* results,
                                step_extras::Response* response) {
  if (endpoint_ == nullptr || request_.borrows().empty()) return;
  std::shared_ptr<SegmentLender> lender;
  const size_t tickets = static_cast<size_t>(std::min(request_.row_size(), request_.number_size()));
  for (size_t i = 0; i < std::min(results->size(), tickets); ++i) {
    NamedTensor& result = (*results)[i];
    result.value.Localize();
    const absl::Span<const char> bytes = LendableBytes(result.value, endpoint_->least_lent_bytes());
    if (bytes.empty()) continue;
    if (lender == nullptr) lender = endpoint_->FindLender(request_.borrows());
    if (lender == nullptr) return;
    const Ticket ticket = {request_.row(static_cast<int>(i)), request_.number(static_cast<int>(i))};
    const absl::optional<uint64_t> segment = lender->Lend(ticket, bytes);
    if (!segment.has_value()) continue;
    result.is_lent = true;
    step_extras::LentTensor* const lent = response->add_result();
    lent->set_index(static_cast<uint32_t>(i));
    lent->set_segment(*segment);
    lent->set_bytes(bytes.size());
  }
}

}  // namespace tandem
