#include "kernels/math/reduce.h"

#include <algorithm>
#include <cstring>
#include <memory>
#include <utility>

#include "core/base/status.h"
#include "kernels/common/arguments.h"

namespace tandem::math {
namespace {

// Elements in a piece: enough to be worth a hand-over to another thread, few enough that chains of
// additions stay short and that a large input has pieces for all threads.
constexpr int64_t kPiece = 32768;
// Accumulators that stay in the first-level cache together with what is added to them.
constexpr int64_t kColumns = 1024;
// Rows shorter than this are added several at a time.
constexpr int64_t kShortRow = 64;

int64_t CeilDiv(int64_t a, int64_t b) { return (a + b - 1) / b; }

class Reduction {
 public:
  Reduction(const Reducer& r, const ReductionGeometry& g, const void* x, void* y)
      : r_(r),
        g_(g),
        x_(static_cast<const char*>(x)),
        y_(static_cast<char*>(y)),
        size_(DataTypeSize(r.type)),
        acc_size_(DataTypeSize(r.accumulator)) {}

  absl::Status Rows(KernelContext& c) const;
  absl::Status Columns(KernelContext& c) const;

 private:
  const char* In(int64_t offset) const { return x_ + static_cast<size_t>(offset) * size_; }
  char* Out(int64_t offset) const { return y_ + static_cast<size_t>(offset) * size_; }
  char* Acc(char* base, int64_t offset) const {
    return base + static_cast<size_t>(offset) * acc_size_;
  }
  // Folds `count` arrays of n accumulators, one after the other, into the first, as a tree.
  void Fold(char* acc, int64_t count, int64_t n) const {
    while (count > 1) {
      const int64_t half = (count + 1) / 2;
      r_.combine(acc, Acc(acc, half * n), (count - half) * n);
      count = half;
    }
  }
  void AddColumns(char* acc, int64_t offset, int64_t columns, int64_t first, int64_t last) const;

  const Reducer& r_;
  const ReductionGeometry& g_;
  const char* const x_;
  char* const y_;
  const size_t size_;
  const size_t acc_size_;
};

// The innermost dimension goes. A piece is a part of a long row or several short ones, all for one
// element of the output.
absl::Status Reduction::Rows(KernelContext& c) const {
  const int64_t row = g_.reduced.back().size;
  const auto outer = absl::MakeConstSpan(g_.reduced).first(g_.reduced.size() - 1);
  const int64_t rows = g_.num_reduced / row;
  const int64_t parts = CeilDiv(row, kPiece);
  const int64_t part = CeilDiv(row, parts);
  const int64_t rows_in_piece = parts > 1 ? 1 : std::max<int64_t>(1, kPiece / row);
  const int64_t pieces = CeilDiv(rows, rows_in_piece) * parts;

  const auto add_piece = [&](char* acc, int64_t out, int64_t piece) {
    const int64_t base = GridOffset(g_.kept, out);
    const int64_t first = piece / parts * rows_in_piece;
    const int64_t last = std::min(rows, first + rows_in_piece);
    const int64_t begin = piece % parts * part;
    const int64_t n = std::min(part, row - begin);
    for (int64_t i = first; i < last; ++i) {
      r_.run(acc, In(base + GridOffset(outer, i) + begin), n);
    }
  };
  const double cost = 0.3 * static_cast<double>(std::min(g_.num_reduced, kPiece)) + 10;

  if (pieces == 1) {
    c.parallel().For(g_.num_kept, cost, [&](int64_t begin, int64_t end) {
      for (int64_t out = begin; out < end; ++out) {
        alignas(16) char acc[16];
        r_.clear(acc, 1);
        add_piece(acc, out, 0);
        r_.finish(acc, Out(out), 1, g_.num_reduced);
      }
    });
    return absl::OkStatus();
  }
  TANDEM_ASSIGN_OR_RETURN(Tensor partial,
                          c.AllocateTemporary(r_.accumulator, Shape({g_.num_kept * pieces})));
  char* const all = static_cast<char*>(partial.mutable_data());
  c.parallel().For(g_.num_kept * pieces, cost, [&](int64_t begin, int64_t end) {
    for (int64_t unit = begin; unit < end; ++unit) {
      char* const acc = Acc(all, unit);
      r_.clear(acc, 1);
      add_piece(acc, unit / pieces, unit % pieces);
    }
  });
  for (int64_t out = 0; out < g_.num_kept; ++out) {
    char* const acc = Acc(all, out * pieces);
    Fold(acc, pieces, 1);
    r_.finish(acc, Out(out), 1, g_.num_reduced);
  }
  return absl::OkStatus();
}

// Adds rows [first, last) of the reduced grid, of `columns` elements each, to acc.
void Reduction::AddColumns(char* acc, int64_t offset, int64_t columns, int64_t first,
                           int64_t last) const {
  const int64_t inner = g_.reduced.back().size;
  const int64_t stride = g_.reduced.back().stride;
  for (int64_t i = first; i < last;) {
    // As far as the innermost reduced dimension goes.
    const int64_t n = std::min(last - i, inner - i % inner);
    const char* from = In(offset + GridOffset(g_.reduced, i));
    int64_t done = 0;
    if (columns == stride && columns < kShortRow) {
      // Rows lie one after the other: `several` of them count as one long row.
      const int64_t several = 512 / columns;
      if (n >= 4 * several) {
        alignas(64) char wide[512 * 16];
        r_.clear(wide, several * columns);
        for (; done + several <= n; done += several) {
          r_.accumulate(wide, from + static_cast<size_t>(done * stride) * size_, several * columns);
        }
        Fold(wide, several, columns);
        r_.combine(acc, wide, columns);
      }
    }
    for (; done < n; ++done) {
      r_.accumulate(acc, from + static_cast<size_t>(done * stride) * size_, columns);
    }
    i += n;
  }
}

// The innermost dimension is kept. A piece is a few rows of up to kColumns elements.
absl::Status Reduction::Columns(KernelContext& c) const {
  const int64_t width = g_.kept.back().size;
  const auto outer = absl::MakeConstSpan(g_.kept).first(g_.kept.size() - 1);
  const int64_t chunks = CeilDiv(width, kColumns);
  const int64_t chunk = CeilDiv(width, chunks);
  const int64_t rows_in_piece = std::max<int64_t>(32, kPiece / chunk);
  const int64_t pieces = CeilDiv(g_.num_reduced, rows_in_piece);
  const int64_t blocks = g_.num_kept / width * chunks;
  // Partial results of piece p lie at [p][element of the output].
  Tensor partial;
  char* all = nullptr;
  if (pieces > 1) {
    TANDEM_ASSIGN_OR_RETURN(partial,
                            c.AllocateTemporary(r_.accumulator, Shape({pieces * g_.num_kept})));
    all = static_cast<char*>(partial.mutable_data());
  }
  const double cost =
      0.3 * static_cast<double>(std::min(g_.num_reduced, rows_in_piece) * chunk) + 20;
  c.parallel().For(blocks * pieces, cost, [&](int64_t begin, int64_t end) {
    for (int64_t unit = begin; unit < end; ++unit) {
      // Neighbouring units are neighbours in memory.
      const int64_t block = unit % blocks;
      const int64_t piece = unit / blocks;
      const int64_t first_column = block % chunks * chunk;
      const int64_t columns = std::min(chunk, width - first_column);
      const int64_t base = GridOffset(outer, block / chunks) + first_column;
      const int64_t out = block / chunks * width + first_column;
      const int64_t first = piece * rows_in_piece;
      const int64_t last = std::min(g_.num_reduced, first + rows_in_piece);
      if (all != nullptr) {
        char* const acc = Acc(all, piece * g_.num_kept + out);
        r_.clear(acc, columns);
        AddColumns(acc, base, columns, first, last);
      } else {
        alignas(64) char acc[kColumns * 16];
        r_.clear(acc, columns);
        AddColumns(acc, base, columns, first, last);
        r_.finish(acc, Out(out), columns, g_.num_reduced);
      }
    }
  });
  if (all != nullptr) {
    Fold(all, pieces, g_.num_kept);
    r_.finish(all, y_, g_.num_kept, g_.num_reduced);
  }
  return absl::OkStatus();
}

class AxesKernel final : public Kernel {
 public:
  AxesKernel(const Reducer& reducer, bool keep_dims) : reducer_(reducer), keep_dims_(keep_dims) {}

  absl::Status Compute(KernelContext& c) override {
    const Tensor& x = c.input(0);
    TANDEM_ASSIGN_OR_RETURN(const SmallInts axes,
                            VectorArgument(c.input(1), "reduction_indices", true));
    TANDEM_ASSIGN_OR_RETURN(const ReductionGeometry geometry,
                            ReductionGeometry::Make(x.shape(), axes, keep_dims_));
    if (geometry.num_reduced == 1) {
      TANDEM_ASSIGN_OR_RETURN(Tensor same, c.TakeInput(0).Reshaped(geometry.output_shape));
      c.SetOutput(0, std::move(same));
      return absl::OkStatus();
    }
    TANDEM_ASSIGN_OR_RETURN(Tensor * y, c.AllocateOutput(0, geometry.output_shape));
    return Reduce(c, reducer_, geometry, x.data(), y->mutable_data());
  }

 private:
  const Reducer reducer_;
  const bool keep_dims_;
};

}  // namespace

absl::Status Reduce(KernelContext& c, const Reducer& reducer, const ReductionGeometry& geometry,
                    const void* x, void* y) {
  if (geometry.num_kept == 0) return absl::OkStatus();
  const Reduction reduction(reducer, geometry, x, y);
  if (geometry.num_reduced > 0 && !geometry.reduced.empty()) {
    return geometry.inner_is_kept ? reduction.Columns(c) : reduction.Rows(c);
  }
  // Nothing goes in, or every element for itself.
  alignas(16) char acc[16];
  const size_t size = DataTypeSize(reducer.type);
  for (int64_t i = 0; i < geometry.num_kept; ++i) {
    const size_t offset = static_cast<size_t>(i) * size;
    reducer.clear(acc, 1);
    if (geometry.num_reduced > 0) reducer.run(acc, static_cast<const char*>(x) + offset, 1);
    reducer.finish(acc, static_cast<char*>(y) + offset, 1, geometry.num_reduced);
  }
  return absl::OkStatus();
}

KernelDef ReductionKernel(std::vector<Reducer> reducers, const char* type_attr) {
  KernelDef def;
  if (*type_attr != '\0') {
    std::vector<DataType> types;
    for (const Reducer& each : reducers) types.push_back(each.type);
    def.types = {{type_attr, std::move(types)}};
  }
  def.factory = [reducers = std::move(reducers)](
                    KernelInit& init) -> absl::StatusOr<std::unique_ptr<Kernel>> {
    for (const Reducer& each : reducers) {
      if (each.type != init.output_dtype(0)) continue;
      return std::make_unique<AxesKernel>(each, init.Attr<bool>("keep_dims"));
    }
    return errors::Internal("no reduction of ", DataTypeName(init.output_dtype(0)));
  };
  return def;
}

OpDefBuilder ReductionOp(const char* name, const char* attrs, GradientFunction gradient,
                         std::vector<Reducer> reducers) {
  return OpDefBuilder(name)
      .Inputs("input:T, reduction_indices:Tidx")
      .Outputs("output:T")
      .Attrs(attrs)
      .Shape(ReductionShape)
      .Gradient(gradient)
      .HostMemory({"reduction_indices"})
      .Cpu(ReductionKernel(std::move(reducers)));
}

absl::Status ReductionShape(ShapeContext& c) {
  if (c.input(1).has_rank() && c.input(1).rank() > 1) {
    return errors::InvalidArgument("reduction_indices has shape ", c.input(1).DebugString(),
                                   "; it must be a vector or a scalar");
  }
  const bool keep_dims = c.Attr<bool>("keep_dims");
  const PartialShape& input = c.input(0);
  if (!input.has_rank()) return c.SetOutput(0, PartialShape::Unknown());
  const absl::optional<Tensor> axes = c.InputValue(1);
  if (!axes.has_value()) {
    return c.SetOutput(
        0, keep_dims ? PartialShape::UnknownOfRank(input.rank()) : PartialShape::Unknown());
  }
  TANDEM_ASSIGN_OR_RETURN(const SmallInts values, VectorArgument(*axes, "reduction_indices", true));
  std::vector<bool> goes(static_cast<size_t>(input.rank()), false);
  for (const int64_t value : values) {
    TANDEM_ASSIGN_OR_RETURN(const int axis, ShapeContext::ResolveAxis(value, input.rank()));
    goes[static_cast<size_t>(axis)] = true;
  }
  PartialShape shape = PartialShape({});
  for (int d = 0; d < input.rank(); ++d) {
    if (!goes[static_cast<size_t>(d)]) {
      shape.AddDim(input.dim(d));
    } else if (keep_dims) {
      shape.AddDim(1);
    }
  }
  return c.SetOutput(0, std::move(shape));
}

}  // namespace tandem::math
