#include "runtime/executor/run_memory.h"

#include <algorithm>
#include <string>

#include "core/base/mutex.h"
#include "core/tensor/host_allocator.h"

namespace tandem {
namespace {

// Smaller ones are left to malloc, whose thread caches are as quick.
constexpr size_t kSmallestPiece = size_t{4} << 10;
// More are left to the allocator: a plan takes time and memory in the square of its pieces.
constexpr size_t kMostPieces = 2048;
// After so many corrections a plan stays as it is.
constexpr int kMostObservations = 6;
constexpr int kMostLayouts = 24;

}  // namespace

// What was taken in one run, and when it was let go of; time is a count of these events. Buffers
// keep it, since they may outlive the run.
class RunMemory::Observer final : public RefCounted {
 public:
  struct Taken {
    Key key;
    size_t region;
    size_t bytes;
    int64_t begin;
    int64_t end;  // 0: still held.
  };

  RefPtr<Buffer> Watch(RefPtr<Buffer> buffer, Key key, size_t region);
  std::vector<Taken> taken() const {
    MutexLock lock(mu_);
    return taken_;
  }

 private:
  class WatchedBuffer;

  mutable Mutex mu_;
  int64_t now_ ABSL_GUARDED_BY(mu_) = 0;
  std::vector<Taken> taken_ ABSL_GUARDED_BY(mu_);
};

class RunMemory::Observer::WatchedBuffer final : public Buffer {
 public:
  WatchedBuffer(RefPtr<Buffer> buffer, RefPtr<Observer> observer, size_t index)
      : Buffer(buffer->data(), buffer->size()),
        buffer_(std::move(buffer)),
        observer_(std::move(observer)),
        index_(index) {}

  void* Localize(void* address) const override { return buffer_->Localize(address); }

 private:
  ~WatchedBuffer() override {
    MutexLock lock(observer_->mu_);
    observer_->taken_[index_].end = ++observer_->now_;
  }

  const RefPtr<Buffer> buffer_;
  const RefPtr<Observer> observer_;
  const size_t index_;
};

RefPtr<Buffer> RunMemory::Observer::Watch(RefPtr<Buffer> buffer, Key key, size_t region) {
  if (!buffer) return buffer;
  size_t index;
  {
    MutexLock lock(mu_);
    index = taken_.size();
    taken_.push_back({key, region, buffer->size(), ++now_, 0});
  }
  return RefPtr<Buffer>(new WatchedBuffer(std::move(buffer), RefPtr<Observer>::Share(this), index));
}

// What a node's kernel takes for an allocator. Counts what it is asked for, so that the same
// request of the next run is known again.
class RunMemory::NodeAllocator final : public Allocator {
 public:
  NodeAllocator(RunMemory* memory, size_t node, Allocator* allocator, size_t region)
      : memory_(memory),
        node_(static_cast<int32_t>(node)),
        allocator_(allocator),
        region_(region) {}

  std::string name() const override { return allocator_->name(); }
  AllocatorStats stats() const override { return allocator_->stats(); }

  RefPtr<Buffer> Allocate(size_t bytes) override {
    const int32_t count = count_.fetch_add(1, std::memory_order_relaxed);
    if (bytes < kSmallestPiece) return allocator_->Allocate(bytes);
    if (memory_->mode_ == Mode::kObserved) {
      return memory_->observer_->Watch(allocator_->Allocate(bytes), Key{node_, count}, region_);
    }
    const size_t index = static_cast<size_t>(count);
    const int32_t place = index < places_.size() ? places_[index] : kUnknown;
    if (place >= 0) {
      const Region& region = memory_->regions_[region_];
      if (RefPtr<Buffer> piece = region.arena->Take(static_cast<size_t>(place), bytes)) {
        return piece;
      }
      if (bytes > region.places[static_cast<size_t>(place)].bytes) memory_->missed_ = true;
    } else if (place == kUnknown) {
      memory_->missed_ = true;
    }
    return allocator_->Allocate(bytes);
  }

  void BeginRun() { count_.store(0, std::memory_order_relaxed); }
  void ForgetPlaces() { places_.clear(); }
  // Allocation `count` is piece `place` of the region's arena; kEscapes: of none.
  void SetPlace(int32_t count, int32_t place) {
    if (places_.size() <= static_cast<size_t>(count)) {
      places_.resize(static_cast<size_t>(count) + 1, kUnknown);
    }
    places_[static_cast<size_t>(count)] = place;
  }

  static constexpr int32_t kUnknown = -1;
  static constexpr int32_t kEscapes = -2;

 private:
  RunMemory* const memory_;
  const int32_t node_;
  Allocator* const allocator_;
  const size_t region_;
  std::atomic<int32_t> count_{0};
  std::vector<int32_t> places_;  // By count.
};

struct RunMemory::NodeDevice {
  NodeDevice(const KernelDevice& original, RunMemory* memory, size_t node, size_t region)
      : allocator(memory, node, original.allocator, region), device(original) {
    device.allocator = &allocator;
  }
  NodeAllocator allocator;
  KernelDevice device;
};

RunMemory::RunMemory(const Plan& plan) : plan_(plan) {}
RunMemory::~RunMemory() = default;

const KernelDevice* RunMemory::device(size_t node) const {
  return node_devices_.empty() || node_devices_[node] == nullptr ? plan_.nodes[node].kernel_device
                                                                 : &node_devices_[node]->device;
}

size_t RunMemory::RegionOf(Allocator* allocator) {
  for (size_t i = 0; i < regions_.size(); ++i) {
    if (regions_[i].allocator == allocator) return i;
  }
  regions_.emplace_back();
  regions_.back().allocator = allocator;
  return regions_.size() - 1;
}

std::unique_ptr<RunMemory::NodeDevice> RunMemory::NewNodeDevice(size_t node) {
  const KernelDevice& device = *plan_.nodes[node].kernel_device;
  return std::make_unique<NodeDevice>(device, this, node, RegionOf(device.allocator));
}

bool RunMemory::BeginRun() {
  if (!plan_.plans_memory) return false;
  // A plan that runs once has nothing to learn for.
  if (!std::exchange(has_run_, true)) return false;
  if (observations_ == 0) missed_ = true;
  bool changed = std::exchange(devices_changed_, false);
  if (missed_.exchange(false) && observations_ < kMostObservations) {
    ++observations_;
    StartObserving();
    changed = true;
  }
  for (const size_t node : nodes_with_devices_) node_devices_[node]->allocator.BeginRun();
  if (mode_ == Mode::kPlanned) {
    for (Region& region : regions_) {
      if (region.places.empty()) continue;
      // Somebody who is just letting go of a piece may still hold the old one for a moment.
      if (!region.arena || !region.arena->RefCountIsOne()) {
        region.arena = RefPtr<Arena>(new Arena(region.places, region.bytes));
      }
      region.arena->Open(region.allocator);
    }
  }
  return changed;
}

void RunMemory::StartObserving() {
  mode_ = Mode::kObserved;
  observer_ = MakeRef<Observer>();
  node_devices_.resize(plan_.nodes.size());
  nodes_with_devices_.clear();
  for (size_t i = 0; i < plan_.nodes.size(); ++i) {
    const PlanNode& node = plan_.nodes[i];
    const bool is_synchronous =
        node.kind == PlanNode::Kind::kSync || node.kind == PlanNode::Kind::kQueued;
    if (!is_synchronous || node.kernel == nullptr || node.is_cheap) continue;
    if (node_devices_[i] == nullptr) node_devices_[i] = NewNodeDevice(i);
    nodes_with_devices_.push_back(i);
  }
}

void RunMemory::EndRun(bool ok) {
  if (mode_ == Mode::kObserved) {
    if (ok) {
      Learn(*observer_);
      LayOut();
      ReleaseWhatThePlanReplaces();
    } else {
      missed_ = true;  // Again, with the next run.
    }
    observer_.reset();
    if (!ok) mode_ = Mode::kPlain;
    return;
  }
  if (mode_ == Mode::kPlanned && CloseRegions(ok) && layouts_ < kMostLayouts) LayOut();
}

void RunMemory::Learn(const Observer& observer) {
  struct Held {
    size_t number;
    int64_t end;
  };
  std::vector<Held> held;
  // In the order in which they were taken.
  for (const Observer::Taken& taken : observer.taken()) {
    auto found = numbers_.find(taken.key);
    if (found == numbers_.end()) {
      if (pieces_.size() >= kMostPieces) continue;
      found = numbers_.emplace(taken.key, pieces_.size()).first;
      pieces_.push_back({taken.key, taken.region, 0, false});
      conflicts_.Grow(pieces_.size());
    }
    const size_t number = found->second;
    PieceInfo& piece = pieces_[number];
    piece.bytes = std::max(piece.bytes, taken.bytes);
    piece.escapes = piece.escapes || taken.end == 0;
    if (piece.escapes) continue;
    held.erase(std::remove_if(held.begin(), held.end(),
                              [&](const Held& other) { return other.end < taken.begin; }),
               held.end());
    for (const Held& other : held) {
      if (pieces_[other.number].region == piece.region) conflicts_.Add(other.number, number);
    }
    held.push_back({number, taken.end});
  }
}

void RunMemory::LayOut() {
  ++layouts_;
  for (Region& region : regions_) {
    region.pieces.clear();
    region.places.clear();
    region.arena.reset();
  }
  for (const size_t node : nodes_with_devices_) node_devices_[node]->allocator.ForgetPlaces();
  for (size_t i = 0; i < pieces_.size(); ++i) {
    const PieceInfo& piece = pieces_[i];
    int32_t place = NodeAllocator::kEscapes;
    if (!piece.escapes) {
      place = static_cast<int32_t>(regions_[piece.region].pieces.size());
      regions_[piece.region].pieces.push_back(i);
    }
    const size_t node = static_cast<size_t>(piece.key.node);
    if (node_devices_[node] == nullptr) {
      node_devices_[node] = NewNodeDevice(node);
      nodes_with_devices_.push_back(node);
    }
    node_devices_[node]->allocator.SetPlace(piece.key.count, place);
  }
  bool has_places = false;
  for (Region& region : regions_) {
    std::vector<size_t> bytes;
    for (const size_t number : region.pieces) bytes.push_back(pieces_[number].bytes);
    const MemoryPlan plan = PlanMemory(region.pieces, bytes, conflicts_);
    for (size_t i = 0; i < bytes.size(); ++i) region.places.push_back({plan.offsets[i], bytes[i]});
    region.bytes = plan.bytes;
    has_places = has_places || !bytes.empty();
  }
  mode_ = has_places ? Mode::kPlanned : Mode::kPlain;
  // Nodes that take nothing large see their own device again.
  std::vector<bool> has_piece(plan_.nodes.size(), false);
  for (const PieceInfo& piece : pieces_) has_piece[static_cast<size_t>(piece.key.node)] = true;
  std::vector<size_t> kept;
  for (const size_t node : nodes_with_devices_) {
    if (has_places && has_piece[node]) {
      kept.push_back(node);
    } else {
      node_devices_[node].reset();
    }
  }
  nodes_with_devices_ = std::move(kept);
  devices_changed_ = true;
}

void RunMemory::ReleaseWhatThePlanReplaces() {
  for (const Region& region : regions_) {
    if (region.allocator != HostAllocator()) continue;
    for (const Arena::Piece& piece : region.places) ReleaseKeptHostBlock(piece.bytes);
  }
}

bool RunMemory::CloseRegions(bool ok) {
  bool learned = false;
  for (Region& region : regions_) {
    if (!region.arena) continue;
    const std::vector<size_t> held = region.arena->Close();
    if (!held.empty()) {
      if (ok) {
        for (const size_t place : held) pieces_[region.pieces[place]].escapes = true;
        learned = true;
      }
      region.arena.reset();
      continue;
    }
    for (const auto& [a, b] : region.arena->TakeClashes()) {
      conflicts_.Add(region.pieces[a], region.pieces[b]);
      learned = true;
    }
  }
  return learned;
}

}  // namespace tandem
