#include "kernels/linalg/einsum_equation.h"

#include <algorithm>
#include <map>
#include <utility>

#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "core/base/status.h"
#include "core/op/shape_context.h"

namespace tandem {
namespace {

absl::StatusOr<std::string> ParseLabels(absl::string_view text, absl::string_view equation) {
  std::string labels;
  bool has_ellipsis = false;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '.') {
      if (has_ellipsis || text.substr(i, 3) != "...") {
        return errors::InvalidArgument("the equation '", equation, "' has '", text,
                                       "'; dots must come as one ellipsis, '...'");
      }
      has_ellipsis = true;
      i += 2;
    }
    labels.push_back(text[i]);
  }
  return labels;
}

// What two dimensions say together of their label's size.
absl::StatusOr<int64_t> MergeDims(int64_t a, int64_t b, char label) {
  if (a < 0) return b;
  if (b < 0 || a == b) return a;
  return errors::InvalidArgument("the dimensions with label '", std::string(1, label),
                                 "' have sizes ", a, " and ", b);
}

}  // namespace

std::string EinsumText(absl::string_view labels) {
  return absl::StrReplaceAll(labels, {{".", "..."}});
}

absl::StatusOr<EinsumEquation> EinsumEquation::Parse(absl::string_view equation) {
  const std::vector<absl::string_view> sides = absl::StrSplit(equation, "->");
  if (sides.size() != 2) {
    return errors::InvalidArgument("the equation '", equation,
                                   "' must have exactly one '->' between inputs and output");
  }
  EinsumEquation parsed;
  for (const absl::string_view input : absl::StrSplit(sides[0], ',')) {
    TANDEM_ASSIGN_OR_RETURN(std::string labels, ParseLabels(input, equation));
    parsed.inputs.push_back(std::move(labels));
  }
  if (parsed.inputs.size() > 2) {
    return errors::InvalidArgument("the equation '", equation, "' has ", parsed.inputs.size(),
                                   " inputs; one or two are wanted");
  }
  TANDEM_ASSIGN_OR_RETURN(parsed.output, ParseLabels(sides[1], equation));
  for (const char label : parsed.output) {
    if (label == kEllipsis) continue;  // Which then stands for no dimensions.
    const auto has_label = [label](const std::string& input) {
      return input.find(label) != std::string::npos;
    };
    if (std::none_of(parsed.inputs.begin(), parsed.inputs.end(), has_label)) {
      return errors::InvalidArgument("the output of the equation '", equation, "' has '",
                                     std::string(1, label), "', which no input has");
    }
  }
  return parsed;
}

absl::StatusOr<int> EllipsisRank(absl::string_view labels, int rank) {
  const bool has_ellipsis = HasEllipsis(labels);
  const int named = static_cast<int>(labels.size()) - (has_ellipsis ? 1 : 0);
  if (has_ellipsis ? rank < named : rank != named) {
    return errors::InvalidArgument("an input of rank ", rank, " does not fit the labels '",
                                   EinsumText(labels), "', which want ",
                                   has_ellipsis ? "at least " : "", named);
  }
  return rank - named;
}

absl::StatusOr<PartialShape> EinsumShape(const EinsumEquation& equation,
                                         const std::vector<PartialShape>& inputs) {
  if (inputs.size() != equation.inputs.size()) {
    return errors::InvalidArgument("an equation of ", equation.inputs.size(), " inputs is given ",
                                   inputs.size());
  }
  std::map<char, int64_t> sizes;
  // The dimensions of the ellipses, broadcast.
  PartialShape ellipsis({});
  for (size_t i = 0; i < inputs.size(); ++i) {
    const std::string& labels = equation.inputs[i];
    const PartialShape& shape = inputs[i];
    if (!shape.has_rank()) {
      for (const char label : labels) sizes.emplace(label, PartialShape::kUnknownDim);
      if (HasEllipsis(labels)) ellipsis = PartialShape::Unknown();
      continue;
    }
    TANDEM_ASSIGN_OR_RETURN(const int dots, EllipsisRank(labels, shape.rank()));
    int dim = 0;
    for (const char label : labels) {
      if (label == EinsumEquation::kEllipsis) {
        const PartialShape part(
            shape.dims().subspan(static_cast<size_t>(dim), static_cast<size_t>(dots)));
        TANDEM_ASSIGN_OR_RETURN(ellipsis, BroadcastShapes(ellipsis, part));
        dim += dots;
        continue;
      }
      const auto [at, is_new] = sizes.emplace(label, shape.dim(dim));
      if (!is_new) {
        TANDEM_ASSIGN_OR_RETURN(at->second, MergeDims(at->second, shape.dim(dim), label));
      }
      ++dim;
    }
  }
  if (!HasEllipsis(equation.output) && ellipsis.has_rank() && ellipsis.rank() > 0) {
    return errors::InvalidArgument("the output '", equation.output,
                                   "' has no ellipsis for the dimensions ", ellipsis.DebugString(),
                                   " that those of the inputs stand for");
  }
  PartialShape output({});
  for (const char label : equation.output) {
    if (label != EinsumEquation::kEllipsis) {
      output.AddDim(sizes[label]);
      continue;
    }
    if (!ellipsis.has_rank()) return PartialShape::Unknown();
    for (const int64_t size : ellipsis.dims()) output.AddDim(size);
  }
  return output;
}

}  // namespace tandem
