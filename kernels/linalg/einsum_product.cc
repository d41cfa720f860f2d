// A product of two tensors is a batch of matrix products: labels of both and of the output are the
// batch, labels of both that the output lacks are the inner dimension, and those of x (y) alone
// make the rows (columns). Where memory lies so that each of these groups is one stride, a matrix
// is used where it is; else it is copied into that form first. So a transposition is seldom made:
// the products of attention ("btnh,bsnh->bnts") need none.
#include "kernels/linalg/einsum_product.h"

#include <algorithm>
#include <complex>
#include <type_traits>
#include <utility>

#include "core/base/status.h"
#include "kernels/array/strided_copy.h"
#include "kernels/linalg/gemm.h"

namespace tandem::einsum {
namespace {

const Axis* Find(const Axes& axes, int label) {
  for (const Axis& axis : axes) {
    if (axis.label == label) return &axis;
  }
  return nullptr;
}
bool Has(const Axes& axes, int label) { return Find(axes, label) != nullptr; }

// The axes of `like`, in its order, where they are in `axes`.
Axes InOrderOf(const Axes& axes, const Axes& like) {
  Axes ordered;
  for (const Axis& axis : like) ordered.push_back(*Find(axes, axis.label));
  return ordered;
}

int64_t NumElements(const Axes& axes) {
  int64_t n = 1;
  for (const Axis& axis : axes) n *= axis.size;
  return n;
}

// Several axes seen as one.
struct Run {
  bool is_one = true;
  int64_t size = 1;
  int64_t stride = 1;
};
Run Collapse(const Axes& axes) {
  Run run;
  run.size = NumElements(axes);
  if (axes.empty()) return run;
  run.stride = axes.back().stride;
  for (size_t i = 0; i + 1 < axes.size(); ++i) {
    if (axes[i].stride != axes[i + 1].stride * axes[i + 1].size) run.is_one = false;
  }
  return run;
}

// Row-major strides for the axes of all groups, one after the other.
void MakeDense(std::initializer_list<Axes*> groups) {
  int64_t stride = 1;
  for (auto group = groups.end(); group != groups.begin();) {
    --group;
    for (size_t i = (*group)->size(); i-- > 0;) {
      (**group)[i].stride = stride;
      stride *= (**group)[i].size;
    }
  }
}

// Copies from `from` to the places that `to` has for the same labels.
void Move(KernelContext& c, const Tensor& source, const Axes& from, Tensor& target,
          const Axes& to) {
  array::LoopDims dims;
  for (const Axis& axis : to) {
    dims.push_back({axis.size, axis.stride, Find(from, axis.label)->stride});
  }
  array::CopyStrided(c.parallel(), source.dtype(), target.mutable_data(), source.data(),
                     std::move(dims));
}

// A batch of matrices in memory.
struct Matrices {
  Tensor tensor;
  Axes batch, rows, columns;
  bool transposed = false;  // The rows are the inner ones in memory.
  int64_t stride = 0;       // Of the outer ones.
};

// Whether rows and columns are matrices as RunGemm wants them, as they lie.
bool FindLayout(Matrices& m) {
  const Run rows = Collapse(m.rows);
  const Run columns = Collapse(m.columns);
  if (!rows.is_one || !columns.is_one) return false;
  if (columns.size == 1 || columns.stride == 1) {
    m.transposed = false;
    m.stride = rows.size == 1 ? std::max<int64_t>(columns.size, 1) : rows.stride;
    return m.stride >= columns.size;
  }
  if (rows.size == 1 || rows.stride == 1) {
    m.transposed = true;
    m.stride = columns.stride;
    return m.stride >= rows.size;
  }
  return false;
}

absl::StatusOr<Matrices> MakeMatrices(KernelContext& c, const Operand& x, const Axes& batch,
                                      const Axes& rows, const Axes& columns) {
  Matrices m;
  m.tensor = x.tensor;
  m.batch = InOrderOf(x.axes, batch);
  m.rows = InOrderOf(x.axes, rows);
  m.columns = InOrderOf(x.axes, columns);
  if (FindLayout(m)) return m;
  MakeDense({&m.batch, &m.rows, &m.columns});
  const int64_t elements = NumElements(m.batch) * NumElements(m.rows) * NumElements(m.columns);
  TANDEM_ASSIGN_OR_RETURN(m.tensor, c.AllocateTemporary(x.tensor.dtype(), Shape({elements})));
  Axes all = m.batch;
  all.insert(all.end(), m.rows.begin(), m.rows.end());
  all.insert(all.end(), m.columns.begin(), m.columns.end());
  Move(c, x.tensor, x.axes, m.tensor, all);
  FindLayout(m);
  return m;
}

int64_t OffsetOf(const Axes& axes, int64_t index) {
  int64_t offset = 0;
  for (size_t i = axes.size(); i-- > 0;) {
    offset += index % axes[i].size * axes[i].stride;
    index /= axes[i].size;
  }
  return offset;
}

// Where nothing is summed up: each element of the output is one product. In float for halves.
template <typename T>
T Product(T a, T b) {
  if constexpr (std::is_same_v<T, Float16> || std::is_same_v<T, Bfloat16>) {
    return T(static_cast<float>(a) * static_cast<float>(b));
  } else if constexpr (std::is_integral_v<T>) {
    using U = std::make_unsigned_t<T>;
    return static_cast<T>(static_cast<U>(a) * static_cast<U>(b));
  } else if constexpr (std::is_class_v<T>) {
    return T(a.real() * b.real() - a.imag() * b.imag(), a.real() * b.imag() + a.imag() * b.real());
  } else {
    return a * b;
  }
}

template <typename T>
void MultiplyElements(KernelContext& c, const Operand& x, const Operand& y, Operand& output) {
  Axes outer = output.axes;
  Axis inner = {-1, 1, 1};
  if (!outer.empty()) {
    // The innermost axis of the output's memory is the inner loop.
    std::sort(outer.begin(), outer.end(),
              [](const Axis& a, const Axis& b) { return a.stride > b.stride; });
    inner = outer.back();
    outer.pop_back();
  }
  const auto strides_of = [](const Operand& operand, Axes axes) {
    for (Axis& axis : axes) {
      const Axis* const own = Find(operand.axes, axis.label);
      axis.stride = own == nullptr ? 0 : own->stride;
    }
    return axes;
  };
  const Axes outer_x = strides_of(x, outer);
  const Axes outer_y = strides_of(y, outer);
  const int64_t dx = strides_of(x, {inner})[0].stride;
  const int64_t dy = strides_of(y, {inner})[0].stride;
  const T* const from_x = x.tensor.Elements<T>().data();
  const T* const from_y = y.tensor.Elements<T>().data();
  T* const to = output.tensor.MutableElements<T>().data();
  const auto cost = static_cast<double>(inner.size);
  c.parallel().For(NumElements(outer), 5 + cost, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const T* const a = from_x + OffsetOf(outer_x, i);
      const T* const b = from_y + OffsetOf(outer_y, i);
      T* const z = to + OffsetOf(outer, i);
      if (inner.stride == 1 && dx == 1 && dy == 1) {
        for (int64_t j = 0; j < inner.size; ++j) z[j] = Product(a[j], b[j]);
      } else {
        for (int64_t j = 0; j < inner.size; ++j) {
          z[j * inner.stride] = Product(a[j * dx], b[j * dy]);
        }
      }
    }
  });
}

template <typename T>
Gemm<T> GemmOf(const Matrices& a, const Matrices& b, int64_t m, int64_t n, int64_t k) {
  Gemm<T> gemm;
  gemm.m = m, gemm.n = n, gemm.k = k;
  gemm.a = a.tensor.Elements<T>().data(), gemm.lda = a.stride, gemm.transpose_a = a.transposed;
  gemm.b = b.tensor.Elements<T>().data(), gemm.ldb = b.stride, gemm.transpose_b = b.transposed;
  return gemm;
}

// The products of all matrices of the batch, into c's memory at the places of `batch`.
template <typename T>
absl::Status RunBatch(KernelContext& c, const Gemm<T>& all, const Matrices& a, const Matrices& b,
                      const Axes& batch) {
  const int64_t count = NumElements(batch);
  const auto one = [&](int64_t i, ParallelRunner& parallel) {
    Gemm<T> gemm = all;
    gemm.a += OffsetOf(a.batch, i);
    gemm.b += OffsetOf(b.batch, i);
    gemm.c += OffsetOf(batch, i);
    return RunGemm(gemm, parallel);
  };
  const double multiplications =
      static_cast<double>(all.m) * static_cast<double>(all.n) * static_cast<double>(all.k);
  if (count == 1 || (count < c.parallel().parallelism() && multiplications > 1e7)) {
    // Few large ones: all threads on each.
    for (int64_t i = 0; i < count; ++i) TANDEM_RETURN_IF_ERROR(one(i, c.parallel()));
    return absl::OkStatus();
  }
  std::vector<absl::Status> status(static_cast<size_t>(count));
  c.parallel().For(count, 200 + 0.03 * multiplications, [&](int64_t begin, int64_t end) {
    InlineRunner inline_runner;
    for (int64_t i = begin; i < end; ++i) status[static_cast<size_t>(i)] = one(i, inline_runner);
  });
  for (const absl::Status& s : status) TANDEM_RETURN_IF_ERROR(s);
  return absl::OkStatus();
}

// x summed over the axes that neither `keep` nor `keep_too` has, in dense memory; x itself when
// there are none. A sum is a product with ones.
template <typename T>
absl::StatusOr<Operand> Summed(KernelContext& c, const Operand& x, const Axes& keep,
                               const Axes& keep_too) {
  Axes kept, gone;
  for (const Axis& axis : x.axes) {
    (Has(keep, axis.label) || Has(keep_too, axis.label) ? kept : gone).push_back(axis);
  }
  if (gone.empty()) return x;
  TANDEM_ASSIGN_OR_RETURN(const Matrices matrix, MakeMatrices(c, x, {}, kept, gone));
  Operand sum;
  sum.axes = kept;
  MakeDense({&sum.axes});
  const int64_t m = NumElements(kept);
  const int64_t k = NumElements(gone);
  TANDEM_ASSIGN_OR_RETURN(sum.tensor, c.AllocateTemporary(x.tensor.dtype(), Shape({m})));
  Matrices ones;
  TANDEM_ASSIGN_OR_RETURN(ones.tensor, c.AllocateTemporary(x.tensor.dtype(), Shape({k})));
  for (T& one : ones.tensor.MutableElements<T>()) one = T(1);
  ones.stride = 1;
  Gemm<T> gemm = GemmOf<T>(matrix, ones, m, 1, k);
  gemm.c = sum.tensor.MutableElements<T>().data(), gemm.ldc = 1;
  TANDEM_RETURN_IF_ERROR(RunGemm(gemm, c.parallel()));
  return sum;
}

}  // namespace

template <typename T>
absl::Status SumInto(KernelContext& c, const Operand& x, Operand& output) {
  TANDEM_ASSIGN_OR_RETURN(const Operand sum, Summed<T>(c, x, output.axes, {}));
  Move(c, sum.tensor, sum.axes, output.tensor, output.axes);
  return absl::OkStatus();
}

template <typename T>
absl::Status MultiplyInto(KernelContext& c, const Operand& first, const Operand& second,
                          Operand& output) {
  // What is summed over in one of the two alone goes first.
  TANDEM_ASSIGN_OR_RETURN(Operand x, Summed<T>(c, first, output.axes, second.axes));
  TANDEM_ASSIGN_OR_RETURN(Operand y, Summed<T>(c, second, output.axes, first.axes));

  // The columns are the innermost of the output.
  const Axis* innermost = nullptr;
  for (const Axis& axis : output.axes) {
    if (innermost == nullptr || axis.stride < innermost->stride) innermost = &axis;
  }
  if (innermost != nullptr && !Has(y.axes, innermost->label)) std::swap(x, y);

  Axes batch, rows, columns, inner;
  for (const Axis& axis : output.axes) {
    const bool in_x = Has(x.axes, axis.label);
    const bool in_y = Has(y.axes, axis.label);
    (in_x && in_y ? batch : in_x ? rows : columns).push_back(axis);
  }
  for (const Axis& axis : x.axes) {
    if (!Has(output.axes, axis.label)) inner.push_back(axis);
  }
  if (inner.empty()) {
    MultiplyElements<T>(c, x, y, output);
    return absl::OkStatus();
  }
  TANDEM_ASSIGN_OR_RETURN(const Matrices a, MakeMatrices(c, x, batch, rows, inner));
  TANDEM_ASSIGN_OR_RETURN(const Matrices b, MakeMatrices(c, y, batch, inner, columns));
  const int64_t m = NumElements(rows);
  const int64_t n = NumElements(columns);
  Gemm<T> gemm = GemmOf<T>(a, b, m, n, NumElements(inner));

  Matrices result;
  result.tensor = output.tensor;
  result.batch = batch, result.rows = rows, result.columns = columns;
  if (FindLayout(result) && !result.transposed) {
    gemm.c = output.tensor.MutableElements<T>().data();
    gemm.ldc = result.stride;
    return RunBatch(c, gemm, a, b, result.batch);
  }
  MakeDense({&result.batch, &result.rows, &result.columns});
  Operand dense;
  for (const Axes* group : {&result.batch, &result.rows, &result.columns}) {
    dense.axes.insert(dense.axes.end(), group->begin(), group->end());
  }
  TANDEM_ASSIGN_OR_RETURN(
      dense.tensor, c.AllocateTemporary(output.tensor.dtype(), Shape({NumElements(dense.axes)})));
  gemm.c = dense.tensor.MutableElements<T>().data();
  gemm.ldc = n;
  TANDEM_RETURN_IF_ERROR(RunBatch(c, gemm, a, b, result.batch));
  Move(c, dense.tensor, dense.axes, output.tensor, output.axes);
  return absl::OkStatus();
}

#define TANDEM_EINSUM_(T)                                                     \
  template absl::Status SumInto<T>(KernelContext&, const Operand&, Operand&); \
  template absl::Status MultiplyInto<T>(KernelContext&, const Operand&, const Operand&, Operand&);
TANDEM_EINSUM_(float)
TANDEM_EINSUM_(double)
TANDEM_EINSUM_(Float16)
TANDEM_EINSUM_(Bfloat16)
TANDEM_EINSUM_(int32_t)
TANDEM_EINSUM_(int64_t)
TANDEM_EINSUM_(std::complex<float>)
TANDEM_EINSUM_(std::complex<double>)
#undef TANDEM_EINSUM_

}  // namespace tandem::einsum
