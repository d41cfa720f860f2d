#include "tools/cli/json_value.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "absl/types/optional.h"
#include "core/base/status.h"
#include "core/graph/literal.h"
#include "nlohmann/json.hpp"

namespace tandem::cli {
namespace {

using Json = nlohmann::json;

// Collects the shape and the leaves of nested lists. InvalidArgument: lists of unequal lengths or
// depths, or too deep ones.
absl::Status Flatten(const Json& value, size_t depth, std::vector<int64_t>& dims,
                     std::vector<const Json*>& leaves) {
  if (!value.is_array()) {
    if (depth != dims.size()) return errors::InvalidArgument("lists of unequal depth");
    leaves.push_back(&value);
    return absl::OkStatus();
  }
  if (depth >= static_cast<size_t>(kMaxRank)) {
    return errors::InvalidArgument("lists more than ", kMaxRank,
                                   " deep, which is the most dimensions that a tensor has");
  }
  const int64_t size = static_cast<int64_t>(value.size());
  if (depth == dims.size() && leaves.empty()) dims.push_back(size);
  if (depth >= dims.size() || dims[depth] != size) {
    return errors::InvalidArgument("lists of unequal lengths");
  }
  for (const Json& element : value) {
    TANDEM_RETURN_IF_ERROR(Flatten(element, depth + 1, dims, leaves));
  }
  return absl::OkStatus();
}

// nan, inf or -inf by one of their names.
absl::optional<double> NonFinite(absl::string_view word) {
  const bool negative = absl::ConsumePrefix(&word, "-");
  if (!negative) absl::ConsumePrefix(&word, "+");
  const double sign = negative ? -1 : 1;
  if (absl::EqualsIgnoreCase(word, "nan")) return std::numeric_limits<double>::quiet_NaN();
  if (absl::EqualsIgnoreCase(word, "inf") || absl::EqualsIgnoreCase(word, "infinity")) {
    return sign * std::numeric_limits<double>::infinity();
  }
  return absl::nullopt;
}

// `text` with quotes around the names that JSON lacks, where none are.
std::string QuoteNonFinite(absl::string_view text) {
  std::string quoted;
  while (!text.empty()) {
    size_t size = 1;
    if (text[0] == '"') {  // A string, to its end.
      while (size < text.size() && text[size] != '"') size += text[size] == '\\' ? 2 : 1;
      size = std::min(size + 1, text.size());
      absl::StrAppend(&quoted, text.substr(0, size));
    } else {
      const auto is_letter = [&](size_t i) {
        return i < text.size() && absl::ascii_isalpha(static_cast<unsigned char>(text[i]));
      };
      const bool has_sign = text[0] == '-' || text[0] == '+';
      if (is_letter(0) || (has_sign && is_letter(1))) {
        while (is_letter(size)) ++size;
      }
      const absl::string_view word = text.substr(0, size);
      const char* const quote = NonFinite(word) ? "\"" : "";
      absl::StrAppend(&quoted, quote, word, quote);
    }
    text.remove_prefix(size);
  }
  return quoted;
}

// The number as it was written.
absl::StatusOr<Tensor> Literal(const Json& leaf) {
  if (leaf.is_boolean()) return Tensor::Scalar<int64_t>(leaf.get<bool>() ? 1 : 0);
  if (leaf.is_number_unsigned()) return Tensor::Scalar<uint64_t>(leaf.get<uint64_t>());
  if (leaf.is_number_integer()) return Tensor::Scalar<int64_t>(leaf.get<int64_t>());
  if (leaf.is_number()) return Tensor::Scalar<double>(leaf.get<double>());
  if (leaf.is_string()) {
    if (const auto value = NonFinite(leaf.get_ref<const std::string&>())) {
      return Tensor::Scalar<double>(*value);
    }
  }
  return errors::InvalidArgument(leaf.dump(), " is no number");
}

bool IsInfinite(const Tensor& scalar) {
  switch (scalar.dtype()) {
    case kFloat32:
      return std::isinf(scalar.ScalarValue<float>());
    case kFloat16:
      return std::isinf(static_cast<float>(scalar.ScalarValue<Float16>()));
    case kBfloat16:
      return std::isinf(static_cast<float>(scalar.ScalarValue<Bfloat16>()));
    default:
      return false;
  }
}

absl::StatusOr<Tensor> Numbers(DataType dtype, const Shape& shape,
                               const std::vector<const Json*>& leaves) {
  TANDEM_ASSIGN_OR_RETURN(Tensor tensor, Tensor::Create(dtype, shape));
  const size_t size = DataTypeSize(dtype);
  char* to = static_cast<char*>(tensor.mutable_data());
  for (const Json* leaf : leaves) {
    TANDEM_ASSIGN_OR_RETURN(const Tensor literal, Literal(*leaf));
    TANDEM_ASSIGN_OR_RETURN(const Tensor value, ConvertLiteral(literal, dtype));
    // The type's range ends before the number.
    if (IsInfinite(value) && !leaf->is_string()) {
      return errors::InvalidArgument(leaf->dump(), " is too large for ", DataTypeName(dtype));
    }
    std::memcpy(to, value.data(), size);
    to += size;
  }
  return tensor;
}

absl::StatusOr<Tensor> Booleans(const Shape& shape, const std::vector<const Json*>& leaves) {
  TANDEM_ASSIGN_OR_RETURN(Tensor tensor, Tensor::Create(kBool, shape));
  bool* to = tensor.MutableElements<bool>().data();
  for (const Json* leaf : leaves) {
    if (leaf->is_boolean()) {
      *to++ = leaf->get<bool>();
    } else if (*leaf == 0 || *leaf == 1) {
      *to++ = *leaf == 1;
    } else {
      return errors::InvalidArgument(leaf->dump(), " is neither true nor false");
    }
  }
  return tensor;
}

absl::StatusOr<Tensor> Strings(const Shape& shape, const std::vector<const Json*>& leaves) {
  TANDEM_ASSIGN_OR_RETURN(Tensor tensor, Tensor::Create(kString, shape));
  std::string* to = tensor.MutableElements<std::string>().data();
  for (const Json* leaf : leaves) {
    if (!leaf->is_string()) return errors::InvalidArgument(leaf->dump(), " is no string");
    *to++ = leaf->get<std::string>();
  }
  return tensor;
}

}  // namespace

absl::StatusOr<Tensor> TensorFromJson(const std::string& text, DataType dtype) {
  if (dtype == kString && (text.empty() || (text[0] != '"' && text[0] != '['))) {
    return Tensor::Scalar<std::string>(text);
  }
  const Json value = Json::parse(dtype == kString ? text : QuoteNonFinite(text), nullptr,
                                 /*allow_exceptions=*/false);
  if (value.is_discarded()) {
    return errors::InvalidArgument(
        "'", text.substr(0, 100), text.size() > 100 ? "…" : "", "' is not JSON",
        dtype == kString ? "; a string that begins with \" or [ must be" : "");
  }
  std::vector<int64_t> dims;
  std::vector<const Json*> leaves;
  TANDEM_RETURN_IF_ERROR(Flatten(value, 0, dims, leaves));
  TANDEM_ASSIGN_OR_RETURN(const Shape shape, Shape::FromDims(dims));
  switch (dtype) {
    case kBool:
      return Booleans(shape, leaves);
    case kString:
      return Strings(shape, leaves);
    case kFloat32:
    case kFloat64:
    case kFloat16:
    case kBfloat16:
    case kInt8:
    case kInt16:
    case kInt32:
    case kInt64:
    case kUint8:
    case kUint16:
    case kUint32:
    case kUint64:
      return Numbers(dtype, shape, leaves);
    default:
      return errors::Unimplemented("values of type ", DataTypeName(dtype),
                                   " can be fed from .npy files only");
  }
}

}  // namespace tandem::cli
