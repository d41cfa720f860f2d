#include "tests/gradients/gradient_check.h"

#include <algorithm>
#include <cmath>
#include <complex>
#include <cstring>
#include <memory>
#include <utility>

#include "absl/algorithm/container.h"
#include "core/base/status.h"
#include "core/op/gradients.h"
#include "runtime/session/session.h"

namespace tandem::testing {
namespace {

using Numbers = std::vector<std::complex<double>>;

bool IsNumber(DataType dtype) { return IsFloating(dtype) || IsComplex(dtype); }

Numbers ToNumbers(const Tensor& tensor) {
  Numbers numbers;
  switch (tensor.dtype()) {
    case kFloat32:
      for (const float x : tensor.Elements<float>()) numbers.emplace_back(x);
      break;
    case kFloat64:
      for (const double x : tensor.Elements<double>()) numbers.emplace_back(x);
      break;
    case kComplex64:
      for (const auto x : tensor.Elements<std::complex<float>>()) numbers.emplace_back(x);
      break;
    case kComplex128:
      for (const auto x : tensor.Elements<std::complex<double>>()) numbers.emplace_back(x);
      break;
    default:
      break;
  }
  return numbers;
}

// `tensor` with `delta` added to one element.
Tensor Moved(const Tensor& tensor, size_t at, std::complex<double> delta) {
  Tensor moved(tensor.dtype(), tensor.shape());
  std::memcpy(moved.mutable_data(), tensor.data(), tensor.num_bytes());
  switch (tensor.dtype()) {
    case kFloat32:
      moved.MutableElements<float>()[at] += static_cast<float>(delta.real());
      break;
    case kFloat64:
      moved.MutableElements<double>()[at] += delta.real();
      break;
    default:
      moved.MutableElements<std::complex<double>>()[at] += delta;
      break;
  }
  return moved;
}

// Weights without symmetry, so that no sum of wrong gradients comes out right.
Tensor Weights(const Tensor& like, size_t y) {
  if (like.dtype() == kComplex64) {
    Tensor weights(kComplex64, like.shape());
    const Tensor wide = Complex(like.shape(), 0.5, 1.5, 50 + static_cast<int>(y));
    for (size_t i = 0; i < weights.MutableElements<std::complex<float>>().size(); ++i) {
      weights.MutableElements<std::complex<float>>()[i] =
          std::complex<float>(wide.Elements<std::complex<double>>()[i]);
    }
    return weights;
  }
  return Spread(like.shape(), 0.5, 1.5, 50 + static_cast<int>(y), like.dtype());
}

class Checker {
 public:
  Checker(const GradientCase& c, Knowledge knowledge, Order order)
      : case_(c), knowledge_(knowledge), order_(order) {}

  absl::Status Run() {
    TANDEM_RETURN_IF_ERROR(Build());
    for (size_t i = 0; i < case_.inputs.size(); ++i) {
      if (IsNumber(case_.inputs[i].dtype())) TANDEM_RETURN_IF_ERROR(CheckInput(i));
    }
    return absl::OkStatus();
  }

 private:
  bool IsFed(size_t i) const {
    return knowledge_ == Knowledge::kNothing || IsNumber(case_.inputs[i].dtype());
  }

  absl::Status Build() {
    const Scope& scope = scope_;
    std::vector<Output> xs;
    for (size_t i = 0; i < case_.inputs.size(); ++i) {
      const Tensor& input = case_.inputs[i];
      const Scope named = scope.WithOpName(absl::StrCat("x", i));
      if (!IsFed(i)) {
        xs.push_back(named.Call("Const", {}, {{"value", input}, {"dtype", input.dtype()}}));
        continue;
      }
      const PartialShape shape =
          knowledge_ == Knowledge::kNothing ? PartialShape::Unknown() : PartialShape(input.shape());
      xs.push_back(named.Call("Placeholder", {}, {{"dtype", input.dtype()}, {"shape", shape}}));
      feeds_.emplace_back(absl::StrCat("x", i), input);
    }
    TANDEM_RETURN_IF_ERROR(scope.status());
    std::vector<Output> ys = case_.build(scope, xs);
    TANDEM_RETURN_IF_ERROR(scope.status());
    if (order_ == Order::kSecond) {
      TANDEM_ASSIGN_OR_RETURN(ys, FirstGradients(ys, xs));
    }
    if (ys.empty()) return errors::InvalidArgument("the case has no outputs to differentiate");

    GradientOptions options;
    for (size_t i = 0; i < ys.size(); ++i) {
      y_names_.push_back(ys[i].name());
      options.output_gradients.push_back(
          scope.WithOpName(absl::StrCat("dy", i))
              .Call("Placeholder", {},
                    {{"dtype", RemoveReference(ys[i].dtype())}, {"shape", ys[i].shape()}}));
    }
    TANDEM_RETURN_IF_ERROR(scope.status());
    std::vector<Output> wanted;
    std::vector<size_t> wanted_of;
    for (size_t i = 0; i < xs.size(); ++i) {
      if (!IsNumber(case_.inputs[i].dtype())) continue;
      wanted.push_back(xs[i]);
      wanted_of.push_back(i);
    }
    TANDEM_ASSIGN_OR_RETURN(const std::vector<Gradient> gradients,
                            AddGradients(scope.graph(), ys, wanted, options));
    gradients_.resize(xs.size());
    for (size_t i = 0; i < wanted.size(); ++i) gradients_[wanted_of[i]] = gradients[i];
    TANDEM_ASSIGN_OR_RETURN(session_, Session::Create(*scope.graph()));

    TANDEM_RETURN_IF_ERROR(RunFirst(feeds_));
    TANDEM_ASSIGN_OR_RETURN(const std::vector<Tensor> values, session_->Run(feeds_, y_names_));
    for (size_t i = 0; i < values.size(); ++i) {
      weights_.push_back(Weights(values[i], i));
      weight_feeds_.emplace_back(absl::StrCat("dy", i), weights_.back());
    }
    return absl::OkStatus();
  }

  // Functions of the gradients, each with a slope that depends on the gradient.
  absl::StatusOr<std::vector<Output>> FirstGradients(const std::vector<Output>& ys,
                                                     const std::vector<Output>& xs) const {
    std::vector<Output> wanted;
    for (size_t i = 0; i < xs.size(); ++i) {
      if (IsNumber(case_.inputs[i].dtype())) wanted.push_back(xs[i]);
    }
    TANDEM_ASSIGN_OR_RETURN(const std::vector<Gradient> gradients,
                            AddGradients(scope_.graph(), ys, wanted));
    std::vector<Output> sines;
    for (const Gradient& gradient : gradients) {
      if (!gradient.exists() || gradient.is_sparse()) continue;
      sines.push_back(scope_.Call("Sin", {gradient.values}));
    }
    TANDEM_RETURN_IF_ERROR(scope_.status());
    return sines;
  }

  absl::Status RunFirst(const Session::Feeds& feeds) {
    if (case_.first.empty()) return absl::OkStatus();
    return session_->Run(feeds, {}, case_.first).status();
  }

  // Σ Re(conj(w) y)
  absl::StatusOr<double> Value(const Session::Feeds& feeds) {
    TANDEM_RETURN_IF_ERROR(RunFirst(feeds));
    TANDEM_ASSIGN_OR_RETURN(const std::vector<Tensor> values, session_->Run(feeds, y_names_));
    double sum = 0;
    for (size_t i = 0; i < values.size(); ++i) {
      const Numbers y = ToNumbers(values[i]);
      const Numbers w = ToNumbers(weights_[i]);
      for (size_t k = 0; k < y.size(); ++k) sum += (std::conj(w[k]) * y[k]).real();
    }
    return sum;
  }

  absl::StatusOr<double> Difference(size_t input, size_t element, std::complex<double> direction) {
    double values[2];
    for (const int side : {0, 1}) {
      Session::Feeds feeds = feeds_;
      const double signed_step = side == 0 ? -step() : step();
      for (auto& [name, tensor] : feeds) {
        if (name != absl::StrCat("x", input)) continue;
        tensor = Moved(tensor, element, signed_step * direction);
      }
      TANDEM_ASSIGN_OR_RETURN(values[side], Value(feeds));
    }
    return (values[1] - values[0]) / (2 * step());
  }

  absl::StatusOr<Numbers> Symbolic(size_t input) {
    const Tensor& x = case_.inputs[input];
    const Gradient& gradient = gradients_[input];
    if (!gradient.exists()) return Numbers(static_cast<size_t>(x.num_elements()));
    Session::Feeds feeds = feeds_;
    feeds.insert(feeds.end(), weight_feeds_.begin(), weight_feeds_.end());
    std::vector<std::string> names = {gradient.values.name()};
    if (gradient.is_sparse()) {
      names.push_back(gradient.indices.name());
      names.push_back(gradient.dense_shape.name());
    }
    TANDEM_RETURN_IF_ERROR(RunFirst(feeds));
    TANDEM_ASSIGN_OR_RETURN(const std::vector<Tensor> parts, session_->Run(feeds, names));
    if (parts[0].dtype() != x.dtype()) {
      return errors::Internal("the gradient is of type ", DataTypeName(parts[0].dtype()));
    }
    if (gradient.is_sparse()) return Densified(parts, x.shape());
    if (parts[0].shape() != x.shape()) {
      return errors::Internal("the gradient has shape ", parts[0].shape().DebugString());
    }
    return ToNumbers(parts[0]);
  }

  static absl::StatusOr<Numbers> Densified(const std::vector<Tensor>& parts, const Shape& shape) {
    const auto integers = [](const Tensor& tensor) {
      std::vector<int64_t> list;
      for (size_t i = 0; i < static_cast<size_t>(tensor.num_elements()); ++i) {
        list.push_back(tensor.dtype() == kInt64 ? tensor.Elements<int64_t>()[i]
                                                : tensor.Elements<int32_t>()[i]);
      }
      return list;
    };
    const std::vector<int64_t> indices = integers(parts[1]);
    const std::vector<int64_t> dims = integers(parts[2]);
    if (!absl::c_equal(dims, shape.dims())) {
      return errors::Internal("the sparse gradient says that the whole has shape ",
                              parts[2].DebugString());
    }
    const int64_t row = shape.dim(0) == 0 ? 0 : shape.num_elements() / shape.dim(0);
    const Numbers values = ToNumbers(parts[0]);
    if (static_cast<int64_t>(values.size()) != row * static_cast<int64_t>(indices.size())) {
      return errors::Internal("the sparse gradient has ", indices.size(), " indices for values of ",
                              parts[0].shape().DebugString());
    }
    Numbers sum(static_cast<size_t>(shape.num_elements()));
    for (size_t i = 0; i < values.size(); ++i) {
      const int64_t at = static_cast<int64_t>(i);
      const int64_t to = indices[static_cast<size_t>(at / row)];
      if (to < 0 || to >= shape.dim(0)) return errors::Internal("row ", to, " does not exist");
      sum[static_cast<size_t>(to * row + at % row)] += values[i];
    }
    return sum;
  }

  absl::Status CheckInput(size_t i) {
    const int input = static_cast<int>(i);
    const bool exists = gradients_[i].exists();
    if (absl::c_linear_search(case_.constants, input)) {
      if (!exists) return absl::OkStatus();
      return errors::Internal("input ", i, " has a gradient and should have none");
    }
    const bool sparse = order_ == Order::kFirst && absl::c_linear_search(case_.sparse, input);
    if (order_ == Order::kFirst && exists && gradients_[i].is_sparse() != sparse &&
        !(sparse && knowledge_ == Knowledge::kNothing)) {
      return errors::Internal("the gradient of input ", i, " should be ",
                              sparse ? "sparse" : "dense");
    }
    if (sparse && !exists) return errors::Internal("input ", i, " has no gradient");
    const absl::StatusOr<Numbers> symbolic = Symbolic(i);
    if (!symbolic.ok()) return WithContext(symbolic.status(), absl::StrCat("input ", i));
    const bool is_complex = IsComplex(case_.inputs[i].dtype());
    for (size_t k = 0; k < symbolic->size(); ++k) {
      TANDEM_ASSIGN_OR_RETURN(const double real, Difference(i, k, 1));
      double imaginary = 0;
      if (is_complex) {
        TANDEM_ASSIGN_OR_RETURN(imaginary, Difference(i, k, {0, 1}));
      }
      const std::complex<double> numeric(real, imaginary);
      const double error = std::abs(numeric - (*symbolic)[k]);
      if (error <= tolerance() * std::max(1.0, std::abs(numeric))) continue;
      return errors::Internal("input ", i, ", element ", k, ": the gradient is ",
                              (*symbolic)[k].real(), " + ", (*symbolic)[k].imag(),
                              "i, by differences it is ", real, " + ", imaginary, "i",
                              exists ? "" : " (there is no gradient)");
    }
    return absl::OkStatus();
  }

  bool IsSingle() const {
    return absl::c_any_of(case_.inputs, [](const Tensor& x) { return x.dtype() == kFloat32; });
  }
  double step() const { return case_.step != 0 ? case_.step : IsSingle() ? 1e-2 : 1e-5; }
  double tolerance() const {
    if (order_ == Order::kSecond) return 1e-6;
    return case_.tolerance != 0 ? case_.tolerance : IsSingle() ? 2e-2 : 1e-7;
  }

  const GradientCase& case_;
  const Knowledge knowledge_;
  const Order order_;
  const Scope scope_ = Scope::NewRoot();
  std::unique_ptr<Session> session_;
  std::vector<std::string> y_names_;
  std::vector<Gradient> gradients_;  // One for each input.
  std::vector<Tensor> weights_;      // One for each y.
  Session::Feeds feeds_;
  Session::Feeds weight_feeds_;
};

}  // namespace

absl::Status CheckGradients(const GradientCase& c, Knowledge knowledge, Order order) {
  return Checker(c, knowledge, order).Run();
}

}  // namespace tandem::testing
