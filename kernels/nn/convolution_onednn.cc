// Convolutions by oneDNN.
//
// Images stay in their plain layout (NHWC or NCHW), whose neighbours in a graph read and write it.
// Filters may be in whatever blocked layout the primitive likes best, since the wrong layout was
// seen to cost a factor of six: they are copied over, once where FilterCache can know that they
// stay the same, else in each call.
#include <cstring>
#include <memory>
#include <utility>

#include "core/base/status.h"
#include "dnnl.hpp"
#include "kernels/nn/convolution.h"
#include "kernels/nn/onednn.h"
#include "kernels/nn/packed_weights.h"
#include "kernels/nn/primitive_cache.h"

namespace tandem {

class FilterCache : public PackedWeights<dnnl::memory::desc> {
 public:
  using PackedWeights::PackedWeights;
};

std::shared_ptr<FilterCache> NewFilterCache(const PackedWeightsOptions& options) {
  return std::make_shared<FilterCache>(options);
}

namespace {

using dnnl::memory;
using onednn::Cpu;
using onednn::Run;
using onednn::Scratch;

enum class Direction { kForward, kToInput, kToFilter };

// A primitive with what is needed to run it.
struct Primitive {
  dnnl::primitive primitive;
  memory::desc input;
  memory::desc output;
  memory::desc bias;
  memory::desc plain_filter;  // As TensorFlow has it.
  memory::desc filter;        // As the primitive wants it.
  dnnl::primitive reorder;    // Between the two (to plain for kToFilter); none when they are equal.
  bool reorders = false;
  memory::desc scratch;
};

// The numbers of the dimensions that windows move along, after those in `first`.
memory::dims Spatial(const Convolution& c, int64_t WindowDim::*number, memory::dims first = {}) {
  if (c.is_volume) first.push_back(c.depth.*number);
  first.push_back(c.height.*number);
  first.push_back(c.width.*number);
  return first;
}

memory::format_tag ImageTag(const Convolution& c) {
  using Tag = memory::format_tag;
  if (c.is_volume) return c.format == DataFormat::kNhwc ? Tag::ndhwc : Tag::ncdhw;
  return c.format == DataFormat::kNhwc ? Tag::nhwc : Tag::nchw;
}

memory::desc PlainFilter(const Convolution& c) {
  const int64_t in = c.in_channels / c.groups;
  const int64_t out = c.out_channels / c.groups;
  const int64_t column = in * c.out_channels;
  const int64_t row = c.width.window * column;
  const int64_t layer = c.height.window * row;
  memory::dims sizes = {out, in};
  memory::dims strides = {1, c.out_channels};
  if (c.groups > 1) {
    sizes.insert(sizes.begin(), c.groups);
    strides.insert(strides.begin(), out);
  }
  if (c.is_volume) strides.push_back(layer);
  strides.push_back(row);
  strides.push_back(column);
  return memory::desc(Spatial(c, &WindowDim::window, std::move(sizes)), memory::data_type::f32,
                      strides);
}

dnnl::primitive_attr Attributes(const FusedActivation& activation) {
  dnnl::primitive_attr attr;
  attr.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  dnnl::post_ops ops;
  switch (activation.kind) {
    case ActivationKind::kNone:
      return attr;
    case ActivationKind::kRelu:
      ops.append_eltwise(1, dnnl::algorithm::eltwise_relu, 0, 0);
      break;
    case ActivationKind::kRelu6:
      ops.append_eltwise(1, dnnl::algorithm::eltwise_bounded_relu, 6, 0);
      break;
    case ActivationKind::kElu:
      ops.append_eltwise(1, dnnl::algorithm::eltwise_elu, 1, 0);
      break;
    case ActivationKind::kLeakyRelu:
      ops.append_eltwise(1, dnnl::algorithm::eltwise_relu, activation.alpha, 0);
      break;
    case ActivationKind::kTanh:
      ops.append_eltwise(1, dnnl::algorithm::eltwise_tanh, 0, 0);
      break;
    case ActivationKind::kSigmoid:
      ops.append_eltwise(1, dnnl::algorithm::eltwise_logistic, 0, 0);
      break;
  }
  attr.set_post_ops(ops);
  return attr;
}

// Fills `p` from the descriptor of its primitive.
template <typename Desc>
void Describe(const Desc& desc, const memory::desc& filter, bool to_plain, Primitive& p) {
  p.filter = filter;
  p.scratch = desc.scratchpad_desc();
  p.reorders = filter != p.plain_filter;
  if (!p.reorders) return;
  const memory::desc& from = to_plain ? p.filter : p.plain_filter;
  const memory::desc& to = to_plain ? p.plain_filter : p.filter;
  p.reorder = dnnl::reorder(dnnl::reorder::primitive_desc(Cpu(), from, Cpu(), to));
}

std::shared_ptr<const Primitive> Make(const Convolution& c, Direction direction, bool has_bias,
                                      const FusedActivation& activation) {
  auto p = std::make_shared<Primitive>();
  const auto tag = ImageTag(c);
  const auto f32 = memory::data_type::f32;
  const auto any = memory::format_tag::any;
  p->input = memory::desc(Spatial(c, &WindowDim::input, {c.batch, c.in_channels}), f32, tag);
  p->output = memory::desc(Spatial(c, &WindowDim::output, {c.batch, c.out_channels}), f32, tag);
  p->plain_filter = PlainFilter(c);
  memory::desc filter(p->plain_filter.dims(), f32, any);
  // The direct kernels leave most of a vector idle where there is one channel to compute.
  if (direction == Direction::kToInput && c.in_channels == c.groups) filter = p->plain_filter;
  const memory::dims strides = Spatial(c, &WindowDim::stride);
  memory::dims dilates = Spatial(c, &WindowDim::dilation);
  for (memory::dim& dilation : dilates) --dilation;  // oneDNN counts what is left out.
  const memory::dims before = Spatial(c, &WindowDim::pad_before);
  const memory::dims after = Spatial(c, &WindowDim::pad_after);
  // Never Winograd's algorithm: it is less exact, and was slower on images in a plain layout.
  const auto algorithm = dnnl::algorithm::convolution_direct;
  const dnnl::primitive_attr attr = Attributes(activation);

  using Forward = dnnl::convolution_forward;
  if (direction == Direction::kForward) {
    if (has_bias) p->bias = memory::desc({c.out_channels}, f32, memory::format_tag::a);
    const auto kind = dnnl::prop_kind::forward_inference;
    const Forward::desc desc = has_bias ? Forward::desc(kind, algorithm, p->input, filter, p->bias,
                                                        p->output, strides, dilates, before, after)
                                        : Forward::desc(kind, algorithm, p->input, filter,
                                                        p->output, strides, dilates, before, after);
    const Forward::primitive_desc made(desc, attr, Cpu());
    p->primitive = Forward(made);
    Describe(made, made.weights_desc(), false, *p);
    return p;
  }
  // Derivatives want to know a forward primitive, as a hint.
  const Forward::primitive_desc hint(
      Forward::desc(dnnl::prop_kind::forward_training, algorithm, p->input, filter, p->output,
                    strides, dilates, before, after),
      attr, Cpu());
  if (direction == Direction::kToInput) {
    using Backward = dnnl::convolution_backward_data;
    const Backward::primitive_desc made(
        Backward::desc(algorithm, p->input, filter, p->output, strides, dilates, before, after),
        attr, Cpu(), hint);
    p->primitive = Backward(made);
    Describe(made, made.weights_desc(), false, *p);
  } else {
    using Backward = dnnl::convolution_backward_weights;
    const Backward::primitive_desc made(
        Backward::desc(algorithm, p->input, filter, p->output, strides, dilates, before, after),
        attr, Cpu(), hint);
    p->primitive = Backward(made);
    Describe(made, made.diff_weights_desc(), true, *p);
  }
  return p;
}

PrimitiveCache<Primitive>& Cache() {
  // A model has tens of different convolutions; with several batch sizes and numbers of threads
  // some hundreds. A primitive's code takes some 10 to 100 KiB.
  static auto* const cache = new PrimitiveCache<Primitive>(512);
  return *cache;
}

using Value = PrimitiveCache<Primitive>::Value;

absl::StatusOr<Value> Find(const Convolution& c, Direction direction, bool has_bias,
                           const FusedActivation& activation, int threads) {
  uint32_t alpha;
  std::memcpy(&alpha, &activation.alpha, sizeof(alpha));
  PrimitiveCache<Primitive>::Key key = {static_cast<int64_t>(direction),
                                        has_bias,
                                        static_cast<int64_t>(activation.kind),
                                        alpha,
                                        threads,
                                        static_cast<int64_t>(c.format),
                                        c.batch,
                                        c.in_channels,
                                        c.out_channels,
                                        c.groups,
                                        c.is_volume};
  for (const WindowDim* d : {&c.depth, &c.height, &c.width}) {
    key.insert(key.end(),
               {d->input, d->window, d->stride, d->dilation, d->pad_before, d->pad_after});
  }
  return Cache().LookupOrMake(key, [&]() -> absl::StatusOr<Value> {
    Value made;
    TANDEM_RETURN_IF_ERROR(
        onednn::Guard("convolution", [&] { made = Make(c, direction, has_bias, activation); }));
    return made;
  });
}

// Images are read or written where they are; `input_arg` and `output_arg` say which is what.
absl::Status Execute(const Primitive& p, int input_arg, const float* input, int filter_arg,
                     const Filter& filter, const float* bias, int output_arg, const float* output) {
  return onednn::Guard("convolution", [&] {
    const auto at = [](const memory::desc& desc, const void* data) {
      return memory(desc, Cpu(), const_cast<void*>(data));
    };
    const memory plain = at(p.plain_filter, filter.values);
    const bool to_plain = filter_arg == DNNL_ARG_DIFF_WEIGHTS;
    const auto pack = [&](void* to) {
      Run(p.reorder, {{DNNL_ARG_FROM, plain}, {DNNL_ARG_TO, at(p.filter, to)}});
    };
    FilterCache::Copy kept;
    if (p.reorders && filter.cache != nullptr) {
      kept = filter.cache->Get(*filter.source, p.filter, p.filter.get_size(), pack);
    }
    // The filter in the primitive's layout, then the primitive's own scratch memory.
    const size_t filter_bytes =
        p.reorders && kept == nullptr ? onednn::RoundUp(p.filter.get_size()) : 0;
    Scratch scratch(filter_bytes + p.scratch.get_size());
    if (filter_bytes != 0 && !to_plain) pack(scratch.data());
    const memory blocked =
        p.reorders ? at(p.filter, kept != nullptr ? kept->data() : scratch.data()) : plain;
    const memory in = at(p.input, input);
    const memory out = at(p.output, output);
    const memory pad = at(p.scratch, scratch.data() + filter_bytes);
    if (bias != nullptr) {
      Run(p.primitive, {{input_arg, in},
                        {filter_arg, blocked},
                        {output_arg, out},
                        {DNNL_ARG_BIAS, at(p.bias, bias)},
                        {DNNL_ARG_SCRATCHPAD, pad}});
    } else {
      Run(p.primitive,
          {{input_arg, in}, {filter_arg, blocked}, {output_arg, out}, {DNNL_ARG_SCRATCHPAD, pad}});
    }
    if (p.reorders && to_plain) Run(p.reorder, {{DNNL_ARG_FROM, blocked}, {DNNL_ARG_TO, plain}});
  });
}

}  // namespace

absl::Status ConvolveFloat(const Convolution& conv, const float* input, const Filter& filter,
                           const float* bias, const FusedActivation& activation, float* output,
                           int threads) {
  TANDEM_ASSIGN_OR_RETURN(const Value p,
                          Find(conv, Direction::kForward, bias != nullptr, activation, threads));
  return Execute(*p, DNNL_ARG_SRC, input, DNNL_ARG_WEIGHTS, filter, bias, DNNL_ARG_DST, output);
}

absl::Status ConvolveFloatToInput(const Convolution& conv, const Filter& filter,
                                  const float* output_gradient, float* input_gradient,
                                  int threads) {
  TANDEM_ASSIGN_OR_RETURN(const Value p, Find(conv, Direction::kToInput, false, {}, threads));
  return Execute(*p, DNNL_ARG_DIFF_SRC, input_gradient, DNNL_ARG_WEIGHTS, filter, nullptr,
                 DNNL_ARG_DIFF_DST, output_gradient);
}

absl::Status ConvolveFloatToFilter(const Convolution& conv, const float* input,
                                   const float* output_gradient, float* filter_gradient,
                                   int threads) {
  TANDEM_ASSIGN_OR_RETURN(const Value p, Find(conv, Direction::kToFilter, false, {}, threads));
  return Execute(*p, DNNL_ARG_SRC, input, DNNL_ARG_DIFF_WEIGHTS, filter_gradient, nullptr,
                 DNNL_ARG_DIFF_DST, output_gradient);
}

}  // namespace tandem
