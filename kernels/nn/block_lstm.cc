// BlockLSTMV2 and BlockLSTMGradV2: a long short-term memory (Hochreiter and Schmidhuber 1997;
// peepholes after Gers 2002) over all steps of a batch of sequences.
//
// With [i f c o] = [x h'] w + b, where ' marks the step before and the columns of w are in that
// order:
//   i = sigmoid(i + wci cs')   f = sigmoid(f + wcf cs')   ci = tanh(c)
//   cs = ci i + cs' f, clipped to [-cell_clip, cell_clip] if cell_clip > 0
//   o = sigmoid(o + wco cs)    co = tanh(cs)              h = co o
// The products of x with w do not wait for the step before, so they are one product for all steps,
// and so are those of the gradients with respect to x and w. Only h' w is left to each step.
// float16 is computed in float and rounded at the end.
#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

#include "core/base/status.h"
#include "core/kernel/factories.h"
#include "core/kernel/kernel.h"
#include "core/op/gradient_context.h"
#include "core/op/registry.h"
#include "core/op/shape_context.h"
#include "kernels/linalg/gemm.h"
#include "kernels/linalg/panel_gemm.h"
#include "kernels/nn/column_sums.h"
#include "kernels/nn/tensor_conversion.h"
#include "kernels/nn/vector_math.h"

namespace tandem {
namespace {

struct Sizes {
  int64_t steps = 0;   // That there are,
  int64_t length = 0;  // and that are computed.
  int64_t batch = 0;
  int64_t inputs = 0;
  int64_t cells = 0;

  int64_t state() const { return batch * cells; }
};

// Inputs 0 to 8 of both ops: seq_len_max, x, cs_prev, h_prev, w, wci, wcf, wco, b.
absl::StatusOr<Sizes> CheckInputs(KernelContext& c) {
  const Shape& x = c.input(1).shape();
  const Shape& b = c.input(8).shape();
  if (!c.input(0).shape().IsScalar() || x.rank() != 3 || !b.IsVector() || b.dim(0) % 4 != 0) {
    return errors::InvalidArgument("seq_len_max, x and b have shapes ",
                                   c.input(0).shape().DebugString(), ", ", x.DebugString(), " and ",
                                   b.DebugString(),
                                   ", which must be a scalar, [steps, batch, inputs] and "
                                   "[4 * cells]");
  }
  Sizes s;
  s.steps = x.dim(0);
  s.batch = x.dim(1);
  s.inputs = x.dim(2);
  s.cells = b.dim(0) / 4;
  s.length = c.input(0).ScalarValue<int64_t>();
  if (s.length < 0 || s.length > s.steps) {
    return errors::InvalidArgument("seq_len_max is ", s.length, ", but x has ", s.steps, " steps");
  }
  const Shape state({s.batch, s.cells});
  const Shape peephole({s.cells});
  const struct {
    int input;
    const char* name;
    Shape wanted;
  } wanted[] = {{2, "cs_prev", state},
                {3, "h_prev", state},
                {4, "w", Shape({s.inputs + s.cells, 4 * s.cells})},
                {5, "wci", peephole},
                {6, "wcf", peephole},
                {7, "wco", peephole}};
  for (const auto& w : wanted) {
    if (c.input(w.input).shape() == w.wanted) continue;
    return errors::InvalidArgument(w.name, " has shape ", c.input(w.input).shape().DebugString(),
                                   "; with x of shape ", x.DebugString(), " and b of shape ",
                                   b.DebugString(), " it must be ", w.wanted.DebugString());
  }
  return s;
}

// a [rows, inner] times b [inner, columns], all dense.
Gemm<float> Product(int64_t rows, int64_t columns, int64_t inner, const float* a, const float* b,
                    float* c, bool accumulate = false) {
  Gemm<float> g;
  g.m = rows, g.n = columns, g.k = inner;
  g.a = a, g.lda = inner;
  g.b = b, g.ldb = columns;
  g.c = c, g.ldc = columns;
  g.accumulate = accumulate;
  return g;
}

// Calls body(first, rows) for blocks of the batch, on several threads: a block goes through all
// steps without waiting for another. How large they are depends on nothing, so results do not
// either.
template <typename Body>
void ForRows(KernelContext& c, const Sizes& s, Body body) {
  constexpr int64_t kRows = 8;
  const double row =
      static_cast<double>(s.length * s.cells) * (15.0 + 0.05 * static_cast<double>(s.cells));
  c.parallel().For((s.batch + kRows - 1) / kRows, kRows * row, [&](int64_t begin, int64_t end) {
    for (int64_t b = begin; b < end; ++b) {
      body(b * kRows, std::min(kRows, s.batch - b * kRows));
    }
  });
}

// Tensors in float: inputs converted, outputs to be converted back by Finish.
class Floats {
 public:
  explicit Floats(KernelContext& c) : c_(c) {}

  absl::StatusOr<const float*> Input(int i) {
    TANDEM_ASSIGN_OR_RETURN(Tensor floats, ToFloat(c_, c_.input(i)));
    kept_.push_back(floats);
    return floats.Elements<float>().data();
  }
  // All zeros.
  absl::StatusOr<float*> Output(int i, Shape shape) {
    TANDEM_ASSIGN_OR_RETURN(Tensor* const output, c_.AllocateOutput(i, shape));
    Tensor floats = *output;
    if (output->dtype() != kFloat32) {
      TANDEM_ASSIGN_OR_RETURN(floats, c_.AllocateTemporary(kFloat32, shape));
      outputs_.emplace_back(output, floats);
    }
    SetZero(floats);
    return floats.MutableElements<float>().data();
  }
  absl::StatusOr<float*> Temporary(int64_t elements) {
    TANDEM_ASSIGN_OR_RETURN(Tensor floats, c_.AllocateTemporary(kFloat32, Shape({elements})));
    kept_.push_back(floats);
    return floats.MutableElements<float>().data();
  }
  void Finish() {
    for (auto& [output, floats] : outputs_) FromFloat(floats, *output, c_.parallel());
  }

 private:
  KernelContext& c_;
  std::vector<Tensor> kept_;
  std::vector<std::pair<Tensor*, Tensor>> outputs_;
};

class BlockLstmKernel : public Kernel {
 public:
  absl::Status Init(KernelInit& init) {
    clip_ = init.Attr<float>("cell_clip");
    peephole_ = init.Attr<bool>("use_peephole");
    return absl::OkStatus();
  }

  absl::Status Compute(KernelContext& c) override {
    TANDEM_ASSIGN_OR_RETURN(const Sizes s, CheckInputs(c));
    Floats floats(c);
    const float* in[9] = {};
    for (int i = 1; i < 9; ++i) {
      TANDEM_ASSIGN_OR_RETURN(in[i], floats.Input(i));
    }
    float* out[7] = {};
    for (int i = 0; i < 7; ++i) {
      TANDEM_ASSIGN_OR_RETURN(out[i], floats.Output(i, Shape({s.steps, s.batch, s.cells})));
    }
    const int64_t width = 4 * s.cells;
    TANDEM_ASSIGN_OR_RETURN(float* const gates, floats.Temporary(s.length * s.batch * width));
    c.parallel().For(s.length * s.batch, 0.1 * static_cast<double>(width),
                     [&](int64_t begin, int64_t end) {
                       for (int64_t row = begin; row < end; ++row) {
                         std::copy_n(in[8], width, gates + row * width);
                       }
                     });
    TANDEM_RETURN_IF_ERROR(RunGemm(
        Product(s.length * s.batch, width, s.inputs, in[1], in[4], gates, true), c.parallel()));
    if (s.cells > 0) {
      const Panels w_h(in[4] + s.inputs * width, width, /*transposed=*/false, s.cells, width);
      ForRows(c, s, [&](int64_t first, int64_t rows) {
        const float* cs_prev = in[2];
        const float* h_prev = in[3];
        for (int64_t t = 0; t < s.length; ++t) {
          float* const step_gates = gates + t * s.batch * width;
          MultiplyPanels(h_prev + first * s.cells, s.cells, rows, w_h, step_gates + first * width,
                         width, /*accumulate=*/true);
          float* step[7];
          for (int i = 0; i < 7; ++i) step[i] = out[i] + t * s.state();
          for (int64_t row = first; row < first + rows; ++row) {
            Step(s.cells, in, cs_prev + row * s.cells, step_gates + row * width, step,
                 row * s.cells);
          }
          cs_prev = step[1];
          h_prev = step[6];
        }
      });
    }
    floats.Finish();
    return absl::OkStatus();
  }

 private:
  // One row of a step. The gates before their activations are overwritten.
  void Step(int64_t n, const float* const in[9], const float* cs_prev, float* gates,
            float* const out[7], int64_t offset) const {
    float* const i = out[0] + offset;
    float* const cs = out[1] + offset;
    float* const f = out[2] + offset;
    float* const o = out[3] + offset;
    float* const ci = out[4] + offset;
    float* const co = out[5] + offset;
    float* const h = out[6] + offset;
    float* const gate_o = gates + 3 * n;
    if (peephole_) {
      for (int64_t j = 0; j < n; ++j) gates[j] += cs_prev[j] * in[5][j];
      for (int64_t j = 0; j < n; ++j) gates[n + j] += cs_prev[j] * in[6][j];
    }
    Logistic(gates, i, n);
    Logistic(gates + n, f, n);
    Tanh(gates + 2 * n, ci, n);
    for (int64_t j = 0; j < n; ++j) {
      const float value = ci[j] * i[j] + cs_prev[j] * f[j];
      cs[j] = clip_ > 0 ? std::min(std::max(value, -clip_), clip_) : value;
    }
    if (peephole_) {
      for (int64_t j = 0; j < n; ++j) gate_o[j] += cs[j] * in[7][j];
    }
    Logistic(gate_o, o, n);
    Tanh(cs, co, n);
    for (int64_t j = 0; j < n; ++j) h[j] = co[j] * o[j];
  }

  float clip_ = 0;
  bool peephole_ = false;
};

// Inputs 9 to 15 are the forward op's outputs i, cs, f, o, ci, co, h, and 16 and 17 the gradients
// with respect to cs and h at every step. The clipping of cells has no derivative, as in
// TensorFlow.
class BlockLstmGradKernel : public Kernel {
 public:
  absl::Status Init(KernelInit& init) {
    peephole_ = init.Attr<bool>("use_peephole");
    return absl::OkStatus();
  }

  absl::Status Compute(KernelContext& c) override {
    TANDEM_ASSIGN_OR_RETURN(const Sizes s, CheckInputs(c));
    const Shape all({s.steps, s.batch, s.cells});
    Floats floats(c);
    const float* in[18] = {};
    for (int i = 1; i < 18; ++i) {
      if (i > 8 && c.input(i).shape() != all) {
        return errors::InvalidArgument(c.node_name(), ": input ", i, " has shape ",
                                       c.input(i).shape().DebugString(), ", not ",
                                       all.DebugString());
      }
      TANDEM_ASSIGN_OR_RETURN(in[i], floats.Input(i));
    }
    float* out[8] = {};
    for (int i = 0; i < 8; ++i) {
      TANDEM_ASSIGN_OR_RETURN(out[i], floats.Output(i, c.input(i + 1).shape()));
    }
    const int64_t width = 4 * s.cells;
    TANDEM_ASSIGN_OR_RETURN(float* const dgates, floats.Temporary(s.length * s.batch * width));
    float* const dcs_prev = out[1];
    float* const dh_prev = out[2];
    const float* const w_h = in[4] + s.inputs * width;
    if (s.cells > 0) {
      const Panels to_h(w_h, width, /*transposed=*/true, width, s.cells);
      ForRows(c, s, [&](int64_t first, int64_t rows) {
        for (int64_t t = s.length - 1; t >= 0; --t) {
          float* const step_gates = dgates + t * s.batch * width;
          const float* const cs_prev = t > 0 ? in[10] + (t - 1) * s.state() : in[2];
          for (int64_t row = first; row < first + rows; ++row) {
            const int64_t at = row * s.cells;
            Step(s.cells, in, t * s.state() + at, cs_prev + at, dh_prev + at, dcs_prev + at,
                 step_gates + row * width);
          }
          MultiplyPanels(step_gates + first * width, width, rows, to_h, dh_prev + first * s.cells,
                         s.cells, /*accumulate=*/false);
        }
      });
    }
    TANDEM_RETURN_IF_ERROR(Sums(c, s, in, dgates, out));
    floats.Finish();
    return absl::OkStatus();
  }

 private:
  // One row of a step: dh_prev and dcs_prev hold what comes from the step after; the latter is
  // replaced by what goes to the step before.
  void Step(int64_t n, const float* const in[18], int64_t at, const float* cs_prev,
            const float* dh_next, float* dcs, float* dgates) const {
    const float* const i = in[9] + at;
    const float* const f = in[11] + at;
    const float* const o = in[12] + at;
    const float* const ci = in[13] + at;
    const float* const co = in[14] + at;
    for (int64_t j = 0; j < n; ++j) {
      const float dh = in[17][at + j] + dh_next[j];
      const float d_o = o[j] * (1 - o[j]) * dh * co[j];
      float d_cs = (1 - co[j] * co[j]) * dh * o[j] + in[16][at + j] + dcs[j];
      if (peephole_) d_cs += d_o * in[7][j];
      const float d_i = i[j] * (1 - i[j]) * d_cs * ci[j];
      const float d_f = f[j] * (1 - f[j]) * d_cs * cs_prev[j];
      dgates[j] = d_i;
      dgates[n + j] = d_f;
      dgates[2 * n + j] = (1 - ci[j] * ci[j]) * d_cs * i[j];
      dgates[3 * n + j] = d_o;
      dcs[j] = d_cs * f[j];
      if (peephole_) dcs[j] += d_i * in[5][j] + d_f * in[6][j];
    }
  }

  // The gradients that all steps add to.
  absl::Status Sums(KernelContext& c, const Sizes& s, const float* const in[18],
                    const float* dgates, float* const out[8]) const {
    const int64_t width = 4 * s.cells;
    const int64_t rows = s.length * s.batch;
    Gemm<float> to_x = Product(rows, s.inputs, width, dgates, in[4], out[0]);
    to_x.transpose_b = true;
    to_x.ldb = width;
    TANDEM_RETURN_IF_ERROR(RunGemm(to_x, c.parallel()));
    const auto transposed = [&](int64_t outputs, int64_t inner, const float* a, const float* b,
                                float* to, bool accumulate) {
      Gemm<float> g = Product(outputs, width, inner, a, b, to, accumulate);
      g.transpose_a = true;
      g.lda = outputs;
      return RunGemm(g, c.parallel());
    };
    TANDEM_RETURN_IF_ERROR(transposed(s.inputs, rows, in[1], dgates, out[3], false));
    if (s.length == 0) return absl::OkStatus();
    // The output of the step before is h_prev at first, then h, one step late.
    float* const to_w_h = out[3] + s.inputs * width;
    TANDEM_RETURN_IF_ERROR(transposed(s.cells, s.batch, in[3], dgates, to_w_h, false));
    TANDEM_RETURN_IF_ERROR(
        transposed(s.cells, rows - s.batch, in[15], dgates + s.batch * width, to_w_h, true));
    ColumnSums<1>(rows, width, 0.3 * static_cast<double>(width), c.parallel(), out[7],
                  [&](int64_t row, float* __restrict sums) {
                    const float* const g = dgates + row * width;
                    for (int64_t j = 0; j < width; ++j) sums[j] += g[j];
                  });
    if (!peephole_) return absl::OkStatus();
    std::vector<float> sums(static_cast<size_t>(3 * s.cells));
    ColumnSums<3>(rows, s.cells, static_cast<double>(s.cells), c.parallel(), sums.data(),
                  [&](int64_t row, float* to) {
                    const float* const g = dgates + row * width;
                    const float* const cs = in[10] + row * s.cells;
                    const float* const before =
                        row < s.batch ? in[2] + row * s.cells : cs - s.state();
                    for (int64_t j = 0; j < s.cells; ++j) {
                      to[j] += g[j] * before[j];
                      to[s.cells + j] += g[s.cells + j] * before[j];
                      to[2 * s.cells + j] += g[3 * s.cells + j] * cs[j];
                    }
                  });
    for (int64_t i = 0; i < 3; ++i) {
      std::copy_n(sums.data() + i * s.cells, s.cells, out[4 + i]);
    }
    return absl::OkStatus();
  }

  bool peephole_ = false;
};

absl::Status ForwardShape(ShapeContext& c) {
  TANDEM_RETURN_IF_ERROR(c.RequireRank(1, 3));
  TANDEM_RETURN_IF_ERROR(c.RequireRank(8, 1));
  PartialShape state = PartialShape::UnknownOfRank(3);
  if (c.input(1).has_rank()) {
    for (int i = 0; i < 2; ++i) state.SetDim(i, c.input(1).dim(i));
  }
  if (c.input(8).has_rank() && c.input(8).dim(0) >= 0) state.SetDim(2, c.input(8).dim(0) / 4);
  for (int i = 0; i < 7; ++i) TANDEM_RETURN_IF_ERROR(c.SetOutput(i, state));
  return absl::OkStatus();
}

absl::Status BackwardShape(ShapeContext& c) {
  for (int i = 0; i < 8; ++i) TANDEM_RETURN_IF_ERROR(c.SetOutput(i, c.input(i + 1)));
  return absl::OkStatus();
}

absl::Status Gradient(GradientContext& g) {
  std::vector<Output> inputs;
  for (int i = 0; i < 9; ++i) inputs.push_back(g.input(i));
  for (int i = 0; i < 7; ++i) inputs.push_back(g.output(i));
  inputs.push_back(g.OutputGradient(1));
  inputs.push_back(g.OutputGradient(6));
  const std::vector<Output> gradients = g.CallMulti(
      "BlockLSTMGradV2", std::move(inputs), {{"use_peephole", g.Attr<bool>("use_peephole")}});
  if (gradients.size() != 8) return g.status();
  for (int i = 0; i < 8; ++i) g.SetInputGradient(i + 1, gradients[static_cast<size_t>(i)]);
  return absl::OkStatus();
}

TANDEM_OP("BlockLSTMV2")
    .Inputs("seq_len_max:int64, x:T, cs_prev:T, h_prev:T, w:T, wci:T, wcf:T, wco:T, b:T")
    .Outputs("i:T, cs:T, f:T, o:T, ci:T, co:T, h:T")
    .Attrs("cell_clip:float=0.0; use_peephole:bool=False; T:type{float16,float32}")
    .HostMemory({"seq_len_max"})
    .Shape(ForwardShape)
    .Gradient(Gradient)
    .Cpu(Make<BlockLstmKernel>("T", {kFloat16, kFloat32}));

TANDEM_OP("BlockLSTMGradV2")
    .Inputs(
        "seq_len_max:int64, x:T, cs_prev:T, h_prev:T, w:T, wci:T, wcf:T, wco:T, b:T, i:T, "
        "cs:T, f:T, o:T, ci:T, co:T, h:T, cs_grad:T, h_grad:T")
    .Outputs(
        "x_grad:T, cs_prev_grad:T, h_prev_grad:T, w_grad:T, wci_grad:T, wcf_grad:T, "
        "wco_grad:T, b_grad:T")
    .Attrs("use_peephole:bool; T:type{float16,float32}")
    .HostMemory({"seq_len_max"})
    .Shape(BackwardShape)
    .Cpu(Make<BlockLstmGradKernel>("T", {kFloat16, kFloat32}));

}  // namespace
}  // namespace tandem
