// Ids of frames: the number by which tasks that run parts of one loop name the same frame.
//
// A loop that spans tasks runs in each of them, and what they send each other carries the frame and
// the iteration (core/kernel/rendezvous_key.h). Nobody hands out numbers: each task computes them
// from what it knows of the loop, by TensorFlow's rule, so that its tasks arrive at the same ones.
#ifndef TANDEM_RUNTIME_EXECUTOR_FRAME_ID_H_
#define TANDEM_RUNTIME_EXECUTOR_FRAME_ID_H_

#include <cstdint>

#include "absl/strings/string_view.h"

namespace tandem {

// The id of the frame `name` that begins in an iteration of another frame. The outermost has id 0.
uint64_t ChildFrameId(uint64_t parent, int64_t parent_iteration, absl::string_view name);

// The hash that TensorFlow uses: MurmurHash64A (A. Appleby, in the public domain), on bytes in
// little-endian order, with TensorFlow's seed.
uint64_t HashOfText(absl::string_view text);

}  // namespace tandem

#endif  // TANDEM_RUNTIME_EXECUTOR_FRAME_ID_H_
