// StringSplitV2 and StringSplit: vectors of strings cut into pieces, which are the rows of a sparse
// matrix.
#include <algorithm>
#include <string>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/string_view.h"
#include "core/base/status.h"
#include "core/kernel/factories.h"
#include "core/op/registry.h"
#include "core/op/shape_context.h"

namespace tandem::strings {
namespace {

using Pieces = std::vector<absl::string_view>;

// The pieces of one string after the other, and how many each has.
struct Rows {
  Pieces pieces;
  std::vector<int64_t> sizes;
};

absl::Status SplitShape(ShapeContext& c) {
  TANDEM_RETURN_IF_ERROR(c.RequireRank(0, 1));
  TANDEM_RETURN_IF_ERROR(c.RequireRank(1, 0));
  constexpr int64_t kUnknown = PartialShape::kUnknownDim;
  TANDEM_RETURN_IF_ERROR(c.SetOutput(0, PartialShape({kUnknown, 2})));
  TANDEM_RETURN_IF_ERROR(c.SetOutput(1, PartialShape({kUnknown})));
  return c.SetOutput(2, PartialShape({2}));
}

absl::Status CheckInputs(KernelContext& c, absl::string_view separator) {
  if (!c.input(0).shape().IsVector()) {
    return errors::InvalidArgument("input must be a vector; it has shape ",
                                   c.input(0).shape().DebugString());
  }
  if (c.input(1).shape().IsScalar()) return absl::OkStatus();
  return errors::InvalidArgument(separator, " must be a scalar; it has shape ",
                                 c.input(1).shape().DebugString());
}

absl::Status SetOutputs(KernelContext& c, const Rows& rows) {
  const auto count = static_cast<int64_t>(rows.pieces.size());
  TANDEM_ASSIGN_OR_RETURN(Tensor * indices, c.AllocateOutput(0, Shape({count, 2})));
  TANDEM_ASSIGN_OR_RETURN(Tensor * values, c.AllocateOutput(1, Shape({count})));
  TANDEM_ASSIGN_OR_RETURN(Tensor * shape, c.AllocateOutput(2, Shape({2})));
  int64_t* index = indices->MutableElements<int64_t>().data();
  int64_t widest = 0;
  for (size_t row = 0; row < rows.sizes.size(); ++row) {
    widest = std::max(widest, rows.sizes[row]);
    for (int64_t column = 0; column < rows.sizes[row]; ++column) {
      *index++ = static_cast<int64_t>(row);
      *index++ = column;
    }
  }
  const auto strings = values->MutableElements<std::string>();
  for (size_t i = 0; i < strings.size(); ++i) strings[i] = std::string(rows.pieces[i]);
  shape->MutableElements<int64_t>()[0] = static_cast<int64_t>(rows.sizes.size());
  shape->MutableElements<int64_t>()[1] = widest;
  return absl::OkStatus();
}

absl::string_view WithoutLeadingBlanks(absl::string_view text) {
  return absl::StripLeadingAsciiWhitespace(text);
}

// At runs of blanks; those at the ends do not count. After `limit` cuts (0: no limit) the rest is
// one piece, also an empty one.
void SplitAtBlanks(absl::string_view text, int64_t limit, Pieces* pieces) {
  int64_t cuts = 0;
  for (text = WithoutLeadingBlanks(text); !text.empty(); text = WithoutLeadingBlanks(text)) {
    if (limit > 0 && cuts == limit) break;
    size_t end = 0;
    while (end < text.size() && !absl::ascii_isspace(static_cast<unsigned char>(text[end]))) ++end;
    pieces->push_back(text.substr(0, end));
    text.remove_prefix(end);
    ++cuts;
  }
  if (limit > 0 && cuts == limit) pieces->push_back(text);
}

// At each `separator`; empty pieces count.
void SplitAt(absl::string_view text, absl::string_view separator, int64_t limit, Pieces* pieces) {
  for (int64_t cuts = 0; limit <= 0 || cuts < limit; ++cuts) {
    const size_t end = text.find(separator);
    if (end == absl::string_view::npos) break;
    pieces->push_back(text.substr(0, end));
    text.remove_prefix(end + separator.size());
  }
  pieces->push_back(text);
}

class SplitV2Kernel final : public Kernel {
 public:
  absl::Status Init(KernelInit& init) {
    limit_ = init.Attr<int64_t>("maxsplit");
    return absl::OkStatus();
  }

  absl::Status Compute(KernelContext& c) override {
    TANDEM_RETURN_IF_ERROR(CheckInputs(c, "sep"));
    const std::string& separator = c.input(1).ScalarValue<std::string>();
    Rows rows;
    for (const std::string& text : c.input(0).Elements<std::string>()) {
      const size_t before = rows.pieces.size();
      if (limit_ == 0) {
        rows.pieces.push_back(text);
      } else if (separator.empty()) {
        SplitAtBlanks(text, limit_, &rows.pieces);
      } else {
        SplitAt(text, separator, limit_, &rows.pieces);
      }
      rows.sizes.push_back(static_cast<int64_t>(rows.pieces.size() - before));
    }
    return SetOutputs(c, rows);
  }

 private:
  int64_t limit_ = -1;
};

// At each byte that is one of `delimiters`; without any, after each byte. An empty string has no
// pieces, not even an empty one.
void SplitAtAnyOf(absl::string_view text, absl::string_view delimiters, bool skip_empty,
                  Pieces* pieces) {
  const auto add = [&](absl::string_view piece) {
    if (!skip_empty || !piece.empty()) pieces->push_back(piece);
  };
  if (delimiters.empty()) {
    for (size_t i = 0; i < text.size(); ++i) pieces->push_back(text.substr(i, 1));
    return;
  }
  if (text.empty()) return;
  while (true) {
    const size_t end = text.find_first_of(delimiters);
    add(text.substr(0, end));
    if (end == absl::string_view::npos) return;
    text.remove_prefix(end + 1);
  }
}

class SplitKernel final : public Kernel {
 public:
  absl::Status Init(KernelInit& init) {
    skip_empty_ = init.Attr<bool>("skip_empty");
    return absl::OkStatus();
  }

  absl::Status Compute(KernelContext& c) override {
    TANDEM_RETURN_IF_ERROR(CheckInputs(c, "delimiter"));
    const std::string& delimiters = c.input(1).ScalarValue<std::string>();
    Rows rows;
    for (const std::string& text : c.input(0).Elements<std::string>()) {
      const size_t before = rows.pieces.size();
      SplitAtAnyOf(text, delimiters, skip_empty_, &rows.pieces);
      rows.sizes.push_back(static_cast<int64_t>(rows.pieces.size() - before));
    }
    return SetOutputs(c, rows);
  }

 private:
  bool skip_empty_ = true;
};

TANDEM_OP("StringSplitV2")
    .Inputs("input:string, sep:string")
    .Outputs("indices:int64, values:string, shape:int64")
    .Attrs("maxsplit:int=-1")
    .Shape(SplitShape)
    .NotDifferentiable()
    .HostMemory({"input", "sep", "indices", "values", "shape"})
    .Cpu(Make<SplitV2Kernel>());

TANDEM_OP("StringSplit")
    .Inputs("input:string, delimiter:string")
    .Outputs("indices:int64, values:string, shape:int64")
    .Attrs("skip_empty:bool=True")
    .Shape(SplitShape)
    .NotDifferentiable()
    .HostMemory({"input", "delimiter", "indices", "values", "shape"})
    .Cpu(Make<SplitKernel>());

}  // namespace
}  // namespace tandem::strings
