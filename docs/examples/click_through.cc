// A wide and deep model of clicks on advertisements, on data that a seeded generator makes. Its
// features are categories, most of them rare, hashed to the rows of large tables; where variables
// are on parameter servers a step moves only the rows that its batch names.
//
//   bazel-bin/docs/examples/click_through [ROWS [STEPS [BATCH [SEED]]]]      in this process
//
// The same program with a TF_CONFIG that has "ps", "worker" and "chief" trains with parameter
// servers (docs/user/parameter_server.md).
#include <array>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>

#include "tandem.h"

namespace {

using tandem::Tensor;

constexpr int64_t kFields = 8;    // Of categories: the user, the site, the advertisement, ….
constexpr int64_t kNumbers = 4;   // Features that are numbers.
constexpr int64_t kDeepSize = 8;  // Of a category's vector.

// Spreads 64 bits evenly (SplitMix64).
uint64_t Mix(uint64_t x) {
  x += 0x9e3779b97f4a7c15;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
  x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
  return x ^ (x >> 31);
}

double Uniform(uint64_t bits) { return static_cast<double>(Mix(bits) >> 11) * 0x1p-53; }

// Batches that depend on nothing but the seed and their number. A field has as many categories as
// its table has rows; category c is drawn with a probability of about 1 / c, as words and sites
// are. Each category moves the odds of a click by an amount of its own, and so do the numbers.
class Clicks {
 public:
  Clicks(uint64_t seed, int64_t rows, int64_t batch) : seed_(seed), rows_(rows), batch_(batch) {}

  // Rows of the tables, int64 [batch, fields]; numbers, float32 [batch, numbers]; clicks, float32
  // [batch, 1].
  std::vector<Tensor> Batch(uint64_t number) const {
    Tensor rows(tandem::kInt64, tandem::Shape({batch_, kFields}));
    Tensor numbers(tandem::kFloat32, tandem::Shape({batch_, kNumbers}));
    Tensor clicks(tandem::kFloat32, tandem::Shape({batch_, 1}));
    for (int64_t i = 0; i < batch_; ++i) {
      uint64_t state = Mix(seed_ ^ Mix(number * 1000003 + static_cast<uint64_t>(i)));
      double odds = -0.5;
      for (int64_t field = 0; field < kFields; ++field) {
        const double drawn = std::pow(static_cast<double>(rows_), Uniform(++state));
        const uint64_t category = static_cast<uint64_t>(drawn);
        const uint64_t hash = Mix(category * kFields + static_cast<uint64_t>(field));
        rows.MutableElements<int64_t>()[static_cast<size_t>(i * kFields + field)] =
            static_cast<int64_t>(hash % static_cast<uint64_t>(rows_));
        odds += 2 * Uniform(hash ^ 0xc11c) - 1;
      }
      for (int64_t k = 0; k < kNumbers; ++k) {
        const double value = 2 * Uniform(++state) - 1;
        numbers.MutableElements<float>()[static_cast<size_t>(i * kNumbers + k)] =
            static_cast<float>(value);
        odds += k % 2 == 0 ? value : -value;
      }
      const bool is_click = Uniform(++state) < 1 / (1 + std::exp(-odds));
      clicks.MutableElements<float>()[static_cast<size_t>(i)] = is_click ? 1.0f : 0.0f;
    }
    return {rows, numbers, clicks};
  }

  // Epochs of `count` batches from number `first` on.
  tandem::OpenEpoch Epochs(uint64_t first, int64_t count) const {
    return [clicks = *this, first, count](int epoch) -> absl::StatusOr<tandem::NextBatch> {
      const uint64_t begin = first + static_cast<uint64_t>(epoch) * static_cast<uint64_t>(count);
      auto next = std::make_shared<int64_t>(0);
      return tandem::NextBatch([clicks, begin, count, next]() -> tandem::NextBatch::Result {
        if (*next >= count) return absl::nullopt;
        return clicks.Batch(begin + static_cast<uint64_t>((*next)++));
      });
    };
  }

 private:
  uint64_t seed_;
  int64_t rows_;
  int64_t batch_;
};

// A wide part, which knows each category by one number, beside a deep one, which knows it by a
// vector (Cheng and others 2016).
tandem::nn::LayerPtr WideAndDeep(int64_t rows) {
  namespace nn = tandem::nn;
  const nn::Value categories = nn::Value::Input();
  const nn::Value numbers = nn::Value::Input();
  const auto vectors = [&](int64_t size) {
    return nn::Apply(
        nn::Flatten(),
        nn::Apply(nn::Embedding({.input_dim = rows, .output_dim = size, .spread_rows = true}),
                  categories));
  };
  const nn::Value wide = vectors(1);
  nn::Value deep = nn::Apply(nn::Concatenate(), {vectors(kDeepSize), numbers});
  for (const int units : {64, 32}) {
    deep = nn::Apply(nn::Dense({.units = units, .activation = "relu"}), deep);
  }
  const nn::Value all = nn::Apply(nn::Concatenate(), {wide, deep, numbers});
  return nn::Model({categories, numbers}, nn::Apply(nn::Dense({.units = 1}), all));
}

absl::Status Run(int64_t rows, int64_t steps, int64_t batch, uint64_t seed) {
  TANDEM_ASSIGN_OR_RETURN(const auto strategy, tandem::Strategy::FromEnvironment());
  tandem::TrainerOptions options;
  options.metrics = {tandem::metric::Auc({.from_logits = true})};
  tandem::Trainer trainer(*strategy, WideAndDeep(rows), tandem::loss::SigmoidCrossEntropy(),
                          tandem::optimizer::Adagrad({.learning_rate = 0.05}), options);
  const Clicks clicks(seed, rows, batch);
  tandem::FitOptions fit;
  fit.callbacks = {tandem::callback::Progress()};
  TANDEM_RETURN_IF_ERROR(trainer.Fit(clicks.Epochs(0, steps), fit).status());
  // Batches that it has not seen.
  TANDEM_ASSIGN_OR_RETURN(const tandem::EpochResult result,
                          trainer.Evaluate(clicks.Epochs(uint64_t{1} << 40, 20)));
  std::printf("test loss %.4f, area under the curve %.4f\n", result.loss,
              result.Value("auc").value_or(0));
  return absl::OkStatus();
}

}  // namespace

int main(int argc, char** argv) {
  std::array<int64_t, 4> numbers = {100'000, 500, 256, 1};
  for (int i = 1; i < argc && i <= static_cast<int>(numbers.size()); ++i) {
    char* end = nullptr;
    numbers[static_cast<size_t>(i - 1)] = std::strtoll(argv[i], &end, 10);
    if (*end != '\0' || numbers[static_cast<size_t>(i - 1)] < 1) {
      std::fprintf(stderr, "click_through: '%s': a number from 1 on is wanted\n", argv[i]);
      return 2;
    }
  }
  return tandem::Exit(Run(numbers[0], numbers[1], numbers[2], static_cast<uint64_t>(numbers[3])));
}
