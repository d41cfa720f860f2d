#ifndef TANDEM_STRATEGIES_NN_SEQUENTIAL_H_
#define TANDEM_STRATEGIES_NN_SEQUENTIAL_H_

#include <vector>

#include "strategies/nn/base.h"

namespace tandem::nn {

// One layer after the other; the first may take several inputs. Layers of equal default name are
// numbered: "dense", "dense_1", … The same object given twice is one layer used twice: it shares
// its variables.
LayerPtr Sequential(std::vector<LayerPtr> layers);

// x + f(x), f being the layers one after the other (He and others 2016). f must keep the shape.
LayerPtr Residual(std::vector<LayerPtr> layers);

}  // namespace tandem::nn

#endif  // TANDEM_STRATEGIES_NN_SEQUENTIAL_H_
