// What most sources above core/ include of it, with all that prelude.h has (prelude.bzl).
#include "tools/build_defs/prelude.h"

#include "core/base/status.h"
#include "core/graph/graph.h"
#include "core/graph/scope.h"
#include "core/kernel/factories.h"
#include "core/kernel/kernel.h"
#include "core/kernel/parallel.h"
#include "core/op/gradient_context.h"
#include "core/op/registry.h"
#include "core/op/shape_context.h"
#include "core/tensor/tensor.h"
