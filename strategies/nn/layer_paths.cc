#include "strategies/nn/layer_paths.h"

#include "absl/strings/str_cat.h"
#include "strategies/nn/initializer.h"

namespace tandem::nn {

LayerPaths::Use LayerPaths::Next(const LayerPtr& layer, const CallOptions& options) {
  Known& known = known_[layer.get()];
  if (known.uses == 0) {
    const std::string base = layer->default_name();
    std::string name = base;
    // A name may be taken by another kind of layer: "dense_1" is a good default name, too.
    int& last = last_number_[base];
    while (!taken_.insert(name).second) name = absl::StrCat(base, "_", ++last);
    known.path = container_.empty() ? name : absl::StrCat(container_, "/", name);
  }
  Use use{known.path, options};
  if (known.uses > 0) use.options.seed = SeedFor(options.seed, absl::StrCat("use_", known.uses));
  ++known.uses;
  return use;
}

}  // namespace tandem::nn
