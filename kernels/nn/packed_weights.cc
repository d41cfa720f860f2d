#include "kernels/nn/packed_weights.h"

namespace tandem {

PackedBudget& PackedBudget::Process() {
  static auto* const budget = new PackedBudget(int64_t{512} << 20);
  return *budget;
}

bool PackedBudget::Take(int64_t bytes) {
  int64_t used = used_.load(std::memory_order_relaxed);
  do {
    if (bytes > limit_ - used) return false;
  } while (!used_.compare_exchange_weak(used, used + bytes, std::memory_order_relaxed));
  return true;
}

std::shared_ptr<PackedCopy> PackedCopy::Make(int64_t bytes, int64_t also_kept, Allocator* allocator,
                                             PackedBudget* budget) {
  const int64_t charged = bytes + also_kept;
  if (!budget->Take(charged)) return nullptr;
  absl::StatusOr<Tensor> data = Tensor::Create(kUint8, Shape({bytes}), allocator);
  if (!data.ok()) {
    budget->GiveBack(charged);
    return nullptr;
  }
  return std::shared_ptr<PackedCopy>(new PackedCopy(*std::move(data), charged, budget));
}

}  // namespace tandem
