#include "core/io/image.h"

#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "core/base/status.h"

namespace tandem {
namespace {

struct Signature {
  absl::string_view begin;
  const char* name;
};
constexpr Signature kOthers[] = {
    {"GIF8", "GIF"}, {"BM", "BMP"}, {"RIFF", "WebP"}, {"II*", "TIFF"}, {"MM", "TIFF"}};

}  // namespace

absl::StatusOr<Tensor> DecodeImage(absl::string_view bytes, const DecodeImageOptions& options) {
  if (absl::StartsWith(bytes, "\x89PNG")) return DecodePng(bytes, options);
  if (absl::StartsWith(bytes, "\xff\xd8\xff")) return DecodeJpeg(bytes, options);
  for (const Signature& other : kOthers) {
    if (!absl::StartsWith(bytes, other.begin)) continue;
    return errors::Unimplemented("expected a PNG or JPEG image; found one that begins like ",
                                 other.name);
  }
  return errors::InvalidArgument("expected a PNG or JPEG image; found ", bytes.size(),
                                 " bytes that begin with \"", absl::CHexEscape(bytes.substr(0, 8)),
                                 "\"");
}

}  // namespace tandem
