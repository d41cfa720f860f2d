#include "tests/golden/golden_cases.h"

#include <algorithm>
#include <cmath>
#include <complex>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "core/base/status.h"
#include "core/base/text_proto.h"
#include "core/tensor/tensor_proto.h"

namespace tandem::testing {
namespace {

constexpr char kFolder[] = "tests/golden/data";
constexpr char kEnding[] = ".textproto";

bool Near(double found, double wanted, double rtol, double atol) {
  if (std::isnan(found) || std::isnan(wanted)) return std::isnan(found) && std::isnan(wanted);
  if (found == wanted) return true;
  if (std::isinf(found) || std::isinf(wanted)) return false;
  return std::abs(found - wanted) <= atol + rtol * std::abs(wanted);
}

template <typename T>
bool Near(std::complex<T> found, std::complex<T> wanted, double rtol, double atol) {
  return Near(static_cast<double>(found.real()), static_cast<double>(wanted.real()), rtol, atol) &&
         Near(static_cast<double>(found.imag()), static_cast<double>(wanted.imag()), rtol, atol);
}

std::string Text(double value) { return absl::StrFormat("%.17g", value); }
template <typename T>
std::string Text(std::complex<T> value) {
  return absl::StrCat("(", Text(static_cast<double>(value.real())), ", ",
                      Text(static_cast<double>(value.imag())), ")");
}

// "[1,2]", the place of element `i`.
std::string Place(const Shape& shape, int64_t i) {
  std::vector<int64_t> place(static_cast<size_t>(shape.rank()));
  for (int d = shape.rank() - 1; d >= 0; --d) {
    place[static_cast<size_t>(d)] = i % shape.dim(d);
    i /= shape.dim(d);
  }
  std::string text = "[";
  for (size_t d = 0; d < place.size(); ++d) absl::StrAppend(&text, d ? "," : "", place[d]);
  return text + "]";
}

std::string AtElement(const Shape& shape, int64_t i, const std::string& found,
                      const std::string& wanted, int64_t count) {
  return absl::StrCat("element ", Place(shape, i), " is ", found, ", not ", wanted, " (", count,
                      " of ", shape.num_elements(), " differ)");
}

template <typename T, typename Wide>
std::string CompareFloats(const Tensor& found, const Tensor& wanted, double rtol, double atol) {
  const auto f = found.Elements<T>();
  const auto w = wanted.Elements<T>();
  int64_t count = 0;
  size_t first = 0;
  for (size_t i = 0; i < f.size(); ++i) {
    if (Near(static_cast<Wide>(f[i]), static_cast<Wide>(w[i]), rtol, atol)) continue;
    if (count++ == 0) first = i;
  }
  if (count == 0) return "";
  return AtElement(found.shape(), static_cast<int64_t>(first), Text(static_cast<Wide>(f[first])),
                   Text(static_cast<Wide>(w[first])), count);
}

template <typename T>
std::string CompareExact(const Tensor& found, const Tensor& wanted) {
  const auto f = found.Elements<T>();
  const auto w = wanted.Elements<T>();
  int64_t count = 0;
  size_t first = 0;
  for (size_t i = 0; i < f.size(); ++i) {
    if (f[i] == w[i]) continue;
    if (count++ == 0) first = i;
  }
  if (count == 0) return "";
  const auto text = [](const T& value) {
    if constexpr (std::is_same_v<T, std::string>) {
      return absl::StrCat("\"", value, "\"");
    } else {
      return std::to_string(value);
    }
  };
  return AtElement(found.shape(), static_cast<int64_t>(first), text(f[first]), text(w[first]),
                   count);
}

}  // namespace

std::vector<std::string> GoldenOps() {
  std::vector<std::string> ops;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(kFolder, error)) {
    if (entry.path().extension() == kEnding) ops.push_back(entry.path().stem().string());
  }
  std::sort(ops.begin(), ops.end());
  return ops;
}

absl::StatusOr<GoldenFile> LoadGoldenFile(const std::string& op) {
  const std::string path = absl::StrCat(kFolder, "/", op, kEnding);
  std::ifstream in(path);
  if (!in) return errors::NotFound("no file ", path);
  std::stringstream text;
  text << in.rdbuf();
  GoldenFile file;
  if (const absl::Status parsed = ParseTextProto(text.str(), &file); !parsed.ok()) {
    return WithContext(parsed, absl::StrCat(path, " does not parse"));
  }
  return file;
}

std::vector<std::string> OpsNotYetImplemented() {
  std::vector<std::string> ops;
  std::ifstream in("tests/golden/not_yet.txt");
  for (std::string line; std::getline(in, line);) {
    if (!line.empty() && line[0] != '#') ops.push_back(line);
  }
  return ops;
}

std::set<std::string> CasesThatDeviate(const std::string& op) {
  std::set<std::string> cases;
  std::ifstream in("tests/golden/deviations.txt");
  for (std::string line; std::getline(in, line);) {
    std::istringstream words(line);
    std::string name;
    std::string which;
    if (words >> name >> which && name == op) cases.insert(which);
  }
  return cases;
}

absl::StatusOr<std::vector<Tensor>> TensorsFromProtos(
    const google::protobuf::RepeatedPtrField<tensorflow::TensorProto>& protos) {
  std::vector<Tensor> tensors;
  for (const tensorflow::TensorProto& proto : protos) {
    TANDEM_ASSIGN_OR_RETURN(Tensor tensor, TensorFromProto(proto));
    tensors.push_back(std::move(tensor));
  }
  return tensors;
}

std::string Difference(const Tensor& found, const Tensor& wanted, double rtol, double atol) {
  if (found.dtype() != wanted.dtype()) {
    return absl::StrCat("type is ", DataTypeName(found.dtype()), ", not ",
                        DataTypeName(wanted.dtype()));
  }
  if (found.shape() != wanted.shape()) {
    return absl::StrCat("shape is ", found.shape().DebugString(), ", not ",
                        wanted.shape().DebugString());
  }
  switch (found.dtype()) {
    case kFloat32:
      return CompareFloats<float, double>(found, wanted, rtol, atol);
    case kFloat64:
      return CompareFloats<double, double>(found, wanted, rtol, atol);
    case kFloat16:
      return CompareFloats<Float16, double>(found, wanted, rtol, atol);
    case kBfloat16:
      return CompareFloats<Bfloat16, double>(found, wanted, rtol, atol);
    case kComplex64:
      return CompareFloats<std::complex<float>, std::complex<float>>(found, wanted, rtol, atol);
    case kComplex128:
      return CompareFloats<std::complex<double>, std::complex<double>>(found, wanted, rtol, atol);
    case kInt8:
      return CompareExact<int8_t>(found, wanted);
    case kInt16:
      return CompareExact<int16_t>(found, wanted);
    case kInt32:
      return CompareExact<int32_t>(found, wanted);
    case kInt64:
      return CompareExact<int64_t>(found, wanted);
    case kUint8:
      return CompareExact<uint8_t>(found, wanted);
    case kUint16:
      return CompareExact<uint16_t>(found, wanted);
    case kUint32:
      return CompareExact<uint32_t>(found, wanted);
    case kUint64:
      return CompareExact<uint64_t>(found, wanted);
    case kBool:
      return CompareExact<bool>(found, wanted);
    case kString:
      return CompareExact<std::string>(found, wanted);
    default:
      return absl::StrCat("tensors of type ", DataTypeName(found.dtype()), " do not compare");
  }
}

std::string Difference(const std::vector<Tensor>& found, const std::vector<Tensor>& wanted,
                       const google::protobuf::RepeatedField<int32_t>& unchecked, double rtol,
                       double atol) {
  if (found.size() != wanted.size()) {
    return absl::StrCat(found.size(), " outputs, not ", wanted.size());
  }
  for (size_t i = 0; i < found.size(); ++i) {
    const bool only_shape =
        std::find(unchecked.begin(), unchecked.end(), static_cast<int>(i)) != unchecked.end();
    if (only_shape && found[i].dtype() == wanted[i].dtype() &&
        found[i].shape() == wanted[i].shape()) {
      continue;
    }
    const std::string difference = Difference(found[i], wanted[i], rtol, atol);
    if (!difference.empty()) return absl::StrCat("output ", i, ": ", difference);
  }
  return "";
}

}  // namespace tandem::testing
