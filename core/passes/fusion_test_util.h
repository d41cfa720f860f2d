// For tests of fusion: a graph runs with a pass and without, on a CPU and on a device with memory
// of its own.
#ifndef TANDEM_CORE_PASSES_FUSION_TEST_UTIL_H_
#define TANDEM_CORE_PASSES_FUSION_TEST_UTIL_H_

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "core/graph/scope.h"
#include "gtest/gtest.h"
#include "runtime/session/session.h"

namespace tandem::testing {

// Numbers between -2 and 2 that differ from each other, the same in every run.
Tensor Numbers(Shape shape, int seed = 1, DataType dtype = kFloat32);

// Equal types, shapes and bits. NaNs are equal, whatever their bits: x86's vector and scalar
// instructions give them different signs.
void ExpectSameBits(const Tensor& a, const Tensor& b);
// Equal shapes; numbers (float32) differ by `tolerance` at most, relatively for those above 1.
void ExpectClose(const Tensor& a, const Tensor& b, float tolerance = 1e-5f);

// The parameter is the type of the device on which the graph's nodes run.
class FusionTest : public ::testing::TestWithParam<std::string> {
 protected:
  struct Results {
    std::vector<Tensor> fused;
    std::vector<Tensor> plain;
  };

  // Opens a session over the graph of `s` in which these passes run ("a,b"), and one without any.
  void Open(const std::string& passes);

  // Runs both. Failures of either are failures of the test; the results are then empty.
  Results Run(const Session::Feeds& feeds, const std::vector<std::string>& fetches,
              const std::vector<std::string>& targets = {});
  void Do(const std::string& target) { Run({}, {}, {target}); }
  // Runs both, and expects the same error category of them.
  absl::Status Fails(const Session::Feeds& feeds, const std::vector<std::string>& fetches,
                     const std::vector<std::string>& targets = {});

  // The session with the passes.
  Session& fused() { return *fused_; }
  // How often an op ran in the last run with the passes.
  int Count(const std::string& op) const;

  Output Placeholder(const std::string& name, PartialShape shape, DataType dtype = kFloat32);

  Scope s = Scope::NewRoot();

 private:
  absl::StatusOr<std::vector<Tensor>> RunFused(const Session::Feeds& feeds,
                                               const std::vector<std::string>& fetches,
                                               const std::vector<std::string>& targets);

  std::unique_ptr<Session> fused_;
  std::unique_ptr<Session> plain_;
  std::map<std::string, int> counts_;
};

}  // namespace tandem::testing

#endif  // TANDEM_CORE_PASSES_FUSION_TEST_UTIL_H_
