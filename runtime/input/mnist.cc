// Mnist: the handwritten digits of Y. LeCun, C. Cortes and C. Burges, or a set in the same form.
// Attributes: directory, split (train, test), label_type (int32, int64).
#include "core/base/status.h"
#include "runtime/input/idx_file.h"
#include "runtime/input/opened_stage.h"
#include "runtime/input/table.h"

namespace tandem::data {
namespace {

constexpr IdxContents kImages = {0x00000803, "images: uint8, 3 dimensions"};
constexpr IdxContents kLabels = {0x00000801, "labels: uint8, 1 dimension"};
constexpr int64_t kSide = 28;
constexpr int kClasses = 10;
constexpr int64_t kLabelsBegin = 8;  // Offset of the first label.

// REQUIRES: `in` is uint8.
template <typename T>
absl::StatusOr<Tensor> Convert(const Tensor& in) {
  TANDEM_ASSIGN_OR_RETURN(Tensor out, Tensor::Create(DataTypeOf<T>(), in.shape()));
  const absl::Span<const uint8_t> from = in.Elements<uint8_t>();
  std::copy(from.begin(), from.end(), out.MutableElements<T>().begin());
  return out;
}

absl::StatusOr<Tensor> Read(const std::string& path, const IdxContents& contents) {
  absl::StatusOr<Tensor> tensor = ReadIdxFile(path, contents);
  if (absl::IsNotFound(tensor.status())) {
    return errors::NotFound("Mnist: ", tensor.status().message(),
                            "; the directory must have train-images-idx3-ubyte, "
                            "train-labels-idx1-ubyte, t10k-images-idx3-ubyte and "
                            "t10k-labels-idx1-ubyte, plain or with .gz (the source tree has them "
                            "in tools/datasets/mnist)");
  }
  if (!tensor.ok()) return WithContext(tensor.status(), "Mnist");
  return tensor;
}

absl::StatusOr<OpenedStagePtr> OpenMnist(const Stage& stage) {
  TANDEM_ASSIGN_OR_RETURN(const std::string directory, stage.String("directory"));
  TANDEM_ASSIGN_OR_RETURN(const std::string split, stage.String("split"));
  TANDEM_ASSIGN_OR_RETURN(const int64_t label_type, stage.Int("label_type"));
  if (split != "train" && split != "test") {
    return errors::InvalidArgument("Mnist: the split is '", split, "', expected train or test");
  }
  const DataType type = static_cast<DataType>(label_type);
  if (type != kInt32 && type != kInt64) {
    return errors::InvalidArgument("Mnist: the type of labels is ", DataTypeName(type),
                                   ", expected int32 or int64");
  }
  const std::string prefix = absl::StrCat(directory, split == "train" ? "/train-" : "/t10k-");
  const std::string images_path = prefix + "images-idx3-ubyte";
  const std::string labels_path = prefix + "labels-idx1-ubyte";
  TANDEM_ASSIGN_OR_RETURN(const Tensor images, Read(images_path, kImages));
  TANDEM_ASSIGN_OR_RETURN(const Tensor labels, Read(labels_path, kLabels));
  if (images.shape().dim(1) != kSide || images.shape().dim(2) != kSide) {
    return errors::InvalidArgument("Mnist: ", images_path, ", offset 8: found images of ",
                                   images.shape().dim(1), "x", images.shape().dim(2), ", expected ",
                                   kSide, "x", kSide);
  }
  if (labels.shape().dim(0) != images.shape().dim(0)) {
    return errors::InvalidArgument("Mnist: ", labels_path, ", offset 4: found ",
                                   labels.shape().dim(0), " labels, expected ",
                                   images.shape().dim(0), " as there are images in ", images_path);
  }
  const absl::Span<const uint8_t> values = labels.Elements<uint8_t>();
  for (size_t i = 0; i < values.size(); ++i) {
    if (values[i] >= kClasses) {
      return errors::InvalidArgument("Mnist: ", labels_path, ", offset ",
                                     kLabelsBegin + static_cast<int64_t>(i), ": found the label ",
                                     static_cast<int>(values[i]), ", expected 0 to ", kClasses - 1);
    }
  }
  TANDEM_ASSIGN_OR_RETURN(Tensor converted,
                          type == kInt32 ? Convert<int32_t>(labels) : Convert<int64_t>(labels));
  std::vector<Column> columns;
  columns.push_back({images, Shape({kSide, kSide, 1}), /*scale_to_unit=*/true});
  columns.push_back({std::move(converted), Shape()});
  return MakeTableStage("Mnist", std::make_unique<ColumnRows>(std::move(columns)));
}

const bool registered = RegisterStage("Mnist", /*inputs=*/0, OpenMnist);

}  // namespace
}  // namespace tandem::data
