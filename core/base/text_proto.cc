#include "core/base/text_proto.h"

#include "absl/strings/str_cat.h"
#include "core/base/status.h"
#include "google/protobuf/io/tokenizer.h"
#include "google/protobuf/text_format.h"

namespace tandem {
namespace {

class FirstError final : public google::protobuf::io::ErrorCollector {
 public:
  void AddError(int line, google::protobuf::io::ColumnNumber column,
                const std::string& message) override {
    if (!text_.empty()) return;
    text_ = absl::StrCat("line ", line + 1, ", column ", column + 1, ": ", message);
  }
  const std::string& text() const { return text_; }

 private:
  std::string text_;
};

}  // namespace

absl::Status ParseTextProto(const std::string& text, google::protobuf::Message* message,
                            int max_depth) {
  FirstError error;
  google::protobuf::TextFormat::Parser parser;
  parser.SetRecursionLimit(max_depth);
  parser.RecordErrorsTo(&error);
  if (parser.ParseFromString(text, message)) return absl::OkStatus();
  return errors::InvalidArgument(error.text());
}

}  // namespace tandem
