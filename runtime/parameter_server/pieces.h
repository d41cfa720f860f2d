// Values of any size in messages of a bounded one: what does not fit goes on in the next, large
// tensors by their rows.
//
//   Position next;
//   while (next.variable() < values.size()) {
//     std::vector<NamedTensor> some = TakePieces(values, kPieceBytes, &next,
//     message.mutable_pieces()); … send; the other end: joined.Add(message.pieces(),
//     std::move(read)) …
//   }
#ifndef TANDEM_RUNTIME_PARAMETER_SERVER_PIECES_H_
#define TANDEM_RUNTIME_PARAMETER_SERVER_PIECES_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "core/tensor/tensor.h"
#include "google/protobuf/repeated_field.h"
#include "proto/parameter_service.pb.h"
#include "runtime/rpc/step_messages.h"

namespace tandem::parameter_server {

using NamedValues = std::vector<std::pair<std::string, Tensor>>;
using PieceList = google::protobuf::RepeatedPtrField<Piece>;

// What the values of one message take, unless one row takes more.
inline constexpr size_t kPieceBytes = size_t{64} << 20;

// The values from `next` on that fit, at least one; `next` goes on to what follows, to the end of
// `values` when nothing does. They share memory with `values`. InvalidArgument: `next` is no
// position in `values`.
absl::StatusOr<std::vector<NamedTensor>> TakePieces(const NamedValues& values, size_t most_bytes,
                                                    Position* next, PieceList* pieces);

// Puts the pieces of one sender together. Nothing in them is trusted.
//
// Threads: one.
class JoinedPieces {
 public:
  // All values together take at most `most_bytes`.
  explicit JoinedPieces(uint64_t most_bytes) : left_(most_bytes) {}

  // InvalidArgument: a piece that does not follow the one before it. ResourceExhausted: too much,
  // or no memory.
  absl::Status Add(const PieceList& pieces, NamedValues values);
  // InvalidArgument: the last value is not complete.
  absl::StatusOr<NamedValues> Finish();

 private:
  absl::Status AddOne(const Piece& piece, std::string name, Tensor value);

  uint64_t left_;
  NamedValues values_;
  int64_t missing_rows_ = 0;  // Of the last one.
};

}  // namespace tandem::parameter_server

#endif  // TANDEM_RUNTIME_PARAMETER_SERVER_PIECES_H_
