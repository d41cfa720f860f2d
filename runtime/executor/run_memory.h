// RunMemory: where the larger values and scratch buffers of one run state lie.
//
// A plan knows what follows what, but not how large anything is: clients leave batch sizes open. So
// a run state learns from its own runs:
//
//   the first run     takes its memory from the devices' allocators, since plans that run once
//                     (initializers) should pay nothing;
//   the second run    is observed: what each kernel takes, and from when to when it is held;
//   every later run   has one block a device, in which each piece has its place
//                     (core/passes/memory_plan.h).
//
// What was still held when a run ended (fetched, assigned, put into a queue) escapes: it never lies
// in a block again. What no piece was planned for, what has grown, and what would overlap a piece
// that is still held comes from the allocator, and what was learned is corrected after the run, a
// limited number of times. So a wrong forecast costs time and never a result.
//
// Only synchronous kernels are looked at, and only what they take from KernelContext.
#ifndef TANDEM_RUNTIME_EXECUTOR_RUN_MEMORY_H_
#define TANDEM_RUNTIME_EXECUTOR_RUN_MEMORY_H_

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "core/kernel/kernel.h"
#include "core/passes/memory_plan.h"
#include "runtime/executor/arena.h"
#include "runtime/executor/plan.h"

namespace tandem {

// Threads: BeginRun and EndRun outside the run's nodes; kernels of different nodes take memory at
// the same time.
class RunMemory {
 public:
  explicit RunMemory(const Plan& plan);
  ~RunMemory();

  // Before the first node starts. Returns true when device() has changed for some node.
  bool BeginRun();
  // After the last node has ended and all values but the results have been let go of. `ok`: the run
  // did not fail. A failed run teaches nothing.
  void EndRun(bool ok);

  // What the kernel of node `node` is to see as its device; null for nodes without a kernel.
  const KernelDevice* device(size_t node) const;

 private:
  class Observer;
  class NodeAllocator;

  // The memory of the devices that share an allocator.
  struct Region {
    Allocator* allocator = nullptr;
    std::vector<size_t> pieces;  // Of the arena's piece i: its number among all.
    std::vector<Arena::Piece> places;
    size_t bytes = 0;
    RefPtr<Arena> arena;
  };
  struct NodeDevice;
  // What one allocation of a node, the `count`-th of a run, is.
  struct Key {
    int32_t node;
    int32_t count;
    friend bool operator<(const Key& a, const Key& b) {
      return a.node != b.node ? a.node < b.node : a.count < b.count;
    }
  };
  struct PieceInfo {
    Key key;
    size_t region = 0;
    size_t bytes = 0;  // The largest seen.
    bool escapes = false;
  };
  enum class Mode : uint8_t { kPlain, kObserved, kPlanned };

  void StartObserving();
  void Learn(const Observer& observer);
  // Lays all pieces out anew.
  void LayOut();
  // The blocks that served the pieces so far.
  void ReleaseWhatThePlanReplaces();
  // Closes the blocks and notes escapes and clashes. Returns true when something was learned.
  bool CloseRegions(bool ok);
  std::unique_ptr<NodeDevice> NewNodeDevice(size_t node);
  size_t RegionOf(Allocator* allocator);

  const Plan& plan_;
  Mode mode_ = Mode::kPlain;
  bool has_run_ = false;
  bool devices_changed_ = false;
  int observations_ = 0;
  int layouts_ = 0;
  std::vector<Region> regions_;
  std::map<Key, size_t> numbers_;
  std::vector<PieceInfo> pieces_;
  MemoryConflicts conflicts_;
  // By node; null where the plan's own device serves.
  std::vector<std::unique_ptr<NodeDevice>> node_devices_;
  std::vector<size_t> nodes_with_devices_;
  RefPtr<Observer> observer_;
  // A planned run met memory that the plan does not know, or larger than it knows.
  std::atomic<bool> missed_{false};
};

}  // namespace tandem

#endif  // TANDEM_RUNTIME_EXECUTOR_RUN_MEMORY_H_
