#include <cstdio>

#include "absl/time/time.h"
#include "core/base/status.h"
#include "runtime/device/device.h"
#include "runtime/rpc/remote_server.h"
#include "tools/cli/command.h"

namespace tandem::cli {
namespace {

constexpr char kHelp[] =
    "tandem devices [--devices=TYPE:COUNT,… | --target=grpc://HOST:PORT]\n\n"
    "Lists the devices of a session in this process: those of --devices, else of the environment\n"
    "variable TANDEM_DEVICES, else one CPU. Devices are virtual: CPU:4 declares four, which share\n"
    "the cores. SIM is a simulated accelerator with a memory and a queue of its own.\n\n"
    "With --target: those of a server and of the other tasks of its cluster that answer.\n\n"
    "Examples:\n"
    "  tandem devices --devices=CPU:2,SIM:1\n"
    "  tandem devices --target=grpc://localhost:2222\n";

absl::Status ListRemote(const std::string& target) {
  constexpr absl::Duration kTimeout = absl::Seconds(10);
  TANDEM_ASSIGN_OR_RETURN(const RemoteServer server, RemoteServer::Create(target));
  TANDEM_ASSIGN_OR_RETURN(const std::vector<RemoteDevice> devices, server.ListDevices(kTimeout));
  for (const RemoteDevice& device : devices) {
    std::printf("%s  incarnation %016llx\n", device.name.c_str(),
                static_cast<unsigned long long>(device.incarnation));
  }
  return absl::OkStatus();
}

absl::Status Run(const std::vector<std::string>& words) {
  TANDEM_ASSIGN_OR_RETURN(const Arguments arguments,
                          Arguments::Parse(words, {"devices", "target"}, {}));
  if (!arguments.positional().empty()) {
    return errors::InvalidArgument("takes no '", arguments.positional()[0],
                                   "'; devices are named by --devices=CPU:2,SIM:1");
  }
  if (arguments.Has("target")) {
    if (arguments.Has("devices")) {
      return errors::InvalidArgument("--devices are this process's, --target is a server");
    }
    return ListRemote(arguments.Last("target"));
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

const Command kDevicesCommand = {"devices", "lists the devices of this process, or of a server",
                                 kHelp, Run};

}  // namespace tandem::cli
