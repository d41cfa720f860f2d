// Substr: a part of each string, by position and length in bytes or in characters.
#include <algorithm>
#include <string>

#include "core/base/status.h"
#include "core/base/utf8.h"
#include "core/kernel/factories.h"
#include "core/op/registry.h"
#include "core/op/shape_context.h"
#include "kernels/common/broadcast.h"
#include "kernels/strings/unicode.h"

namespace tandem::strings {
namespace {

absl::Status SubstrShape(ShapeContext& c) {
  TANDEM_RETURN_IF_ERROR(c.input(1).MergeWith(c.input(2)).status());
  TANDEM_ASSIGN_OR_RETURN(PartialShape shape, BroadcastShapes(c.input(0), c.input(1)));
  return c.SetOutput(0, std::move(shape));
}

// Bytes [begin, begin + size) of a string.
struct Part {
  size_t begin = 0;
  size_t size = 0;
};

// `position` counts from the end when it is negative. A negative length takes all that follows.
// False: the position lies outside of the string.
bool PartInBytes(absl::string_view text, int64_t position, int64_t length, Part* part) {
  const auto size = static_cast<int64_t>(text.size());
  if (position < -size || position > size) return false;
  const int64_t begin = position < 0 ? position + size : position;
  part->begin = static_cast<size_t>(begin);
  part->size = static_cast<size_t>(length < 0 ? size - begin : std::min(length, size - begin));
  return true;
}

// The same in characters, but that a negative length takes nothing.
bool PartInCharacters(absl::string_view text, int64_t position, int64_t length, Part* part) {
  size_t begin = position < 0 ? text.size() : 0;
  for (int64_t i = 0; i < position; ++i) {
    if (begin == text.size()) return false;
    begin = NextCharacter(text, begin);
  }
  for (int64_t i = 0; i > position; --i) {
    if (begin == 0) return false;
    begin = CharacterBefore(text, begin);
  }
  size_t end = begin;
  for (int64_t i = 0; i < length && end < text.size(); ++i) end = NextCharacter(text, end);
  *part = {begin, end - begin};
  return true;
}

template <typename T>
class SubstrKernel final : public Kernel {
 public:
  absl::Status Init(KernelInit& init) {
    in_characters_ = init.Attr<std::string>("unit") == "UTF8_CHAR";
    return absl::OkStatus();
  }

  absl::Status Compute(KernelContext& c) override {
    const Tensor& input = c.input(0);
    if (c.input(1).shape() != c.input(2).shape()) {
      return errors::InvalidArgument("pos has shape ", c.input(1).shape().DebugString(), ", len ",
                                     c.input(2).shape().DebugString(), "; they must be the same");
    }
    TANDEM_ASSIGN_OR_RETURN(const BroadcastPlan plan,
                            BroadcastPlan::Make({&input.shape(), &c.input(1).shape()}));
    TANDEM_ASSIGN_OR_RETURN(Tensor * output, c.AllocateOutput(0, plan.output_shape()));
    const auto strings = input.Elements<std::string>();
    const auto positions = c.input(1).Elements<T>();
    const auto lengths = c.input(2).Elements<T>();
    const auto parts = output->MutableElements<std::string>();
    for (int64_t i = 0; i < plan.num_elements(); ++i) {
      const std::string& text = strings[static_cast<size_t>(plan.InputIndex(0, i))];
      const auto at = static_cast<size_t>(plan.InputIndex(1, i));
      const int64_t position = positions[at];
      const int64_t length = lengths[at];
      Part part;
      if (!(in_characters_ ? PartInCharacters(text, position, length, &part)
                           : PartInBytes(text, position, length, &part))) {
        return errors::InvalidArgument("position ", position, " lies outside of ", QuotedText(text),
                                       ", element ", i, ", which has ",
                                       in_characters_ ? CountCharacters(text) : text.size(),
                                       in_characters_ ? " characters" : " bytes");
      }
      parts[static_cast<size_t>(i)] = text.substr(part.begin, part.size);
    }
    return absl::OkStatus();
  }

 private:
  bool in_characters_ = false;
};

TANDEM_OP("Substr")
    .Inputs("input:string, pos:T, len:T")
    .Outputs("output:string")
    .Attrs("T:type{int32,int64}; unit:string{BYTE,UTF8_CHAR}=\"BYTE\"")
    .Shape(SubstrShape)
    .NotDifferentiable()
    .HostMemory({"input", "pos", "len", "output"})
    .Cpu(ByType<SubstrKernel, int32_t, int64_t>("T"));

}  // namespace
}  // namespace tandem::strings
