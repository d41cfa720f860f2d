// What testdata/make_summaries.py wrote, for the tests that compare with it.
#ifndef TANDEM_KERNELS_IO_SUMMARY_TEST_UTIL_H_
#define TANDEM_KERNELS_IO_SUMMARY_TEST_UTIL_H_

#include <string>
#include <vector>

#include "core/op/attr_value.h"
#include "core/tensor/tensor.h"
#include "nlohmann/json.hpp"
#include "proto/summary.pb.h"

namespace tandem::io {

nlohmann::json ReadSummaryCases();

// Bytes from base64.
std::string Decoded(const std::string& text);
// The inputs of a case, and those of its attributes that it sets.
std::vector<Tensor> InputsOf(const nlohmann::json& test);
AttrMap AttrsOf(const nlohmann::json& test);
// Takes the pixels of images out, which may be packed in another way.
std::vector<Tensor> TakePixels(tensorflow::Summary& summary);

}  // namespace tandem::io

#endif  // TANDEM_KERNELS_IO_SUMMARY_TEST_UTIL_H_
