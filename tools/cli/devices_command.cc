#include <cstdio>

#include "core/base/status.h"
#include "runtime/device/device.h"
#include "tools/cli/command.h"

namespace tandem::cli {
namespace {

constexpr char kHelp[] =
    "tandem devices [--devices=TYPE:COUNT,…]\n\n"
    "Lists the devices of a session in this process: those of --devices, else of the environment\n"
    "variable TANDEM_DEVICES, else one CPU. Devices are virtual: CPU:4 declares four, which share\n"
    "the cores. SIM is a simulated accelerator with a memory and a queue of its own.\n\n"
    "Example:\n"
    "  tandem devices --devices=CPU:2,SIM:1\n";

absl::Status Run(const std::vector<std::string>& words) {
  TANDEM_ASSIGN_OR_RETURN(const Arguments arguments, Arguments::Parse(words, {"devices"}, {}));
  if (!arguments.positional().empty()) {
    return errors::InvalidArgument("takes no '", arguments.positional()[0],
                                   "'; devices are named by --devices=CPU:2,SIM:1");
  }
  std::shared_ptr<DeviceSet> devices;
  if (arguments.Has("devices")) {
    TANDEM_ASSIGN_OR_RETURN(const auto counts, ParseDeviceCounts(arguments.Last("devices")));
    TANDEM_ASSIGN_OR_RETURN(devices, DeviceSet::Create(counts));
  } else {
    TANDEM_ASSIGN_OR_RETURN(devices, DeviceSet::FromEnvironment());
  }
  for (const auto& device : devices->devices()) {
    std::printf("%s  %s\n", device->name().c_str(),
                device->is_queued() ? "own memory, in-order queue" : "host memory");
  }
  return absl::OkStatus();
}

}  // namespace

const Command kDevicesCommand = {"devices", "lists the devices of this process", kHelp, Run};

}  // namespace tandem::cli
