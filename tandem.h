// Everything that a program which uses Tandem includes.
#ifndef TANDEM_TANDEM_H_
#define TANDEM_TANDEM_H_

#include "core/base/status.h"
#include "core/graph/export.h"
#include "core/graph/import.h"
#include "core/graph/scope.h"
#include "core/op/gradients.h"
#include "core/op/registry.h"
#include "core/tensor/tensor.h"
#include "kernels/ops.h"
#include "runtime/checkpoint/load.h"
#include "runtime/checkpoint/manager.h"
#include "runtime/device/device.h"
#include "runtime/input/dataset.h"
#include "runtime/input/image_files.h"
#include "runtime/input/write_records.h"
#include "runtime/parameter_server/kvstore.h"
#include "runtime/saved_model/saved_model.h"
#include "runtime/session/session.h"
#include "runtime/session/timeline.h"
#include "runtime/summary/log_writer.h"
#include "strategies/export/export.h"
#include "strategies/nn/layer.h"
#include "strategies/nn/loss.h"
#include "strategies/nn/metric.h"
#include "strategies/optimizer/accumulate.h"
#include "strategies/optimizer/apply.h"
#include "strategies/optimizer/clipping.h"
#include "strategies/optimizer/optimizer.h"
#include "strategies/parameter_server/coordinator.h"
#include "strategies/strategy.h"
#include "strategies/trainer/log_callback.h"
#include "strategies/trainer/trainer.h"

namespace tandem {

// Prints an error to stderr and gives the code with which the program shall end (ExitCodeOf).
int Exit(const absl::Status& status);

}  // namespace tandem

#endif  // TANDEM_TANDEM_H_
