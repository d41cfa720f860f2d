// AttrValue: the value of a node's attribute, in memory. The wire form is converted at the edges of
// the process (core/graph/import.h, export.h).
#ifndef TANDEM_CORE_OP_ATTR_VALUE_H_
#define TANDEM_CORE_OP_ATTR_VALUE_H_

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "absl/strings/string_view.h"
#include "core/tensor/dtype.h"
#include "core/tensor/shape.h"
#include "core/tensor/tensor.h"

namespace tandem {

class AttrValue;

// Ordered by name, so that whatever iterates over it does so in the same order in every process.
using AttrMap = std::map<std::string, AttrValue>;

// A function of the graph's library, by name, with values for its attributes.
struct FunctionRef {
  std::string name;
  AttrMap attrs;
};

// The kinds of attributes an op can declare. A list kind follows its element kind.
enum class AttrKind {
  kNone,
  kString,
  kInt,
  kFloat,
  kBool,
  kType,
  kShape,
  kTensor,
  kFunction,
  kStringList,
  kIntList,
  kFloatList,
  kBoolList,
  kTypeList,
  kShapeList,
  kTensorList,
  kFunctionList,
};

bool IsList(AttrKind kind);
// "string", "list(int)", … as op definitions write them ("func" for kFunction).
absl::string_view AttrKindName(AttrKind kind);

class AttrValue {
 public:
  // A list whose element kind is not known: on the wire an empty list does not say. It fits every
  // list kind; adding a node to a graph replaces it by an empty list of the declared kind.
  struct EmptyList {};
  // "The value of the enclosing function's attribute of this name", inside function bodies.
  struct Placeholder {
    std::string name;
  };

  AttrValue() = default;
  AttrValue(std::string value) : value_(std::move(value)) {}                // NOLINT: all of these
  AttrValue(absl::string_view value) : value_(std::string(value)) {}        // NOLINT  convert on
  AttrValue(const char* value) : value_(std::string(value)) {}              // NOLINT  purpose, so
  AttrValue(int value) : value_(static_cast<int64_t>(value)) {}             // NOLINT  that
  AttrValue(int64_t value) : value_(value) {}                               // NOLINT  {{"N", 2}}
  AttrValue(float value) : value_(value) {}                                 // NOLINT  works.
  AttrValue(double value) : value_(static_cast<float>(value)) {}            // NOLINT
  AttrValue(bool value) : value_(value) {}                                  // NOLINT
  AttrValue(DataType value) : value_(value) {}                              // NOLINT
  AttrValue(PartialShape value) : value_(std::move(value)) {}               // NOLINT
  AttrValue(const Shape& value) : value_(PartialShape(value)) {}            // NOLINT
  AttrValue(Tensor value) : value_(std::move(value)) {}                     // NOLINT
  AttrValue(FunctionRef value) : value_(std::move(value)) {}                // NOLINT
  AttrValue(std::vector<std::string> value) : value_(std::move(value)) {}   // NOLINT
  AttrValue(std::vector<int64_t> value) : value_(std::move(value)) {}       // NOLINT
  AttrValue(std::vector<float> value) : value_(std::move(value)) {}         // NOLINT
  AttrValue(std::vector<bool> value) : value_(std::move(value)) {}          // NOLINT
  AttrValue(std::vector<DataType> value) : value_(std::move(value)) {}      // NOLINT
  AttrValue(std::vector<PartialShape> value) : value_(std::move(value)) {}  // NOLINT
  AttrValue(std::vector<Tensor> value) : value_(std::move(value)) {}        // NOLINT
  AttrValue(std::vector<FunctionRef> value) : value_(std::move(value)) {}   // NOLINT
  AttrValue(EmptyList value) : value_(value) {}                             // NOLINT
  AttrValue(Placeholder value) : value_(std::move(value)) {}                // NOLINT

  // kNone for an EmptyList and a Placeholder.
  AttrKind kind() const;
  // The value as a T (one of the constructor's types), or null when it is something else.
  template <typename T>
  const T* Get() const {
    return std::get_if<T>(&value_);
  }

  // "[1,2,2,1]", "float32", "\"SAME\"".
  std::string DebugString() const;
  // All of the value as bytes, with every element of its tensors (DebugString leaves some out): two
  // values with one key are the same value. For maps within the process.
  std::string Key() const;

  // Equal kind and contents; tensors are compared by type, shape and bytes.
  friend bool operator==(const AttrValue& a, const AttrValue& b);
  friend bool operator!=(const AttrValue& a, const AttrValue& b) { return !(a == b); }

 private:
  std::variant<std::monostate, std::string, int64_t, float, bool, DataType, PartialShape, Tensor,
               FunctionRef, std::vector<std::string>, std::vector<int64_t>, std::vector<float>,
               std::vector<bool>, std::vector<DataType>, std::vector<PartialShape>,
               std::vector<Tensor>, std::vector<FunctionRef>, EmptyList, Placeholder>
      value_;
};

}  // namespace tandem

#endif  // TANDEM_CORE_OP_ATTR_VALUE_H_
