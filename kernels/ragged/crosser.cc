#include "kernels/ragged/crosser.h"

#include <farmhash.h>

#include <cstring>

#include "absl/strings/str_cat.h"
#include "core/base/status.h"
#include "kernels/strings/hash.h"

namespace tandem::ragged {
namespace {

constexpr int64_t kMaxRows = int64_t{1} << 28;

absl::Status CheckBatch(int64_t rows, int64_t* batch, absl::string_view name) {
  if (*batch < 0) *batch = rows;
  if (rows == *batch) return absl::OkStatus();
  return errors::InvalidArgument(name, " has ", rows, " rows; the first input has ", *batch);
}

absl::StatusOr<FeatureColumn> SparseColumn(const Tensor& indices, const Tensor& values,
                                           const Tensor& shape, int i, int64_t* batch) {
  if (!indices.shape().IsMatrix() || indices.shape().dim(1) != 2 || !values.shape().IsVector() ||
      indices.shape().dim(0) != values.num_elements()) {
    return errors::InvalidArgument("indices[", i, "] have shape ", indices.shape().DebugString(),
                                   " and values[", i, "] ", values.shape().DebugString(),
                                   "; a row of two indices for each value is wanted");
  }
  if (!shape.shape().IsVector() || shape.num_elements() != 2) {
    return errors::InvalidArgument("shapes[", i, "] has shape ", shape.shape().DebugString(),
                                   "; it must be two numbers, the shape of a matrix");
  }
  const int64_t rows = shape.Elements<int64_t>()[0];
  TANDEM_RETURN_IF_ERROR(CheckBatch(rows, batch, absl::StrCat("shapes[", i, "]")));
  if (rows < 0) {
    return errors::InvalidArgument("shapes[", i, "] has ", rows, " rows; that is no shape");
  }
  // A row costs memory also where it has no features.
  if (rows > kMaxRows) {
    return errors::ResourceExhausted("shapes[", i, "] has ", rows, " rows; at most ", kMaxRows,
                                     " can be crossed");
  }
  FeatureColumn column;
  column.values = values;
  column.starts.reserve(static_cast<size_t>(rows) + 1);
  const auto all = indices.Elements<int64_t>();
  const auto count = static_cast<size_t>(values.num_elements());
  size_t next = 0;
  column.starts.push_back(0);
  for (int64_t row = 0; row < rows; ++row) {
    while (next < count && all[2 * next] == row) ++next;
    column.starts.push_back(static_cast<int64_t>(next));
  }
  if (next < count) {
    return errors::InvalidArgument("indices[", i, "][", next, "] is of row ", all[2 * next],
                                   "; rows must rise and lie below ", rows);
  }
  return column;
}

absl::StatusOr<FeatureColumn> DenseColumn(const Tensor& values, int i, int64_t* batch) {
  if (!values.shape().IsMatrix()) {
    return errors::InvalidArgument("dense_inputs[", i, "] has shape ", values.shape().DebugString(),
                                   "; it must be a matrix");
  }
  const int64_t rows = values.shape().dim(0);
  TANDEM_RETURN_IF_ERROR(CheckBatch(rows, batch, absl::StrCat("dense_inputs[", i, "]")));
  FeatureColumn column;
  column.values = values;
  column.is_dense = true;
  for (int64_t row = 0; row <= rows; ++row) column.starts.push_back(row * values.shape().dim(1));
  return column;
}

// TensorFlow's way to make one fingerprint of two.
uint64_t ChainHashes(uint64_t a, uint64_t b) {
  constexpr uint64_t kFactor = 0xc6a4a7935bd1e995;  // MurmurHash64A's.
  constexpr int kShift = 47;
  const auto mixed = [](uint64_t value) { return value ^ (value >> kShift); };
  const uint64_t result = (a ^ kFactor ^ (mixed(b * kFactor) * kFactor)) * kFactor;
  return mixed(mixed(result) * kFactor);
}

}  // namespace

absl::StatusOr<std::vector<FeatureColumn>> SparseAndDenseColumns(const KernelContext& c, int first,
                                                                 int count, int dense,
                                                                 int64_t batch) {
  std::vector<FeatureColumn> columns;
  for (int i = 0; i < count; ++i) {
    TANDEM_ASSIGN_OR_RETURN(FeatureColumn column,
                            SparseColumn(c.input(first + i), c.input(first + count + i),
                                         c.input(first + 2 * count + i), i, &batch));
    columns.push_back(std::move(column));
  }
  for (int i = 0; i < dense; ++i) {
    TANDEM_ASSIGN_OR_RETURN(FeatureColumn column,
                            DenseColumn(c.input(first + 3 * count + i), i, &batch));
    columns.push_back(std::move(column));
  }
  return columns;
}

absl::StatusOr<Crosser> Crosser::Make(std::vector<FeatureColumn> columns) {
  Crosser crosser;
  crosser.columns_ = std::move(columns);
  if (!crosser.columns_.empty()) {
    crosser.num_rows_ = static_cast<int64_t>(crosser.columns_[0].starts.size()) - 1;
  }
  crosser.first_ = {0};
  for (int64_t row = 0; row < crosser.num_rows_; ++row) {
    int64_t crosses = 1;
    for (const FeatureColumn& column : crosser.columns_) {
      if (__builtin_mul_overflow(crosses, column.Count(row), &crosses)) crosses = -1;
      if (crosses <= 0) break;
    }
    int64_t end = 0;
    if (crosses < 0 || __builtin_add_overflow(crosser.first_.back(), crosses, &end)) {
      return errors::InvalidArgument("row ", row, " would have more crosses than can be counted");
    }
    crosser.first_.push_back(end);
  }
  return crosser;
}

void Crosser::ForEach(absl::FunctionRef<void(int64_t, const std::vector<int64_t>&)> take) const {
  std::vector<int64_t> places(columns_.size());
  for (int64_t row = 0; row < num_rows_; ++row) {
    const auto at = static_cast<size_t>(row);
    for (size_t i = 0; i < places.size(); ++i) places[i] = columns_[i].starts[at];
    for (int64_t cross = first_[at]; cross < first_[at + 1]; ++cross) {
      take(cross, places);
      for (size_t i = places.size(); i-- > 0;) {
        if (++places[i] < columns_[i].starts[at + 1]) break;
        places[i] = columns_[i].starts[at];
      }
    }
  }
}

void Crosser::Texts(absl::string_view separator, Tensor* crosses) const {
  const auto out = crosses->MutableElements<std::string>();
  ForEach([&](int64_t cross, const std::vector<int64_t>& places) {
    std::string& text = out[static_cast<size_t>(cross)];
    text.clear();
    for (size_t i = 0; i < places.size(); ++i) {
      const auto place = static_cast<size_t>(places[i]);
      if (i > 0) text.append(separator.data(), separator.size());
      if (columns_[i].values.dtype() == kString) {
        text += columns_[i].values.Elements<std::string>()[place];
      } else {
        absl::StrAppend(&text, columns_[i].values.Elements<int64_t>()[place]);
      }
    }
  });
}

void Crosser::Hashes(const HashOptions& options, Tensor* crosses) const {
  const auto hash_of = [&options](absl::string_view bytes) {
    return options.key.has_value() ? strings::SipHash(bytes, *options.key)
                                   : util::Fingerprint64(bytes.data(), bytes.size());
  };
  // Each feature is hashed once, however many crosses it is in.
  std::vector<std::vector<uint64_t>> hashes;
  for (const FeatureColumn& column : columns_) {
    std::vector<uint64_t>& of_column = hashes.emplace_back();
    of_column.reserve(static_cast<size_t>(column.values.num_elements()));
    if (column.values.dtype() == kString) {
      for (const std::string& text : column.values.Elements<std::string>()) {
        of_column.push_back(hash_of(text));
      }
    } else {
      const bool is_hashed =
          options.hashes_numbers && (!column.is_dense || options.key.has_value());
      for (const int64_t number : column.values.Elements<int64_t>()) {
        char bytes[4];
        std::memcpy(bytes, &number, sizeof(bytes));
        of_column.push_back(is_hashed ? hash_of(absl::string_view(bytes, sizeof(bytes)))
                                      : static_cast<uint64_t>(number));
      }
    }
  }
  const uint64_t modulus = options.buckets > 0 ? options.buckets : uint64_t{INT64_MAX};
  const auto out = crosses->MutableElements<int64_t>();
  ForEach([&](int64_t cross, const std::vector<int64_t>& places) {
    uint64_t chained = options.first.value_or(0);
    for (size_t i = 0; i < places.size(); ++i) {
      const uint64_t next = hashes[i][static_cast<size_t>(places[i])];
      chained = i == 0 && !options.first.has_value() ? next : ChainHashes(chained, next);
    }
    out[static_cast<size_t>(cross)] = static_cast<int64_t>(chained % modulus);
  });
}

}  // namespace tandem::ragged
