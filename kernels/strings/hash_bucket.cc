// StringToHashBucketFast, StringToHashBucketStrong and StringToHashBucket: strings to numbers below
// num_buckets, by their hash.
#include <farmhash.h>
#include <array>
#include <string>
#include <vector>

#include "core/base/status.h"
#include "core/kernel/factories.h"
#include "core/op/registry.h"
#include "core/op/shape_context.h"
#include "kernels/strings/hash.h"
#include "kernels/strings/map_strings.h"

namespace tandem::strings {
namespace {

// The base of the three: `Hash` says which.
template <typename Hash>
class BucketKernel final : public Kernel {
 public:
  absl::Status Init(KernelInit& init) {
    buckets_ = static_cast<uint64_t>(init.Attr<int64_t>("num_buckets"));
    return hash_.Init(init);
  }

  absl::Status Compute(KernelContext& c) override {
    return MapStrings<int64_t>(c, [this](const std::string& text) {
      return static_cast<int64_t>(hash_(text) % buckets_);
    });
  }

 private:
  uint64_t buckets_ = 1;
  Hash hash_;
};

// FarmHash's fingerprint, which is the same on every machine.
struct Fast {
  absl::Status Init(KernelInit&) { return absl::OkStatus(); }
  uint64_t operator()(const std::string& text) const {
    return util::Fingerprint64(text.data(), text.size());
  }
};

class Strong {
 public:
  absl::Status Init(KernelInit& init) {
    const auto& key = init.Attr<std::vector<int64_t>>("key");
    if (key.size() != key_.size()) {
      return errors::InvalidArgument("key has ", key.size(), " elements; two are wanted");
    }
    for (size_t i = 0; i < key_.size(); ++i) key_[i] = static_cast<uint64_t>(key[i]);
    return absl::OkStatus();
  }
  uint64_t operator()(const std::string& text) const { return SipHash(text, key_); }

 private:
  std::array<uint64_t, 2> key_{};
};

struct Old {
  absl::Status Init(KernelInit&) { return absl::OkStatus(); }
  uint64_t operator()(const std::string& text) const {
    constexpr uint64_t kSeed = 0xdecafcaffe;
    return MurmurHash64(text, kSeed);
  }
};

TANDEM_OP("StringToHashBucketFast")
    .Inputs("input:string")
    .Outputs("output:int64")
    .Attrs("num_buckets:int>=1")
    .Shape(UnchangedShape)
    .NotDifferentiable()
    .HostMemory({"input"})
    .Cpu(Make<BucketKernel<Fast>>());

TANDEM_OP("StringToHashBucketStrong")
    .Inputs("input:string")
    .Outputs("output:int64")
    .Attrs("num_buckets:int>=1; key:list(int)")
    .Shape(UnchangedShape)
    .NotDifferentiable()
    .HostMemory({"input"})
    .Cpu(Make<BucketKernel<Strong>>());

TANDEM_OP("StringToHashBucket")
    .Inputs("string_tensor:string")
    .Outputs("output:int64")
    .Attrs("num_buckets:int>=1")
    .Shape(UnchangedShape)
    .NotDifferentiable()
    .HostMemory({"string_tensor"})
    .Cpu(Make<BucketKernel<Old>>());

}  // namespace
}  // namespace tandem::strings
