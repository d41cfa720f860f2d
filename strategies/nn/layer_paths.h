// How layers are called in what contains them.
#ifndef TANDEM_STRATEGIES_NN_LAYER_PATHS_H_
#define TANDEM_STRATEGIES_NN_LAYER_PATHS_H_

#include <map>
#include <set>
#include <string>

#include "strategies/nn/base.h"

namespace tandem::nn {

// Gives the layers of one container paths below its own: "dense", "dense_1", … in the order in
// which they are asked for. A layer that comes again keeps its path, and so its variables.
class LayerPaths {
 public:
  explicit LayerPaths(std::string container) : container_(std::move(container)) {}

  struct Use {
    std::string path;
    // For this use of the layer: variables are those of the first, but a second use drops others.
    CallOptions options;
  };
  Use Next(const LayerPtr& layer, const CallOptions& options);

 private:
  struct Known {
    std::string path;
    int uses = 0;
  };
  const std::string container_;
  std::map<const Layer*, Known> known_;
  std::set<std::string> taken_;
  std::map<std::string, int> last_number_;  // That was tried, by default name.
};

}  // namespace tandem::nn

#endif  // TANDEM_STRATEGIES_NN_LAYER_PATHS_H_
