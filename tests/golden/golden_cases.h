// Golden cases for tests: the files of data/, and how an answer is compared with TensorFlow's.
//
// Files are looked for below the working directory, where Bazel puts a test's data.
#ifndef TANDEM_TESTS_GOLDEN_GOLDEN_CASES_H_
#define TANDEM_TESTS_GOLDEN_GOLDEN_CASES_H_

#include <set>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "core/tensor/tensor.h"
#include "tests/golden/golden.pb.h"

namespace tandem::testing {

// The ops for which there is a file, ordered by name.
std::vector<std::string> GoldenOps();
// NotFound: there is no file. InvalidArgument: it does not parse.
absl::StatusOr<GoldenFile> LoadGoldenFile(const std::string& op);
// The ops of not_yet.txt: those whose kernels are still to be written.
std::vector<std::string> OpsNotYetImplemented();

// The op's cases of deviations.txt: those that we mean to answer otherwise.
std::set<std::string> CasesThatDeviate(const std::string& op);

absl::StatusOr<std::vector<Tensor>> TensorsFromProtos(
    const google::protobuf::RepeatedPtrField<tensorflow::TensorProto>& protos);

// "" when `found` is `wanted` within the tolerances (golden.proto says how they are meant); else
// what differs: type, shape, or the first element that does, with both values.
std::string Difference(const Tensor& found, const Tensor& wanted, double rtol, double atol);
// The same for all outputs of a node or a step. Of those in `unchecked` only type and shape count.
std::string Difference(const std::vector<Tensor>& found, const std::vector<Tensor>& wanted,
                       const google::protobuf::RepeatedField<int32_t>& unchecked, double rtol,
                       double atol);

}  // namespace tandem::testing

#endif  // TANDEM_TESTS_GOLDEN_GOLDEN_CASES_H_
