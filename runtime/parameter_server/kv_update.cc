#include "runtime/parameter_server/kv_update.h"

#include "absl/types/span.h"
#include "core/base/status.h"
#include "core/graph/export.h"
#include "kernels/collective/gradient_codec.h"

namespace tandem::parameter_server {
namespace {

// Rows of distinct indices, those of one index added up.
std::vector<Output> Distinct(const KvUpdateScope& s, const Output& values, const Output& indices) {
  std::vector<Output> distinct = s.scope().CallMulti("_TandemSumDuplicates", {values, indices});
  distinct.resize(2);  // Not valid after an error, which the scope keeps.
  return distinct;
}

class CodecCompression final : public KvCompression {
 public:
  CodecCompression(std::string name, GradientCodec codec) : name_(std::move(name)), codec_(codec) {}

  absl::StatusOr<Tensor> Encode(const std::string& part, const Tensor& gradient) override {
    if (gradient.dtype() != kFloat32) {
      return errors::InvalidArgument("gradients of type ", DataTypeName(gradient.dtype()),
                                     " cannot be compressed");
    }
    TANDEM_ASSIGN_OR_RETURN(
        Tensor payload,
        Tensor::Create(kUint8, Shape({1, codec_.PayloadBytes(gradient.num_elements())})));
    MutexLock lock(mu_);
    std::vector<float>& residual = residuals_[part];
    residual.resize(static_cast<size_t>(gradient.num_elements()), 0.f);
    codec_.Encode(gradient.Elements<float>(), absl::MakeSpan(residual),
                  absl::MakeSpan(static_cast<char*>(payload.mutable_data()), payload.num_bytes()));
    return payload;
  }

  Output DecodeSum(const Scope& scope, const Output& payloads, const Output& like) const override {
    return scope.Call("_TandemSumCompressed", {payloads, like}, {{"codec", name_}});
  }

 private:
  const std::string name_;
  const GradientCodec codec_;
  Mutex mu_;
  std::map<std::string, std::vector<float>> residuals_ ABSL_GUARDED_BY(mu_);  // By part.
};

// Adds what a key's graph consists of.
class GraphMaker {
 public:
  GraphMaker(DataType dtype, const Shape& shape) : dtype_(dtype), shape_(shape) {}

  absl::StatusOr<KvGraph> Make(const KvUpdater& updater, const KvCompression* compression) {
    value_ = AddVariable("value");
    const Output initial = Placeholder("initial", dtype_, shape_);
    init_.push_back(scope_.WithOpName("set_value").AddNode("AssignVariableOp", {value_, initial}));
    const Output read = Read("read");
    AddProgram("pull", {}, {"read:0"}, {});
    if (shape_.rank() >= 1) {
      const Output indices = Placeholder("pull_indices", kInt64, {PartialShape::kUnknownDim});
      scope_.WithOpName("gathered").Call("ResourceGather", {value_, indices}, {{"dtype", dtype_}});
      AddProgram("pull_rows", {"pull_indices:0"}, {"gathered:0"}, {});
    }

    Output gradient;
    std::vector<Combination> combinations;
    if (compression == nullptr) {
      gradient = Placeholder("gradient", dtype_, shape_);
      combinations = {updater.combination};
    } else {
      const Output payloads =
          Placeholder("gradient", kUint8, {PartialShape::kUnknownDim, PartialShape::kUnknownDim});
      gradient = compression->DecodeSum(scope_, payloads, read);
      combinations = {CONCAT};
    }
    AddUpdate("push", {"gradient:0"}, combinations,
              [&](KvUpdateScope& scope) { updater.dense(scope, gradient); });
    if (updater.rows && shape_.rank() >= 1) {
      PartialShape rows_shape(shape_);
      rows_shape.SetDim(0, PartialShape::kUnknownDim);
      const Output values = Placeholder("row_values", dtype_, rows_shape);
      const Output indices = Placeholder("row_indices", kInt64, {PartialShape::kUnknownDim});
      AddUpdate("push_rows", {"row_values:0", "row_indices:0"}, {CONCAT, CONCAT},
                [&](KvUpdateScope& scope) { updater.rows(scope, values, indices); });
    }
    // Slots are known now.
    Program& init = AddProgram("init", {"initial:0"}, {}, {FIRST});
    init.set_updates(true);
    for (const Node* const node : init_) {
      if (node != nullptr) init.add_targets(node->name());
    }
    TANDEM_RETURN_IF_ERROR(scope_.status());
    ExportOptions options;
    options.internal_ops = true;
    TANDEM_ASSIGN_OR_RETURN(made_.graph, ExportGraphDef(*scope_.graph(), options));
    return std::move(made_);
  }

 private:
  Output AddVariable(const std::string& name) {
    const Output handle = scope_.WithOpName(name).Call(
        "VarHandleOp", {}, {{"dtype", dtype_}, {"shape", PartialShape(shape_)}});
    Variable& variable = made_.variables.emplace_back();
    variable.set_name(name);
    variable.set_handle(name);
    variable.set_stride(1);
    return handle;
  }
  Output Placeholder(const std::string& name, DataType dtype, const PartialShape& shape) {
    return scope_.WithOpName(name).Call("Placeholder", {}, {{"dtype", dtype}, {"shape", shape}});
  }
  Output Read(const std::string& name) {
    return scope_.WithOpName(name).Call("ReadVariableOp", {value_}, {{"dtype", dtype_}});
  }
  Program& AddProgram(const std::string& name, const std::vector<std::string>& feeds,
                      const std::vector<std::string>& fetches,
                      const std::vector<Combination>& combinations) {
    Program& program = made_.programs.emplace_back();
    program.set_name(name);
    for (const std::string& feed : feeds) program.add_feeds(feed);
    for (const std::string& fetch : fetches) program.add_fetches(fetch);
    for (const Combination combination : combinations) program.add_combinations(combination);
    return program;
  }
  void AddUpdate(const std::string& name, const std::vector<std::string>& feeds,
                 const std::vector<Combination>& combinations,
                 const std::function<void(KvUpdateScope&)>& add) {
    KvUpdateScope scope(
        scope_.SubScope(name), value_, dtype_, shape_,
        [this](const std::string& slot, float initial) { return Slot(slot, initial); });
    add(scope);
    Program& program = AddProgram(name, feeds, {}, combinations);
    program.set_updates(true);
    for (const Node* const node : scope.updates()) program.add_targets(node->name());
  }
  Output Slot(const std::string& name, float initial) {
    const auto [known, is_new] = slots_.try_emplace(name);
    if (!is_new) return known->second;
    const std::string path = absl::StrCat("slot/", name);
    known->second = AddVariable(path);
    Tensor dims(kInt64, Shape({shape_.rank()}));
    for (int i = 0; i < shape_.rank(); ++i) {
      dims.MutableElements<int64_t>()[static_cast<size_t>(i)] = shape_.dim(i);
    }
    const Scope scope = scope_.SubScope(path);
    const Output element = scope.Call("Cast", {scope.Constant(initial)}, {{"DstT", dtype_}});
    const Output filled = scope.Call("Fill", {dims, element});
    init_.push_back(scope.AddNode("AssignVariableOp", {known->second, filled}));
    return known->second;
  }

  const DataType dtype_;
  const Shape shape_;
  const Scope scope_ = Scope::NewRoot();
  KvGraph made_;
  Output value_;
  std::vector<Node*> init_;
  std::map<std::string, Output> slots_;
};

}  // namespace

KvUpdater AssignUpdater() {
  KvUpdater updater;
  updater.combination = MEAN;
  updater.dense = [](KvUpdateScope& s, const Output& value) {
    s.Run(s.scope().AddNode("AssignVariableOp", {s.value(), value}));
  };
  updater.rows = [](KvUpdateScope& s, const Output& values, const Output& indices) {
    s.Run(s.scope().AddNode("ResourceScatterUpdate", {s.value(), indices, values}));
  };
  return updater;
}

KvUpdater SumUpdater() {
  KvUpdater updater;
  updater.dense = [](KvUpdateScope& s, const Output& gradient) {
    s.Run(s.scope().AddNode("AssignAddVariableOp", {s.value(), gradient}));
  };
  updater.rows = [](KvUpdateScope& s, const Output& values, const Output& indices) {
    s.Run(s.scope().AddNode("ResourceScatterAdd", {s.value(), indices, values}));
  };
  return updater;
}

KvUpdater SgdUpdater(double learning_rate) {
  KvUpdater updater;
  updater.dense = [learning_rate](KvUpdateScope& s, const Output& gradient) {
    s.Run(s.scope().AddNode("ResourceApplyGradientDescent", {s.value(), learning_rate, gradient}));
  };
  updater.rows = [learning_rate](KvUpdateScope& s, const Output& values, const Output& indices) {
    const Output steps = s.scope().Call("Mul", {values, learning_rate});
    s.Run(s.scope().AddNode("ResourceScatterSub", {s.value(), indices, steps}));
  };
  return updater;
}

KvUpdater AdagradUpdater(double learning_rate, double initial_accumulator) {
  const auto initial = static_cast<float>(initial_accumulator);
  KvUpdater updater;
  updater.dense = [=](KvUpdateScope& s, const Output& gradient) {
    s.Run(s.scope().AddNode("ResourceApplyAdagrad",
                            {s.value(), s.Slot("accumulator", initial), learning_rate, gradient}));
  };
  updater.rows = [=](KvUpdateScope& s, const Output& values, const Output& indices) {
    const std::vector<Output> rows = Distinct(s, values, indices);
    s.Run(s.scope().AddNode(
        "ResourceSparseApplyAdagrad",
        {s.value(), s.Slot("accumulator", initial), learning_rate, rows[0], rows[1]}));
  };
  return updater;
}

absl::StatusOr<std::unique_ptr<KvCompression>> NewKvCompression(absl::string_view codec) {
  TANDEM_ASSIGN_OR_RETURN(const GradientCodec parsed, GradientCodec::Parse(codec));
  return std::unique_ptr<KvCompression>(new CodecCompression(std::string(codec), parsed));
}

absl::StatusOr<KvGraph> MakeKvGraph(DataType dtype, const Shape& shape, const KvUpdater& updater,
                                    const KvCompression* compression) {
  if (!updater.dense) return errors::InvalidArgument("an updater has no update by a gradient");
  if (updater.combination != SUM && updater.combination != MEAN) {
    return errors::InvalidArgument("an updater combines gradients by SUM or MEAN");
  }
  if (compression != nullptr && (dtype != kFloat32 || updater.combination != SUM)) {
    return errors::InvalidArgument("only sums of float32 gradients can be compressed, not ",
                                   DataTypeName(dtype), " by ",
                                   Combination_Name(updater.combination));
  }
  return GraphMaker(dtype, shape).Make(updater, compression);
}

}  // namespace tandem::parameter_server
