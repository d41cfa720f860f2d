// _TandemElementwise: several elementwise ops as one node, made by core/passes/fuse_elementwise.
//
// The node holds a program in two attributes. `ops` names its ops in the order of their execution;
// the result of the last one is the output. `operands` lists the operands of all of them, one after
// the other: i < N is input i, N + k is the result of op k.
//
//   gelu's  x * sigmoid(1.702 x)  is  ops [Mul, Sigmoid, Mul], inputs (1.702, x),
//   operands [0, 1,  2,  1, 3]
//
// The kernels of the ops themselves do the work (kernels/common/elementwise_kernel.h), block by
// block: what lies between two ops stays in the first-level cache. So the result is the bits that
// the ops would give one by one.
//
// The blocks want inputs of one shape, scalars aside. With other shapes, which a graph of unknown
// shapes may turn out to have, the ops run one after the other on whole tensors.
#include <algorithm>
#include <atomic>
#include <cstddef>
#include <memory>
#include <new>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/inlined_vector.h"
#include "absl/strings/str_join.h"
#include "core/base/status.h"
#include "core/kernel/factories.h"
#include "core/op/registry.h"
#include "core/op/shape_context.h"
#include "kernels/common/elementwise_kernel.h"

namespace tandem::math {
namespace {

// Bytes of a block of one value: a handful of them fit into a first-level cache of 32 KiB.
constexpr int64_t kBlockBytes = 4096;
constexpr int64_t kLine = 64;
constexpr size_t kMaxOperands = 2;

// As many values as all but the longest programs have: runs of those allocate nothing.
constexpr size_t kInlineValues = 40;

struct Step {
  const OpDef* op = nullptr;
  std::vector<int> operands;  // As in the attribute.
};

// The program of a node. InvalidArgument: it is none.
absl::StatusOr<std::vector<Step>> ParseProgram(int num_inputs, const std::vector<std::string>& ops,
                                               const std::vector<int64_t>& operands) {
  std::vector<Step> program;
  size_t next = 0;
  for (const std::string& name : ops) {
    Step step;
    TANDEM_ASSIGN_OR_RETURN(step.op, OpRegistry::Global().Get(name));
    for (size_t i = 0; i < step.op->inputs.size(); ++i, ++next) {
      const int64_t limit = num_inputs + static_cast<int64_t>(program.size());
      if (next >= operands.size() || operands[next] < 0 || operands[next] >= limit) {
        return errors::InvalidArgument("the program [", absl::StrJoin(ops, ","), "] on [",
                                       absl::StrJoin(operands, ","), "] has no operand ", i,
                                       " for op ", program.size());
      }
      step.operands.push_back(static_cast<int>(operands[next]));
    }
    if (step.operands.empty()) {
      return errors::InvalidArgument("op ", name, " has no operands; a fused op has some");
    }
    program.push_back(std::move(step));
  }
  if (program.empty() || next != operands.size()) {
    return errors::InvalidArgument("a program of ", program.size(), " ops takes ", next,
                                   " operands; there are ", operands.size());
  }
  return program;
}

// The attributes of a node of the op with this T.
AttrMap AttrsFor(const OpDef& op, DataType dtype) {
  AttrMap attrs;
  for (const AttrDef& attr : op.attrs) {
    if (attr.has_default) attrs[attr.name] = attr.default_value;
  }
  attrs["T"] = dtype;
  return attrs;
}

class FusedKernel final : public Kernel {
 public:
  absl::Status Init(KernelInit& init) {
    dtype_ = init.Attr<DataType>("T");
    num_inputs_ = init.num_inputs();
    TANDEM_ASSIGN_OR_RETURN(program_,
                            ParseProgram(num_inputs_, init.Attr<std::vector<std::string>>("ops"),
                                         init.Attr<std::vector<int64_t>>("operands")));
    for (const Step& step : program_) TANDEM_RETURN_IF_ERROR(MakeStepKernel(init, step));
    AssignBuffers();
    return absl::OkStatus();
  }

  absl::Status Compute(KernelContext& c) override {
    Run run;
    if (!Resolve(c, run)) return ComputeOneByOne(c);
    return ComputeInBlocks(c, run);
  }

 private:
  // What a value of the program (an input or a result) is in one run.
  struct Value {
    bool is_uniform = false;        // One number, for all places.
    const char* numbers = nullptr;  // Of an input, and of what is uniform.
  };
  struct Run {
    const Shape* shape = nullptr;
    int forwarded = -1;  // An input whose memory the output may take.
    int num_uniform = 0;
    double cost = 0;
    char* output = nullptr;
    absl::InlinedVector<Value, kInlineValues> values;
  };

  absl::Status MakeStepKernel(KernelInit& init, const Step& step) {
    const AttrMap attrs = AttrsFor(*step.op, dtype_);
    TANDEM_ASSIGN_OR_RETURN(const KernelDef* const def,
                            OpRegistry::Global().FindKernel(*step.op, init.device().type, attrs));
    const std::vector<DataType> inputs(step.operands.size(), dtype_);
    KernelInit step_init({init.node_name(),
                          step.op,
                          &attrs,
                          inputs,
                          {&dtype_, 1},
                          &init.device(),
                          &init.functions()});
    TANDEM_ASSIGN_OR_RETURN(std::unique_ptr<Kernel> kernel, def->factory(step_init));
    auto* const elementwise = dynamic_cast<ElementwiseKernel*>(kernel.get());
    if (elementwise == nullptr || step.operands.size() > kMaxOperands) {
      return errors::InvalidArgument("op ", step.op->name, " cannot be a part of a fused node");
    }
    kernel.release();
    kernels_.emplace_back(elementwise);
    return absl::OkStatus();
  }

  // Gives each result but the last one a buffer for a block. A buffer is free again after the last
  // op that reads it.
  void AssignBuffers() {
    const int num_steps = static_cast<int>(program_.size());
    std::vector<int> last_use(static_cast<size_t>(num_inputs_ + num_steps), -1);
    for (int k = 0; k < num_steps; ++k) {
      for (const int operand : program_[static_cast<size_t>(k)].operands) {
        last_use[static_cast<size_t>(operand)] = k;
      }
    }
    std::vector<int> free;
    for (int k = 0; k < num_steps; ++k) {
      if (free.empty()) free.push_back(num_buffers_++);
      buffer_.push_back(free.back());
      free.pop_back();
      std::vector<int> read = program_[static_cast<size_t>(k)].operands;
      std::sort(read.begin(), read.end());
      read.erase(std::unique(read.begin(), read.end()), read.end());
      for (const int operand : read) {
        if (operand >= num_inputs_ && last_use[static_cast<size_t>(operand)] == k) {
          free.push_back(buffer_[static_cast<size_t>(operand - num_inputs_)]);
        }
      }
    }
  }

  // False: the shapes are not those that blocks are made for.
  bool Resolve(KernelContext& c, Run& run) const {
    run.shape = &c.input(0).shape();
    for (int i = 0; i < num_inputs_ && run.shape->IsScalar(); ++i) run.shape = &c.input(i).shape();
    for (int i = 0; i < num_inputs_; ++i) {
      const Tensor& input = c.input(i);
      Value value;
      value.numbers = static_cast<const char*>(input.data());
      if (input.shape() != *run.shape) {
        if (!input.shape().IsScalar()) return false;
        value.is_uniform = true;
        ++run.num_uniform;
      } else if (run.forwarded < 0 && input.OwnsBufferAlone() && c.input_slot(i).uses == 1) {
        run.forwarded = i;
      }
      run.values.push_back(value);
    }
    for (size_t k = 0; k < program_.size(); ++k) {
      const std::vector<int>& operands = program_[k].operands;
      const auto is_uniform = [&](int operand) {
        return run.values[static_cast<size_t>(operand)].is_uniform;
      };
      const bool all = std::all_of(operands.begin(), operands.end(), is_uniform);
      const bool any = std::any_of(operands.begin(), operands.end(), is_uniform);
      if (any && !all && !kernels_[k]->broadcasts()) return false;
      run.values.push_back({all, nullptr});
      run.num_uniform += all ? 1 : 0;
      run.cost += all ? 0 : kernels_[k]->cost();
    }
    return !run.values.back().is_uniform;
  }

  absl::Status ComputeInBlocks(KernelContext& c, Run& run) const {
    // Results that are one number.
    absl::InlinedVector<double, kInlineValues> uniform(run.values.size());
    for (size_t k = 0; k < program_.size(); ++k) {
      const size_t v = ValueOf(k);
      if (!run.values[v].is_uniform) continue;
      const void* inputs[kMaxOperands];
      for (size_t i = 0; i < program_[k].operands.size(); ++i) {
        inputs[i] = run.values[static_cast<size_t>(program_[k].operands[i])].numbers;
      }
      if (!kernels_[k]->ComputeBlock(inputs, &uniform[v], 1)) return NoAnswer(k);
      run.values[v].numbers = reinterpret_cast<const char*>(&uniform[v]);
    }
    const Shape shape = *run.shape;
    const int64_t count = shape.num_elements();
    TANDEM_ASSIGN_OR_RETURN(Tensor* const output,
                            run.forwarded < 0 ? c.AllocateOutput(0, shape)
                                              : c.ForwardOrAllocate({run.forwarded}, 0, shape));
    run.output = static_cast<char*>(output->mutable_data());
    std::atomic<int> failed{-1};
    const auto body = [&](int64_t begin, int64_t end) { RunBlocks(run, begin, end, failed); };
    if (count <= BlockSize()) {
      if (count > 0) body(0, count);
    } else {
      c.parallel().For(count, run.cost, body);
    }
    return failed < 0 ? absl::OkStatus() : NoAnswer(static_cast<size_t>(failed.load()));
  }

  // Computes elements [begin, end) of the output.
  void RunBlocks(const Run& run, int64_t begin, int64_t end, std::atomic<int>& failed) const {
    const auto size = static_cast<int64_t>(DataTypeSize(dtype_));
    const int64_t block = std::min(BlockSize(), end - begin);
    const int64_t stride = (block * size + kLine - 1) / kLine * kLine;
    const Scratch scratch((num_buffers_ + run.num_uniform) * stride);
    // Where the numbers of each value are, for the block that is computed; `step` is what is added
    // from block to block.
    struct Place {
      char* at;
      int64_t step;
    };
    absl::InlinedVector<Place, kInlineValues> places;
    char* spread = scratch.get() + num_buffers_ * stride;
    for (size_t v = 0; v < run.values.size(); ++v) {
      const Value& value = run.values[v];
      if (value.is_uniform) {
        Spread(value.numbers, spread, block, size);
        places.push_back({spread, 0});
        spread += stride;
      } else if (v < static_cast<size_t>(num_inputs_)) {
        // Only read.
        places.push_back({const_cast<char*>(value.numbers) + begin * size, block * size});
      } else if (v + 1 < run.values.size()) {
        const int buffer = buffer_[v - static_cast<size_t>(num_inputs_)];
        places.push_back({scratch.get() + buffer * stride, 0});
      } else {
        places.push_back({run.output + begin * size, block * size});
      }
    }
    for (int64_t first = begin; first < end; first += block) {
      for (size_t k = 0; k < program_.size(); ++k) {
        if (run.values[ValueOf(k)].is_uniform) continue;
        const void* inputs[kMaxOperands];
        for (size_t i = 0; i < program_[k].operands.size(); ++i) {
          inputs[i] = places[static_cast<size_t>(program_[k].operands[i])].at;
        }
        if (!kernels_[k]->ComputeBlock(inputs, places[ValueOf(k)].at,
                                       std::min(block, end - first))) {
          failed = static_cast<int>(k);
        }
      }
      for (Place& place : places) place.at += place.step;
    }
  }

  // The ops as if each were a node.
  absl::Status ComputeOneByOne(KernelContext& c) const {
    const size_t inputs = static_cast<size_t>(num_inputs_);
    const std::unique_ptr<Slot[]> slots(new Slot[inputs + program_.size()]);
    for (size_t i = 0; i < inputs; ++i) {
      // Shared with the plan: nobody overwrites it.
      slots[i].value = c.input(static_cast<int>(i));
      slots[i].state = Slot::State::kValue;
    }
    for (const Step& step : program_) {
      for (const int operand : step.operands) ++slots[static_cast<size_t>(operand)].uses;
    }
    for (size_t k = 0; k < program_.size(); ++k) {
      absl::InlinedVector<Slot*, kMaxOperands> operands;
      for (const int operand : program_[k].operands) {
        operands.push_back(&slots[static_cast<size_t>(operand)]);
      }
      KernelContext::Params params = c.params();
      params.inputs = operands;
      params.outputs = &slots[inputs + k];
      params.output_types = absl::MakeConstSpan(&dtype_, 1);
      KernelContext context(params);
      TANDEM_RETURN_IF_ERROR(WithContext(kernels_[k]->Compute(context), program_[k].op->name));
      for (Slot* slot : operands) {
        if (--slot->uses == 0) slot->value = Tensor();
      }
    }
    c.SetOutput(0, std::move(slots[inputs + program_.size() - 1].value));
    return absl::OkStatus();
  }

  // The place of a step's result among the values.
  size_t ValueOf(size_t step) const { return static_cast<size_t>(num_inputs_) + step; }
  int64_t BlockSize() const { return kBlockBytes / static_cast<int64_t>(DataTypeSize(dtype_)); }

  absl::Status NoAnswer(size_t step) const {
    return errors::InvalidArgument(program_[step].op->name, ": an element has no answer");
  }

  static void Spread(const char* number, char* to, int64_t count, int64_t size) {
    if (size == sizeof(float)) {
      std::fill_n(reinterpret_cast<float*>(to), count, *reinterpret_cast<const float*>(number));
    } else {
      std::fill_n(reinterpret_cast<double*>(to), count, *reinterpret_cast<const double*>(number));
    }
  }

  // Memory that begins with a cache line; on the stack unless a program is long.
  class Scratch {
   public:
    explicit Scratch(int64_t bytes)
        : data_(bytes <= kOnStack ? own_
                                  : static_cast<char*>(::operator new (static_cast<size_t>(bytes),
                                                                       std::align_val_t{kLine}))) {}
    ~Scratch() {
      if (data_ != own_) ::operator delete (data_, std::align_val_t{kLine});
    }
    Scratch(const Scratch&) = delete;
    Scratch& operator=(const Scratch&) = delete;
    char* get() const { return data_; }

   private:
    static constexpr int64_t kOnStack = 8 * kBlockBytes;
    alignas(kLine) char own_[kOnStack];
    char* const data_;
  };

  DataType dtype_ = DataType::kInvalid;
  int num_inputs_ = 0;
  std::vector<Step> program_;
  std::vector<std::unique_ptr<ElementwiseKernel>> kernels_;  // One for each step.
  std::vector<int> buffer_;                                  // Of each step's result.
  int num_buffers_ = 0;
};

absl::Status FusedShape(ShapeContext& c) {
  TANDEM_ASSIGN_OR_RETURN(const std::vector<Step> program,
                          ParseProgram(c.num_inputs(), c.Attr<std::vector<std::string>>("ops"),
                                       c.Attr<std::vector<int64_t>>("operands")));
  std::vector<PartialShape> shapes;
  for (int i = 0; i < c.num_inputs(); ++i) shapes.push_back(c.input(i));
  for (const Step& step : program) {
    PartialShape shape = shapes[static_cast<size_t>(step.operands[0])];
    for (const int operand : step.operands) {
      TANDEM_ASSIGN_OR_RETURN(shape, BroadcastShapes(shape, shapes[static_cast<size_t>(operand)]));
    }
    shapes.push_back(std::move(shape));
  }
  return c.SetOutput(0, std::move(shapes.back()));
}

TANDEM_OP("_TandemElementwise")
    .Inputs("inputs:N*T")
    .Outputs("output:T")
    .Attrs("T:type{float32,float64}; N:int>=1; ops:list(string); operands:list(int)")
    .Shape(FusedShape)
    .Cpu(Make<FusedKernel>("T", {kFloat32, kFloat64}));

}  // namespace
}  // namespace tandem::math
