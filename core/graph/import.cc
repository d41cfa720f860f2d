#include "core/graph/import.h"

#include <algorithm>
#include <vector>

#include "absl/algorithm/container.h"
#include "absl/container/flat_hash_map.h"
#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_join.h"
#include "absl/strings/strip.h"
#include "core/base/status.h"
#include "core/graph/attr_proto.h"
#include "core/graph/device_name.h"
#include "core/graph/missing_op.h"
#include "core/graph/node_resolution.h"
#include "core/graph/op_def_proto.h"
#include "core/graph/travelling_op.h"
#include "google/protobuf/util/message_differencer.h"
#include "proto/graph.pb.h"

namespace tandem {
namespace {

// Ops whose nodes only this runtime makes.
bool IsInternalOp(absl::string_view op) {
  if (IsTravellingOp(op)) return false;
  return op == "_Arg" || op == "_Retval" || absl::StartsWith(op, "_Tandem");
}

// Where an input comes from: a node of the message, or one that was in the graph before.
struct Source {
  int index = 0;  // Output, or Consumer::kControl.
  int message_node = -1;
  Node* graph_node = nullptr;
};

struct Sources {
  std::vector<Source> data;
  std::vector<Source> control;
};

// An input that closes a loop, or stands behind one that does: connected when all nodes are there.
struct LateInput {
  Node* node;
  int input;
  Source source;
};

// An error in a large graph would cost its square if every name were compared.
constexpr size_t kMaxNamesCompared = 20000;
constexpr size_t kMaxNameLengthCompared = 200;
// Of a cycle, in messages.
constexpr size_t kMaxNodesShown = 8;
// Outputs of nodes whose op is not known: of all together, since a few bytes can ask for many.
constexpr int64_t kMostUnknownOutputs = int64_t{1} << 20;

bool IsMerge(absl::string_view op) { return op == "Merge" || op == "RefMerge"; }
bool IsNextIteration(absl::string_view op) {
  return op == "NextIteration" || op == "RefNextIteration";
}

std::string Describe(const tensorflow::NodeDef& node) {
  return absl::StrCat("node '", node.name(), "' (", node.op(), ")");
}

// Splits "node", "node:1" or "^node". False when it is none of them.
bool SplitInput(absl::string_view text, absl::string_view* name, int* index) {
  *name = text;
  *index = 0;
  if (absl::ConsumePrefix(name, "^")) {
    *index = Consumer::kControl;
  } else if (const size_t colon = name->rfind(':'); colon != absl::string_view::npos) {
    const absl::string_view digits = name->substr(colon + 1);
    if (digits.empty() || !absl::c_all_of(digits, absl::ascii_isdigit) ||
        !absl::SimpleAtoi(digits, index)) {
      return false;
    }
    *name = name->substr(0, colon);
  }
  return !name->empty() && name->find_first_of("^:") == absl::string_view::npos;
}

class Importer {
 public:
  Importer(Graph* graph, const tensorflow::GraphDef& def, const ImportOptions& options)
      : graph_(graph), def_(def), options_(options), budget_{options.max_tensor_bytes} {}

  absl::Status Run() {
    TANDEM_RETURN_IF_ERROR(CheckGraphVersions(def_.versions()));
    TANDEM_RETURN_IF_ERROR(ReadInputMap());
    TANDEM_RETURN_IF_ERROR(ReadProducerOps());
    TANDEM_RETURN_IF_ERROR(IndexNames());
    TANDEM_RETURN_IF_ERROR(ReadInputs());
    TANDEM_RETURN_IF_ERROR(Sort());
    TANDEM_RETURN_IF_ERROR(AddFunctions());
    TANDEM_RETURN_IF_ERROR(CheckOps());
    TANDEM_RETURN_IF_ERROR(ReplaceUnknown());
    const absl::Status status = AddNodes();
    if (!status.ok()) RemoveNodes();
    return status;
  }

 private:
  const tensorflow::NodeDef& node(int i) const { return def_.node(i); }

  absl::Status ReadInputMap();
  absl::Status ReadProducerOps();
  absl::Status AddFunctions();
  absl::Status IndexNames();
  absl::Status ReadInputs();
  absl::Status ReadInput(const std::string& text, Sources* sources);
  absl::Status UnknownInput(absl::string_view text, absl::string_view name) const;
  absl::Status Sort();
  absl::Status Cycle(const std::vector<int>& path, int back_to) const;
  bool ClosesLoop(int node, const Source& source) const;

  absl::Status CheckOps();
  absl::Status ReplaceUnknown();
  absl::Status ReplaceOne(int i, std::vector<int>* replaced);
  bool IsReplaced(const Source& source) const;
  absl::StatusOr<bool> CanGive(const Source& source, DataType wanted);
  absl::StatusOr<std::vector<DataType>> InputTypes(int i);
  absl::Status GrowReplaced();
  absl::Status AddNodes();
  void RemoveNodes();
  absl::Status AddOne(int i);
  absl::Status ReadAttrs(int i, const OpDef& op, AttrMap* attrs);
  absl::Status MakeCall(int i, const OpDef& function, NodeSpec* spec);
  absl::StatusOr<const OpDef*> OpOf(int i);
  bool IsProducersDefault(const tensorflow::NodeDef& node, const std::string& attr,
                          const tensorflow::AttrValue& value) const;
  Output Resolve(const Source& source) const {
    return Output(source.graph_node != nullptr ? source.graph_node
                                               : made_[static_cast<size_t>(source.message_node)],
                  source.index);
  }
  std::string PrefixedName(const std::string& name) const {
    return options_.prefix.empty() ? name : absl::StrCat(options_.prefix, "/", name);
  }

  Graph* const graph_;
  const tensorflow::GraphDef& def_;
  const ImportOptions& options_;
  TensorBudget budget_;

  std::map<std::pair<std::string, int>, Output> input_map_;
  std::map<std::string, const tensorflow::OpDef*> producer_ops_;
  absl::flat_hash_map<absl::string_view, int> by_name_;  // As in the message, without prefix.
  std::vector<Sources> sources_;                         // By position in the message.
  std::vector<int> order_;
  std::vector<Node*> made_;   // By position in the message.
  std::vector<Node*> added_;  // In the order in which they were added.
  std::vector<LateInput> late_;
  std::map<std::string, OpDef> signatures_;  // Of functions that nodes call by their op.

  // What stands in the place of nodes whose op is not known (missing_op.h), by position in the
  // message; outputs of type kInvalid are not consumed, or by others of this kind.
  struct Replaced {
    bool is_known = false;
    std::vector<DataType> outputs;
  };
  std::map<int, Replaced> replaced_;
  std::map<Node*, std::vector<DataType>> grown_;  // Those of the graph: all their outputs.
  int64_t unknown_outputs_ = 0;
};

absl::Status Importer::ReadInputMap() {
  for (const auto& [text, output] : options_.input_map) {
    absl::string_view name;
    int index;
    if (!SplitInput(text, &name, &index) || !output.valid()) {
      return errors::InvalidArgument("the input map's entry '", text,
                                     "' is malformed or leads to no output of a node");
    }
    input_map_[{std::string(name), index}] = output;
  }
  return absl::OkStatus();
}

absl::Status Importer::ReadProducerOps() {
  if (options_.producer_ops == nullptr) return absl::OkStatus();
  for (const tensorflow::OpDef& op : options_.producer_ops->op()) {
    producer_ops_.emplace(op.name(), &op);
  }
  return absl::OkStatus();
}

absl::Status Importer::AddFunctions() {
  for (const tensorflow::FunctionDef& function : def_.library().function()) {
    const std::string& name = function.signature().name();
    TANDEM_RETURN_IF_ERROR(OpDefFromProto(function.signature()).status());
    if (graph_->registry().Find(name) != nullptr) {
      return errors::InvalidArgument("function '", name,
                                     "' of the library has the name of an op; rename it");
    }
    for (const tensorflow::NodeDef& body_node : function.node_def()) {
      if (!options_.internal_ops && IsInternalOp(body_node.op())) {
        return errors::InvalidArgument("function '", name, "': node '", body_node.name(), "': op ",
                                       body_node.op(),
                                       " is made by the runtime only; a graph "
                                       "from outside cannot hold it");
      }
    }
    TANDEM_RETURN_IF_ERROR(graph_->functions().Add(function));
  }
  for (const tensorflow::GradientDef& gradient : def_.library().gradient()) {
    TANDEM_RETURN_IF_ERROR(
        graph_->functions().SetGradient(gradient.function_name(), gradient.gradient_func()));
  }
  return absl::OkStatus();
}

absl::Status Importer::IndexNames() {
  by_name_.reserve(static_cast<size_t>(def_.node_size()));
  for (int i = 0; i < def_.node_size(); ++i) {
    const std::string& name = node(i).name();
    if (name.empty()) {
      return errors::InvalidArgument("node ", i, " of the graph (", node(i).op(), ") has no name");
    }
    const auto [first, is_new] = by_name_.emplace(name, i);
    if (!is_new) {
      return errors::InvalidArgument(Describe(node(i)), ": its name is that of an earlier node (",
                                     node(first->second).op(), "); names must differ");
    }
    if (graph_->FindNode(PrefixedName(name)) != nullptr) {
      return errors::InvalidArgument("node '", PrefixedName(name), "' (", node(i).op(),
                                     "): the graph has a node of this name already");
    }
  }
  return absl::OkStatus();
}

absl::Status Importer::UnknownInput(absl::string_view text, absl::string_view name) const {
  std::vector<std::string> names;
  for (int i = 0; i < def_.node_size() && names.size() < kMaxNamesCompared; ++i) {
    if (node(i).name().size() <= kMaxNameLengthCompared) names.push_back(node(i).name());
  }
  const std::string near =
      name.size() <= kMaxNameLengthCompared ? DidYouMean(name, names) : std::string();
  return errors::InvalidArgument("input '", text, "' is of node '", name,
                                 "', which is not in the graph", near);
}

absl::Status Importer::ReadInput(const std::string& text, Sources* sources) {
  absl::string_view name;
  Source source;
  if (!SplitInput(text, &name, &source.index)) {
    return errors::InvalidArgument("input '", text,
                                   "' is malformed; the forms are 'node', 'node:output' and, for "
                                   "control inputs, '^node'");
  }
  const bool is_control = source.index == Consumer::kControl;
  if (!is_control && !sources->control.empty()) {
    return errors::InvalidArgument("input '", text,
                                   "' follows a control input; data inputs come first");
  }
  std::vector<Source>& list = is_control ? sources->control : sources->data;
  if (!input_map_.empty()) {
    const auto mapped = input_map_.find({std::string(name), source.index});
    if (mapped != input_map_.end()) {
      source.graph_node = mapped->second.node;
      if (!is_control) source.index = mapped->second.index;
      list.push_back(source);
      return absl::OkStatus();
    }
  }
  if (const auto found = by_name_.find(name); found != by_name_.end()) {
    source.message_node = found->second;
  } else if (options_.inputs_from_graph) {
    source.graph_node = graph_->FindNode(name);
  }
  if (source.message_node < 0 && source.graph_node == nullptr) return UnknownInput(text, name);
  list.push_back(source);
  return absl::OkStatus();
}

absl::Status Importer::ReadInputs() {
  sources_.resize(static_cast<size_t>(def_.node_size()));
  for (int i = 0; i < def_.node_size(); ++i) {
    for (const std::string& text : node(i).input()) {
      const absl::Status status = ReadInput(text, &sources_[static_cast<size_t>(i)]);
      if (!status.ok()) return WithContext(status, Describe(node(i)));
    }
  }
  return absl::OkStatus();
}

bool Importer::ClosesLoop(int consumer, const Source& source) const {
  return source.message_node >= 0 && source.index != Consumer::kControl &&
         IsMerge(node(consumer).op()) && IsNextIteration(node(source.message_node).op());
}

absl::Status Importer::Cycle(const std::vector<int>& path, int back_to) const {
  // `path` leads from consumers to what they consume; the message goes with the data.
  std::vector<std::string> names;
  for (auto at = absl::c_find(path, back_to); at != path.end(); ++at) {
    names.push_back(node(*at).name());
  }
  std::reverse(names.begin(), names.end());
  const size_t length = names.size();
  if (length > kMaxNodesShown) names.resize(kMaxNodesShown);
  return errors::InvalidArgument(Describe(node(back_to)), " is in a cycle of ", length,
                                 " nodes: ", absl::StrJoin(names, " -> "), " -> ",
                                 length > kMaxNodesShown ? "…" : names.front(),
                                 "; only an edge from NextIteration to Merge may close one");
}

// Depth first with a stack of our own, since a hostile graph may be as deep as it has nodes. Nodes
// that come after their inputs keep their order.
absl::Status Importer::Sort() {
  enum : char { kNew, kOnPath, kDone };
  const size_t count = sources_.size();
  std::vector<char> state(count, kNew);
  std::vector<size_t> next(count, 0);  // The input to look at next.
  std::vector<int> path;
  order_.reserve(count);
  for (size_t root = 0; root < count; ++root) {
    if (state[root] != kNew) continue;
    path.push_back(static_cast<int>(root));
    state[root] = kOnPath;
    while (!path.empty()) {
      const int at = path.back();
      const Sources& sources = sources_[static_cast<size_t>(at)];
      const size_t input = next[static_cast<size_t>(at)]++;
      if (input == sources.data.size() + sources.control.size()) {
        state[static_cast<size_t>(at)] = kDone;
        order_.push_back(at);
        path.pop_back();
        continue;
      }
      const Source& source = input < sources.data.size()
                                 ? sources.data[input]
                                 : sources.control[input - sources.data.size()];
      if (source.message_node < 0 || ClosesLoop(at, source)) continue;
      char& other = state[static_cast<size_t>(source.message_node)];
      if (other == kOnPath) return Cycle(path, source.message_node);
      if (other == kDone) continue;
      other = kOnPath;
      path.push_back(source.message_node);
    }
  }
  return absl::OkStatus();
}

// All ops that are not known, at once: whoever wonders whether a graph can run at all wants the
// whole list.
absl::Status Importer::CheckOps() {
  UnknownOps unknown;
  absl::flat_hash_map<absl::string_view, bool> known;
  for (int i = 0; i < def_.node_size(); ++i) {
    const std::string& op = node(i).op();
    const auto [entry, is_new] = known.emplace(op, true);
    if (is_new) {
      entry->second = IsInternalOp(op) || graph_->registry().Find(op) != nullptr ||
                      graph_->functions().Find(op) != nullptr;
    }
    if (entry->second) continue;
    if (options_.keep_unknown_ops) {
      replaced_[i];
    } else {
      unknown.Add(op, PrefixedName(node(i).name()));
    }
  }
  return unknown.empty() ? absl::OkStatus() : unknown.ToStatus(graph_->registry());
}

bool Importer::IsReplaced(const Source& source) const {
  return source.graph_node != nullptr ? source.graph_node->Is(kMissingOp)
                                      : replaced_.count(source.message_node) > 0;
}

// Which types the outputs of replaced nodes have follows from their consumers. A consumer that
// cannot be served is replaced, too, and then its consumers are looked at again.
absl::Status Importer::ReplaceUnknown() {
  if (!options_.keep_unknown_ops) return absl::OkStatus();
  std::vector<int> waiting;
  for (int i = 0; i < def_.node_size(); ++i) {
    if (absl::c_any_of(sources_[static_cast<size_t>(i)].data,
                       [&](const Source& source) { return IsReplaced(source); })) {
      waiting.push_back(i);
    }
  }
  if (waiting.empty()) return absl::OkStatus();
  std::vector<std::vector<int>> consumers(sources_.size());
  for (int i = 0; i < def_.node_size(); ++i) {
    for (const Source& source : sources_[static_cast<size_t>(i)].data) {
      if (source.message_node >= 0) {
        consumers[static_cast<size_t>(source.message_node)].push_back(i);
      }
    }
  }
  while (!waiting.empty()) {
    std::vector<int> replaced;
    for (const int i : waiting) TANDEM_RETURN_IF_ERROR(ReplaceOne(i, &replaced));
    waiting.clear();
    for (const int i : replaced) {
      waiting.push_back(i);  // It takes its inputs as they come now.
      const std::vector<int>& next = consumers[static_cast<size_t>(i)];
      waiting.insert(waiting.end(), next.begin(), next.end());
    }
  }
  return GrowReplaced();
}

absl::Status Importer::ReplaceOne(int i, std::vector<int>* replaced) {
  const bool is_replaced = replaced_.count(i) > 0;
  std::vector<DataType> wanted;
  if (!is_replaced) {
    absl::StatusOr<std::vector<DataType>> types = InputTypes(i);
    if (!types.ok()) return absl::OkStatus();  // The same error when the node is added.
    wanted = *std::move(types);
  }
  const std::vector<Source>& sources = sources_[static_cast<size_t>(i)].data;
  for (size_t k = 0; k < sources.size(); ++k) {
    if (!IsReplaced(sources[k])) continue;
    if (!is_replaced && k >= wanted.size()) break;
    const absl::StatusOr<bool> given =
        CanGive(sources[k], is_replaced ? DataType::kInvalid : wanted[k]);
    if (!given.ok()) return WithContext(given.status(), Describe(node(i)));
    if (*given) continue;
    replaced_[i].is_known = true;
    replaced->push_back(i);
    return absl::OkStatus();
  }
  return absl::OkStatus();
}

// Notes that an output of a replaced node is consumed as `wanted` (kInvalid: whatever it is). False
// when it is something else already.
absl::StatusOr<bool> Importer::CanGive(const Source& source, DataType wanted) {
  std::vector<DataType>* outputs = nullptr;
  if (source.graph_node != nullptr) {
    const auto [entry, is_new] = grown_.try_emplace(source.graph_node);
    outputs = &entry->second;
    for (int o = 0; is_new && o < source.graph_node->num_outputs(); ++o) {
      outputs->push_back(source.graph_node->output_info(o).dtype);
    }
  } else {
    outputs = &replaced_[source.message_node].outputs;
  }
  const auto index = static_cast<size_t>(source.index);
  if (index >= outputs->size()) {
    unknown_outputs_ += source.index + 1 - static_cast<int64_t>(outputs->size());
    if (unknown_outputs_ > kMostUnknownOutputs) {
      return errors::InvalidArgument("output ", source.index,
                                     " of a node whose op is not known: at most ",
                                     kMostUnknownOutputs, " such outputs are possible in a graph");
    }
    outputs->resize(index + 1, DataType::kInvalid);
  }
  DataType& type = (*outputs)[index];
  if (wanted == DataType::kInvalid || type == wanted) return true;
  if (type != DataType::kInvalid || IsReference(wanted)) return false;
  type = wanted;
  return true;
}

// What the node's op takes, by the node's attributes.
absl::StatusOr<std::vector<DataType>> Importer::InputTypes(int i) {
  TANDEM_ASSIGN_OR_RETURN(const OpDef* const op, OpOf(i));
  if (op == nullptr) return errors::NotFound("there is no op '", node(i).op(), "'");
  OpDef inputs;
  inputs.name = op->name;
  inputs.inputs = op->inputs;
  AttrMap attrs;
  for (const AttrDef& attr : op->attrs) {
    if (absl::c_none_of(op->inputs, [&](const ArgDef& arg) {
          return arg.type_attr == attr.name || arg.number_attr == attr.name ||
                 arg.type_list_attr == attr.name;
        })) {
      continue;
    }
    inputs.attrs.push_back(attr);
    const auto given = node(i).attr().find(attr.name);
    if (given == node(i).attr().end()) continue;
    TANDEM_ASSIGN_OR_RETURN(AttrValue value, AttrFromProto(given->second, &budget_));
    attrs.emplace(attr.name, std::move(value));
  }
  ResolvedNode resolved;
  TANDEM_RETURN_IF_ERROR(ResolveNode(inputs, std::move(attrs), {}, 0, &resolved));
  return std::move(resolved.input_types);
}

// Outputs that nobody takes, or nobody who would mind, have to have some type.
std::vector<DataType> WithSomeType(std::vector<DataType> types) {
  std::replace(types.begin(), types.end(), DataType::kInvalid, kFloat32);
  return types;
}

absl::Status Importer::GrowReplaced() {
  for (auto& [node, outputs] : grown_) {
    if (outputs.size() <= static_cast<size_t>(node->num_outputs())) continue;
    TANDEM_RETURN_IF_ERROR(
        graph_->GrowNode(node, {}, {{"Tout", WithSomeType(std::move(outputs))}}));
  }
  return absl::OkStatus();
}

bool Importer::IsProducersDefault(const tensorflow::NodeDef& node, const std::string& attr,
                                  const tensorflow::AttrValue& value) const {
  const auto op = producer_ops_.find(node.op());
  if (op == producer_ops_.end()) return false;
  for (const tensorflow::OpDef::AttrDef& def : op->second->attr()) {
    if (def.name() != attr || !def.has_default_value()) continue;
    return google::protobuf::util::MessageDifferencer::Equals(def.default_value(), value);
  }
  return false;
}

absl::Status Importer::ReadAttrs(int i, const OpDef& op, AttrMap* attrs) {
  for (const auto& [name, proto] : node(i).attr()) {
    const bool is_private = !name.empty() && name[0] == '_';
    if (op.FindAttr(name) == nullptr && !is_private) {
      if (IsProducersDefault(node(i), name, proto)) continue;
      std::vector<std::string> names;
      for (const AttrDef& attr : op.attrs) names.push_back(attr.name);
      return errors::InvalidArgument("attribute '", name, "' is not one of ", op.name,
                                     DidYouMean(name, names));
    }
    absl::StatusOr<AttrValue> value = AttrFromProto(proto, &budget_);
    if (!value.ok()) {
      return WithContext(value.status(), absl::StrCat("attribute '", name, "'"));
    }
    attrs->emplace(name, *std::move(value));
  }
  // Adding a node would infer these from the inputs; in a message they must be there.
  for (const AttrDef& attr : op.attrs) {
    if (!attr.has_default && attrs->count(attr.name) == 0) {
      return errors::InvalidArgument("attribute '", attr.name, "' (", AttrKindName(attr.kind),
                                     ") is missing");
    }
  }
  // Names of other nodes of the message.
  const auto colocated = attrs->find("_class");
  if (colocated != attrs->end() && !options_.prefix.empty()) {
    if (const auto* given = colocated->second.Get<std::vector<std::string>>()) {
      std::vector<std::string> classes = *given;
      for (std::string& entry : classes) {
        absl::string_view name = entry;
        if (absl::ConsumePrefix(&name, "loc:@")) {
          entry = absl::StrCat("loc:@", PrefixedName(std::string(name)));
        }
      }
      colocated->second = std::move(classes);
    }
  }
  return absl::OkStatus();
}

// TensorFlow 1 calls a function by using its name as op.
absl::Status Importer::MakeCall(int i, const OpDef& function, NodeSpec* spec) {
  AttrMap given;
  TANDEM_RETURN_IF_ERROR(ReadAttrs(i, function, &given));
  FunctionRef ref;
  ref.name = function.name;
  for (auto& [name, value] : given) {
    (name[0] == '_' ? spec->attrs : ref.attrs).emplace(name, value);
  }
  ResolvedNode resolved;
  TANDEM_RETURN_IF_ERROR(ResolveNode(function, ref.attrs, {}, 0, &resolved));
  spec->op = function.is_stateful ? "StatefulPartitionedCall" : "PartitionedCall";
  spec->attrs.emplace("f", std::move(ref));
  spec->attrs.emplace("Tin", std::move(resolved.input_types));
  spec->attrs.emplace("Tout", std::move(resolved.output_types));
  return absl::OkStatus();
}

// Null when there is none; else the op, or the signature of the function that the node calls.
absl::StatusOr<const OpDef*> Importer::OpOf(int i) {
  const std::string& name = node(i).op();
  if (const OpDef* const op = graph_->registry().Find(name)) return op;
  const auto function = graph_->functions().Find(name);
  if (function == nullptr) return nullptr;
  auto signature = signatures_.find(name);
  if (signature == signatures_.end()) {
    TANDEM_ASSIGN_OR_RETURN(OpDef parsed, OpDefFromProto(function->signature()));
    signature = signatures_.emplace(name, std::move(parsed)).first;
  }
  return &signature->second;
}

absl::Status Importer::AddOne(int i) {
  const tensorflow::NodeDef& message = node(i);
  NodeSpec spec;
  spec.name = PrefixedName(message.name());
  if (!options_.internal_ops && IsInternalOp(message.op())) {
    return errors::InvalidArgument("op ", message.op(),
                                   " is made by the runtime only; a graph from "
                                   "outside cannot hold it");
  }
  const auto replaced = replaced_.find(i);
  spec.op = replaced == replaced_.end() ? message.op() : kMissingOp;
  spec.device = message.device().empty() ? options_.default_device : message.device();
  TANDEM_RETURN_IF_ERROR(DeviceName::Parse(spec.device).status());

  if (replaced != replaced_.end()) {
    spec.attrs = {{"op", message.op()},
                  {"is_known", replaced->second.is_known},
                  {"Tout", WithSomeType(replaced->second.outputs)}};
  } else {
    TANDEM_ASSIGN_OR_RETURN(const OpDef* const op, OpOf(i));
    if (op == graph_->registry().Find(message.op())) {
      if (op != nullptr) TANDEM_RETURN_IF_ERROR(ReadAttrs(i, *op, &spec.attrs));
    } else {
      TANDEM_RETURN_IF_ERROR(MakeCall(i, *op, &spec));
    }
  }

  const Sources& sources = sources_[static_cast<size_t>(i)];
  size_t connected = 0;
  while (connected < sources.data.size() && !ClosesLoop(i, sources.data[connected])) {
    spec.inputs.push_back(Resolve(sources.data[connected++]));
  }
  const bool closes_loop = connected < sources.data.size() && replaced == replaced_.end();
  if (closes_loop) spec.first_missing_input = static_cast<int>(connected);
  for (const Source& source : sources.control) spec.control_inputs.push_back(Resolve(source).node);
  TANDEM_ASSIGN_OR_RETURN(Node* const added, graph_->AddNode(std::move(spec)));
  made_[static_cast<size_t>(i)] = added;
  added_.push_back(added);
  // One that never runs needs no edge that closes a loop.
  if (!closes_loop) return absl::OkStatus();
  if (sources.data.size() != static_cast<size_t>(added->num_inputs())) {
    return errors::InvalidArgument("it has ", sources.data.size(), " inputs; ", added->num_inputs(),
                                   " are wanted");
  }
  for (size_t input = connected; input < sources.data.size(); ++input) {
    late_.push_back({added, static_cast<int>(input), sources.data[input]});
  }
  return absl::OkStatus();
}

absl::Status Importer::AddNodes() {
  made_.resize(sources_.size(), nullptr);
  for (const int i : order_) {
    const absl::Status status = AddOne(i);
    if (status.ok()) continue;
    const std::string name = absl::StrCat("node '", PrefixedName(node(i).name()), "'");
    return absl::StrContains(status.message(), name)
               ? status
               : WithContext(status, absl::StrCat(name, " (", node(i).op(), ")"));
  }
  for (const LateInput& late : late_) {
    const Output source = Resolve(late.source);
    if (source.index >= source.node->num_outputs()) {
      return errors::InvalidArgument("node '", late.node->name(), "' (", late.node->type(),
                                     "): input ", late.input, " is output ", source.index,
                                     " of node '", source.node->name(), "', which has ",
                                     source.node->num_outputs());
    }
    TANDEM_RETURN_IF_ERROR(graph_->SetInput(late.node, late.input, source));
  }
  return absl::OkStatus();
}

void Importer::RemoveNodes() {
  // A node may go when nobody consumes it. Later nodes consume earlier ones only, but for the back
  // edges of loops: their Merge is made to consume itself, whose type fits.
  for (const LateInput& late : late_) {
    graph_->SetInput(late.node, late.input, Output(late.node, 0)).IgnoreError();
  }
  for (auto node = added_.rbegin(); node != added_.rend(); ++node) graph_->RemoveNode(*node);
}

}  // namespace

absl::Status CheckGraphVersions(const tensorflow::VersionDef& versions) {
  const std::string context = absl::StrCat("the graph was written by version ", versions.producer(),
                                           " for version ", versions.min_consumer(), " and later");
  if (versions.producer() < kMinGraphProducer) {
    return errors::InvalidArgument(context, "; the oldest producer that is read is ",
                                   kMinGraphProducer);
  }
  if (versions.min_consumer() > kGraphVersion) {
    return errors::InvalidArgument(context, "; this program reads version ", kGraphVersion);
  }
  if (absl::c_linear_search(versions.bad_consumers(), kGraphVersion)) {
    return errors::InvalidArgument(context, ", and not for version ", kGraphVersion,
                                   ", which this program reads");
  }
  return absl::OkStatus();
}

absl::Status ImportInto(Graph* graph, const tensorflow::GraphDef& def,
                        const ImportOptions& options) {
  return Importer(graph, def, options).Run();
}

absl::StatusOr<Graph> ImportGraphDef(const tensorflow::GraphDef& def, const ImportOptions& options,
                                     const OpRegistry& registry) {
  Graph graph(registry);
  TANDEM_RETURN_IF_ERROR(ImportInto(&graph, def, options));
  return graph;
}

}  // namespace tandem
