// Layers with something changed.
#ifndef TANDEM_STRATEGIES_NN_WRAPPERS_H_
#define TANDEM_STRATEGIES_NN_WRAPPERS_H_

#include <string>

#include "strategies/nn/base.h"

namespace tandem::nn {

// The layer under a name of one's own, which must be a valid name of a graph's node (letters,
// digits, "_", "-", "."; no slash): the path of its variables.
LayerPtr Named(std::string name, LayerPtr layer);

// The layer with variables that are made but not trained. Batch normalization inside uses its
// moving statistics and leaves them alone, as in Keras. Paths stay as they are without it. A
// wrapped layer is one of its own: it shares no variables with uses of `layer` elsewhere.
LayerPtr Frozen(LayerPtr layer);

}  // namespace tandem::nn

#endif  // TANDEM_STRATEGIES_NN_WRAPPERS_H_
