// Graphs that are well formed and make no sense: any ops, with any attributes that their
// definitions allow and inputs of fitting types, are imported, compiled, optimized and run.
//
// The input decides on all choices, a byte or two for each.
#include <sys/resource.h>

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "core/graph/attr_proto.h"
#include "core/graph/import.h"
#include "core/op/registry.h"
#include "core/tensor/tensor_proto.h"
#include "proto/graph.pb.h"
#include "runtime/session/session.h"
#include "tests/fuzz/target.h"

namespace tandem {
namespace {

constexpr int kMostNodes = 12;
// A step that waits for what never comes ends by it.
constexpr absl::Duration kPatience = absl::Milliseconds(30);

// What leaves the process's memory alone, and its standard streams.
bool MayRun(const OpDef& op) {
  for (const char* word : {"Save", "Write", "File", "Restore", "Checkpoint", "Print", "Delete"}) {
    if (absl::StrContains(op.name, word)) return false;
  }
  return true;
}

const std::vector<const OpDef*>& Ops() {
  static const auto* const ops = [] {
    auto* const all = new std::vector<const OpDef*>;
    for (const OpDef* const op : OpRegistry::Global().List()) {
      if (MayRun(*op)) all->push_back(op);
    }
    return all;
  }();
  return *ops;
}

ImportOptions Limits() {
  ImportOptions options;
  options.max_tensor_bytes = size_t{16} << 20;
  return options;
}

class Maker {
 public:
  explicit Maker(FuzzInput* input) : input_(*input) {}

  // Nodes that are refused are left out again: hardly a graph would be left otherwise.
  tensorflow::GraphDef Make() {
    const int nodes = 1 + Below(kMostNodes);
    for (int i = 0; i < nodes; ++i) {
      const int nodes_before = graph_.node_size();
      const size_t values_before = values_.size();
      AddRandomNode();
      const absl::Status imported = ImportGraphDef(graph_, Limits()).status();
      if (imported.ok()) continue;
      TANDEM_FUZZ_CHECK(!imported.message().empty(), "a message");
      graph_.mutable_node()->DeleteSubrange(nodes_before, graph_.node_size() - nodes_before);
      values_.resize(values_before);
    }
    return std::move(graph_);
  }

 private:
  struct Value {
    std::string name;
    DataType dtype;
  };

  int Below(int limit) {
    const int choice = limit > 255 ? input_.Byte() << 8 | input_.Byte() : input_.Byte();
    return choice % limit;
  }
  int Number() { return Below(6) - 1; }

  DataType Type(const std::vector<DataType>& allowed) {
    static const std::vector<DataType> common = {kFloat32, kInt32,  kInt64,
                                                 kBool,    kString, kFloat64};
    const std::vector<DataType>& from = allowed.empty() ? common : allowed;
    return from[static_cast<size_t>(Below(static_cast<int>(from.size())))];
  }

  std::vector<int64_t> SmallDims() {
    static const std::vector<std::vector<int64_t>> kShapes = {
        {}, {1}, {2}, {3}, {2, 3}, {0}, {1, 4, 4, 2}, {3, 3, 2, 2}, {4}, {2, 1}, {3, 0, 2}};
    return kShapes[static_cast<size_t>(Below(static_cast<int>(kShapes.size())))];
  }

  Tensor SmallTensor(DataType dtype) {
    if (!IsSupported(dtype) || dtype == kResource || dtype == kVariant) return Tensor();
    Tensor value = Tensor::Zeros(dtype, *Shape::FromDims(SmallDims()));
    for (int64_t i = 0; i < value.num_elements(); ++i) {
      const auto at = static_cast<size_t>(i);
      if (dtype == kFloat32) value.MutableElements<float>()[at] = static_cast<float>(Number());
      if (dtype == kInt32) value.MutableElements<int32_t>()[at] = Number();
      if (dtype == kInt64) value.MutableElements<int64_t>()[at] = Number();
      if (dtype == kBool) value.MutableElements<bool>()[at] = Below(2) == 1;
      if (dtype == kString) value.MutableElements<std::string>()[at] = "a";
    }
    return value;
  }

  PartialShape SmallShape() {
    if (Below(4) == 0) return PartialShape();
    return PartialShape(*Shape::FromDims(SmallDims()));
  }

  template <typename T, typename Make>
  std::vector<T> List(const AttrDef& attr, Make make) {
    std::vector<T> list;
    const int least = attr.has_minimum ? static_cast<int>(std::min<int64_t>(attr.minimum, 4)) : 0;
    for (int count = least + Below(4); count > 0; --count) list.push_back(make());
    return list;
  }

  AttrValue Attr(const AttrDef& attr) {
    const auto text = [&]() -> std::string {
      if (attr.allowed_strings.empty()) return Below(2) == 0 ? "" : "a";
      return attr.allowed_strings[static_cast<size_t>(
          Below(static_cast<int>(attr.allowed_strings.size())))];
    };
    switch (attr.kind) {
      case AttrKind::kString:
        return text();
      case AttrKind::kInt:
        return static_cast<int64_t>(attr.has_minimum && Below(8) > 0
                                        ? std::min<int64_t>(attr.minimum, 4) + Below(3)
                                        : Number());
      case AttrKind::kFloat:
        return static_cast<float>(Number()) / 2;
      case AttrKind::kBool:
        return Below(2) == 1;
      case AttrKind::kType:
        return Type(attr.allowed_types);
      case AttrKind::kShape:
        return SmallShape();
      case AttrKind::kTensor:
        return SmallTensor(Type({}));
      case AttrKind::kStringList:
        return List<std::string>(attr, text);
      case AttrKind::kIntList:
        return List<int64_t>(attr, [&] { return int64_t{Number()}; });
      case AttrKind::kFloatList:
        return List<float>(attr, [&] { return static_cast<float>(Number()); });
      case AttrKind::kTypeList:
        return List<DataType>(attr, [&] { return Type(attr.allowed_types); });
      case AttrKind::kShapeList:
        return List<PartialShape>(attr, [&] { return SmallShape(); });
      default:
        return AttrValue();
    }
  }

  tensorflow::NodeDef* NewNode(const std::string& op) {
    tensorflow::NodeDef* const node = graph_.add_node();
    node->set_name(absl::StrCat("n", graph_.node_size()));
    node->set_op(op);
    return node;
  }

  // An output that has the type, or else a new constant; empty: there are none of it.
  std::string ValueOfType(DataType dtype) {
    std::vector<const Value*> fitting;
    for (const Value& value : values_) {
      if (value.dtype == dtype) fitting.push_back(&value);
    }
    if (!fitting.empty() && Below(4) > 0) {
      return fitting[static_cast<size_t>(Below(static_cast<int>(fitting.size())))]->name;
    }
    const Tensor value = SmallTensor(dtype);
    if (!value.is_valid()) return fitting.empty() ? "" : fitting.back()->name;
    tensorflow::NodeDef* const node = NewNode("Const");
    (*node->mutable_attr())["dtype"].set_type(static_cast<tensorflow::DataType>(dtype));
    (void)TensorToProto(value, (*node->mutable_attr())["value"].mutable_tensor());
    values_.push_back({absl::StrCat(node->name(), ":0"), dtype});
    return values_.back().name;
  }

  // The types of an argument's tensors.
  static std::vector<DataType> TypesOf(const ArgDef& arg, const AttrMap& attrs) {
    const auto get = [&](const std::string& name) { return attrs.find(name); };
    std::vector<DataType> types;
    if (!arg.type_list_attr.empty()) {
      const auto found = get(arg.type_list_attr);
      if (found == attrs.end()) return types;
      if (const auto* const list = found->second.Get<std::vector<DataType>>()) types = *list;
      return types;
    }
    DataType dtype = arg.type;
    if (!arg.type_attr.empty()) {
      const auto found = get(arg.type_attr);
      const DataType* const type = found == attrs.end() ? nullptr : found->second.Get<DataType>();
      if (type == nullptr) return types;
      dtype = *type;
    }
    int64_t count = 1;
    if (!arg.number_attr.empty()) {
      const auto found = get(arg.number_attr);
      const int64_t* const number = found == attrs.end() ? nullptr : found->second.Get<int64_t>();
      count = number == nullptr ? 0 : std::clamp<int64_t>(*number, 0, 4);
    }
    types.assign(static_cast<size_t>(count), dtype);
    return types;
  }

  void AddRandomNode() {
    const OpDef& op = *Ops()[static_cast<size_t>(Below(static_cast<int>(Ops().size())))];
    AttrMap attrs;
    for (const AttrDef& attr : op.attrs) {
      // Most defaults are the best way on.
      attrs[attr.name] = attr.has_default && Below(4) > 0 ? attr.default_value : Attr(attr);
    }
    std::vector<std::string> inputs;
    for (const ArgDef& arg : op.inputs) {
      for (const DataType dtype : TypesOf(arg, attrs)) {
        std::string value = ValueOfType(dtype);
        if (value.empty()) return;
        inputs.push_back(std::move(value));
      }
    }
    tensorflow::NodeDef* const node = NewNode(op.name);
    for (std::string& input : inputs) node->add_input(std::move(input));
    for (const auto& [name, value] : attrs) {
      if (value.kind() != AttrKind::kNone) {
        (void)AttrToProto(value, &(*node->mutable_attr())[name]);
      }
    }
    int output = 0;
    for (const ArgDef& arg : op.outputs) {
      for (const DataType dtype : TypesOf(arg, attrs)) {
        values_.push_back({absl::StrCat(node->name(), ":", output++), dtype});
      }
    }
  }

  FuzzInput& input_;
  tensorflow::GraphDef graph_;
  std::vector<Value> values_;
};

// What numbers that multiply each other ask for must be refused by the system, not given.
void LimitMemory() {
#if !defined(TANDEM_ASAN) && !defined(TANDEM_TSAN)
  static const bool limited = [] {
    const rlimit limit = {rlim_t{3} << 30, rlim_t{3} << 30};
    return setrlimit(RLIMIT_AS, &limit) == 0;
  }();
  TANDEM_FUZZ_CHECK(limited, "RLIMIT_AS");
#endif
}

void Fuzz(FuzzInput input) {
  LimitMemory();
  const bool optimizes = input.Byte() % 2 == 0;
  const tensorflow::GraphDef def = Maker(&input).Make();
  const absl::StatusOr<Graph> graph = ImportGraphDef(def, Limits());
  TANDEM_FUZZ_CHECK(graph.ok(), graph.status().ToString());
  static const auto* const devices =
      new std::shared_ptr<DeviceSet>(*DeviceSet::Create({{kCpu, 1}}));
  SessionOptions session_options;
  session_options.devices = *devices;
  if (!optimizes) TANDEM_FUZZ_CHECK(SwitchPasses("none", &session_options.optimize).ok(), "none");
  const absl::StatusOr<std::unique_ptr<Session>> session = Session::Create(*graph, session_options);
  if (!session.ok()) return;
  RunOptions run;
  run.timeout = kPatience;
  std::vector<std::string> targets;
  for (const tensorflow::NodeDef& node : def.node()) targets.push_back(node.name());
  (void)(*session)->Run(run, {}, {}, targets, nullptr);
  // One by one: what the others' errors hid.
  for (const std::string& target : targets) {
    (void)(*session)->Run(run, {}, {absl::StrCat(target, ":0")}, {}, nullptr);
  }
}

}  // namespace
}  // namespace tandem

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  tandem::Fuzz({data, size});
  return 0;
}
