// Arena: one block of memory in which the pieces of a memory plan have their fixed places.
//
// A plan is a forecast: kernels of a step may run in another order than when it was learned, and a
// value may outlive the consumers that the plan knows. So every piece is checked when it is taken:
// whose place is not free, whatever the reason, is not given, and the caller goes to the allocator.
#ifndef TANDEM_RUNTIME_EXECUTOR_ARENA_H_
#define TANDEM_RUNTIME_EXECUTOR_ARENA_H_

#include <cstddef>
#include <memory>
#include <utility>
#include <vector>

#include "core/base/mutex.h"
#include "core/base/ref_counted.h"
#include "core/tensor/buffer.h"

namespace tandem {

// Threads: any may take pieces and let go of them; one at a time opens and closes.
// Lifetime: buffers that were taken keep the arena.
class Arena final : public RefCounted {
 public:
  struct Piece {
    size_t offset;
    size_t bytes;
  };

  // Piece i of `pieces` has the number i.
  Arena(std::vector<Piece> pieces, size_t bytes);

  // Takes the block. While there is none (no memory was left), no piece is given.
  void Open(Allocator* allocator);
  // Gives the block back. What is still taken keeps it instead; its numbers are returned, and the
  // arena must not be opened again.
  std::vector<size_t> Close();

  // Memory for piece `number`, of `bytes` bytes. Null: it is larger than the plan says, the arena
  // is closed, or a part of the place is taken.
  RefPtr<Buffer> Take(size_t number, size_t bytes);

  // Pairs of pieces that wanted overlapping places at the same time, since the last call.
  std::vector<std::pair<size_t, size_t>> TakeClashes();

 private:
  class PieceBuffer;
  struct Live {
    size_t begin;
    size_t end;
    size_t number;
  };

  ~Arena() override;
  void Release(size_t number);

  const std::vector<Piece> pieces_;
  const size_t bytes_;
  // Where the buffer objects of taken pieces lie, one a piece.
  struct Storage;
  const std::unique_ptr<Storage[]> storage_;

  Mutex mu_;
  RefPtr<Buffer> block_ ABSL_GUARDED_BY(mu_);
  std::vector<Live> live_ ABSL_GUARDED_BY(mu_);  // Sorted by `begin`; they do not overlap.
  std::vector<std::pair<size_t, size_t>> clashes_ ABSL_GUARDED_BY(mu_);
};

}  // namespace tandem

#endif  // TANDEM_RUNTIME_EXECUTOR_ARENA_H_
