#include "kernels/lookup/lookup_table.h"

#include <algorithm>
#include <type_traits>

#include "absl/types/span.h"
#include "core/base/status.h"
#include "core/tensor/element_text.h"
#include "kernels/array/elements.h"

namespace tandem::lookup {
namespace {

using array::CopyElements;
using array::ElementAt;

// A lookup that finds nothing.
constexpr int64_t kMissing = -1;

template <typename Index>
using KeyOf = typename std::remove_cv_t<std::remove_reference_t<Index>>::key_type;

template <typename T>
bool SameElements(const void* a, const void* b, int64_t count) {
  return std::equal(static_cast<const T*>(a), static_cast<const T*>(a) + count,
                    static_cast<const T*>(b));
}

// Whether two rows hold equal values, as the type has it: -0 is 0, and NaN is nothing.
bool SameRows(DataType dtype, const void* a, const void* b, int64_t count) {
  switch (dtype) {
    case kString:
      return SameElements<std::string>(a, b, count);
    case kFloat32:
      return SameElements<float>(a, b, count);
    case kFloat64:
      return SameElements<double>(a, b, count);
    case kInt64:
      return SameElements<int64_t>(a, b, count);
    case kInt32:
      return SameElements<int32_t>(a, b, count);
    case kBool:
      return SameElements<bool>(a, b, count);
    default:
      return false;
  }
}

absl::StatusOr<Shape> ShapeOfValues(const Shape& keys, const Shape& value) {
  Shape::Dims dims(keys.dims().begin(), keys.dims().end());
  dims.insert(dims.end(), value.dims().begin(), value.dims().end());
  return Shape::FromDims(dims);
}

}  // namespace

std::string LookupTable::Type::DebugString() const {
  return absl::StrCat(kind == Kind::kStatic ? "static" : "mutable", " table ", DataTypeName(key),
                      " -> ", DataTypeName(value),
                      value_shape.IsScalar() ? "" : value_shape.DebugString());
}

LookupTable::LookupTable(Type type) : type_(std::move(type)) {
  if (type_.key == kInt32) index_ = Index<int32_t>();
  if (type_.key == kInt64) index_ = Index<int64_t>();
  if (type_.key == kString) index_ = Index<std::string>();
}

int64_t LookupTable::size() const {
  MutexLock lock(mu_);
  return std::visit([](const auto& index) { return static_cast<int64_t>(index.size()); }, index_);
}

absl::Status LookupTable::CheckKeys(const Tensor& keys) const {
  if (keys.dtype() == type_.key) return absl::OkStatus();
  return errors::InvalidArgument("keys are of type ", DataTypeName(keys.dtype()), " for a ",
                                 DebugString());
}

absl::Status LookupTable::CheckPairs(const Tensor& keys, const Tensor& values) const {
  TANDEM_RETURN_IF_ERROR(CheckKeys(keys));
  if (values.dtype() != type_.value) {
    return errors::InvalidArgument("values are of type ", DataTypeName(values.dtype()), " for a ",
                                   DebugString());
  }
  TANDEM_ASSIGN_OR_RETURN(const Shape wanted, ShapeOfValues(keys.shape(), type_.value_shape));
  if (values.shape() == wanted) return absl::OkStatus();
  return errors::InvalidArgument("keys of shape ", keys.shape().DebugString(), " for a ",
                                 DebugString(), " want values of shape ", wanted.DebugString(),
                                 "; they have shape ", values.shape().DebugString());
}

absl::Status LookupTable::CheckMutable(absl::string_view what) const {
  if (type_.kind == Kind::kMutable) return absl::OkStatus();
  return errors::Unimplemented(what, " is for mutable tables; this is a ", DebugString());
}

absl::StatusOr<Tensor> LookupTable::MakeRows(int64_t count) const {
  TANDEM_ASSIGN_OR_RETURN(const Shape shape, ShapeOfValues(Shape({count}), type_.value_shape));
  return Tensor::Create(type_.value, shape);
}

absl::StatusOr<Shape> LookupTable::ValuesShape(const Tensor& keys, const Tensor& defaults) const {
  TANDEM_RETURN_IF_ERROR(CheckKeys(keys));
  if (defaults.dtype() != type_.value) {
    return errors::InvalidArgument("default_value is of type ", DataTypeName(defaults.dtype()),
                                   " for a ", DebugString());
  }
  TANDEM_ASSIGN_OR_RETURN(Shape shape, ShapeOfValues(keys.shape(), type_.value_shape));
  if (defaults.shape() != type_.value_shape && defaults.shape() != shape) {
    return errors::InvalidArgument("default_value has shape ", defaults.shape().DebugString(),
                                   "; a ", DebugString(), " wants ",
                                   type_.value_shape.DebugString(), ", or ", shape.DebugString(),
                                   " for keys of shape ", keys.shape().DebugString());
  }
  return shape;
}

absl::Status LookupTable::Find(const Tensor& keys, const Tensor& defaults, Tensor* values) const {
  if (type_.kind == Kind::kMutable) {
    MutexLock lock(mu_);
    FindRows(keys, defaults, values);
    return absl::OkStatus();
  }
  if (!is_initialized_.load(std::memory_order_acquire)) {
    return errors::FailedPrecondition("a ", DebugString(),
                                      " is used before it is initialized; run its initializer "
                                      "(tables_initializer) first");
  }
  FindRows(keys, defaults, values);
  return absl::OkStatus();
}

void LookupTable::FindRows(const Tensor& keys, const Tensor& defaults, Tensor* values) const {
  std::vector<int64_t> rows(static_cast<size_t>(keys.num_elements()), kMissing);
  std::visit(
      [&](const auto& index) {
        const auto all = keys.Elements<KeyOf<decltype(index)>>();
        for (size_t i = 0; i < rows.size(); ++i) {
          if (const auto found = index.find(all[i]); found != index.end()) rows[i] = found->second;
        }
      },
      index_);
  const int64_t size = row_size();
  const bool one_default = defaults.shape() == type_.value_shape;
  const void* const stored = rows_.data();
  array::WithElementType(type_.value, [&](auto type) {
    using T = decltype(type);
    T* to = static_cast<T*>(values->mutable_data());
    for (size_t i = 0; i < rows.size(); ++i, to += size) {
      const T* from = static_cast<const T*>(defaults.data());
      if (rows[i] != kMissing) {
        from = static_cast<const T*>(stored) + rows[i] * size;
      } else if (!one_default) {
        from += static_cast<int64_t>(i) * size;
      }
      std::copy(from, from + size, to);
    }
  });
}

absl::Status LookupTable::Reserve(int64_t count) {
  const int64_t needed =
      rows_used_ + std::max<int64_t>(0, count - static_cast<int64_t>(free_rows_.size()));
  const int64_t room = rows_.is_valid() ? rows_.shape().dim(0) : 0;
  if (rows_.is_valid() && needed <= room) return absl::OkStatus();
  TANDEM_ASSIGN_OR_RETURN(Tensor grown, MakeRows(std::max({needed, 2 * room, int64_t{8}})));
  if (rows_used_ > 0) {
    void* const old = rows_.mutable_data();
    const int64_t elements = rows_used_ * row_size();
    array::WithElementType(type_.value, [&](auto type) {
      using T = decltype(type);
      T* const from = static_cast<T*>(old);
      std::move(from, from + elements, static_cast<T*>(grown.mutable_data()));
    });
  }
  rows_ = std::move(grown);
  return absl::OkStatus();
}

absl::Status LookupTable::InsertLocked(const Tensor& keys, const Tensor& values) {
  TANDEM_RETURN_IF_ERROR(Reserve(keys.num_elements()));
  const int64_t size = row_size();
  std::visit(
      [&](auto& index) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
        const auto all = keys.Elements<KeyOf<decltype(index)>>();
        for (size_t i = 0; i < all.size(); ++i) {
          const auto [entry, is_new] = index.try_emplace(all[i], 0);
          if (is_new && !free_rows_.empty()) {
            entry->second = free_rows_.back();
            free_rows_.pop_back();
          } else if (is_new) {
            entry->second = rows_used_++;
          }
          CopyElements(type_.value,
                       ElementAt(type_.value, rows_.mutable_data(), entry->second * size),
                       ElementAt(type_.value, values.data(), static_cast<int64_t>(i) * size), size);
        }
      },
      index_);
  return absl::OkStatus();
}

void LookupTable::ClearLocked() {
  std::visit([](auto& index) { index.clear(); }, index_);
  rows_.Reset();
  rows_used_ = 0;
  free_rows_.clear();
}

absl::Status LookupTable::InitializeLocked(const Tensor& keys, const Tensor& values) {
  TANDEM_RETURN_IF_ERROR(Reserve(keys.num_elements()));
  const DataType dtype = type_.value;
  return std::visit(
      [&](auto& index) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) -> absl::Status {
        const auto all = keys.Elements<KeyOf<decltype(index)>>();
        index.reserve(all.size());
        for (size_t i = 0; i < all.size(); ++i) {
          const void* const value = ElementAt(dtype, values.data(), static_cast<int64_t>(i));
          const auto [entry, is_new] = index.try_emplace(all[i], rows_used_);
          void* const row = ElementAt(dtype, rows_.mutable_data(), entry->second);
          if (is_new) {
            ++rows_used_;
            CopyElements(dtype, row, value, 1);
          } else if (!SameRows(dtype, row, value, 1)) {
            return errors::FailedPrecondition("the key ", ElementText(all[i]),
                                              " comes twice, with different values; a ",
                                              DebugString(), " has one for each key");
          }
        }
        return absl::OkStatus();
      },
      index_);
}

absl::Status LookupTable::Initialize(const Tensor& keys, const Tensor& values) {
  if (type_.kind != Kind::kStatic) {
    return errors::InvalidArgument("a ", DebugString(),
                                   " has no initializer; insert keys and values instead");
  }
  TANDEM_RETURN_IF_ERROR(CheckPairs(keys, values));
  MutexLock lock(mu_);
  if (is_initialized_) {
    const auto held =
        std::visit([](auto& index) { return static_cast<int64_t>(index.size()); }, index_);
    if (held == keys.num_elements()) return absl::OkStatus();
    return errors::FailedPrecondition("a ", DebugString(), " was initialized with ", held,
                                      " keys, and cannot be again with ", keys.num_elements());
  }
  absl::Status status = InitializeLocked(keys, values);
  if (status.ok()) {
    is_initialized_.store(true, std::memory_order_release);
  } else {
    ClearLocked();
  }
  return status;
}

absl::Status LookupTable::Insert(const Tensor& keys, const Tensor& values) {
  TANDEM_RETURN_IF_ERROR(CheckMutable("inserting"));
  TANDEM_RETURN_IF_ERROR(CheckPairs(keys, values));
  MutexLock lock(mu_);
  return InsertLocked(keys, values);
}

absl::Status LookupTable::Import(const Tensor& keys, const Tensor& values) {
  if (type_.kind == Kind::kStatic) return Initialize(keys, values);
  TANDEM_RETURN_IF_ERROR(CheckPairs(keys, values));
  MutexLock lock(mu_);
  ClearLocked();
  return InsertLocked(keys, values);
}

absl::Status LookupTable::Remove(const Tensor& keys) {
  TANDEM_RETURN_IF_ERROR(CheckMutable("removing"));
  TANDEM_RETURN_IF_ERROR(CheckKeys(keys));
  const int64_t size = row_size();
  MutexLock lock(mu_);
  std::visit(
      [&](auto& index) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
        for (const auto& key : keys.Elements<KeyOf<decltype(index)>>()) {
          const auto found = index.find(key);
          if (found == index.end()) continue;
          free_rows_.push_back(found->second);
          // What strings and variants hold is let go of now.
          array::ZeroElements(type_.value,
                              ElementAt(type_.value, rows_.mutable_data(), found->second * size),
                              size);
          index.erase(found);
        }
      },
      index_);
  return absl::OkStatus();
}

absl::StatusOr<LookupTable::Contents> LookupTable::Export() const {
  MutexLock lock(mu_);
  if (type_.kind == Kind::kStatic && !is_initialized_) {
    return errors::Aborted("a ", DebugString(), " is exported before it is initialized");
  }
  return std::visit(
      [&](const auto& index) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) -> absl::StatusOr<Contents> {
        using K = KeyOf<decltype(index)>;
        std::vector<const K*> by_row(static_cast<size_t>(rows_used_), nullptr);
        for (const auto& [key, row] : index) by_row[static_cast<size_t>(row)] = &key;
        const auto count = static_cast<int64_t>(index.size());
        Contents contents;
        TANDEM_ASSIGN_OR_RETURN(contents.keys, Tensor::Create(type_.key, Shape({count})));
        TANDEM_ASSIGN_OR_RETURN(contents.values, MakeRows(count));
        const auto keys = contents.keys.MutableElements<K>();
        int64_t next = 0;
        for (size_t row = 0; row < by_row.size(); ++row) {
          if (by_row[row] == nullptr) continue;
          keys[static_cast<size_t>(next)] = *by_row[row];
          CopyElements(type_.value,
                       ElementAt(type_.value, contents.values.mutable_data(), next * row_size()),
                       ElementAt(type_.value, rows_.data(), static_cast<int64_t>(row) * row_size()),
                       row_size());
          ++next;
        }
        return contents;
      },
      index_);
}

}  // namespace tandem::lookup
