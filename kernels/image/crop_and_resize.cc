// CropAndResize, CropAndResizeGradImage and CropAndResizeGradBoxes: parts of images, each resized
// to the same size. A box is (y1, x1, y2, x2) in units in which the image's first and last pixel
// are 0 and 1; turned around it flips the crop. Places outside of the image have a value of their
// own. In float32.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <string>
#include <utility>

#include "core/base/status.h"
#include "core/kernel/factories.h"
#include "core/kernel/kernel.h"
#include "core/op/gradient_context.h"
#include "core/op/registry.h"
#include "core/op/shape_context.h"
#include "kernels/image/resize.h"
#include "kernels/nn/tensor_conversion.h"
#include "kernels/nn/vector_math.h"

namespace tandem {
namespace {

struct Crops {
  int64_t batch, height, width, channels;  // Of the images.
  int64_t count;
  int64_t crop_height, crop_width;
  const float* boxes;
  const int32_t* image_of;

  int64_t Image() const { return height * width * channels; }
  int64_t Crop() const { return crop_height * crop_width * channels; }
};

absl::StatusOr<Crops> MakeCrops(const Shape& images, const Tensor& boxes, const Tensor& box_ind,
                                int64_t crop_height, int64_t crop_width) {
  if (images.rank() != 4 || images.dim(1) < 1 || images.dim(2) < 1) {
    return errors::InvalidArgument("images must have rank 4 and pixels, not shape ",
                                   images.DebugString());
  }
  if (!boxes.shape().IsMatrix() || boxes.shape().dim(1) != 4) {
    return errors::InvalidArgument("boxes must be a matrix with 4 columns, not of shape ",
                                   boxes.shape().DebugString());
  }
  if (!box_ind.shape().IsVector() || box_ind.num_elements() != boxes.shape().dim(0)) {
    return errors::InvalidArgument("box_ind must have an element for each of the ",
                                   boxes.shape().dim(0), " boxes, not shape ",
                                   box_ind.shape().DebugString());
  }
  if (crop_height < 1 || crop_width < 1) {
    return errors::InvalidArgument("crops of ", crop_height, " x ", crop_width, " are no images");
  }
  Crops c;
  c.batch = images.dim(0);
  c.height = images.dim(1);
  c.width = images.dim(2);
  c.channels = images.dim(3);
  c.count = boxes.shape().dim(0);
  c.crop_height = crop_height;
  c.crop_width = crop_width;
  TANDEM_RETURN_IF_ERROR(Shape::FromDims({c.count, crop_height, crop_width, c.channels}).status());
  c.boxes = boxes.Elements<float>().data();
  c.image_of = box_ind.Elements<int32_t>().data();
  for (int64_t i = 0; i < c.count; ++i) {
    if (c.image_of[i] < 0 || c.image_of[i] >= c.batch) {
      return errors::OutOfRange("box_ind[", i, "] is ", c.image_of[i], ", outside of [0, ", c.batch,
                                ")");
    }
  }
  return c;
}

// Along one dimension: where in the image pixel `i` of a crop from `low` to `high` lies.
struct Line {
  float low, high;
  int64_t crop, image;

  float Place(int64_t i) const {
    const auto last = static_cast<float>(image - 1);
    if (crop == 1) return 0.5f * (low + high) * last;
    const float scale = (high - low) * last / static_cast<float>(crop - 1);
    return low * last + static_cast<float>(i) * scale;
  }
  // False for what is no number, too.
  bool IsInside(float place) const { return place >= 0 && place <= static_cast<float>(image - 1); }
};
Line Rows(const Crops& c, int64_t box) {
  return {c.boxes[4 * box], c.boxes[4 * box + 2], c.crop_height, c.height};
}
Line Columns(const Crops& c, int64_t box) {
  return {c.boxes[4 * box + 1], c.boxes[4 * box + 3], c.crop_width, c.width};
}

// Calls f(crop offset, y, x) for the pixels of a crop that lie on the image, and g(crop offset) for
// the others, of one row of the crop.
template <typename F, typename G>
void ForEachPixel(const Crops& c, int64_t box, int64_t row, F f, G g) {
  const Line rows = Rows(c, box);
  const Line columns = Columns(c, box);
  const float y = rows.Place(row);
  for (int64_t j = 0; j < c.crop_width; ++j) {
    const int64_t offset = ((box * c.crop_height + row) * c.crop_width + j) * c.channels;
    const float x = columns.Place(j);
    if (rows.IsInside(y) && columns.IsInside(x)) {
      f(offset, y, x);
    } else {
      g(offset);
    }
  }
}

// The four pixels around (y, x), as offsets in the image.
struct Corners {
  Corners(const Crops& c, float y, float x) {
    const auto top = static_cast<int64_t>(std::floor(y));
    const auto bottom = static_cast<int64_t>(std::ceil(y));
    const auto left = static_cast<int64_t>(std::floor(x));
    const auto right = static_cast<int64_t>(std::ceil(x));
    top_left = (top * c.width + left) * c.channels;
    top_right = (top * c.width + right) * c.channels;
    bottom_left = (bottom * c.width + left) * c.channels;
    bottom_right = (bottom * c.width + right) * c.channels;
    down = y - static_cast<float>(top);
    across = x - static_cast<float>(left);
  }
  int64_t top_left, top_right, bottom_left, bottom_right;
  float down, across;
};
int64_t Closest(const Crops& c, float y, float x) {
  return (static_cast<int64_t>(std::round(y)) * c.width + static_cast<int64_t>(std::round(x))) *
         c.channels;
}

template <typename T>
class CropAndResizeKernel : public Kernel {
 public:
  absl::Status Init(KernelInit& init) {
    bilinear_ = init.Attr<std::string>("method") == "bilinear";
    outside_ = init.Attr<float>("extrapolation_value");
    return absl::OkStatus();
  }

  absl::Status Compute(KernelContext& context) override {
    const Tensor& images = context.input(0);
    TANDEM_ASSIGN_OR_RETURN(const Size2 size, SizeArgument(context.input(3), "crop_size"));
    TANDEM_ASSIGN_OR_RETURN(const Crops c, MakeCrops(images.shape(), context.input(1),
                                                     context.input(2), size.height, size.width));
    TANDEM_ASSIGN_OR_RETURN(
        Tensor* const output,
        context.AllocateOutput(0, Shape({c.count, c.crop_height, c.crop_width, c.channels})));
    if (output->num_elements() == 0) return absl::OkStatus();
    const T* const all = images.Elements<T>().data();
    float* const to = output->MutableElements<float>().data();
    context.parallel().For(
        c.count * c.crop_height, 3.0 * static_cast<double>(c.crop_width * c.channels),
        [&](int64_t begin, int64_t end) {
          for (int64_t i = begin; i < end; ++i) {
            const int64_t box = i / c.crop_height;
            const T* const image = all + c.image_of[box] * c.Image();
            ForEachPixel(
                c, box, i % c.crop_height,
                [&](int64_t offset, float y, float x) { Take(c, image, y, x, to + offset); },
                [&](int64_t offset) { std::fill_n(to + offset, c.channels, outside_); });
          }
        });
    return absl::OkStatus();
  }

 private:
  void Take(const Crops& c, const T* image, float y, float x, float* to) const {
    if (!bilinear_) {
      const T* const from = image + Closest(c, y, x);
      for (int64_t k = 0; k < c.channels; ++k) to[k] = static_cast<float>(from[k]);
      return;
    }
    const Corners at(c, y, x);
    for (int64_t k = 0; k < c.channels; ++k) {
      const auto value = [&](int64_t offset) { return static_cast<float>(image[offset + k]); };
      const float a = value(at.top_left);
      const float b = value(at.bottom_left);
      const float top = a + (value(at.top_right) - a) * at.across;
      const float bottom = b + (value(at.bottom_right) - b) * at.across;
      to[k] = top + (bottom - top) * at.down;
    }
  }

  bool bilinear_ = true;
  float outside_ = 0;
};

// The gradient op's crops, whose gradients are input 0.
absl::StatusOr<Crops> CropsOfGradients(const Tensor& gradients, const Shape& images,
                                       const Tensor& boxes, const Tensor& box_ind) {
  const Shape& shape = gradients.shape();
  if (shape.rank() != 4) {
    return errors::InvalidArgument("grads must have rank 4, not shape ", shape.DebugString());
  }
  TANDEM_ASSIGN_OR_RETURN(const Crops c,
                          MakeCrops(images, boxes, box_ind, shape.dim(1), shape.dim(2)));
  if (shape.dim(0) != c.count || shape.dim(3) != c.channels) {
    return errors::InvalidArgument("grads of shape ", shape.DebugString(), " are not those of ",
                                   c.count, " crops of images of shape ", images.DebugString());
  }
  return c;
}

template <typename T>
class CropAndResizeGradImageKernel : public Kernel {
 public:
  absl::Status Init(KernelInit& init) {
    bilinear_ = init.Attr<std::string>("method") == "bilinear";
    return absl::OkStatus();
  }

  absl::Status Compute(KernelContext& context) override {
    const Tensor& size = context.input(3);
    if (!size.shape().IsVector() || size.num_elements() != 4) {
      return errors::InvalidArgument("image_size must be a vector of 4 sizes, not of shape ",
                                     size.shape().DebugString());
    }
    Shape::Dims dims;
    for (const int32_t each : size.Elements<int32_t>()) dims.push_back(each);
    TANDEM_ASSIGN_OR_RETURN(const Shape shape, Shape::FromDims(dims));
    TANDEM_ASSIGN_OR_RETURN(const Crops c, CropsOfGradients(context.input(0), shape,
                                                            context.input(1), context.input(2)));
    TANDEM_ASSIGN_OR_RETURN(Tensor* const output, context.AllocateOutput(0, shape));
    Tensor sums = *output;
    if (output->dtype() != DataTypeOf<C>()) {
      TANDEM_ASSIGN_OR_RETURN(sums, context.AllocateTemporary(DataTypeOf<C>(), shape));
    }
    SetZero(sums);
    const float* const dy = context.input(0).Elements<float>().data();
    C* const all = sums.MutableElements<C>().data();
    // Several boxes may lie on one image.
    for (int64_t box = 0; box < c.count; ++box) {
      C* const image = all + c.image_of[box] * c.Image();
      for (int64_t row = 0; row < c.crop_height; ++row) {
        ForEachPixel(
            c, box, row,
            [&](int64_t offset, float y, float x) { Spread(c, dy + offset, y, x, image); },
            [](int64_t) {});
      }
    }
    if constexpr (!std::is_same_v<C, T>) FromFloat(sums, *output, context.parallel());
    return absl::OkStatus();
  }

 private:
  using C = ComputeType<T>;

  void Spread(const Crops& c, const float* dy, float y, float x, C* image) const {
    if (!bilinear_) {
      C* const to = image + Closest(c, y, x);
      for (int64_t k = 0; k < c.channels; ++k) to[k] += static_cast<C>(dy[k]);
      return;
    }
    const Corners at(c, y, x);
    for (int64_t k = 0; k < c.channels; ++k) {
      const float top = (1 - at.down) * dy[k];
      const float bottom = at.down * dy[k];
      image[at.top_left + k] += static_cast<C>((1 - at.across) * top);
      image[at.top_right + k] += static_cast<C>(at.across * top);
      image[at.bottom_left + k] += static_cast<C>((1 - at.across) * bottom);
      image[at.bottom_right + k] += static_cast<C>(at.across * bottom);
    }
  }

  bool bilinear_ = true;
};

template <typename T>
class CropAndResizeGradBoxesKernel : public Kernel {
 public:
  absl::Status Compute(KernelContext& context) override {
    const Tensor& images = context.input(1);
    TANDEM_ASSIGN_OR_RETURN(const Crops c, CropsOfGradients(context.input(0), images.shape(),
                                                            context.input(2), context.input(3)));
    TANDEM_ASSIGN_OR_RETURN(Tensor* const output, context.AllocateOutput(0, Shape({c.count, 4})));
    SetZero(*output);
    const float* const dy = context.input(0).Elements<float>().data();
    const T* const all = images.Elements<T>().data();
    float* const to = output->MutableElements<float>().data();
    context.parallel().For(c.count, 5.0 * static_cast<double>(c.Crop()),
                           [&](int64_t begin, int64_t end) {
                             for (int64_t box = begin; box < end; ++box) {
                               AddBox(c, box, dy, all + c.image_of[box] * c.Image(), to + 4 * box);
                             }
                           });
    return absl::OkStatus();
  }

 private:
  static void AddBox(const Crops& c, int64_t box, const float* dy, const T* image, float* to) {
    const Line rows = Rows(c, box);
    const Line columns = Columns(c, box);
    for (int64_t row = 0; row < c.crop_height; ++row) {
      ForEachPixel(
          c, box, row,
          [&](int64_t offset, float y, float x) {
            const Corners at(c, y, x);
            float by_y = 0;
            float by_x = 0;
            for (int64_t k = 0; k < c.channels; ++k) {
              const auto value = [&](int64_t corner) {
                return static_cast<float>(image[corner + k]);
              };
              const float a = value(at.top_left);
              const float b = value(at.top_right);
              const float d = value(at.bottom_left);
              const float e = value(at.bottom_right);
              by_y += dy[offset + k] * ((1 - at.across) * (d - a) + at.across * (e - b));
              by_x += dy[offset + k] * ((1 - at.down) * (b - a) + at.down * (e - d));
            }
            AddLine(rows, row, by_y, to[0], to[2]);
            AddLine(columns, offset / c.channels % c.crop_width, by_x, to[1], to[3]);
          },
          [](int64_t) {});
    }
  }
  // `gradient` is that of Place(i).
  static void AddLine(const Line& line, int64_t i, float gradient, float& low, float& high) {
    const auto last = static_cast<float>(line.image - 1);
    const float part =
        line.crop == 1 ? 0.5f : static_cast<float>(i) / static_cast<float>(line.crop - 1);
    low += gradient * last * (1 - part);
    high += gradient * last * part;
  }
};

absl::Status CropShape(ShapeContext& c) {
  TANDEM_RETURN_IF_ERROR(c.RequireRank(1, 2));
  TANDEM_RETURN_IF_ERROR(c.RequireRank(2, 1));
  TANDEM_RETURN_IF_ERROR(c.RequireRank(0, 4));
  TANDEM_RETURN_IF_ERROR(c.RequireRank(3, 1));
  TANDEM_ASSIGN_OR_RETURN(const PartialShape sizes, c.InputAsShape(3));
  TANDEM_ASSIGN_OR_RETURN(const PartialShape two, sizes.MergeWith(PartialShape::UnknownOfRank(2)));
  constexpr int64_t kUnknown = PartialShape::kUnknownDim;
  return c.SetOutput(
      0, PartialShape({c.input(1).has_rank() ? c.input(1).dim(0) : kUnknown, two.dim(0), two.dim(1),
                       c.input(0).has_rank() ? c.input(0).dim(3) : kUnknown}));
}

absl::Status CropAndResizeGradient(GradientContext& g) {
  const Output dy = g.OutputGradient(0);
  const Output image = g.input(0);
  const DataType type = RemoveReference(image.dtype());
  if (type == kFloat16 || type == kFloat32 || type == kFloat64) {
    g.SetInputGradient(
        0, g.Call("CropAndResizeGradImage", {dy, g.input(1), g.input(2), g.Call("Shape", {image})},
                  {{"T", type}, {"method", g.Attr<std::string>("method")}}));
  }
  // Of bilinear crops, whatever the method.
  g.SetInputGradient(1, g.Call("CropAndResizeGradBoxes", {dy, image, g.input(1), g.input(2)}));
  return absl::OkStatus();
}

TANDEM_OP("CropAndResize")
    .Inputs("image:T, boxes:float32, box_ind:int32, crop_size:int32")
    .Outputs("crops:float32")
    .Attrs(
        "T:type{uint8,uint16,int8,int16,int32,int64,float16,float32,float64}; "
        "method:string{bilinear,nearest}=bilinear; extrapolation_value:float=0.0")
    .HostMemory({"crop_size"})
    .Shape(CropShape)
    .Gradient(CropAndResizeGradient)
    .Cpu(ByType<CropAndResizeKernel, float, double, Float16, uint8_t, uint16_t, int8_t, int16_t,
                int32_t, int64_t>("T"));

TANDEM_OP("CropAndResizeGradImage")
    .Inputs("grads:float32, boxes:float32, box_ind:int32, image_size:int32")
    .Outputs("output:T")
    .Attrs("T:type{float32,float16,float64}; method:string{bilinear,nearest}=bilinear")
    .HostMemory({"image_size"})
    .Shape([](ShapeContext& c) {
      TANDEM_ASSIGN_OR_RETURN(const PartialShape size, c.InputAsShape(3));
      TANDEM_ASSIGN_OR_RETURN(PartialShape shape, size.MergeWith(PartialShape::UnknownOfRank(4)));
      return c.SetOutput(0, std::move(shape));
    })
    .Cpu(ByType<CropAndResizeGradImageKernel, float, double, Float16>("T"));

TANDEM_OP("CropAndResizeGradBoxes")
    .Inputs("grads:float32, image:T, boxes:float32, box_ind:int32")
    .Outputs("output:float32")
    .Attrs(
        "T:type{uint8,uint16,int8,int16,int32,int64,float16,float32,float64}; "
        "method:string{bilinear}=bilinear")
    .Shape([](ShapeContext& c) { return c.SetOutput(0, c.input(2)); })
    .Cpu(ByType<CropAndResizeGradBoxesKernel, float, double, Float16, uint8_t, uint16_t, int8_t,
                int16_t, int32_t, int64_t>("T"));

}  // namespace
}  // namespace tandem
