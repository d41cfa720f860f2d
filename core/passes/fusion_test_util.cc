#include "core/passes/fusion_test_util.h"

#include <cmath>
#include <cstring>
#include <utility>

#include "core/passes/optimize.h"
#include "runtime/device/device.h"

namespace tandem::testing {
namespace {

template <typename T>
bool SameBits(T a, T b) {
  return (std::isnan(a) && std::isnan(b)) || std::memcmp(&a, &b, sizeof(T)) == 0;
}

template <typename T>
void ExpectSame(const Tensor& a, const Tensor& b) {
  const auto x = a.Elements<T>();
  const auto y = b.Elements<T>();
  int shown = 0;
  for (size_t i = 0; i < x.size() && shown < 5; ++i) {
    if (SameBits(x[i], y[i])) continue;
    ADD_FAILURE() << "element " << i << ": " << x[i] << " and " << y[i];
    ++shown;
  }
}

}  // namespace

Tensor Numbers(Shape shape, int seed, DataType dtype) {
  Tensor tensor(dtype, std::move(shape));
  auto state = static_cast<uint32_t>(seed) * 2654435761u;
  for (int64_t i = 0; i < tensor.num_elements(); ++i) {
    state = state * 1664525u + 1013904223u;
    const double value = static_cast<double>(state >> 8) / (1 << 22) - 2.0;
    const auto at = static_cast<size_t>(i);
    if (dtype == kFloat64) {
      tensor.MutableElements<double>()[at] = value;
    } else if (dtype == kFloat16) {
      tensor.MutableElements<Float16>()[at] = Float16(static_cast<float>(value));
    } else {
      tensor.MutableElements<float>()[at] = static_cast<float>(value);
    }
  }
  return tensor;
}

void ExpectSameBits(const Tensor& a, const Tensor& b) {
  ASSERT_EQ(a.dtype(), b.dtype());
  ASSERT_EQ(a.shape(), b.shape());
  if (a.dtype() == kFloat64) {
    ExpectSame<double>(a, b);
  } else {
    ASSERT_EQ(a.dtype(), kFloat32);
    ExpectSame<float>(a, b);
  }
}

void ExpectClose(const Tensor& a, const Tensor& b, float tolerance) {
  ASSERT_EQ(a.dtype(), kFloat32);
  ASSERT_EQ(b.dtype(), kFloat32);
  ASSERT_EQ(a.shape(), b.shape());
  const auto x = a.Elements<float>();
  const auto y = b.Elements<float>();
  int shown = 0;
  for (size_t i = 0; i < x.size() && shown < 5; ++i) {
    const bool both_nan = std::isnan(x[i]) && std::isnan(y[i]);
    const float limit = tolerance * std::max(1.0f, std::abs(y[i]));
    if (both_nan || x[i] == y[i] || std::abs(x[i] - y[i]) <= limit) continue;
    ADD_FAILURE() << "element " << i << ": " << x[i] << " and " << y[i];
    ++shown;
  }
}

void FusionTest::Open(const std::string& passes) {
  ASSERT_TRUE(s.ok()) << s.status();
  SessionOptions options;
  const auto devices = DeviceSet::Create({{kCpu, 1}, {kSim, 1}});
  ASSERT_TRUE(devices.ok()) << devices.status();
  options.devices = *devices;
  options.default_device = "/job:localhost/replica:0/task:0/device:" + GetParam() + ":0";
  const auto open = [&](const std::string& switches) {
    const absl::Status switched = SwitchPasses(switches, &options.optimize);
    EXPECT_TRUE(switched.ok()) << switched;
    absl::StatusOr<std::unique_ptr<Session>> session = Session::Create(*s.graph(), options);
    EXPECT_TRUE(session.ok()) << session.status();
    return session.ok() ? *std::move(session) : nullptr;
  };
  fused_ = open("none," + passes);
  plain_ = open("none");
  ASSERT_TRUE(fused_ != nullptr && plain_ != nullptr);
}

absl::StatusOr<std::vector<Tensor>> FusionTest::RunFused(const Session::Feeds& feeds,
                                                         const std::vector<std::string>& fetches,
                                                         const std::vector<std::string>& targets) {
  RunOptions options;
  options.trace = true;
  RunMetadata metadata;
  auto results = fused_->Run(options, feeds, fetches, targets, &metadata);
  counts_.clear();
  for (const StepTracer::Event& event : metadata.events) {
    ++counts_[event.op];
    // Those of the ops in question, not of copies and of the host's own.
    if (event.op[0] == '_' && event.op != "_TandemCopy") {
      EXPECT_NE(event.device.find(GetParam()), std::string::npos) << event.node << event.device;
    }
  }
  return results;
}

FusionTest::Results FusionTest::Run(const Session::Feeds& feeds,
                                    const std::vector<std::string>& fetches,
                                    const std::vector<std::string>& targets) {
  auto plain = plain_->Run(feeds, fetches, targets);
  EXPECT_TRUE(plain.ok()) << plain.status();
  auto fused = RunFused(feeds, fetches, targets);
  EXPECT_TRUE(fused.ok()) << fused.status();
  if (!plain.ok() || !fused.ok()) return {};
  return {*std::move(fused), *std::move(plain)};
}

absl::Status FusionTest::Fails(const Session::Feeds& feeds, const std::vector<std::string>& fetches,
                               const std::vector<std::string>& targets) {
  const absl::Status plain = plain_->Run(feeds, fetches, targets).status();
  const absl::Status fused = RunFused(feeds, fetches, targets).status();
  EXPECT_FALSE(plain.ok());
  EXPECT_EQ(plain.code(), fused.code()) << plain << " and " << fused;
  return fused;
}

int FusionTest::Count(const std::string& op) const {
  const auto found = counts_.find(op);
  return found == counts_.end() ? 0 : found->second;
}

Output FusionTest::Placeholder(const std::string& name, PartialShape shape, DataType dtype) {
  return s.WithOpName(name).Call("Placeholder", {},
                                 {{"dtype", dtype}, {"shape", std::move(shape)}});
}

}  // namespace tandem::testing
