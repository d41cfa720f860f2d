// The state file of a folder of checkpoints, graphs of objects, and parts of tensors as text.
#include "core/io/checkpoint_state.h"
#include "core/io/tensor_slice.h"
#include "core/io/testing/faulty_file_system.h"
#include "runtime/checkpoint/object_graph.h"
#include "tests/fuzz/target.h"

namespace tandem {
namespace {

CheckpointState WriteAndRead(FileSystem* files, const CheckpointState& state) {
  const absl::Status written = WriteCheckpointState(files, "/d", state);
  TANDEM_FUZZ_CHECK(written.ok(), written.ToString());
  const absl::StatusOr<CheckpointState> read = ReadCheckpointState(files, "/d");
  TANDEM_FUZZ_CHECK(read.ok(), read.status().ToString());
  return *read;
}

void Fuzz(FuzzInput input) {
  const std::string all(input.rest());
  FaultyFileSystem files;
  (void)files.MakeDirectories("/d");
  files.SetContents(CheckpointStatePath("/d"), all);
  const absl::StatusOr<CheckpointState> state = ReadCheckpointState(&files, "/d");
  if (state.ok()) {
    // Written once, paths have their plain form; from there on nothing changes.
    const CheckpointState first = WriteAndRead(&files, *state);
    TANDEM_FUZZ_CHECK(first.all.size() == state->all.size(), "as many checkpoints");
    const CheckpointState second = WriteAndRead(&files, first);
    TANDEM_FUZZ_CHECK(second.latest == first.latest, first.latest, " ", second.latest);
  }
  const absl::StatusOr<ObjectGraph> objects = ObjectGraph::Parse(all);
  if (objects.ok()) {
    for (const ObjectGraph::Attribute& attribute : objects->Attributes()) {
      (void)objects->Find(attribute.key);
    }
    (void)objects->Find(all);
  }
  const absl::StatusOr<ShapeAndSlice> part = ParseShapeAndSlice(all);
  if (part.ok() && !part->whole) {
    TANDEM_FUZZ_CHECK(part->slice.Resolve(part->full).ok(), all);
    TANDEM_FUZZ_CHECK(TensorSlice::Parse(part->slice.DebugString()).ok(), all);
  }
}

}  // namespace
}  // namespace tandem

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  tandem::Fuzz({data, size});
  return 0;
}
