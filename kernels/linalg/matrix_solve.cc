// MatrixSolve: x with a x = b, for the matrices in the last two dimensions, by elimination with
// pivots.
#include <complex>
#include <type_traits>
#include <utility>
#include <vector>

#include "Eigen/LU"
#include "core/base/status.h"
#include "core/kernel/factories.h"
#include "core/kernel/kernel.h"
#include "core/op/gradient_context.h"
#include "core/op/registry.h"
#include "core/op/shape_context.h"

namespace tandem {
namespace {

absl::Status Shapes(ShapeContext& c) {
  TANDEM_RETURN_IF_ERROR(c.RequireRankAtLeast(0, 2));
  TANDEM_RETURN_IF_ERROR(c.RequireRankAtLeast(1, 2));
  const PartialShape& a = c.input(0);
  const PartialShape& b = c.input(1);
  if (!a.has_rank() || !b.has_rank()) return c.SetOutput(0, b);
  // What both say of all dimensions but the last.
  PartialShape rows_of_a = a;
  PartialShape rows_of_b = b;
  rows_of_a.SetDim(a.rank() - 1, PartialShape::kUnknownDim);
  rows_of_b.SetDim(b.rank() - 1, PartialShape::kUnknownDim);
  TANDEM_ASSIGN_OR_RETURN(PartialShape output, rows_of_a.MergeWith(rows_of_b));
  const int64_t rows = a.dim(a.rank() - 2);
  const int64_t columns = a.dim(a.rank() - 1);
  if (rows >= 0 && columns >= 0 && rows != columns) {
    return errors::InvalidArgument("matrices of shape ", a.DebugString(), " are not square");
  }
  if (output.dim(a.rank() - 2) < 0) output.SetDim(a.rank() - 2, columns);
  output.SetDim(a.rank() - 1, b.dim(b.rank() - 1));
  return c.SetOutput(0, std::move(output));
}

template <typename T>
class MatrixSolveKernel : public Kernel {
 public:
  absl::Status Init(KernelInit& init) {
    adjoint_ = init.Attr<bool>("adjoint");
    return absl::OkStatus();
  }

  absl::Status Compute(KernelContext& c) override {
    const Shape& a = c.input(0).shape();
    const Shape& b = c.input(1).shape();
    const int rank = a.rank();
    bool fits = rank >= 2 && b.rank() == rank && a.dim(rank - 2) == a.dim(rank - 1);
    for (int i = 0; fits && i < rank - 1; ++i) fits = a.dim(i) == b.dim(i);
    if (!fits) {
      return errors::InvalidArgument("matrices of shapes ", a.DebugString(), " and ",
                                     b.DebugString(),
                                     " must be square ones, and as many with as many rows");
    }
    TANDEM_ASSIGN_OR_RETURN(Tensor* const output, c.AllocateOutput(0, b));
    if (output->num_elements() == 0) return absl::OkStatus();
    const int64_t n = a.dim(rank - 1);
    const int64_t columns = b.dim(rank - 1);
    const int64_t count = output->num_elements() / (n * columns);
    const T* const left = c.input(0).Elements<T>().data();
    const T* const right = c.input(1).Elements<T>().data();
    T* const to = output->MutableElements<T>().data();
    std::vector<char> solved(static_cast<size_t>(count));
    const auto size = static_cast<double>(n);
    const double cost = size * size * (size / 3 + static_cast<double>(columns));
    c.parallel().For(count, 200 + cost, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        solved[static_cast<size_t>(i)] =
            Solve(left + i * n * n, right + i * n * columns, n, columns, to + i * n * columns);
      }
    });
    for (size_t i = 0; i < solved.size(); ++i) {
      if (solved[i] != 0) continue;
      return errors::InvalidArgument("matrix ", i, " of shape ", a.DebugString(),
                                     " is not invertible");
    }
    return absl::OkStatus();
  }

 private:
  using Matrix = Eigen::Matrix<T, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;

  // False: a has no inverse.
  bool Solve(const T* a, const T* b, int64_t n, int64_t columns, T* x) const {
    const Eigen::Map<const Matrix> left(a, n, n);
    const Eigen::Map<const Matrix> right(b, n, columns);
    Eigen::PartialPivLU<Matrix> lu;
    if (adjoint_) {
      lu.compute(left.adjoint());
    } else {
      lu.compute(left);
    }
    if (!(lu.matrixLU().diagonal().cwiseAbs().minCoeff() > 0)) return false;
    Eigen::Map<Matrix>(x, n, columns) = lu.solve(right);
    return true;
  }

  bool adjoint_ = false;
};

// b: the solution of the adjoint equation for the output's gradient. a: minus its product with x.
absl::Status MatrixSolveGradient(GradientContext& g) {
  const bool adjoint = g.Attr<bool>("adjoint");
  const Output x = g.output(0);
  const Output db =
      g.Call("MatrixSolve", {g.input(0), g.OutputGradient(0)}, {{"adjoint", !adjoint}});
  const Output da =
      g.Call("BatchMatMulV2", adjoint ? std::vector<Output>{x, db} : std::vector<Output>{db, x},
             {{"adj_y", true}});
  g.SetInputGradient(0, g.Call("Neg", {da}));
  g.SetInputGradient(1, db);
  return absl::OkStatus();
}

TANDEM_OP("MatrixSolve")
    .Inputs("matrix:T, rhs:T")
    .Outputs("output:T")
    .Attrs("adjoint:bool=False; T:type{float64,float32,float16,complex64,complex128}")
    .Shape(Shapes)
    .Gradient(MatrixSolveGradient)
    .Cpu(ByType<MatrixSolveKernel, float, double, std::complex<float>, std::complex<double>>("T"));

}  // namespace
}  // namespace tandem
