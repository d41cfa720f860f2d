// FreeBlocks: which parts of some ranges of addresses are free. Best fit, merged when freed.
//
// Addresses are plain numbers; nothing is read or written through them. Threads: one at a time.
#ifndef TANDEM_RUNTIME_DEVICE_FREE_BLOCKS_H_
#define TANDEM_RUNTIME_DEVICE_FREE_BLOCKS_H_

#include <cstddef>
#include <map>
#include <optional>
#include <set>
#include <utility>
#include <vector>

namespace tandem {

class FreeBlocks {
 public:
  struct Block {
    size_t begin = 0;
    size_t size = 0;
  };

  // Adds a range, all of it free. Blocks of different ranges are never merged.
  void AddRange(size_t begin, size_t size);
  // Takes every range out that is free as a whole.
  std::vector<Block> RemoveFreeRanges();

  // The smallest free block that is large enough, cut to `size`. Its beginning; nothing: there is
  // none.
  std::optional<size_t> Take(size_t size);
  // REQUIRES: [begin, begin + size) was taken and not put back.
  void Put(size_t begin, size_t size);

 private:
  void Insert(size_t begin, size_t size);
  void Erase(std::map<size_t, size_t>::iterator block);

  std::map<size_t, size_t> ranges_;  // Size by beginning.
  // Free blocks, no two of a range adjacent: size by beginning, and (size, beginning) for the fit.
  std::map<size_t, size_t> free_;
  std::set<std::pair<size_t, size_t>> free_by_size_;
};

}  // namespace tandem

#endif  // TANDEM_RUNTIME_DEVICE_FREE_BLOCKS_H_
