#include "runtime/checkpoint/object_graph.h"

#include <limits>
#include <utility>

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "core/base/status.h"
#include "core/op/registry.h"
#include "proto/trackable_object_graph.pb.h"

namespace tandem {
namespace {

constexpr absl::string_view kAttributes = ".ATTRIBUTES";
constexpr absl::string_view kSlots = ".OPTIMIZER_SLOT";
constexpr absl::string_view kVariableValue = "VARIABLE_VALUE";

// A name as it stands in a path, as it is.
std::string Unescape(absl::string_view escaped) {
  std::string name;
  for (size_t i = 0; i < escaped.size(); ++i) {
    const absl::string_view pair = escaped.substr(i, 2);
    if (pair == "..") {
      name.push_back('.');
      ++i;
    } else if (pair == ".S") {
      name.push_back('/');
      ++i;
    } else {
      name.push_back(escaped[i]);
    }
  }
  return name;
}

}  // namespace

absl::StatusOr<ObjectGraph> ObjectGraph::Parse(absl::string_view bytes) {
  tensorflow::TrackableObjectGraph proto;
  if (bytes.size() > static_cast<size_t>(std::numeric_limits<int>::max()) ||
      !proto.ParseFromArray(bytes.data(), static_cast<int>(bytes.size()))) {
    return errors::DataLoss("the ", bytes.size(), " bytes are no TrackableObjectGraph");
  }
  if (proto.nodes().empty()) return errors::DataLoss("the graph of objects has no root");
  const auto check = [&](int node, int from) -> absl::Status {
    if (node >= 0 && node < proto.nodes_size()) return absl::OkStatus();
    return errors::DataLoss("in the graph of ", proto.nodes_size(), " objects, object ", from,
                            " refers to object ", node);
  };
  ObjectGraph graph;
  for (int i = 0; i < proto.nodes_size(); ++i) {
    const auto& node = proto.nodes(i);
    Object object;
    for (const auto& child : node.children()) {
      TANDEM_RETURN_IF_ERROR(check(child.node_id(), i));
      object.children.emplace(child.local_name(), child.node_id());
    }
    for (const auto& attribute : node.attributes()) {
      object.attributes.push_back(
          {attribute.name(), attribute.full_name(), attribute.checkpoint_key()});
    }
    for (const auto& slot : node.slot_variables()) {
      TANDEM_RETURN_IF_ERROR(check(slot.original_variable_node_id(), i));
      TANDEM_RETURN_IF_ERROR(check(slot.slot_variable_node_id(), i));
      object.slots.push_back(
          {slot.original_variable_node_id(), slot.slot_name(), slot.slot_variable_node_id()});
    }
    graph.objects_.push_back(std::move(object));
  }
  return graph;
}

absl::StatusOr<int> ObjectGraph::FindObject(absl::Span<const absl::string_view> names,
                                            absl::string_view path) const {
  int object = 0;
  std::string so_far = "the root";
  for (const absl::string_view escaped : names) {
    const std::string name = Unescape(escaped);
    const auto& children = objects_[static_cast<size_t>(object)].children;
    const auto child = children.find(name);
    if (child == children.end()) {
      std::vector<std::string> there;
      for (const auto& [child_name, node] : children) there.push_back(child_name);
      return errors::NotFound("no object '", path, "': ", so_far, " has no child '", name, "'",
                              there.empty() ? "" : ", but ", absl::StrJoin(there, ", "),
                              DidYouMean(name, there));
    }
    object = child->second;
    so_far = absl::StrCat("'", name, "'");
  }
  return object;
}

absl::StatusOr<int> ObjectGraph::FindSlot(int variable, int optimizer, absl::string_view slot,
                                          absl::string_view path) const {
  std::vector<std::string> there;
  for (const Slot& candidate : objects_[static_cast<size_t>(optimizer)].slots) {
    if (candidate.variable != variable) continue;
    if (candidate.name == slot) return candidate.slot_variable;
    there.push_back(candidate.name);
  }
  return errors::NotFound("no object '", path, "': the optimizer has no slot '", slot,
                          "' of this variable", there.empty() ? "" : ", but ",
                          absl::StrJoin(there, ", "));
}

absl::StatusOr<std::string> ObjectGraph::Find(absl::string_view path) const {
  const std::vector<absl::string_view> all =
      path.empty() ? std::vector<absl::string_view>() : absl::StrSplit(path, '/');
  absl::Span<const absl::string_view> names = all;
  absl::string_view wanted;
  if (names.size() >= 2 && names[names.size() - 2] == kAttributes) {
    wanted = names.back();
    names.remove_suffix(2);
  }
  int object = 0;
  const auto slots = absl::c_find(names, kSlots);
  if (slots == names.end()) {
    TANDEM_ASSIGN_OR_RETURN(object, FindObject(names, path));
  } else {
    const auto mark = static_cast<size_t>(slots - names.begin());
    const auto behind = names.subspan(mark + 1);
    if (behind.empty()) return errors::NotFound("no object '", path, "': it names no slot");
    TANDEM_ASSIGN_OR_RETURN(const int variable, FindObject(names.subspan(0, mark), path));
    TANDEM_ASSIGN_OR_RETURN(const int optimizer,
                            FindObject(behind.subspan(0, behind.size() - 1), path));
    TANDEM_ASSIGN_OR_RETURN(object, FindSlot(variable, optimizer, Unescape(behind.back()), path));
  }
  const std::vector<Attribute>& attributes = objects_[static_cast<size_t>(object)].attributes;
  std::vector<std::string> there;
  for (const Attribute& attribute : attributes) {
    if (attribute.name == (wanted.empty() ? kVariableValue : wanted)) return attribute.key;
    there.push_back(attribute.name);
  }
  if (wanted.empty() && attributes.size() == 1) return attributes[0].key;
  return errors::NotFound("the object '", path, "' has no attribute ",
                          wanted.empty() ? kVariableValue : wanted, there.empty() ? "" : ", but ",
                          absl::StrJoin(there, ", "));
}

std::vector<ObjectGraph::Attribute> ObjectGraph::Attributes() const {
  std::vector<Attribute> all;
  for (const Object& object : objects_) {
    all.insert(all.end(), object.attributes.begin(), object.attributes.end());
  }
  return all;
}

}  // namespace tandem
