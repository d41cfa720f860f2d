// UnicodeDecode, UnicodeDecodeWithOffsets, UnicodeEncode and UnicodeTranscode: strings to the
// numbers of their characters, and back, and from one encoding to another.
#include <cstdint>
#include <string>
#include <vector>

#include "core/base/status.h"
#include "core/base/utf8.h"
#include "core/kernel/factories.h"
#include "core/op/registry.h"
#include "core/op/shape_context.h"
#include "kernels/ragged/splits.h"
#include "kernels/strings/encoding.h"

namespace tandem::strings {
namespace {

constexpr int64_t kUnknown = PartialShape::kUnknownDim;

// Calls `use(character, first_byte)` for each character of `text`, replaced or left out where bad.
// InvalidArgument: one is bad, and that is an error.
template <typename F>
absl::Status ForEachCharacter(const std::string& text, Encoding encoding, const BadCharacters& bad,
                              const F& use) {
  for (size_t at = 0; at < text.size();) {
    const DecodedCharacter next = Decode(encoding, absl::string_view(text).substr(at));
    if (!bad.IsBad(next)) {
      use(next.value, at);
    } else if (bad.is_strict()) {
      return errors::InvalidArgument(QuotedText(text), " holds no character at byte ", at,
                                     ", or a control character that is not wanted");
    } else if (bad.replaces()) {
      use(bad.replacement(), at);
    }
    at += next.bytes;
  }
  return absl::OkStatus();
}

absl::Status DecodeShape(ShapeContext& c) {
  const PartialShape& input = c.input(0);
  int64_t strings = input.has_rank() ? 1 : kUnknown;
  for (int i = 0; input.has_rank() && i < input.rank(); ++i) {
    strings = strings < 0 || input.dim(i) < 0 ? kUnknown : strings * input.dim(i);
  }
  TANDEM_RETURN_IF_ERROR(c.SetOutput(0, PartialShape({strings < 0 ? kUnknown : strings + 1})));
  for (int i = 1; i < c.num_outputs(); ++i) {
    TANDEM_RETURN_IF_ERROR(c.SetOutput(i, PartialShape({kUnknown})));
  }
  return absl::OkStatus();
}

template <typename T>
absl::Status SetVector(KernelContext& c, int i, const std::vector<T>& values) {
  TANDEM_ASSIGN_OR_RETURN(Tensor * output,
                          c.AllocateOutput(i, Shape({static_cast<int64_t>(values.size())})));
  std::copy(values.begin(), values.end(), output->MutableElements<T>().begin());
  return absl::OkStatus();
}

// With offsets where the op has an output for them.
class DecodeKernel final : public Kernel {
 public:
  absl::Status Init(KernelInit& init) {
    TANDEM_ASSIGN_OR_RETURN(encoding_, ParseEncoding(init.Attr<std::string>("input_encoding")));
    TANDEM_ASSIGN_OR_RETURN(bad_, BadCharacters::Read(init));
    return absl::OkStatus();
  }

  absl::Status Compute(KernelContext& c) override {
    std::vector<int32_t> characters;
    std::vector<int64_t> starts;
    ragged::RowSplits splits = {0};
    for (const std::string& text : c.input(0).Elements<std::string>()) {
      TANDEM_RETURN_IF_ERROR(
          ForEachCharacter(text, encoding_, bad_, [&](char32_t character, size_t at) {
            characters.push_back(static_cast<int32_t>(character));
            starts.push_back(static_cast<int64_t>(at));
          }));
      splits.push_back(static_cast<int64_t>(characters.size()));
    }
    TANDEM_ASSIGN_OR_RETURN(Tensor * ends,
                            c.AllocateOutput(0, Shape({static_cast<int64_t>(splits.size())})));
    TANDEM_RETURN_IF_ERROR(ragged::WriteSplits(splits, ends));
    TANDEM_RETURN_IF_ERROR(SetVector(c, 1, characters));
    return c.num_outputs() > 2 ? SetVector(c, 2, starts) : absl::OkStatus();
  }

 private:
  Encoding encoding_ = Encoding::kUtf8;
  BadCharacters bad_;
};

absl::Status EncodeShape(ShapeContext& c) {
  TANDEM_RETURN_IF_ERROR(c.RequireRank(0, 1));
  TANDEM_RETURN_IF_ERROR(c.RequireRank(1, 1));
  const PartialShape& splits = c.input(1);
  const int64_t ends = splits.has_rank() ? splits.dim(0) : kUnknown;
  return c.SetOutput(0, PartialShape({ends > 0 ? ends - 1 : kUnknown}));
}

class EncodeKernel final : public Kernel {
 public:
  absl::Status Init(KernelInit& init) {
    TANDEM_ASSIGN_OR_RETURN(encoding_, ParseEncoding(init.Attr<std::string>("output_encoding")));
    TANDEM_ASSIGN_OR_RETURN(bad_, BadCharacters::Read(init));
    return absl::OkStatus();
  }

  absl::Status Compute(KernelContext& c) override {
    const auto values = c.input(0).Elements<int32_t>();
    TANDEM_ASSIGN_OR_RETURN(const ragged::RowSplits splits,
                            ragged::ReadSplits(c.input(1), "input_splits"));
    TANDEM_RETURN_IF_ERROR(
        ragged::CheckEnd(splits, "input_splits", static_cast<int64_t>(values.size())));
    TANDEM_ASSIGN_OR_RETURN(Tensor * output, c.AllocateOutput(0, Shape({ragged::NumRows(splits)})));
    const auto texts = output->MutableElements<std::string>();
    for (size_t row = 0; row < texts.size(); ++row) {
      for (int64_t i = splits[row]; i < splits[row + 1]; ++i) {
        const int32_t value = values[static_cast<size_t>(i)];
        if (IsCharacter(value)) {
          Encode(encoding_, static_cast<char32_t>(value), &texts[row]);
        } else if (bad_.is_strict()) {
          return errors::InvalidArgument("value number ", i, ", ", value,
                                         ", is no character of Unicode");
        } else if (bad_.replaces()) {
          Encode(encoding_, bad_.replacement(), &texts[row]);
        }
      }
    }
    return absl::OkStatus();
  }

 private:
  Encoding encoding_ = Encoding::kUtf8;
  BadCharacters bad_;
};

class TranscodeKernel final : public Kernel {
 public:
  absl::Status Init(KernelInit& init) {
    TANDEM_ASSIGN_OR_RETURN(from_, ParseEncoding(init.Attr<std::string>("input_encoding")));
    TANDEM_ASSIGN_OR_RETURN(to_, ParseEncoding(init.Attr<std::string>("output_encoding")));
    TANDEM_ASSIGN_OR_RETURN(bad_, BadCharacters::Read(init));
    return absl::OkStatus();
  }

  absl::Status Compute(KernelContext& c) override {
    const Tensor& input = c.input(0);
    TANDEM_ASSIGN_OR_RETURN(Tensor * output, c.AllocateOutput(0, input.shape()));
    const auto texts = output->MutableElements<std::string>();
    const auto strings = input.Elements<std::string>();
    for (size_t i = 0; i < strings.size(); ++i) {
      TANDEM_RETURN_IF_ERROR(
          ForEachCharacter(strings[i], from_, bad_,
                           [&](char32_t character, size_t) { Encode(to_, character, &texts[i]); }));
    }
    return absl::OkStatus();
  }

 private:
  Encoding from_ = Encoding::kUtf8;
  Encoding to_ = Encoding::kUtf8;
  BadCharacters bad_;
};

constexpr char kDecodeAttrs[] =
    "input_encoding:string; errors:string{strict,replace,ignore}=\"replace\"; "
    "replacement_char:int=65533; replace_control_characters:bool=False; "
    "Tsplits:type{int32,int64}=int64";

TANDEM_OP("UnicodeDecode")
    .Inputs("input:string")
    .Outputs("row_splits:Tsplits, char_values:int32")
    .Attrs(kDecodeAttrs)
    .Shape(DecodeShape)
    .NotDifferentiable()
    .HostMemory({"input", "row_splits"})
    .Cpu(Make<DecodeKernel>());

TANDEM_OP("UnicodeDecodeWithOffsets")
    .Inputs("input:string")
    .Outputs("row_splits:Tsplits, char_values:int32, char_to_byte_starts:int64")
    .Attrs(kDecodeAttrs)
    .Shape(DecodeShape)
    .NotDifferentiable()
    .HostMemory({"input", "row_splits"})
    .Cpu(Make<DecodeKernel>());

TANDEM_OP("UnicodeEncode")
    .Inputs("input_values:int32, input_splits:Tsplits")
    .Outputs("output:string")
    .Attrs(
        "errors:string{ignore,replace,strict}=\"replace\"; "
        "output_encoding:string{UTF-8,UTF-16-BE,UTF-32-BE}; replacement_char:int=65533; "
        "Tsplits:type{int32,int64}=int64")
    .Shape(EncodeShape)
    .NotDifferentiable()
    .HostMemory({"input_values", "input_splits", "output"})
    .Cpu(Make<EncodeKernel>());

TANDEM_OP("UnicodeTranscode")
    .Inputs("input:string")
    .Outputs("output:string")
    .Attrs(
        "input_encoding:string; output_encoding:string{UTF-8,UTF-16-BE,UTF-32-BE}; "
        "errors:string{strict,replace,ignore}=\"replace\"; replacement_char:int=65533; "
        "replace_control_characters:bool=False")
    .Shape(UnchangedShape)
    .NotDifferentiable()
    .HostMemory({"input", "output"})
    .Cpu(Make<TranscodeKernel>());

}  // namespace
}  // namespace tandem::strings
