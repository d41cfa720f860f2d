#include "runtime/executor/arena.h"

#include <algorithm>
#include <new>

// Of a piece that nobody holds, the address sanitizer reports every use.
#if defined(TANDEM_ASAN)
#include <sanitizer/asan_interface.h>
#else
#define ASAN_POISON_MEMORY_REGION(address, size) \
  do {                                           \
    (void)(address);                             \
    (void)(size);                                \
  } while (false)
#define ASAN_UNPOISON_MEMORY_REGION ASAN_POISON_MEMORY_REGION
#endif

namespace tandem {

// Lies in the arena's storage, so that taking a piece allocates nothing.
class Arena::PieceBuffer final : public Buffer {
 public:
  PieceBuffer(Arena* arena, const Buffer* block, size_t number, void* data, size_t size)
      : Buffer(data, size), arena_(arena), block_(block), number_(number) {}

  void* Localize(void* address) const override { return block_->Localize(address); }

  static void* operator new(size_t, void* place) { return place; }
  static void operator delete(void*, void*) {}  // Pairs with the placement form.
  static void operator delete(PieceBuffer* buffer, std::destroying_delete_t) {
    Arena* const arena = buffer->arena_;
    const size_t number = buffer->number_;
    buffer->~PieceBuffer();
    arena->Release(number);
    arena->Unref();
  }

 private:
  Arena* const arena_;         // One reference is this buffer's.
  const Buffer* const block_;  // The arena's, which keeps it while a piece is taken.
  const size_t number_;
};

struct Arena::Storage {
  alignas(PieceBuffer) char bytes[sizeof(PieceBuffer)];
};

Arena::Arena(std::vector<Piece> pieces, size_t bytes)
    : pieces_(std::move(pieces)), bytes_(bytes), storage_(new Storage[pieces_.size()]) {
  MutexLock lock(mu_);
  live_.reserve(pieces_.size());
}

Arena::~Arena() {
  MutexLock lock(mu_);
  if (block_) ASAN_UNPOISON_MEMORY_REGION(block_->data(), block_->size());
}

void Arena::Open(Allocator* allocator) {
  RefPtr<Buffer> block = allocator->Allocate(bytes_);
  if (block) ASAN_POISON_MEMORY_REGION(block->data(), block->size());
  MutexLock lock(mu_);
  block_ = std::move(block);
}

std::vector<size_t> Arena::Close() {
  RefPtr<Buffer> block;  // Goes after the lock.
  MutexLock lock(mu_);
  if (live_.empty()) {
    if (block_) ASAN_UNPOISON_MEMORY_REGION(block_->data(), block_->size());
    std::swap(block, block_);
    return {};
  }
  std::vector<size_t> numbers;
  for (const Live& live : live_) numbers.push_back(live.number);
  return numbers;
}

RefPtr<Buffer> Arena::Take(size_t number, size_t bytes) {
  const Piece& piece = pieces_[number];
  if (bytes > piece.bytes) return nullptr;
  const Live wanted{piece.offset, piece.offset + piece.bytes, number};
  MutexLock lock(mu_);
  if (!block_) return nullptr;
  const auto after =
      std::lower_bound(live_.begin(), live_.end(), wanted,
                       [](const Live& a, const Live& b) { return a.begin < b.begin; });
  const Live* clash = nullptr;
  if (after != live_.end() && after->begin < wanted.end) clash = &*after;
  if (after != live_.begin() && std::prev(after)->end > wanted.begin) clash = &*std::prev(after);
  if (clash != nullptr) {
    constexpr size_t kKept = 64;  // Enough to learn from; a run should not grow a list.
    if (clashes_.size() < kKept) clashes_.emplace_back(number, clash->number);
    return nullptr;
  }
  live_.insert(after, wanted);
  char* const data = static_cast<char*>(block_->data()) + piece.offset;
  ASAN_UNPOISON_MEMORY_REGION(data, bytes);
  Ref();
  return RefPtr<Buffer>(new (storage_[number].bytes)
                            PieceBuffer(this, block_.get(), number, data, bytes));
}

void Arena::Release(size_t number) {
  const Piece& piece = pieces_[number];
  MutexLock lock(mu_);
  ASAN_POISON_MEMORY_REGION(static_cast<char*>(block_->data()) + piece.offset, piece.bytes);
  const auto at =
      std::lower_bound(live_.begin(), live_.end(), piece.offset,
                       [](const Live& live, size_t offset) { return live.begin < offset; });
  live_.erase(at);
}

std::vector<std::pair<size_t, size_t>> Arena::TakeClashes() {
  MutexLock lock(mu_);
  return std::exchange(clashes_, {});
}

}  // namespace tandem
