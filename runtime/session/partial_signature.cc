#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/match.h"
#include "core/base/status.h"
#include "runtime/session/partial_run.h"

namespace tandem {
namespace {

std::string WithIndex(const std::string& name) {
  return absl::StrContains(name, ':') ? name : absl::StrCat(name, ":0");
}

absl::Status NamedTwice(const char* role, const std::string& name) {
  return errors::InvalidArgument(role, ": '", name, "' is named twice");
}

absl::StatusOr<Output> FindValue(const Graph& graph, const std::string& name, const char* role) {
  absl::StatusOr<Output> output = graph.GetOutput(name);
  if (!output.ok()) return WithContext(output.status(), role);
  if (output->index < 0 || output->node->num_outputs() == 0) {
    return errors::InvalidArgument(role, ": '", name, "' is no value");
  }
  return output;
}

// Collects what fetches depend on, up to the feeds.
class Dependencies {
 public:
  Dependencies(PartialSignature* signature, absl::flat_hash_map<Output, size_t> fed)
      : signature_(*signature), fed_(std::move(fed)) {
    // Who waits for a fed placeholder waits for its feed.
    for (const auto& [output, feed] : fed_) {
      if (output.node->Is("Placeholder") || output.node->Is("PlaceholderV2")) {
        fed_placeholders_.emplace(output.node, feed);
      }
    }
  }

  void AddFetch(const Output& output) {
    signature_.fetches.push_back(Find(output));
    while (!waiting_.empty()) {
      const auto [node, vertex] = waiting_.back();
      waiting_.pop_back();
      std::vector<int32_t> sources;
      for (const Output& input : node->inputs()) {
        if (input.valid()) sources.push_back(Find(input));
      }
      for (Node* control : node->control_inputs()) {
        const auto placeholder = fed_placeholders_.find(control);
        sources.push_back(placeholder == fed_placeholders_.end() ? Vertex(control)
                                                                 : Feed(placeholder->second));
      }
      signature_.vertices[static_cast<size_t>(vertex)] = std::move(sources);
    }
  }

 private:
  static int32_t Feed(size_t i) { return ~static_cast<int32_t>(i); }

  int32_t Find(const Output& output) {
    const auto feed = fed_.find(output);
    return feed == fed_.end() ? Vertex(output.node) : Feed(feed->second);
  }

  int32_t Vertex(const Node* node) {
    const auto [entry, is_new] =
        numbers_.emplace(node, static_cast<int32_t>(signature_.vertices.size()));
    if (is_new) {
      signature_.vertices.emplace_back();
      waiting_.emplace_back(node, entry->second);
    }
    return entry->second;
  }

  PartialSignature& signature_;
  const absl::flat_hash_map<Output, size_t> fed_;
  absl::flat_hash_map<const Node*, size_t> fed_placeholders_;
  absl::flat_hash_map<const Node*, int32_t> numbers_;
  std::vector<std::pair<const Node*, int32_t>> waiting_;
};

}  // namespace

absl::StatusOr<PartialSignature> DescribePartialSignature(const RunSignature& signature,
                                                          const Graph& graph) {
  PartialSignature partial;
  partial.names.targets = signature.targets;
  absl::flat_hash_map<Output, size_t> fed;
  for (const std::string& name : signature.feeds) {
    TANDEM_ASSIGN_OR_RETURN(const Output output, FindValue(graph, name, "feed"));
    if (!fed.emplace(output, fed.size()).second) return NamedTwice("feed", name);
    partial.names.feeds.push_back(WithIndex(name));
    partial.feed_types.push_back(RemoveReference(output.dtype()));
    partial.feed_shapes.push_back(output.shape());
  }
  Dependencies dependencies(&partial, std::move(fed));
  absl::flat_hash_map<Output, size_t> fetched;
  for (const std::string& name : signature.fetches) {
    TANDEM_ASSIGN_OR_RETURN(const Output output, FindValue(graph, name, "fetch"));
    if (!fetched.emplace(output, fetched.size()).second) return NamedTwice("fetch", name);
    partial.names.fetches.push_back(WithIndex(name));
    dependencies.AddFetch(output);
  }
  return partial;
}

}  // namespace tandem
