// StringNGrams: for each row of a ragged tensor of strings, all runs of so many neighbours joined.
//
// A row is first padded at both ends, by at most one string less than a run has, so that no run is
// of padding alone.
#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "core/base/status.h"
#include "core/kernel/factories.h"
#include "core/op/registry.h"
#include "core/op/shape_context.h"
#include "kernels/ragged/splits.h"

namespace tandem::strings {
namespace {

absl::Status NGramsShape(ShapeContext& c) {
  TANDEM_RETURN_IF_ERROR(c.RequireRank(0, 1));
  TANDEM_RETURN_IF_ERROR(c.RequireRank(1, 1));
  TANDEM_RETURN_IF_ERROR(c.SetOutput(0, PartialShape({PartialShape::kUnknownDim})));
  return c.SetOutput(1, c.input(1));
}

class NGramsKernel final : public Kernel {
 public:
  absl::Status Init(KernelInit& init) {
    separator_ = init.Attr<std::string>("separator");
    left_pad_ = init.Attr<std::string>("left_pad");
    right_pad_ = init.Attr<std::string>("right_pad");
    pad_width_ = init.Attr<int64_t>("pad_width");
    keeps_short_rows_ = init.Attr<bool>("preserve_short_sequences");
    widths_ = init.Attr<std::vector<int64_t>>("ngram_widths");
    for (const int64_t width : widths_) {
      if (width >= 1 && width <= kMaxWidth) continue;
      return errors::InvalidArgument("ngram_widths hold ", width, "; between 1 and ", kMaxWidth,
                                     " are wanted");
    }
    return absl::OkStatus();
  }

  absl::Status Compute(KernelContext& c) override {
    if (!c.input(0).shape().IsVector()) {
      return errors::InvalidArgument("data must be a vector; it has shape ",
                                     c.input(0).shape().DebugString());
    }
    const auto data = c.input(0).Elements<std::string>();
    const auto size = static_cast<int64_t>(data.size());
    TANDEM_ASSIGN_OR_RETURN(Tensor * output_splits, c.AllocateOutput(1, c.input(1).shape()));
    // No splits at all are no rows.
    ragged::RowSplits splits;
    if (c.input(1).num_elements() > 0 || size > 0) {
      TANDEM_ASSIGN_OR_RETURN(splits, ragged::ReadSplits(c.input(1), "data_splits"));
      TANDEM_RETURN_IF_ERROR(ragged::CheckEnd(splits, "data_splits", size));
    }
    std::vector<std::string> ngrams;
    ragged::RowSplits ends;
    if (!splits.empty()) ends.push_back(0);
    for (size_t row = 1; row < splits.size(); ++row) {
      const auto begin = static_cast<size_t>(splits[row - 1]);
      AddRow(data.subspan(begin, static_cast<size_t>(splits[row]) - begin), &ngrams);
      ends.push_back(static_cast<int64_t>(ngrams.size()));
    }
    TANDEM_RETURN_IF_ERROR(ragged::WriteSplits(ends, output_splits));
    TANDEM_ASSIGN_OR_RETURN(Tensor * output,
                            c.AllocateOutput(0, Shape({static_cast<int64_t>(ngrams.size())})));
    std::move(ngrams.begin(), ngrams.end(), output->MutableElements<std::string>().begin());
    return absl::OkStatus();
  }

 private:
  // Longer runs are asked for by nobody, and padding makes strings of them from nothing.
  static constexpr int64_t kMaxWidth = 1 << 10;

  using Row = absl::Span<const std::string>;

  int64_t Padding(int64_t width) const {
    return pad_width_ < 0 ? width - 1 : std::min(pad_width_, width - 1);
  }

  void AddRow(Row row, std::vector<std::string>* ngrams) const {
    const auto length = static_cast<int64_t>(row.size());
    const size_t before = ngrams->size();
    for (const int64_t width : widths_) {
      const int64_t padding = Padding(width);
      for (int64_t first = -padding; first + width <= length + padding; ++first) {
        ngrams->push_back(Join(row, first, first + width));
      }
    }
    if (keeps_short_rows_ && ngrams->size() == before && length > 0) {
      const int64_t padding = std::max<int64_t>(0, pad_width_);
      ngrams->push_back(Join(row, -padding, length + padding));
    }
  }

  // The strings [begin, end) of a row; outside of it is padding.
  std::string Join(Row row, int64_t begin, int64_t end) const {
    std::string text;
    for (int64_t i = begin; i < end; ++i) {
      if (i > begin) text += separator_;
      text += i < 0                                   ? left_pad_
              : i >= static_cast<int64_t>(row.size()) ? right_pad_
                                                      : row[static_cast<size_t>(i)];
    }
    return text;
  }

  std::string separator_;
  std::string left_pad_;
  std::string right_pad_;
  int64_t pad_width_ = 0;
  bool keeps_short_rows_ = false;
  std::vector<int64_t> widths_;
};

TANDEM_OP("StringNGrams")
    .Inputs("data:string, data_splits:Tsplits")
    .Outputs("ngrams:string, ngrams_splits:Tsplits")
    .Attrs(
        "separator:string; ngram_widths:list(int)>=0; left_pad:string; right_pad:string; "
        "pad_width:int; preserve_short_sequences:bool; Tsplits:type{int32,int64}=int64")
    .Shape(NGramsShape)
    .NotDifferentiable()
    .HostMemory({"data", "data_splits", "ngrams", "ngrams_splits"})
    .Cpu(Make<NGramsKernel>());

}  // namespace
}  // namespace tandem::strings
