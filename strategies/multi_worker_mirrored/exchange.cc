#include "strategies/multi_worker_mirrored/exchange.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "core/base/status.h"
#include "core/io/coding.h"

namespace tandem {
namespace {

// Instances of graphs' operations are not negative.
constexpr int64_t kGatherInstance = -2;
constexpr int64_t kStateInstance = -3;

constexpr absl::Duration kBetweenChecks = absl::Milliseconds(100);
// A tensor up to this size is put together with others.
constexpr size_t kSmallBytes = 64 << 10;
// Of one operation of a large tensor.
constexpr size_t kPieceBytes = 64 << 20;
// Names, types and shapes of any state that there can be.
constexpr uint64_t kMostIndexBytes = uint64_t{256} << 20;

// What comes first: there is a state, and how long its index and its small parts are.
struct Head {
  uint64_t is_there = 0;
  uint64_t index_bytes = 0;
  uint64_t blob_bytes = 0;
};

bool TravelsAlone(const Tensor& tensor) {
  return IsTriviallyCopyable(tensor.dtype()) && tensor.num_bytes() > kSmallBytes;
}

void AppendIndex(const std::string& name, const Tensor& tensor, std::string* index) {
  AppendVarint64(name.size(), index);
  index->append(name);
  AppendVarint64(static_cast<uint64_t>(tensor.dtype()), index);
  AppendVarint64(static_cast<uint64_t>(tensor.shape().rank()), index);
  for (const int64_t dim : tensor.shape().dims()) {
    AppendVarint64(static_cast<uint64_t>(dim), index);
  }
}

void AppendBlob(const Tensor& tensor, std::string* blob) {
  if (tensor.dtype() != kString) {
    blob->append(static_cast<const char*>(tensor.data()), tensor.num_bytes());
    return;
  }
  for (const std::string& element : tensor.Elements<std::string>()) {
    AppendVarint64(element.size(), blob);
    blob->append(element);
  }
}

absl::StatusOr<std::pair<std::string, Tensor>> ReadIndex(Decoder& index) {
  const auto damaged = [] {
    return errors::DataLoss("the index of a state that another worker gave makes no sense");
  };
  uint64_t size = 0;
  absl::string_view name;
  uint64_t dtype = 0;
  uint64_t rank = 0;
  if (!index.ReadVarint64(&size) || !index.ReadBytes(size, &name) || !index.ReadVarint64(&dtype) ||
      !index.ReadVarint64(&rank) || dtype > INT32_MAX || rank > kMaxRank) {
    return damaged();
  }
  const DataType type = static_cast<DataType>(dtype);
  if (!IsSupported(type) || (!IsTriviallyCopyable(type) && type != kString)) return damaged();
  std::vector<int64_t> dims;
  for (uint64_t i = 0; i < rank; ++i) {
    uint64_t dim = 0;
    if (!index.ReadVarint64(&dim) || dim > INT64_MAX) return damaged();
    dims.push_back(static_cast<int64_t>(dim));
  }
  const absl::StatusOr<Shape> shape = Shape::FromDims(dims);
  if (!shape.ok()) return damaged();
  absl::StatusOr<Tensor> tensor = Tensor::Create(type, *shape);
  if (!tensor.ok()) return WithContext(tensor.status(), name);
  return std::make_pair(std::string(name), *std::move(tensor));
}

bool ReadBlob(Decoder& blob, Tensor& tensor) {
  absl::string_view bytes;
  if (tensor.dtype() != kString) {
    if (!blob.ReadBytes(tensor.num_bytes(), &bytes)) return false;
    if (!bytes.empty()) std::memcpy(tensor.mutable_data(), bytes.data(), bytes.size());
    return true;
  }
  for (std::string& element : tensor.MutableElements<std::string>()) {
    uint64_t size = 0;
    if (!blob.ReadVarint64(&size) || !blob.ReadBytes(size, &bytes)) return false;
    element.assign(bytes.data(), bytes.size());
  }
  return true;
}

}  // namespace

Exchange::Exchange(std::shared_ptr<collective::Group> group, absl::Duration piece_timeout,
                   absl::Duration longest)
    : group_(std::move(group)), piece_timeout_(piece_timeout), longest_(longest) {}

absl::Status Exchange::Run(collective::Request request, Check check) {
  const collective::Handle operation = group_->Start(std::move(request));
  while (!operation->done()) {
    operation->Wait(absl::Now() + kBetweenChecks).IgnoreError();
    if (operation->done()) break;
    const absl::Status status = check();
    if (status.ok()) continue;
    // Its memory is the caller's.
    operation->Cancel(status);
    operation->Wait().IgnoreError();
    return status;
  }
  return operation->status();
}

absl::StatusOr<std::vector<std::string>> Exchange::Gather(const std::string& name,
                                                          absl::string_view record, Check check) {
  const size_t size = static_cast<size_t>(group_->size());
  std::string all(size * record.size(), '\0');
  collective::Request request;
  request.kind = collective::Kind::kAllGather;
  request.dtype = kUint8;
  request.input = record.data();
  request.output = all.data();
  request.count = static_cast<int64_t>(record.size());
  request.instance = kGatherInstance;
  request.step = next_++;
  request.name = name;
  request.timeout = longest_;
  TANDEM_RETURN_IF_ERROR(Run(std::move(request), check));
  std::vector<std::string> records;
  for (size_t rank = 0; rank < size; ++rank) {
    records.push_back(all.substr(rank * record.size(), record.size()));
  }
  return records;
}

Exchange::Transfer Exchange::Begin(const std::string& name, int source,
                                   const std::vector<int>& takers) {
  Transfer transfer;
  transfer.name = name;
  transfer.members = takers;
  const auto place = transfer.members.insert(
      std::lower_bound(transfer.members.begin(), transfer.members.end(), source), source);
  transfer.root = static_cast<int>(place - transfer.members.begin());
  transfer.step = next_++;
  return transfer;
}

absl::Status Exchange::Broadcast(Transfer& transfer, void* data, size_t bytes,
                                 absl::Duration timeout, Check check) {
  for (size_t offset = 0; offset < bytes; offset += kPieceBytes) {
    const size_t count = std::min(kPieceBytes, bytes - offset);
    collective::Request request;
    request.kind = collective::Kind::kBroadcast;
    request.dtype = kUint8;
    // The source's memory is only read: the operation is in place.
    request.input = request.output = static_cast<char*>(data) + offset;
    request.count = static_cast<int64_t>(count);
    request.members = transfer.members;
    request.root = transfer.root;
    request.instance = kStateInstance;
    request.step = transfer.step;
    request.phase = transfer.phase++;
    request.name = transfer.name;
    request.timeout = timeout;
    TANDEM_RETURN_IF_ERROR(Run(std::move(request), check));
    moved_bytes_ += static_cast<int64_t>(count);
  }
  return absl::OkStatus();
}

absl::Status Exchange::Give(const std::string& name, const StrategyState* state,
                            const std::vector<int>& takers, Check check) {
  Transfer transfer = Begin(name, group_->rank(), takers);
  std::string index;
  std::string blob;
  absl::Status refused;
  for (size_t i = 0; state != nullptr && i < state->size(); ++i) {
    const auto& [variable, tensor] = (*state)[i];
    if (!IsTriviallyCopyable(tensor.dtype()) && tensor.dtype() != kString) {
      refused = errors::Unimplemented("'", variable, "' is of type ", DataTypeName(tensor.dtype()),
                                      ", whose values cannot be given to another worker");
      break;
    }
    AppendIndex(variable, tensor, &index);
    if (!TravelsAlone(tensor)) AppendBlob(tensor, &blob);
  }
  if (refused.ok() && index.size() > kMostIndexBytes) {
    refused = errors::ResourceExhausted("a state of ", state->size(), " tensors cannot be given");
  }
  Head head;
  head.is_there = state != nullptr && refused.ok() ? 1 : 0;
  head.index_bytes = index.size();
  head.blob_bytes = blob.size();
  TANDEM_RETURN_IF_ERROR(Broadcast(transfer, &head, sizeof(head), longest_, check));
  if (head.is_there == 0) return refused;
  TANDEM_RETURN_IF_ERROR(Broadcast(transfer, index.data(), index.size(), piece_timeout_, check));
  TANDEM_RETURN_IF_ERROR(Broadcast(transfer, blob.data(), blob.size(), piece_timeout_, check));
  for (const auto& [variable, tensor] : *state) {
    if (!TravelsAlone(tensor)) continue;
    TANDEM_RETURN_IF_ERROR(Broadcast(transfer, const_cast<void*>(tensor.data()), tensor.num_bytes(),
                                     piece_timeout_, check));
  }
  return absl::OkStatus();
}

absl::StatusOr<absl::optional<StrategyState>> Exchange::Take(const std::string& name, int source,
                                                             const std::vector<int>& takers,
                                                             Check check) {
  Transfer transfer = Begin(name, source, takers);
  Head head;
  TANDEM_RETURN_IF_ERROR(Broadcast(transfer, &head, sizeof(head), longest_, check));
  if (head.is_there == 0) return absl::optional<StrategyState>();
  absl::StatusOr<StrategyState> state =
      TakeParts(transfer, head.index_bytes, head.blob_bytes, check);
  if (state.ok()) return absl::optional<StrategyState>(*std::move(state));
  // The others of the transfer go on with pieces for which nobody here waits.
  group_->Abort(errors::Aborted(group_->options().members[static_cast<size_t>(group_->rank())].name,
                                " could not take ", name, ": ", state.status().message()));
  return state.status();
}

absl::StatusOr<StrategyState> Exchange::TakeParts(Transfer& transfer, uint64_t index_bytes,
                                                  uint64_t blob_bytes, Check check) {
  if (index_bytes > kMostIndexBytes) {
    return errors::DataLoss("another worker gives a state with an index of ", index_bytes,
                            " bytes; at most ", kMostIndexBytes, " are possible");
  }
  std::string index(index_bytes, '\0');
  TANDEM_RETURN_IF_ERROR(Broadcast(transfer, index.data(), index.size(), piece_timeout_, check));
  // In a tensor, which may be refused where there is no memory.
  if (blob_bytes > INT64_MAX) return errors::DataLoss("a state of ", blob_bytes, " bytes");
  TANDEM_ASSIGN_OR_RETURN(
      Tensor blob, Tensor::Create(DataType::kUint8, Shape({static_cast<int64_t>(blob_bytes)})));
  TANDEM_RETURN_IF_ERROR(
      Broadcast(transfer, blob.mutable_data(), blob.num_bytes(), piece_timeout_, check));
  StrategyState state;
  Decoder entries(index);
  Decoder small(absl::string_view(static_cast<const char*>(blob.data()), blob.num_bytes()));
  while (!entries.empty()) {
    TANDEM_ASSIGN_OR_RETURN(auto entry, ReadIndex(entries));
    if (!TravelsAlone(entry.second) && !ReadBlob(small, entry.second)) {
      return errors::DataLoss("'", entry.first, "' is cut off in what another worker gave");
    }
    state.push_back(std::move(entry));
  }
  if (!small.empty()) {
    return errors::DataLoss("another worker gave ", small.rest().size(), " bytes too many");
  }
  blob.Reset();
  for (auto& [variable, tensor] : state) {
    if (!TravelsAlone(tensor)) continue;
    TANDEM_RETURN_IF_ERROR(
        Broadcast(transfer, tensor.mutable_data(), tensor.num_bytes(), piece_timeout_, check));
  }
  return state;
}

}  // namespace tandem
