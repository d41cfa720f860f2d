#include "strategies/parameter_server/note_keeper.h"

#include <utility>

#include "absl/time/clock.h"
#include "core/base/log.h"
#include "core/base/status.h"
#include "core/tensor/tensor_proto.h"
#include "proto/parameter_service.pb.h"

namespace tandem::parameter_server {
namespace {

// Steps that are shorter share a note.
constexpr absl::Duration kBetween = absl::Milliseconds(20);

}  // namespace

NoteKeeper::NoteKeeper(std::function<absl::Status(const std::string& note)> send)
    : send_(std::move(send)), thread_([this] { Run(); }) {}

NoteKeeper::~NoteKeeper() {
  {
    MutexLock lock(mu_);
    ends_ = true;
    changed_.NotifyAll();
  }
  thread_.join();
}

bool NoteKeeper::IsDue() const {
  MutexLock lock(mu_);
  return !is_sending_ && !next_.has_value() && absl::Now() - last_ >= kBetween;
}

void NoteKeeper::Keep(std::string note) {
  MutexLock lock(mu_);
  next_ = std::move(note);
  last_ = absl::Now();
  changed_.NotifyAll();
}

void NoteKeeper::Flush(absl::Time deadline) {
  MutexLock lock(mu_);
  while ((is_sending_ || next_.has_value()) && absl::Now() < deadline) {
    changed_.WaitUntil(mu_, deadline);
  }
}

void NoteKeeper::Run() {
  bool has_warned = false;
  for (;;) {
    std::string note;
    {
      MutexLock lock(mu_);
      is_sending_ = false;
      changed_.NotifyAll();
      while (!ends_ && !next_.has_value()) changed_.Wait(mu_);
      if (ends_) return;
      note = *std::exchange(next_, absl::nullopt);
      is_sending_ = true;
    }
    const absl::Status status = send_(note);
    if (status.ok() || absl::IsCancelled(status) || std::exchange(has_warned, true)) continue;
    TANDEM_LOG(Warning) << "a program that is started again will not know where this one stood: "
                        << status.message();
  }
}

absl::StatusOr<std::string> NoteToBytes(const StrategyState& note) {
  CoordinatorNote message;
  for (const auto& [name, value] : note) {
    tensorflow::NamedTensorProto& entry = *message.add_values();
    entry.set_name(name);
    TANDEM_RETURN_IF_ERROR(TensorToProto(value, entry.mutable_tensor()));
  }
  return message.SerializeAsString();
}

absl::StatusOr<StrategyState> NoteFromBytes(const std::string& bytes) {
  CoordinatorNote message;
  if (!message.ParseFromString(bytes)) {
    return errors::DataLoss("a note of ", bytes.size(), " bytes cannot be read");
  }
  StrategyState note;
  for (const tensorflow::NamedTensorProto& entry : message.values()) {
    absl::StatusOr<Tensor> value = TensorFromProto(entry.tensor());
    if (!value.ok()) {
      return errors::DataLoss("a note's '", entry.name(), "': ", value.status().message());
    }
    note.emplace_back(entry.name(), *std::move(value));
  }
  return note;
}

}  // namespace tandem::parameter_server
