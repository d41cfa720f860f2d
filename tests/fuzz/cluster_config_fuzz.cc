// Cluster configurations, in all their forms.
#include "proto/server.pb.h"
#include "runtime/cluster/cluster_config.h"
#include "tests/fuzz/target.h"

namespace tandem {
namespace {

void Fuzz(FuzzInput input) {
  const absl::string_view all = input.rest();
  (void)ParseHostPort(all);
  const absl::StatusOr<ClusterConfig> config = ParseClusterConfig(all);
  if (!config.ok()) {
    TANDEM_FUZZ_CHECK(!config.status().message().empty(), "a message");
    return;
  }
  if (!config->task.has_value()) return;
  const absl::StatusOr<ClusterConfig> again = FromServerDef(ToServerDef(*config, *config->task));
  TANDEM_FUZZ_CHECK(again.ok(), again.status().ToString());
  TANDEM_FUZZ_CHECK(again->jobs == config->jobs, "the same jobs");
}

}  // namespace
}  // namespace tandem

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  tandem::Fuzz({data, size});
  return 0;
}
