// Reads many serialized tf.Examples at once, straight into tensors, by a specification of the
// features that are wanted; all others are skipped. The results are those of TensorFlow's
// tf.io.parse_example and tf.io.parse_sequence_example.
//
//   TANDEM_ASSIGN_OR_RETURN(
//       const ExampleParser parser,
//       ExampleParser::Create({FeatureSpec::Fixed("image", kFloat32, {28, 28}),
//                              FeatureSpec::Sparse("words", kString)}));
//   TANDEM_ASSIGN_OR_RETURN(std::vector<ParsedFeature> features, parser.Parse(records));
//
// Rules
//   The last of several entries with one key counts. Numbers may be packed or not. A feature
//   without a kind is a missing one (and, where values are dense, does not hide an earlier entry).
//   A feature that is there with another type is an error, also when it is empty.
//
// Errors: InvalidArgument for bytes that are no example, and for a feature that is missing without
// a default or has another type or number of values; messages name the example's index in the
// batch, the feature, what was expected and what was found. ResourceExhausted: a tensor would be
// larger than the limit.
//
// Threads: a parser never changes; any thread may use it. A large batch may be cut and its parts
// parsed by several.
#ifndef TANDEM_CORE_IO_EXAMPLE_PARSER_H_
#define TANDEM_CORE_IO_EXAMPLE_PARSER_H_

#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "core/tensor/tensor.h"

namespace tandem {

// A feature that is wanted, and the form of its tensors. TensorFlow's names: FixedLenFeature,
// FixedLenSequenceFeature, VarLenFeature, RaggedFeature.
struct FeatureSpec {
  enum class Form { kFixed, kPadded, kSparse, kRagged };

  std::string key;
  DataType dtype = DataType::kInvalid;  // kFloat32, kInt64 or kString.
  Form form = Form::kFixed;
  Shape shape;           // kFixed: of an example; kPadded: of one row.
  Tensor default_value;  // kFixed, of that shape: stands in for missing values.
                         // kPadded, a scalar: what short examples are filled with. Else 0 or "".
  DataType splits_dtype = kInt64;  // kRagged: kInt32 or kInt64.
  bool allow_missing = true;       // kPadded in feature lists: a missing list is an empty one.

  static FeatureSpec Fixed(std::string key, DataType dtype, Shape shape,
                           Tensor default_value = Tensor());
  static FeatureSpec Padded(std::string key, DataType dtype, Shape row_shape = Shape(),
                            Tensor padding = Tensor());
  static FeatureSpec Sparse(std::string key, DataType dtype);
  static FeatureSpec Ragged(std::string key, DataType dtype, DataType splits_dtype = kInt64);
};

// What a feature became, for a batch of `b` examples with `n` values in all. In a feature list
// the examples have steps: up to `s`, `t` in all. Tensors that a form does not have are not valid.
//
//   form      in examples and contexts              in feature lists
//   kFixed    values [b, shape...]                  -
//   kPadded   values [b, longest, shape...]         values [b, s, shape...], lengths int64 [b]
//   kSparse   values [n], indices int64 [n, 2],     values [n], indices int64 [n, 3],
//             dense_shape int64 [2]                 dense_shape int64 [3]
//   kRagged   values [n], row_splits [b + 1]        values [n], row_splits [b + 1] over steps,
//                                                   inner_row_splits [t + 1] over values
struct ParsedFeature {
  Tensor values;
  Tensor indices;
  Tensor dense_shape;
  Tensor row_splits;
  Tensor inner_row_splits;
  Tensor lengths;
};

struct ExampleParserOptions {
  // No tensor may be larger (elements themselves, without what strings point at): one long example
  // makes a padded batch large.
  size_t max_tensor_bytes = size_t{2} << 30;
};

class ExampleParser {
 public:
  // InvalidArgument: two specifications of one key, a type that examples do not hold, a default of
  // another type or shape.
  static absl::StatusOr<ExampleParser> Create(std::vector<FeatureSpec> features,
                                              ExampleParserOptions options = {});

  // One result for each specification, in their order.
  absl::StatusOr<std::vector<ParsedFeature>> Parse(
      absl::Span<const absl::string_view> serialized) const;
  absl::StatusOr<std::vector<ParsedFeature>> Parse(absl::Span<const std::string> serialized) const;

  // One example without a dimension for the batch: values [shape...], [rows, shape...], [n];
  // indices [n, 1], dense_shape [1]; no row_splits.
  absl::StatusOr<std::vector<ParsedFeature>> ParseOne(absl::string_view serialized) const;

  const std::vector<FeatureSpec>& features() const { return features_; }

 private:
  ExampleParser() = default;

  std::vector<FeatureSpec> features_;
  absl::flat_hash_map<std::string, size_t> index_of_key_;
  ExampleParserOptions options_;
};

struct ParsedSequences {
  std::vector<ParsedFeature> context;
  std::vector<ParsedFeature> feature_lists;
};

class SequenceExampleParser {
 public:
  // As above. kFixed is not for feature lists.
  static absl::StatusOr<SequenceExampleParser> Create(std::vector<FeatureSpec> context,
                                                      std::vector<FeatureSpec> feature_lists,
                                                      ExampleParserOptions options = {});

  absl::StatusOr<ParsedSequences> Parse(absl::Span<const absl::string_view> serialized) const;
  absl::StatusOr<ParsedSequences> Parse(absl::Span<const std::string> serialized) const;

  const std::vector<FeatureSpec>& context() const { return context_; }
  const std::vector<FeatureSpec>& feature_lists() const { return feature_lists_; }

 private:
  SequenceExampleParser() = default;

  std::vector<FeatureSpec> context_;
  std::vector<FeatureSpec> feature_lists_;
  absl::flat_hash_map<std::string, size_t> index_of_context_key_;
  absl::flat_hash_map<std::string, size_t> index_of_list_key_;
  ExampleParserOptions options_;
};

}  // namespace tandem

#endif  // TANDEM_CORE_IO_EXAMPLE_PARSER_H_
