// Partition: how the rows of a variable are divided among its parts, and the nodes that take values
// apart and put them together accordingly.
//
//   ranges    part p has rows [first, first + rows); the first parts have one row more than the
//             others where the number does not divide
//   spread    part p of n has rows p, p + n, p + 2n, …: neighbours lie apart, so that rows that are
//             used often do not meet in one part only because they were numbered first
//
// Errors of nodes are kept by the scope that they are added to.
#ifndef TANDEM_STRATEGIES_PARAMETER_SERVER_PARTITION_H_
#define TANDEM_STRATEGIES_PARAMETER_SERVER_PARTITION_H_

#include <cstdint>
#include <vector>

#include "core/graph/scope.h"
#include "core/op/gradient_context.h"
#include "core/tensor/dtype.h"
#include "core/tensor/shape.h"

namespace tandem::parameter_server {

struct PartitionOptions {
  // See Strategy::ParameterServerOptions. -1: no variable is cut.
  int64_t min_part_bytes = int64_t{256} << 10;
  int64_t max_part_bytes = 0;  // 0: no limit.
  int most_parts = 1;          // As far as max_part_bytes allows.
};

// Into how many parts a variable is cut: at least 1, and no more than it has rows.
int64_t NumParts(const PartitionOptions& options, DataType dtype, const Shape& shape);

class Partition {
 public:
  struct Part {
    int64_t first = 0;   // Row.
    int64_t stride = 1;  // From one of its rows to the next.
    int64_t rows = 0;
  };
  // Ids, by the part that has their rows.
  struct Route {
    std::vector<Output> ids;        // Of each part: as it counts its rows.
    std::vector<Output> positions;  // int32: where they were.
  };

  // REQUIRES: 1 <= parts <= max(1, rows).
  Partition(int64_t rows, int parts, bool spread);

  int num_parts() const { return static_cast<int>(parts_.size()); }
  const std::vector<Part>& parts() const { return parts_; }

  // The whole of all parts' values.
  Output Join(const Scope& scope, const std::vector<Output>& parts) const;
  // Each part's rows of a value that has a row for each of the variable's.
  std::vector<Output> Split(const Scope& scope, const Output& whole) const;
  // What one part has of it.
  Output Slice(const Scope& scope, const Output& whole, int part) const;
  // `ids`: a vector of int32 or int64. One that is no row goes to some part, as a number that is no
  // row there.
  Route Divide(const Scope& scope, const Output& ids) const;
  // Each part's rows of a sparse gradient, in their order.
  std::vector<Gradient> SplitSparse(const Scope& scope, const Gradient& gradient) const;

 private:
  // The part of each id (int32), and its number there.
  std::pair<Output, Output> Locate(const Scope& scope, const Output& ids) const;

  const int64_t rows_;
  const bool spread_;
  std::vector<Part> parts_;
};

}  // namespace tandem::parameter_server

#endif  // TANDEM_STRATEGIES_PARAMETER_SERVER_PARTITION_H_
