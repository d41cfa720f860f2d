// Every optimizer against keras.optimizers (Keras 3.15 on TensorFlow 2.21): the variable after some
// steps. Hyperparameters of the first table are numbers that float32 holds exactly, so that float64
// may be compared closely.
#include "strategies/optimizer/optimizer.h"

#include <cmath>

#include "gtest/gtest.h"
#include "strategies/optimizer/testing.h"

namespace tandem::optimizer {
namespace {

constexpr double kEpsilon = 1.0 / (1 << 20);
constexpr int64_t kRows = 4;
constexpr int64_t kWidth = 2;

std::vector<double> Start() {
  std::vector<double> values;
  for (int i = 0; i < kRows * kWidth; ++i) values.push_back(0.5 * std::cos(1 + 2 * i));
  return values;
}

TestGradient Dense(int step) {
  TestGradient gradient;
  for (int i = 0; i < kRows * kWidth; ++i) {
    gradient.values.push_back(std::sin(1 + 3 * i + 7 * step));
  }
  return gradient;
}

// Three rows, some of them named several times. Row 0 never has a gradient.
TestGradient Sparse(int step) {
  static const std::vector<int64_t> rows[] = {{1, 3, 1}, {3, 3, 3}, {2, 1, 3}};
  TestGradient gradient;
  gradient.rows = rows[step % 3];
  for (int j = 0; j < 3 * kWidth; ++j) gradient.values.push_back(std::cos(2 + 5 * j + 11 * step));
  return gradient;
}

TestGradient ToDense(const TestGradient& sparse) {
  TestGradient gradient;
  gradient.values.assign(kRows * kWidth, 0.0);
  for (size_t i = 0; i < sparse.rows.size(); ++i) {
    for (size_t j = 0; j < kWidth; ++j) {
      gradient.values[static_cast<size_t>(sparse.rows[i]) * kWidth + j] +=
          sparse.values[i * kWidth + j];
    }
  }
  return gradient;
}

struct Case {
  std::string name;
  OptimizerPtr optimizer;
  std::vector<double> dense;  // After six steps.
  std::vector<double> sparse;
};

std::vector<Case> Cases() {
  return {
      {"Sgd",
       Sgd({.learning_rate = 0.125}),
       {0.168044524853831, -0.354382544399935, -0.0344753027491119, 0.585421440528541,
        -0.692026827436141, 0.261933146161689, 0.175942796397251, -0.089562845425512},
       {0.27015115293407, -0.494996248300223, 0.599832741024793, 0.609225533718139,
        -0.621070860230612, 0.0115316449147022, 0.188626397571112, -0.725829862773654}},
      {"SgdMomentum",
       Sgd({.learning_rate = 0.125, .momentum = 0.75}),
       {-0.403557410774975, 0.251245640593624, -0.662008084867046, 1.2222987468701,
        -1.32550155438469, 0.879326292750297, -0.41301164180472, 0.459164957304844},
       {0.27015115293407, -0.494996248300223, 1.33345395995997, 0.685023653787033,
        -0.713031543461875, 0.173708179671497, -0.39405709345595, -1.05436127524942}},
      {"SgdNesterov",
       Sgd({.learning_rate = 0.125, .momentum = 0.75, .nesterov = true}),
       {-0.337236897927952, 0.20529887227045, -0.637354685948106, 1.21943215530237,
        -1.34447914501791, 0.919768228978893, -0.474108478000113, 0.539693839875179},
       {0.27015115293407, -0.494996248300223, 1.49354989144606, 0.840279928679675,
        -0.814170669620265, 0.140153142922806, -0.447208965564674, -1.23171785188866}},
      {"Adam",
       Adam({.learning_rate = 0.125, .beta1 = 0.875, .beta2 = 0.984375, .epsilon = kEpsilon}),
       {-0.239865623810934, 0.0476486141026477, -0.429634012683996, 0.972753964738196,
        -1.07013321955086, 0.628308852403628, -0.174133729459666, 0.23602073677945},
       {0.27015115293407, -0.494996248300223, 0.726818678939561, 0.223095546889049,
        -0.73904543752193, 0.192496195276798, -0.135395819702279, -0.662059161534219}},
      {"AdamAmsgrad",
       Adam({.learning_rate = 0.125,
             .beta1 = 0.875,
             .beta2 = 0.984375,
             .epsilon = kEpsilon,
             .amsgrad = true}),
       {-0.239096475125743, 0.0472593198362646, -0.429634012683996, 0.972753964738196,
        -1.06995246380757, 0.627540112391615, -0.173693612431673, 0.23602073677945},
       {0.27015115293407, -0.494996248300223, 0.725487433388576, 0.223436060716443,
        -0.737671034318353, 0.191121770529665, -0.134994100731453, -0.662059161534219}},
      {"AdamW",
       AdamW({.learning_rate = 0.125,
              .weight_decay = 0.25,
              .beta1 = 0.875,
              .beta2 = 0.984375,
              .epsilon = kEpsilon}),
       {-0.234921213879399, 0.0806778700162993, -0.400678549328729, 0.853421014965058,
        -0.937170190904385, 0.574502933599703, -0.200656202346156, 0.252070763729067},
       {0.223294033347984, -0.409140244543215, 0.656115870632752, 0.190500339773117,
        -0.646872127335357, 0.178955732134017, -0.162337141430349, -0.593089817536138}},
      {"Adagrad",
       Adagrad({.learning_rate = 0.125, .initial_accumulator = 0.125, .epsilon = 0}),
       {0.12492887358194, -0.319602777491196, -0.0636498581687419, 0.611545999829128,
        -0.716277382357703, 0.281810231676672, 0.169639332933653, -0.110244734365096},
       {0.27015115293407, -0.494996248300223, 0.416582873675626, 0.402563900817254,
        -0.658124622592693, 0.0363142782309741, 0.2070261515183, -0.635228496801419}},
      {"RmsProp",
       RmsProp({.learning_rate = 0.125, .rho = 0.875, .epsilon = kEpsilon}),
       {-0.136830680447005, 0.0131352619634272, -0.47130672475628, 1.09907554014169,
        -1.29029633234971, 0.951975793622623, -0.610734710553218, 0.77710240762545},
       {0.27015115293407, -0.494996248300223, 1.00188836734253, 0.36337886869648, -1.13896403372159,
        0.0941560430330932, -0.303570570592554, -1.08553035618059}},
      {"RmsPropMomentum",
       RmsProp({.learning_rate = 0.125, .rho = 0.875, .momentum = 0.5, .epsilon = kEpsilon}),
       {-0.799311030286887, 0.749411473901463, -1.28029317230526, 1.97957141288748,
        -2.24062200704839, 1.96937238139793, -1.6902057948382, 1.89348934791345},
       {0.27015115293407, -0.494996248300223, 1.66013611847828, 0.105854240312156,
        -1.44831669189314, 0.403513150937595, -1.05487284174962, -1.42518538611584}},
      {"RmsPropCentered",
       RmsProp({.learning_rate = 0.125,
                .rho = 0.875,
                .momentum = 0.5,
                .epsilon = kEpsilon,
                .centered = true}),
       {-0.981506353106028, 0.954033028135204, -1.50758599401339, 2.22837784087921,
        -2.50787512846231, 2.24914971844815, -1.97237156954858, 2.15648070370853},
       {0.27015115293407, -0.494996248300223, 1.8445748658989, 0.0431985342300621,
        -1.53036655181047, 0.448694614321829, -1.27883306468727, -1.53624436378826}},
      {"Adadelta",
       Adadelta({.learning_rate = 0.5, .rho = 0.875, .epsilon = kEpsilon}),
       {0.268950758971408, -0.493139380822144, 0.139263429393476, 0.380299938649967,
        -0.459777986887736, 0.00737810957052012, 0.447526971357107, -0.372778903428748},
       {0.27015115293407, -0.494996248300223, 0.146161923847238, 0.378061977456737,
        -0.45865825618389, 0.00223603607833247, 0.450103434456093, -0.386359113226641}},
      {"Ftrl",
       Ftrl({.learning_rate = 0.125, .initial_accumulator = 0.125, .l1 = 0.125, .l2 = 0.25}),
       {0.00971734722797261, -0.0854849871801958, -0.103688935210535, 0.353119934436112,
        -0.362402315121934, 0.229573539196772, -0.210439712885602, 0.233041510297729},
       {0, 0, 0.357480906545598, 0.160224448840379, -0.161423474985563, 0.0129730917590147,
        0.0130969235765535, -0.297108965742206}},
      {"FtrlPower",
       Ftrl({.learning_rate = 0.125,
             .learning_rate_power = -0.75,
             .initial_accumulator = 0.125,
             .l2 = 0.25}),
       {0.0444799296370476, -0.157161143633469, -0.116165606444727, 0.43385991783302,
        -0.450589811919459, 0.278853898213062, -0.235527413180796, 0.250684216554801},
       {0, 0, 0.328382126682559, 0.129521228634804, -0.210173613162021, 0.042418106047294,
        0.094931571534995, -0.300366276351376}},
  };
}

struct Default {
  std::string name;
  OptimizerPtr optimizer;
  std::vector<double> dense;  // After ten steps, in float32.
};

std::vector<Default> Defaults() {
  return {
      {"Sgd",
       Sgd({}),
       {0.259362161, -0.485120952, 0.133067176, 0.384428322, -0.461605966, 0.00669635646,
        0.450886965, -0.378711313}},
      {"Adam",
       Adam({}),
       {0.266418278, -0.491019964, 0.137636378, 0.381334633, -0.460099965, 0.00684921956,
        0.449054927, -0.3752442}},
      {"AdamW",
       AdamW({}),
       {0.266407549, -0.491000295, 0.13763082, 0.381319433, -0.460081577, 0.00684899464,
        0.449036926, -0.37522915}},
      {"Adagrad",
       Adagrad({}),
       {0.26889798, -0.493678182, 0.140448973, 0.37839219, -0.457047164, 0.00368595659, 0.452373445,
        -0.378782064}},
      {"RmsProp",
       RmsProp({}),
       {0.265998751, -0.490639359, 0.137242913, 0.381807536, -0.460734993, 0.00774475047,
        0.447788745, -0.373520672}},
      {"Adadelta",
       Adadelta({}),
       {0.27014941, -0.494994521, 0.141829386, 0.376952827, -0.455566794, 0.00221457612,
        0.453721613, -0.379842073}},
      {"Ftrl",
       Ftrl({}),
       {0.173863441, -0.302835733, 0.0789360851, 0.188957334, -0.183097243, 0.00204967288,
        0.0423691496, 0.000913191761}},
  };
}

std::vector<double> Train(const OptimizerPtr& optimizer, bool is_sparse, int steps,
                          TestGradient (*gradient)(int step),
                          const TestTrainingOptions& options = {}) {
  const auto training =
      TestTraining::Create(optimizer, {{"x", Shape({kRows, kWidth}), Start(), is_sparse}}, options);
  EXPECT_TRUE(training.ok()) << training.status();
  if (!training.ok()) return {};
  for (int step = 0; step < steps; ++step) {
    const absl::Status status = (*training)->Step({gradient(step)});
    EXPECT_TRUE(status.ok()) << status;
  }
  std::vector<double> first;
  for (size_t copy = 0; copy < options.devices.size(); ++copy) {
    const auto value = (*training)->Read("x", static_cast<int>(copy));
    EXPECT_TRUE(value.ok()) << value.status();
    if (!value.ok()) return {};
    if (copy == 0) first = *value;
    EXPECT_EQ(*value, first) << "copy " << copy;
  }
  return first;
}

void ExpectNear(const std::vector<double>& found, const std::vector<double>& wanted,
                double tolerance, const std::string& what) {
  ASSERT_EQ(found.size(), wanted.size()) << what;
  for (size_t i = 0; i < found.size(); ++i) {
    EXPECT_NEAR(found[i], wanted[i], tolerance) << what << ", element " << i;
  }
}

TEST(OptimizersLikeKeras, DenseGradientsGiveTheNumbersOfKeras) {
  for (const Case& c : Cases()) {
    ExpectNear(Train(c.optimizer, false, 6, Dense), c.dense, 1e-12, c.name);
    ExpectNear(Train(c.optimizer, false, 6, Dense, {.dtype = kFloat32}), c.dense, 2e-5,
               c.name + " in float32");
  }
}

TEST(OptimizersLikeKeras, SparseGradientsGiveTheNumbersOfTheDenseOnesThatTheyStandFor) {
  for (const Case& c : Cases()) {
    ExpectNear(Train(c.optimizer, true, 6, Sparse), c.sparse, 1e-12, c.name);
    ExpectNear(Train(c.optimizer, true, 6, Sparse, {.dtype = kFloat32}), c.sparse, 2e-5,
               c.name + " in float32");
  }
}

TEST(OptimizersLikeKeras, SparseAndDenseGradientsGiveTheSameBits) {
  const auto dense = [](int step) { return ToDense(Sparse(step)); };
  for (const Case& c : Cases()) {
    EXPECT_EQ(Train(c.optimizer, true, 6, Sparse), Train(c.optimizer, false, 6, dense)) << c.name;
  }
}

TEST(OptimizersLikeKeras, DefaultsAreThoseOfKeras) {
  for (const Default& d : Defaults()) {
    ExpectNear(Train(d.optimizer, false, 10, Dense, {.dtype = kFloat32}), d.dense, 2e-6, d.name);
  }
}

TEST(OptimizersLikeKeras, CopiesOnAllDevicesAreEqual) {
  for (const Case& c : Cases()) {
    for (const std::string type : {"CPU", "SIM"}) {
      const TestTrainingOptions options = {
          .devices = {"/device:" + type + ":0", "/device:" + type + ":1"}};
      ExpectNear(Train(c.optimizer, false, 6, Dense, options), c.dense, 1e-12, c.name);
      ExpectNear(Train(c.optimizer, true, 6, Sparse, options), c.sparse, 1e-12, c.name);
    }
  }
}

TEST(OptimizersLikeKeras, SmallFloatsAreTrained) {
  for (const Case& c : Cases()) {
    ExpectNear(Train(c.optimizer, false, 6, Dense, {.dtype = kFloat16}), c.dense, 0.02, c.name);
    ExpectNear(Train(c.optimizer, true, 6, Sparse, {.dtype = kFloat16}), c.sparse, 0.02, c.name);
    ExpectNear(Train(c.optimizer, false, 6, Dense, {.dtype = kBfloat16}), c.dense, 0.1, c.name);
  }
}

}  // namespace
}  // namespace tandem::optimizer
