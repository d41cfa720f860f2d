#include "strategies/nn/wrappers.h"

#include <utility>

#include "absl/strings/ascii.h"
#include "core/base/status.h"

namespace tandem::nn {
namespace {

bool IsName(absl::string_view name) {
  if (name.empty()) return false;
  for (size_t i = 0; i < name.size(); ++i) {
    const char c = name[i];
    const bool anywhere = absl::ascii_isalnum(static_cast<unsigned char>(c)) || c == '.';
    if (!anywhere && (i == 0 || (c != '_' && c != '-'))) return false;
  }
  return true;
}

class NamedLayer final : public Layer {
 public:
  NamedLayer(std::string name, LayerPtr layer) : name_(std::move(name)), layer_(std::move(layer)) {}

  std::string default_name() const override { return name_; }

  absl::StatusOr<Output> Call(const ReplicaContext& replica, const std::string& path,
                              const std::vector<Output>& inputs,
                              const CallOptions& options) const override {
    if (layer_ == nullptr) {
      return errors::InvalidArgument("layer '", path, "': the layer that is named '", name_,
                                     "' is null");
    }
    if (!IsName(name_)) {
      return errors::InvalidArgument("layer '", path, "': '", name_,
                                     "' is no name for a layer; it may have letters, digits, '.', "
                                     "and after the first also '_' and '-'");
    }
    return layer_->Call(replica, path, inputs, options);
  }

 private:
  const std::string name_;
  const LayerPtr layer_;
};

class FrozenLayer final : public Layer {
 public:
  explicit FrozenLayer(LayerPtr layer) : layer_(std::move(layer)) {}

  std::string default_name() const override {
    return layer_ == nullptr ? "frozen" : layer_->default_name();
  }

  absl::StatusOr<Output> Call(const ReplicaContext& replica, const std::string& path,
                              const std::vector<Output>& inputs,
                              const CallOptions& options) const override {
    if (layer_ == nullptr) {
      return errors::InvalidArgument("layer '", path, "': the layer that is frozen is null");
    }
    CallOptions frozen = options;
    frozen.frozen = true;
    return layer_->Call(replica, path, inputs, frozen);
  }

 private:
  const LayerPtr layer_;
};

}  // namespace

LayerPtr Named(std::string name, LayerPtr layer) {
  return std::make_shared<NamedLayer>(std::move(name), std::move(layer));
}

LayerPtr Frozen(LayerPtr layer) { return std::make_shared<FrozenLayer>(std::move(layer)); }

}  // namespace tandem::nn
