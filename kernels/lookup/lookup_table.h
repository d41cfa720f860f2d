// LookupTable: a hash table from keys to rows of elements, as graphs know them.
//
// A table is static or mutable. A static one (HashTableV2) is filled once, by an initializer, and
// refuses to be looked at before and changed after; a mutable one (MutableHashTableV2,
// MutableHashTableOfTensorsV2) begins empty and takes whatever steps insert and remove.
#ifndef TANDEM_KERNELS_LOOKUP_LOOKUP_TABLE_H_
#define TANDEM_KERNELS_LOOKUP_LOOKUP_TABLE_H_

#include <atomic>
#include <cstdint>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "core/base/mutex.h"
#include "core/tensor/resource_handle.h"
#include "core/tensor/tensor.h"

namespace tandem::lookup {

// Threads: any; each call sees the table as it is between two others. Lookups in a static table
// wait for nobody.
//
// Tensors of keys have any shape; those of values have that shape and then the table's value_shape.
// All calls check types and shapes: InvalidArgument says what was found and what the table holds.
class LookupTable final : public Resource {
 public:
  enum class Kind { kStatic, kMutable };
  struct Type {
    Kind kind = Kind::kStatic;
    DataType key = DataType::kInvalid;  // int32, int64 or string.
    DataType value = DataType::kInvalid;
    Shape value_shape;

    // "static table string -> int64"
    std::string DebugString() const;
    friend bool operator==(const Type& a, const Type& b) {
      return a.kind == b.kind && a.key == b.key && a.value == b.value &&
             a.value_shape == b.value_shape;
    }
  };

  // REQUIRES: a key type of those above and a value type in which there are tensors.
  explicit LookupTable(Type type);

  const Type& type() const { return type_; }
  int64_t size() const;
  std::string DebugString() const override { return type_.DebugString(); }

  // The shape of the values of `keys`. InvalidArgument: keys of another type, or `defaults` of
  // another type, or whose shape is neither that of one value nor that of all.
  absl::StatusOr<Shape> ValuesShape(const Tensor& keys, const Tensor& defaults) const;
  // Writes the value of each key to `values`, or what `defaults` has for a key that is not there.
  // FailedPrecondition: a static table that is not initialized yet.
  // REQUIRES: ValuesShape(keys, defaults) is the shape of `values`.
  absl::Status Find(const Tensor& keys, const Tensor& defaults, Tensor* values) const;

  // Fills a static table. When it is full already nothing happens if there are as many keys as it
  // holds (several sessions may run one initializer). FailedPrecondition: there are more or fewer,
  // or one key comes with two values; the table then stays as it was.
  absl::Status Initialize(const Tensor& keys, const Tensor& values);

  // The rest but Export are for mutable tables; Unimplemented for others.
  // Of equal keys the last one counts, and a key that is there already gets the new value.
  absl::Status Insert(const Tensor& keys, const Tensor& values);
  // Keys that are not there do no harm.
  absl::Status Remove(const Tensor& keys);
  // Forgets all it holds and inserts these. For a static table it is Initialize.
  absl::Status Import(const Tensor& keys, const Tensor& values);

  struct Contents {
    Tensor keys;
    Tensor values;
  };
  // All keys, in the order in which they came (one that took the place of a removed one stands
  // there), and their values. Aborted: a static table that is not initialized yet.
  absl::StatusOr<Contents> Export() const;

 private:
  template <typename K>
  using Index = absl::flat_hash_map<K, int64_t>;
  using AnyIndex = std::variant<Index<int32_t>, Index<int64_t>, Index<std::string>>;

  int64_t row_size() const { return type_.value_shape.num_elements(); }
  absl::Status CheckKeys(const Tensor& keys) const;
  absl::Status CheckPairs(const Tensor& keys, const Tensor& values) const;
  absl::Status CheckMutable(absl::string_view what) const;
  absl::StatusOr<Tensor> MakeRows(int64_t count) const;

  // Find, in a table that does not change meanwhile: it is locked, or static and initialized.
  void FindRows(const Tensor& keys, const Tensor& defaults,
                Tensor* values) const ABSL_NO_THREAD_SAFETY_ANALYSIS;

  // Makes room for `count` more rows.
  absl::Status Reserve(int64_t count) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  absl::Status InsertLocked(const Tensor& keys, const Tensor& values)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  absl::Status InitializeLocked(const Tensor& keys, const Tensor& values)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void ClearLocked() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  const Type type_;
  // A static table has its contents, which stay. Set under the lock.
  std::atomic<bool> is_initialized_{false};

  mutable Mutex mu_;
  // Which row of `rows_` holds the value of a key.
  AnyIndex index_ ABSL_GUARDED_BY(mu_);
  // Values, with room for more; not valid while there was none.
  Tensor rows_ ABSL_GUARDED_BY(mu_);
  int64_t rows_used_ ABSL_GUARDED_BY(mu_) = 0;
  // Rows below rows_used_ whose keys were removed.
  std::vector<int64_t> free_rows_ ABSL_GUARDED_BY(mu_);
};

}  // namespace tandem::lookup

#endif  // TANDEM_KERNELS_LOOKUP_LOOKUP_TABLE_H_
