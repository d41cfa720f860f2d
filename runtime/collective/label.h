// What members of an operation must agree on, in the 56 bytes that travel with each message.
#ifndef TANDEM_RUNTIME_COLLECTIVE_LABEL_H_
#define TANDEM_RUNTIME_COLLECTIVE_LABEL_H_

#include <cstdint>
#include <string>
#include <vector>

#include "core/kernel/collective.h"
#include "core/tensor/dtype.h"
#include "runtime/collective/schedule.h"
#include "runtime/transport/frame.h"

namespace tandem::collective {

struct LabelFields {
  Kind kind = Kind::kAllReduce;
  Reduction reduction = Reduction::kSum;
  DataType dtype = kFloat32;
  uint32_t algorithm = 0;  // AlgorithmNumber.
  int32_t root = 0;
  uint32_t layout = 0;  // A hash of members, counts and virtual replicas.
  int64_t count = 0;
  std::vector<int64_t> dims;  // Only the first four travel.
};

transport::Label MakeLabel(const LabelFields& fields);

// A hash of numbers, equal in every process.
uint32_t HashNumbers(uint32_t hash, const std::vector<int64_t>& numbers);

// "all-reduce (sum) of float32[2,3] by ring". What a peer sent is not trusted: any bytes give a
// text.
std::string DescribeLabel(const transport::Label& label);
// What differs, where DescribeLabel gives the same text for both: "other members or counts".
std::string DescribeDifference(const transport::Label& a, const transport::Label& b);

}  // namespace tandem::collective

#endif  // TANDEM_RUNTIME_COLLECTIVE_LABEL_H_
