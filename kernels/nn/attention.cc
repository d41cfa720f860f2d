// _TandemAttention and its gradient: softmax(scale q kᵀ) v of several heads (Vaswani et al. 2017),
// without a matrix of all scores. The scores of a few queries at a time stay in the cache; of each
// query only the largest score and the sum of the exponentials are kept, from which the gradient
// computes its scores again (Dao et al. 2022, without their splitting of a row: here it fits).
// Made by layers (strategies/nn/attention.cc).
//
//   query [batch, queries, heads · size]    key [batch, keys, heads · size]
//   value [batch, keys, heads · width]      mask [batch, queries, keys], true: the query sees the
//   key output [batch, queries, heads · width]  statistics [batch, heads, queries, 2]
//
// A score that is masked, or of a later key when `causal`, counts as -1e9: a query that sees
// nothing takes the mean of all values.
//
// Cost: 2 products of queries · keys · size and width forward, 5 backward; half of them when
// causal.
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "core/base/status.h"
#include "core/kernel/factories.h"
#include "core/kernel/kernel.h"
#include "core/op/gradient_context.h"
#include "core/op/registry.h"
#include "core/op/shape_context.h"
#include "kernels/linalg/gemm.h"
#include "kernels/nn/vector_math.h"

namespace tandem {
namespace {

constexpr double kHidden = -1e9;

struct Sizes {
  int64_t batch = 0;
  int64_t heads = 0;
  int64_t queries = 0;
  int64_t keys = 0;
  int64_t size = 0;   // Of one head's queries and keys.
  int64_t width = 0;  // Of one head's values.
  int64_t block = 0;  // Queries that are computed together: a matter of the sizes alone.

  int64_t units() const { return batch * heads; }
};

// What the kernel and its gradient have in common: sizes, options, and the scores of a block.
template <typename T>
class AttentionBase : public Kernel {
 public:
  absl::Status Init(KernelInit& init) {
    heads_ = init.Attr<int64_t>("heads");
    scale_ = static_cast<T>(init.Attr<float>("scale"));
    causal_ = init.Attr<bool>("causal");
    return absl::OkStatus();
  }

 protected:
  absl::StatusOr<Sizes> SizesOf(const Tensor& query, const Tensor& key, const Tensor& value,
                                const Tensor* mask) const {
    const auto describe = [&] {
      return absl::StrCat("attention of queries ", query.shape().DebugString(), ", keys ",
                          key.shape().DebugString(), " and values ", value.shape().DebugString());
    };
    if (query.shape().rank() != 3 || key.shape().rank() != 3 || value.shape().rank() != 3) {
      return errors::InvalidArgument(describe(), ": each must be [batch, steps, features]");
    }
    Sizes s;
    s.batch = query.shape().dim(0);
    s.heads = heads_;
    s.queries = query.shape().dim(1);
    s.keys = key.shape().dim(1);
    if (key.shape().dim(0) != s.batch || value.shape().dim(0) != s.batch ||
        value.shape().dim(1) != s.keys || key.shape().dim(2) != query.shape().dim(2) ||
        query.shape().dim(2) % heads_ != 0 || value.shape().dim(2) % heads_ != 0) {
      return errors::InvalidArgument(describe(), " with ", heads_, " heads do not fit together");
    }
    s.size = query.shape().dim(2) / heads_;
    s.width = value.shape().dim(2) / heads_;
    if (mask != nullptr && mask->shape() != Shape({s.batch, s.queries, s.keys})) {
      return errors::InvalidArgument(describe(), " with a mask of ", mask->shape().DebugString(),
                                     "; it must be [", s.batch, ",", s.queries, ",", s.keys, "]");
    }
    s.block = std::clamp<int64_t>(32768 / std::max<int64_t>(1, s.keys), 8, causal_ ? 32 : 64);
    return s;
  }

  // Keys that a block of queries [first, first + rows) looks at. The others cannot be seen.
  int64_t KeysOf(const Sizes& s, int64_t first, int64_t rows, const bool* mask) const {
    // With a mask a query may see nothing, and then all count alike.
    return causal_ && mask == nullptr ? std::min(s.keys, first + rows) : s.keys;
  }

  bool IsHidden(int64_t query, int64_t key, const bool* mask_row) const {
    return (causal_ && key > query) || (mask_row != nullptr && !mask_row[key]);
  }

  // scores [rows, keys] = scale q kᵀ, or kHidden.
  absl::Status Scores(const Sizes& s, const T* query, const T* key, const bool* mask, int64_t first,
                      int64_t rows, int64_t keys, T* scores) const {
    InlineRunner inline_runner;
    Gemm<T> product;
    product.m = rows, product.n = keys, product.k = s.size;
    product.a = query + first * s.heads * s.size, product.lda = s.heads * s.size;
    product.b = key, product.ldb = s.heads * s.size, product.transpose_b = true;
    product.c = scores, product.ldc = keys;
    TANDEM_RETURN_IF_ERROR(RunGemm(product, inline_runner));
    for (int64_t r = 0; r < rows; ++r) {
      T* const x = scores + r * keys;
      for (int64_t j = 0; j < keys; ++j) x[j] *= scale_;
      ForHidden(first + r, keys, mask == nullptr ? nullptr : mask + (first + r) * s.keys,
                [x](int64_t j) { x[j] = static_cast<T>(kHidden); });
    }
    return absl::OkStatus();
  }

  template <typename F>
  void ForHidden(int64_t query, int64_t keys, const bool* mask_row, F f) const {
    if (mask_row != nullptr) {
      for (int64_t j = 0; j < keys; ++j) {
        if (IsHidden(query, j, mask_row)) f(j);
      }
    } else if (causal_) {
      for (int64_t j = query + 1; j < keys; ++j) f(j);
    }
  }

  // Calls unit(batch, head) for all, on several threads; the first error.
  template <typename Unit>
  static absl::Status ForUnits(const Sizes& s, double products, ParallelRunner& parallel,
                               Unit unit) {
    std::vector<absl::Status> status(static_cast<size_t>(s.units()));
    const double work = products * static_cast<double>(s.queries) * static_cast<double>(s.keys) *
                        static_cast<double>(s.size + s.width);
    parallel.For(s.units(), 500 + 0.02 * work, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        status[static_cast<size_t>(i)] = unit(i / s.heads, i % s.heads);
      }
    });
    for (const absl::Status& one : status) TANDEM_RETURN_IF_ERROR(one);
    return absl::OkStatus();
  }

  int64_t heads_ = 1;
  T scale_ = 1;
  bool causal_ = false;
};

template <typename T>
class AttentionKernel final : public AttentionBase<T> {
 public:
  absl::Status Compute(KernelContext& c) override {
    const Tensor* const mask = c.num_inputs() > 3 ? &c.input(3) : nullptr;
    TANDEM_ASSIGN_OR_RETURN(const Sizes s, this->SizesOf(c.input(0), c.input(1), c.input(2), mask));
    TANDEM_ASSIGN_OR_RETURN(Tensor* const output,
                            c.AllocateOutput(0, Shape({s.batch, s.queries, s.heads * s.width})));
    TANDEM_ASSIGN_OR_RETURN(Tensor* const statistics,
                            c.AllocateOutput(1, Shape({s.batch, s.heads, s.queries, 2})));
    if (output->num_elements() == 0) return absl::OkStatus();
    T* const to = output->MutableElements<T>().data();
    if (s.keys == 0) {
      std::fill(to, to + output->num_elements(), T(0));
      std::fill_n(statistics->MutableElements<T>().data(), statistics->num_elements(), T(0));
      return absl::OkStatus();
    }
    return this->ForUnits(s, 1, c.parallel(), [&](int64_t b, int64_t h) {
      const T* const q =
          c.input(0).template Elements<T>().data() + b * s.queries * s.heads * s.size + h * s.size;
      const T* const k =
          c.input(1).template Elements<T>().data() + b * s.keys * s.heads * s.size + h * s.size;
      const T* const v =
          c.input(2).template Elements<T>().data() + b * s.keys * s.heads * s.width + h * s.width;
      const bool* const seen =
          mask == nullptr ? nullptr : mask->Elements<bool>().data() + b * s.queries * s.keys;
      T* const y = to + b * s.queries * s.heads * s.width + h * s.width;
      T* const kept = statistics->MutableElements<T>().data() + (b * s.heads + h) * s.queries * 2;
      std::vector<T> scores(static_cast<size_t>(s.block * s.keys));
      for (int64_t first = 0; first < s.queries; first += s.block) {
        const int64_t rows = std::min(s.block, s.queries - first);
        TANDEM_RETURN_IF_ERROR(Block(s, q, k, v, seen, first, rows, scores.data(), y, kept));
      }
      return absl::OkStatus();
    });
  }

 private:
  absl::Status Block(const Sizes& s, const T* q, const T* k, const T* v, const bool* mask,
                     int64_t first, int64_t rows, T* scores, T* y, T* statistics) const {
    const int64_t keys = this->KeysOf(s, first, rows, mask);
    TANDEM_RETURN_IF_ERROR(this->Scores(s, q, k, mask, first, rows, keys, scores));
    for (int64_t r = 0; r < rows; ++r) {
      T* const x = scores + r * keys;
      const T largest = Max(x, keys);
      for (int64_t j = 0; j < keys; ++j) x[j] -= largest;
      statistics[(first + r) * 2] = largest;
    }
    Exp(scores, scores, rows * keys);
    for (int64_t r = 0; r < rows; ++r) {
      T* const x = scores + r * keys;
      const T sum = Sum(x, keys);
      const T factor = 1 / sum;
      for (int64_t j = 0; j < keys; ++j) x[j] *= factor;
      statistics[(first + r) * 2 + 1] = sum;
    }
    InlineRunner inline_runner;
    Gemm<T> product;
    product.m = rows, product.n = s.width, product.k = keys;
    product.a = scores, product.lda = keys;
    product.b = v, product.ldb = s.heads * s.width;
    product.c = y + first * s.heads * s.width, product.ldc = s.heads * s.width;
    return RunGemm(product, inline_runner);
  }
};

// With p the weights of a query, do the gradient of its output and d = do · output:
//   dp = do vᵀ,  ds = p (dp - d) where it is not hidden,
//   dq = scale ds k,  dk = scale dsᵀ q,  dv = pᵀ do.
template <typename T>
class AttentionGradKernel final : public AttentionBase<T> {
 public:
  absl::Status Compute(KernelContext& c) override {
    const Tensor* const mask = c.num_inputs() > 6 ? &c.input(6) : nullptr;
    TANDEM_ASSIGN_OR_RETURN(const Sizes s, this->SizesOf(c.input(1), c.input(2), c.input(3), mask));
    if (c.input(0).shape() != Shape({s.batch, s.queries, s.heads * s.width}) ||
        c.input(4).shape() != c.input(0).shape() ||
        c.input(5).shape() != Shape({s.batch, s.heads, s.queries, 2})) {
      return errors::InvalidArgument("the gradient of an attention is given a gradient of ",
                                     c.input(0).shape().DebugString(), ", an output of ",
                                     c.input(4).shape().DebugString(), " and statistics of ",
                                     c.input(5).shape().DebugString());
    }
    TANDEM_ASSIGN_OR_RETURN(Tensor* const dq, c.AllocateOutput(0, c.input(1).shape()));
    TANDEM_ASSIGN_OR_RETURN(Tensor* const dk, c.AllocateOutput(1, c.input(2).shape()));
    TANDEM_ASSIGN_OR_RETURN(Tensor* const dv, c.AllocateOutput(2, c.input(3).shape()));
    for (Tensor* const gradient : {dq, dk, dv}) {
      const auto all = gradient->MutableElements<T>();
      std::fill(all.begin(), all.end(), T(0));
    }
    if (s.keys == 0 || s.queries == 0) return absl::OkStatus();
    return this->ForUnits(s, 2.5, c.parallel(), [&](int64_t b, int64_t h) {
      Head head;
      const int64_t of_queries = b * s.queries * s.heads;
      const int64_t of_keys = b * s.keys * s.heads;
      head.dy = c.input(0).template Elements<T>().data() + of_queries * s.width + h * s.width;
      head.q = c.input(1).template Elements<T>().data() + of_queries * s.size + h * s.size;
      head.k = c.input(2).template Elements<T>().data() + of_keys * s.size + h * s.size;
      head.v = c.input(3).template Elements<T>().data() + of_keys * s.width + h * s.width;
      head.y = c.input(4).template Elements<T>().data() + of_queries * s.width + h * s.width;
      head.statistics =
          c.input(5).template Elements<T>().data() + (b * s.heads + h) * s.queries * 2;
      if (mask != nullptr) head.mask = mask->Elements<bool>().data() + b * s.queries * s.keys;
      head.dq = dq->MutableElements<T>().data() + of_queries * s.size + h * s.size;
      head.dk = dk->MutableElements<T>().data() + of_keys * s.size + h * s.size;
      head.dv = dv->MutableElements<T>().data() + of_keys * s.width + h * s.width;
      std::vector<T> scratch(static_cast<size_t>(2 * s.block * s.keys));
      for (int64_t first = 0; first < s.queries; first += s.block) {
        const int64_t rows = std::min(s.block, s.queries - first);
        TANDEM_RETURN_IF_ERROR(Block(s, head, first, rows, scratch.data()));
      }
      return absl::OkStatus();
    });
  }

 private:
  struct Head {
    const T* dy = nullptr;
    const T* q = nullptr;
    const T* k = nullptr;
    const T* v = nullptr;
    const T* y = nullptr;
    const T* statistics = nullptr;
    const bool* mask = nullptr;
    T* dq = nullptr;
    T* dk = nullptr;
    T* dv = nullptr;
  };

  absl::Status Block(const Sizes& s, const Head& head, int64_t first, int64_t rows,
                     T* scratch) const {
    InlineRunner inline_runner;
    const int64_t keys = this->KeysOf(s, first, rows, head.mask);
    const int64_t query_stride = s.heads * s.size;
    const int64_t value_stride = s.heads * s.width;
    T* const weights = scratch;
    T* const gradients = scratch + s.block * s.keys;
    const T* const dy = head.dy + first * value_stride;

    TANDEM_RETURN_IF_ERROR(this->Scores(s, head.q, head.k, head.mask, first, rows, keys, weights));
    for (int64_t r = 0; r < rows; ++r) {
      const T largest = head.statistics[(first + r) * 2];
      for (int64_t j = 0; j < keys; ++j) weights[r * keys + j] -= largest;
    }
    Exp(weights, weights, rows * keys);
    for (int64_t r = 0; r < rows; ++r) {
      const T factor = 1 / head.statistics[(first + r) * 2 + 1];
      for (int64_t j = 0; j < keys; ++j) weights[r * keys + j] *= factor;
    }

    Gemm<T> product;  // dv += pᵀ dy
    product.m = keys, product.n = s.width, product.k = rows;
    product.a = weights, product.lda = keys, product.transpose_a = true;
    product.b = dy, product.ldb = value_stride;
    product.c = head.dv, product.ldc = value_stride, product.accumulate = true;
    TANDEM_RETURN_IF_ERROR(RunGemm(product, inline_runner));

    product = Gemm<T>();  // dp = dy vᵀ
    product.m = rows, product.n = keys, product.k = s.width;
    product.a = dy, product.lda = value_stride;
    product.b = head.v, product.ldb = value_stride, product.transpose_b = true;
    product.c = gradients, product.ldc = keys;
    TANDEM_RETURN_IF_ERROR(RunGemm(product, inline_runner));

    for (int64_t r = 0; r < rows; ++r) {
      const T* const p = weights + r * keys;
      T* const x = gradients + r * keys;
      const T d = Dot(dy + r * value_stride, head.y + (first + r) * value_stride, s.width);
      for (int64_t j = 0; j < keys; ++j) x[j] = this->scale_ * p[j] * (x[j] - d);
      this->ForHidden(first + r, keys,
                      head.mask == nullptr ? nullptr : head.mask + (first + r) * s.keys,
                      [x](int64_t j) { x[j] = 0; });
    }

    product = Gemm<T>();  // dq = ds k
    product.m = rows, product.n = s.size, product.k = keys;
    product.a = gradients, product.lda = keys;
    product.b = head.k, product.ldb = query_stride;
    product.c = head.dq + first * query_stride, product.ldc = query_stride;
    TANDEM_RETURN_IF_ERROR(RunGemm(product, inline_runner));

    product = Gemm<T>();  // dk += dsᵀ q
    product.m = keys, product.n = s.size, product.k = rows;
    product.a = gradients, product.lda = keys, product.transpose_a = true;
    product.b = head.q + first * query_stride, product.ldb = query_stride;
    product.c = head.dk, product.ldc = query_stride, product.accumulate = true;
    return RunGemm(product, inline_runner);
  }
};

absl::Status AttentionShape(ShapeContext& c) {
  for (int i = 0; i < c.num_inputs(); ++i) TANDEM_RETURN_IF_ERROR(c.RequireRank(i, 3));
  const int64_t heads = c.Attr<int64_t>("heads");
  const PartialShape& query = c.input(0);
  const PartialShape& value = c.input(2);
  const int64_t batch = query.has_rank() ? query.dim(0) : -1;
  const int64_t queries = query.has_rank() ? query.dim(1) : -1;
  TANDEM_RETURN_IF_ERROR(
      c.SetOutput(0, PartialShape({batch, queries, value.has_rank() ? value.dim(2) : -1})));
  return c.SetOutput(1, PartialShape({batch, heads, queries, 2}));
}

absl::Status AttentionGradShape(ShapeContext& c) {
  for (int i = 0; i < 3; ++i) TANDEM_RETURN_IF_ERROR(c.SetOutput(i, c.input(i + 1)));
  return absl::OkStatus();
}

absl::Status AttentionGradient(GradientContext& g) {
  std::vector<Output> inputs = {g.OutputGradient(0), g.input(0),  g.input(1),
                                g.input(2),          g.output(0), g.output(1)};
  for (int i = 3; i < g.num_inputs(); ++i) inputs.push_back(g.input(i));
  AttrMap attrs;
  for (const char* const name : {"M", "heads", "scale", "causal"}) {
    attrs[name] = g.node().attrs().at(name);
  }
  const std::vector<Output> gradients =
      g.CallMulti("_TandemAttentionGrad", std::move(inputs), std::move(attrs));
  if (!g.status().ok()) return absl::OkStatus();
  for (int i = 0; i < 3; ++i) g.SetInputGradient(i, gradients[static_cast<size_t>(i)]);
  return absl::OkStatus();
}

// `statistics`: the largest score of each query and the sum of its exponentials over that, for the
// gradient; none goes through them.
TANDEM_OP("_TandemAttention")
    .Inputs("query:T, key:T, value:T, mask:M*bool")
    .Outputs("output:T, statistics:T")
    .Attrs("T:type{float32,float64}; M:int>=0=0; heads:int>=1; scale:float=1; causal:bool=false")
    .Shape(AttentionShape)
    .Gradient(AttentionGradient)
    .Cpu(ByType<AttentionKernel, float, double>("T"));

TANDEM_OP("_TandemAttentionGrad")
    .Inputs("doutput:T, query:T, key:T, value:T, output:T, statistics:T, mask:M*bool")
    .Outputs("dquery:T, dkey:T, dvalue:T")
    .Attrs("T:type{float32,float64}; M:int>=0=0; heads:int>=1; scale:float=1; causal:bool=false")
    .Shape(AttentionGradShape)
    .NotDifferentiable()
    .Cpu(ByType<AttentionGradKernel, float, double>("T"));

}  // namespace
}  // namespace tandem
