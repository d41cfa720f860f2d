#include "core/io/example_columns.h"

#include <algorithm>
#include <limits>
#include <numeric>
#include <string>
#include <utility>

#include "absl/strings/escaping.h"
#include "core/base/status.h"

namespace tandem {
namespace example_columns {
namespace {

using example_wire::Decode;
using example_wire::WireValues;

// Calls `body` with a value of the C++ type of `dtype`, which is one that examples hold.
template <typename Body>
auto WithType(DataType dtype, const Body& body) {
  if (dtype == kFloat32) return body(float());
  if (dtype == kInt64) return body(int64_t());
  return body(std::string());
}

// "example 3: feature 'x'", or "example 3: feature list 'x', step 2".
std::string RowName(const Column& column, size_t row) {
  const std::string key = absl::CHexEscape(column.spec->key);
  if (column.steps.empty()) return absl::StrCat("example ", row, ": feature '", key, "'");
  size_t example = 0;
  auto step = static_cast<int64_t>(row);
  while (step >= column.steps[example]) step -= column.steps[example++];
  return absl::StrCat("example ", example, ": feature list '", key, "', step ", step);
}

absl::Status WrongType(const Column& column, size_t row) {
  return errors::InvalidArgument(RowName(column, row), " holds ",
                                 DataTypeName(column.rows[row].dtype), " values; expected ",
                                 DataTypeName(column.spec->dtype));
}

absl::Status Damaged(const Column& column, size_t row) {
  return errors::InvalidArgument(RowName(column, row), " has a damaged list of ",
                                 DataTypeName(column.spec->dtype), " values, of ",
                                 column.rows[row].list.size(), " bytes");
}

absl::StatusOr<Tensor> NewTensor(const Column& column, DataType dtype,
                                 absl::Span<const int64_t> dims) {
  const absl::StatusOr<Shape> shape = Shape::FromDims(dims);
  const std::string key = absl::CHexEscape(column.spec->key);
  if (!shape.ok()) return WithContext(shape.status(), absl::StrCat("feature '", key, "'"));
  const auto count = static_cast<uint64_t>(shape->num_elements());
  if (count > column.max_tensor_bytes / DataTypeSize(dtype)) {
    return errors::ResourceExhausted("feature '", key, "': a tensor of shape ",
                                     shape->DebugString(), " and type ", DataTypeName(dtype),
                                     " exceeds the limit of ", column.max_tensor_bytes, " bytes");
  }
  return Tensor::Create(dtype, *shape);
}

// The number of values in each row; types are checked.
absl::StatusOr<std::vector<int64_t>> CountValues(const Column& column) {
  std::vector<int64_t> counts(column.rows.size());
  for (size_t row = 0; row < column.rows.size(); ++row) {
    const WireValues& values = column.rows[row];
    if (values.dtype == DataType::kInvalid) continue;
    if (values.dtype != column.spec->dtype) return WrongType(column, row);
    const bool read = WithType(values.dtype, [&](auto zero) {
      decltype(zero)* const nowhere = nullptr;
      return Decode(values.list, nowhere, 0, &counts[row]);
    });
    if (!read) return Damaged(column, row);
  }
  return counts;
}

// All values, one row after the other.
absl::StatusOr<Tensor> Concatenate(const Column& column, const std::vector<int64_t>& counts) {
  const int64_t total = std::accumulate(counts.begin(), counts.end(), int64_t{0});
  TANDEM_ASSIGN_OR_RETURN(Tensor tensor, NewTensor(column, column.spec->dtype, {total}));
  WithType(column.spec->dtype, [&](auto zero) {
    auto* out = tensor.MutableElements<decltype(zero)>().data();
    for (size_t row = 0; row < counts.size(); ++row) {
      int64_t found;
      Decode(column.rows[row].list, out, counts[row], &found);
      out += counts[row];
    }
  });
  return tensor;
}

absl::StatusOr<Tensor> Splits(const Column& column, const std::vector<int64_t>& counts) {
  const DataType dtype = column.spec->splits_dtype;
  const auto size = static_cast<int64_t>(counts.size()) + 1;
  TANDEM_ASSIGN_OR_RETURN(Tensor tensor, NewTensor(column, dtype, {size}));
  int64_t end = 0;
  if (dtype == kInt64) {
    const absl::Span<int64_t> out = tensor.MutableElements<int64_t>();
    out[0] = 0;
    for (size_t i = 0; i < counts.size(); ++i) out[i + 1] = end += counts[i];
    return tensor;
  }
  const absl::Span<int32_t> out = tensor.MutableElements<int32_t>();
  out[0] = 0;
  for (size_t i = 0; i < counts.size(); ++i) {
    end += counts[i];
    if (end > std::numeric_limits<int32_t>::max()) {
      return errors::InvalidArgument("feature '", absl::CHexEscape(column.spec->key), "': ", end,
                                     " values are too many for row splits of int32; ask for int64");
    }
    out[i + 1] = static_cast<int32_t>(end);
  }
  return tensor;
}

int64_t Longest(const std::vector<int64_t>& counts) {
  return counts.empty() ? 0 : *std::max_element(counts.begin(), counts.end());
}

absl::StatusOr<ParsedFeature> FixedFeature(const Column& column) {
  const FeatureSpec& spec = *column.spec;
  const int64_t size = spec.shape.num_elements();
  std::vector<int64_t> dims = {static_cast<int64_t>(column.rows.size())};
  dims.insert(dims.end(), spec.shape.dims().begin(), spec.shape.dims().end());
  ParsedFeature result;
  TANDEM_ASSIGN_OR_RETURN(result.values, NewTensor(column, spec.dtype, dims));
  TANDEM_RETURN_IF_ERROR(WithType(spec.dtype, [&](auto zero) -> absl::Status {
    using T = decltype(zero);
    T* out = result.values.MutableElements<T>().data();
    for (size_t row = 0; row < column.rows.size(); ++row, out += size) {
      const WireValues& values = column.rows[row];
      if (values.dtype == DataType::kInvalid) {
        if (!spec.default_value.is_valid()) {
          return errors::InvalidArgument(RowName(column, row), " is missing; expected ", size, " ",
                                         DataTypeName(spec.dtype),
                                         " values, since its specification has no default");
        }
        const absl::Span<const T> stand_in = spec.default_value.Elements<T>();
        std::copy(stand_in.begin(), stand_in.end(), out);
        continue;
      }
      if (values.dtype != spec.dtype) return WrongType(column, row);
      int64_t found;
      if (!Decode(values.list, out, size, &found)) return Damaged(column, row);
      if (found != size) {
        return errors::InvalidArgument(RowName(column, row), " has ", found, " ",
                                       DataTypeName(spec.dtype), " values; expected ", size,
                                       ", for shape ", spec.shape.DebugString());
      }
    }
    return absl::OkStatus();
  }));
  return result;
}

// `first[i]` and `first[i + 1]` enclose the rows of example i, which lie in the tensor one behind
// the other and are followed by padding.
absl::StatusOr<ParsedFeature> PaddedFeature(const Column& column, int64_t longest,
                                            const std::vector<int64_t>& counts,
                                            const std::vector<size_t>& first) {
  const FeatureSpec& spec = *column.spec;
  const size_t examples = first.size() - 1;
  std::vector<int64_t> dims = {static_cast<int64_t>(examples), longest};
  dims.insert(dims.end(), spec.shape.dims().begin(), spec.shape.dims().end());
  ParsedFeature result;
  TANDEM_ASSIGN_OR_RETURN(result.values, NewTensor(column, spec.dtype, dims));
  WithType(spec.dtype, [&](auto zero) {
    using T = decltype(zero);
    const T padding =
        spec.default_value.is_valid() ? spec.default_value.template ScalarValue<T>() : T();
    T* out = result.values.MutableElements<T>().data();
    const int64_t stride = longest * spec.shape.num_elements();
    for (size_t example = 0; example < examples; ++example) {
      T* const end = out + stride;
      for (size_t row = first[example]; row < first[example + 1]; ++row) {
        int64_t found;
        Decode(column.rows[row].list, out, counts[row], &found);
        out += counts[row];
      }
      std::fill(out, end, padding);
      out = end;
    }
  });
  return result;
}

absl::StatusOr<Tensor> VectorOf(const Column& column, absl::Span<const int64_t> values) {
  TANDEM_ASSIGN_OR_RETURN(Tensor tensor,
                          NewTensor(column, kInt64, {static_cast<int64_t>(values.size())}));
  std::copy(values.begin(), values.end(), tensor.MutableElements<int64_t>().begin());
  return tensor;
}

}  // namespace

absl::StatusOr<ParsedFeature> FeatureOfExamples(const Column& column) {
  const FeatureSpec& spec = *column.spec;
  if (spec.form == FeatureSpec::Form::kFixed) return FixedFeature(column);
  TANDEM_ASSIGN_OR_RETURN(const std::vector<int64_t> counts, CountValues(column));
  const auto examples = static_cast<int64_t>(counts.size());
  const int64_t longest = Longest(counts);

  if (spec.form == FeatureSpec::Form::kPadded) {
    const int64_t row_size = spec.shape.num_elements();
    std::vector<size_t> first(counts.size() + 1);
    std::iota(first.begin(), first.end(), size_t{0});
    for (size_t row = 0; row < counts.size(); ++row) {
      if (counts[row] % row_size == 0) continue;
      return errors::InvalidArgument(RowName(column, row), " has ", counts[row], " ",
                                     DataTypeName(spec.dtype), " values; expected a multiple of ",
                                     row_size, ", for rows of shape ", spec.shape.DebugString());
    }
    return PaddedFeature(column, longest / row_size, counts, first);
  }

  ParsedFeature result;
  TANDEM_ASSIGN_OR_RETURN(result.values, Concatenate(column, counts));
  if (spec.form == FeatureSpec::Form::kRagged) {
    TANDEM_ASSIGN_OR_RETURN(result.row_splits, Splits(column, counts));
    return result;
  }
  TANDEM_ASSIGN_OR_RETURN(result.indices,
                          NewTensor(column, kInt64, {result.values.num_elements(), 2}));
  int64_t* index = result.indices.MutableElements<int64_t>().data();
  for (int64_t example = 0; example < examples; ++example) {
    for (int64_t i = 0; i < counts[static_cast<size_t>(example)]; ++i) {
      *index++ = example;
      *index++ = i;
    }
  }
  TANDEM_ASSIGN_OR_RETURN(result.dense_shape, VectorOf(column, {examples, longest}));
  return result;
}

absl::StatusOr<ParsedFeature> FeatureOfSteps(const Column& column) {
  const FeatureSpec& spec = *column.spec;
  TANDEM_ASSIGN_OR_RETURN(const std::vector<int64_t> counts, CountValues(column));
  const auto examples = static_cast<int64_t>(column.steps.size());
  const int64_t most_steps = Longest(column.steps);

  if (spec.form == FeatureSpec::Form::kPadded) {
    for (size_t row = 0; row < counts.size(); ++row) {
      if (counts[row] == spec.shape.num_elements()) continue;
      return errors::InvalidArgument(RowName(column, row), " has ", counts[row], " ",
                                     DataTypeName(spec.dtype), " values; expected ",
                                     spec.shape.num_elements(), ", for shape ",
                                     spec.shape.DebugString());
    }
    std::vector<size_t> first = {0};
    for (const int64_t steps : column.steps) {
      first.push_back(first.back() + static_cast<size_t>(steps));
    }
    TANDEM_ASSIGN_OR_RETURN(ParsedFeature result, PaddedFeature(column, most_steps, counts, first));
    TANDEM_ASSIGN_OR_RETURN(result.lengths, VectorOf(column, column.steps));
    return result;
  }

  ParsedFeature result;
  TANDEM_ASSIGN_OR_RETURN(result.values, Concatenate(column, counts));
  if (spec.form == FeatureSpec::Form::kRagged) {
    TANDEM_ASSIGN_OR_RETURN(result.row_splits, Splits(column, column.steps));
    TANDEM_ASSIGN_OR_RETURN(result.inner_row_splits, Splits(column, counts));
    return result;
  }
  TANDEM_ASSIGN_OR_RETURN(result.indices,
                          NewTensor(column, kInt64, {result.values.num_elements(), 3}));
  int64_t* index = result.indices.MutableElements<int64_t>().data();
  size_t row = 0;
  for (int64_t example = 0; example < examples; ++example) {
    for (int64_t step = 0; step < column.steps[static_cast<size_t>(example)]; ++step, ++row) {
      for (int64_t i = 0; i < counts[row]; ++i) {
        *index++ = example;
        *index++ = step;
        *index++ = i;
      }
    }
  }
  TANDEM_ASSIGN_OR_RETURN(result.dense_shape,
                          VectorOf(column, {examples, most_steps, Longest(counts)}));
  return result;
}

}  // namespace example_columns
}  // namespace tandem
