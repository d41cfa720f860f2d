#include "runtime/device/free_blocks.h"

#include <iterator>

namespace tandem {

void FreeBlocks::AddRange(size_t begin, size_t size) {
  ranges_.emplace(begin, size);
  Insert(begin, size);
}

std::vector<FreeBlocks::Block> FreeBlocks::RemoveFreeRanges() {
  std::vector<Block> removed;
  for (auto range = ranges_.begin(); range != ranges_.end();) {
    const auto block = free_.find(range->first);
    if (block == free_.end() || block->second != range->second) {
      ++range;
      continue;
    }
    removed.push_back({range->first, range->second});
    Erase(block);
    range = ranges_.erase(range);
  }
  return removed;
}

std::optional<size_t> FreeBlocks::Take(size_t size) {
  const auto fit = free_by_size_.lower_bound({size, 0});
  if (fit == free_by_size_.end()) return std::nullopt;
  const auto [block_size, begin] = *fit;
  Erase(free_.find(begin));
  if (block_size > size) Insert(begin + size, block_size - size);
  return begin;
}

void FreeBlocks::Put(size_t begin, size_t size) {
  const auto next = free_.lower_bound(begin);
  const bool begins_a_range = ranges_.count(begin) != 0;
  const bool ends_a_range = ranges_.count(begin + size) != 0;
  if (next != free_.end() && next->first == begin + size && !ends_a_range) {
    size += next->second;
    Erase(next);
  }
  const auto after = free_.lower_bound(begin);
  if (after != free_.begin() && !begins_a_range) {
    const auto before = std::prev(after);
    if (before->first + before->second == begin) {
      begin = before->first;
      size += before->second;
      Erase(before);
    }
  }
  Insert(begin, size);
}

void FreeBlocks::Insert(size_t begin, size_t size) {
  free_.emplace(begin, size);
  free_by_size_.emplace(size, begin);
}

void FreeBlocks::Erase(std::map<size_t, size_t>::iterator block) {
  free_by_size_.erase({block->second, block->first});
  free_.erase(block);
}

}  // namespace tandem
