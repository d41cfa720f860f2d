// Place: gives every node a device.
//
// A node runs where the user asked (a partial name is a pattern), where a kernel for it exists, and
// with those it cannot be parted from: whoever holds a reference or a handle runs where the
// variable lives, a loop's NextIteration runs where its Merge does, and the attribute _class
// ("loc:@name") asks for company too. Among the devices
// left, the fastest type counts (kDeviceTypesByPreference), then the lowest number.
#ifndef TANDEM_CORE_PASSES_PLACE_H_
#define TANDEM_CORE_PASSES_PLACE_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "core/graph/graph.h"

namespace tandem {

struct PlaceOptions {
  // Full names of the devices there are.
  std::vector<std::string> devices;
  // Where nodes go that could go anywhere: a full name, or a pattern. Empty: as above.
  std::string default_device;
  // When no device has the wished type or number, or no kernel exists there, take another device of
  // the task instead of failing. What was moved is put into `moved`.
  bool soft = false;
  std::vector<std::string>* moved = nullptr;  // "node 'a': wished /device:GPU:0, placed on …"
};

// InvalidArgument: a wish that no device fulfils, wishes that contradict each other, or an op
// without a kernel on the devices that are left. The message names the node, the wish and what
// there is.
absl::Status Place(const PlaceOptions& options, Graph& graph);

}  // namespace tandem

#endif  // TANDEM_CORE_PASSES_PLACE_H_
