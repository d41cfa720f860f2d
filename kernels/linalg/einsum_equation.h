// Einstein's summation in text: "ab,bc->ac", "...ij->...ji", "ii->". What Einsum's shape function,
// kernel and gradient share.
//
// Every dimension of an input has a label, a letter; the ellipsis stands for any number of
// dimensions, which broadcast against those of the other input's ellipsis. Labels that the output
// lacks are summed over. A label that an input has twice picks the diagonal; one that the output
// has twice puts the result on the diagonal of zeros.
#ifndef TANDEM_KERNELS_LINALG_EINSUM_EQUATION_H_
#define TANDEM_KERNELS_LINALG_EINSUM_EQUATION_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "core/tensor/shape.h"

namespace tandem {

struct EinsumEquation {
  // What stands for an ellipsis among labels, which are one character each.
  static constexpr char kEllipsis = '.';

  // InvalidArgument: not of the form "inputs->output", other than one or two inputs, two ellipses
  // in one place, or a label of the output that no input has.
  static absl::StatusOr<EinsumEquation> Parse(absl::string_view equation);

  std::vector<std::string> inputs;  // "ab." for "ab...".
  std::string output;
};

inline bool HasEllipsis(absl::string_view labels) {
  return labels.find(EinsumEquation::kEllipsis) != absl::string_view::npos;
}
// How the equation writes them: with three dots.
std::string EinsumText(absl::string_view labels);

// How many dimensions the ellipsis of `labels` stands for in a tensor of rank `rank`; 0 without
// one. InvalidArgument: the rank does not fit the labels.
absl::StatusOr<int> EllipsisRank(absl::string_view labels, int rank);

// The output's shape. InvalidArgument: shapes that do not fit the equation or each other.
absl::StatusOr<PartialShape> EinsumShape(const EinsumEquation& equation,
                                         const std::vector<PartialShape>& inputs);

}  // namespace tandem

#endif  // TANDEM_KERNELS_LINALG_EINSUM_EQUATION_H_
