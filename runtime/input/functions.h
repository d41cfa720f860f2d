// Functions of pipelines, registered by name, so that a pipeline that uses them can be serialized.
//
//   const bool registered = data::RegisterMapFunction(
//       "to_unit", [](const data::MapContext&, data::Element element) {
//         …
//         return absl::StatusOr<data::Element>(std::move(element));
//       });
//   dataset.Map("to_unit", {.threads = 4})
//
// Threads: any. Registrations last as long as the process.
#ifndef TANDEM_RUNTIME_INPUT_FUNCTIONS_H_
#define TANDEM_RUNTIME_INPUT_FUNCTIONS_H_

#include <cstdint>
#include <functional>
#include <string>

#include "absl/status/statusor.h"
#include "runtime/input/dataset.h"
#include "runtime/input/element.h"

namespace tandem::data {

// Which element a function is called for. A function that wants random numbers seeds them with
// this, and is then the same on any number of threads and after a restore.
struct MapContext {
  int64_t index = 0;       // Of the element in its iteration.
  uint64_t iteration = 0;  // Of the data set.
};

// May be called by several threads at the same time. Computes, with a run token held, and does not
// wait for other threads. Does not write into the tensors of its argument, which others may hold.
using MapFunction = std::function<absl::StatusOr<Element>(const MapContext&, Element)>;

// Makes a data set of an element (a file's name, say). Gives an equal one for an equal element.
using DatasetFunction = std::function<absl::StatusOr<Dataset>(const Element&)>;

// False, and nothing changes, when the name is taken.
bool RegisterMapFunction(std::string name, MapFunction function);
bool RegisterDatasetFunction(std::string name, DatasetFunction function);

// InvalidArgument, with the names that there are. The result lives as long as the process.
absl::StatusOr<const MapFunction*> FindMapFunction(const std::string& name);
absl::StatusOr<const DatasetFunction*> FindDatasetFunction(const std::string& name);

}  // namespace tandem::data

#endif  // TANDEM_RUNTIME_INPUT_FUNCTIONS_H_
