// The weights of one kernel in the layouts that a library likes best, kept between runs.
//
// A library such as oneDNN wants weights in blocks, in an order that depends on the shapes and on
// the number of threads (PrimitiveCache). Copying them over in each call is a part of the time that
// matters where batches are small. What was copied may be used again when it can be known that the
// weights are still the same:
//
//   constants   are kept from the first call on.
//   variables   are kept when the same memory has come a number of times in a row, `patience`. From
//               then on this object holds the plain tensor, too, so that its memory is not written
//               to (InputSource::kVariable): the same memory then means the same numbers. When
//               other memory comes, what was kept is let go of. If that was too soon to be worth
//               it, the patience doubles: a kernel in N training steps packs log2(N) times for
//               nothing, and only after those its variable's update needs fresh memory.
//   all else    is never kept.
//
// What is kept is bounded by a budget of the process, plain tensors included; when it is spent,
// weights are copied over in each call, as they are without this. It is memory of the device's
// allocator, whose figures count it. It goes with the kernel.
//
// Threads: any. Nobody waits for another's copy: who comes while there is none packs one for
// itself.
#ifndef TANDEM_KERNELS_NN_PACKED_WEIGHTS_H_
#define TANDEM_KERNELS_NN_PACKED_WEIGHTS_H_

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "core/base/mutex.h"
#include "core/kernel/kernel.h"
#include "core/tensor/tensor.h"

namespace tandem {

// How many bytes all packed weights may keep. Threads: any.
class PackedBudget {
 public:
  explicit PackedBudget(int64_t limit) : limit_(limit) {}
  // That of all kernels: 512 MiB.
  static PackedBudget& Process();

  // False, and nothing is taken, when it would be more than the limit.
  bool Take(int64_t bytes);
  void GiveBack(int64_t bytes) { used_.fetch_sub(bytes, std::memory_order_relaxed); }
  int64_t used() const { return used_.load(std::memory_order_relaxed); }

 private:
  const int64_t limit_;
  std::atomic<int64_t> used_{0};
};

// Weights in one layout. Gives back what it took of the budget.
class PackedCopy {
 public:
  // `bytes` with undefined contents, while `also_kept` bytes are kept for its sake. Null: the
  // budget is spent, or there is no memory.
  static std::shared_ptr<PackedCopy> Make(int64_t bytes, int64_t also_kept, Allocator* allocator,
                                          PackedBudget* budget);
  ~PackedCopy() { budget_->GiveBack(charged_); }
  PackedCopy(const PackedCopy&) = delete;
  PackedCopy& operator=(const PackedCopy&) = delete;

  // The address for the calling thread.
  void* data() const { return data_.buffer()->Localize(data_.buffer()->data()); }

 private:
  PackedCopy(Tensor data, int64_t charged, PackedBudget* budget)
      : data_(std::move(data)), charged_(charged), budget_(budget) {}

  const Tensor data_;
  const int64_t charged_;
  PackedBudget* const budget_;
};

struct PackedWeightsOptions {
  InputSource source = InputSource::kComputed;
  // The device's, as KernelInit has it: that of a run knows only memory that ends with the run.
  Allocator* allocator = nullptr;
  PackedBudget* budget = &PackedBudget::Process();  // Outlives all copies.
  int64_t patience = 8;
};

// Layout is copied, and compared by ==. Equal layouts of one plain tensor are equal bytes.
template <typename Layout>
class PackedWeights {
 public:
  using Copy = std::shared_ptr<const PackedCopy>;

  explicit PackedWeights(const PackedWeightsOptions& options)
      : options_(options), patience_(options.patience) {}

  // `plain`, the input of a kernel that is running, in `layout`, which takes `bytes` bytes.
  // `pack(void* to)` writes them where there is no copy yet; what it throws goes to the caller.
  // Null: the caller has to pack for itself.
  template <typename Pack>
  Copy Get(const Tensor& plain, const Layout& layout, size_t bytes, Pack pack) {
    if (options_.source == InputSource::kComputed) return nullptr;
    Kept dropped;  // Let go of after the lock.
    {
      MutexLock lock(mu_);
      if (!Holds(plain)) {
        Drop(dropped);
        if (!IsSteady(plain)) return nullptr;
        kept_.plain = plain;
      }
      if (Copy found = Find(layout)) {
        ++served_;
        return found;
      }
      if (kept_.copies.size() == kMostLayouts) return nullptr;
    }
    const std::shared_ptr<PackedCopy> copy =
        PackedCopy::Make(static_cast<int64_t>(bytes), static_cast<int64_t>(plain.num_bytes()),
                         options_.allocator, options_.budget);
    if (copy != nullptr) pack(copy->data());
    MutexLock lock(mu_);
    if (!Holds(plain)) return copy;
    if (copy == nullptr) {
      if (kept_.copies.empty()) std::swap(kept_, dropped);
    } else if (kept_.copies.size() < kMostLayouts && Find(layout) == nullptr) {
      kept_.copies.emplace_back(layout, copy);
    }
    return copy;
  }

 private:
  // A kernel meets more than one where batch sizes or numbers of threads change.
  static constexpr size_t kMostLayouts = 4;
  static constexpr int64_t kMostPatience = int64_t{1} << 20;

  struct Kept {
    Tensor plain;  // Not valid: nothing is kept.
    std::vector<std::pair<Layout, Copy>> copies;
  };

  bool Holds(const Tensor& plain) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
    return kept_.plain.is_valid() && kept_.plain.buffer().get() == plain.buffer().get() &&
           kept_.plain.data() == plain.data() && kept_.plain.shape() == plain.shape();
  }

  Copy Find(const Layout& layout) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
    for (const auto& [known, copy] : kept_.copies) {
      if (known == layout) return copy;
    }
    return nullptr;
  }

  // Moves what is kept to `dropped`, which is empty.
  void Drop(Kept& dropped) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
    if (!kept_.plain.is_valid()) return;
    if (served_ < patience_) patience_ = std::min(2 * patience_, kMostPatience);
    std::swap(kept_, dropped);
    served_ = 0;
    candidate_ = nullptr;
  }

  // Whether `plain`, which is not held, has come often enough. It may have changed in between: this
  // is a forecast and no more.
  bool IsSteady(const Tensor& plain) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
    if (options_.source == InputSource::kConstant) return true;
    if (candidate_ != plain.data()) {
      candidate_ = plain.data();
      seen_ = 0;
    }
    return seen_++ >= patience_;
  }

  const PackedWeightsOptions options_;

  Mutex mu_;
  Kept kept_ ABSL_GUARDED_BY(mu_);
  int64_t served_ ABSL_GUARDED_BY(mu_) = 0;  // How often what is kept has been of use.
  const void* candidate_ ABSL_GUARDED_BY(mu_) = nullptr;
  int64_t seen_ ABSL_GUARDED_BY(mu_) = 0;  // How often in a row the candidate came.
  int64_t patience_ ABSL_GUARDED_BY(mu_);
};

}  // namespace tandem

#endif  // TANDEM_KERNELS_NN_PACKED_WEIGHTS_H_
