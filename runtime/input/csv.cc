// Csv: a scalar for each field of a record. Attributes: paths, types, header, delimiter.
//
// The format is that of RFC 4180: a field in double quotes may contain delimiters, line ends and
// doubled double quotes.
#include "absl/strings/numbers.h"
#include "absl/strings/strip.h"
#include "core/base/status.h"
#include "proto/input.pb.h"
#include "runtime/input/file_reader.h"
#include "runtime/input/line_files.h"
#include "runtime/input/opened_stage.h"

namespace tandem::data {
namespace {

struct Format {
  std::vector<std::string> paths;
  std::vector<DataType> types;
  bool header;
  char delimiter;
};

template <typename T>
absl::optional<Tensor> Parsed(bool ok, T value) {
  if (!ok) return absl::nullopt;
  return Tensor::Scalar<T>(value);
}

// Nothing: `text` is no value of `type`.
absl::optional<Tensor> ParseField(DataType type, const std::string& text) {
  switch (type) {
    case DataType::kString:
      return Tensor::Scalar<std::string>(text);
    case DataType::kFloat32: {
      float value = 0;
      const bool ok = absl::SimpleAtof(text, &value);
      return Parsed(ok, value);
    }
    case DataType::kFloat64: {
      double value = 0;
      const bool ok = absl::SimpleAtod(text, &value);
      return Parsed(ok, value);
    }
    case DataType::kInt32: {
      int32_t value = 0;
      const bool ok = absl::SimpleAtoi(text, &value);
      return Parsed(ok, value);
    }
    case DataType::kInt64: {
      int64_t value = 0;
      const bool ok = absl::SimpleAtoi(text, &value);
      return Parsed(ok, value);
    }
    case DataType::kBool: {
      bool value = false;
      const bool ok = absl::SimpleAtob(text, &value);
      return Parsed(ok, value);
    }
    default:
      return absl::nullopt;
  }
}

class CsvPass final : public Pass {
 public:
  explicit CsvPass(const Format& format) : format_(format), lines_(format.paths) {}

  absl::StatusOr<MaybeElement> Next() override {
    std::string line;
    for (;;) {
      absl::StatusOr<bool> found = lines_.Next(&line);
      if (!found.ok()) return WithContext(found.status(), "Csv");
      if (!*found) return MaybeElement();
      const bool is_header = format_.header && lines_.line_number() == 1;
      if (line.empty() && !is_header) continue;
      const int64_t number = lines_.line_number();
      TANDEM_ASSIGN_OR_RETURN(const std::vector<std::string> fields, Split(line));
      if (is_header) continue;
      TANDEM_ASSIGN_OR_RETURN(Element element, Parse(fields, number));
      return MaybeElement(std::move(element));
    }
  }

  absl::Status Save(InputState* state) override { return lines_.Save("Csv", state); }
  absl::Status Restore(const InputState& state) override { return lines_.Restore("Csv", state); }

 private:
  std::string Where(int64_t line) const {
    return absl::StrCat("Csv: ", lines_.path(), ", line ", line);
  }

  // The fields of a record that begins with `line`, reading on while a quoted field is open.
  absl::StatusOr<std::vector<std::string>> Split(std::string line) {
    const int64_t begin = lines_.line_number();
    std::vector<std::string> fields(1);
    bool quoted = false;       // Inside of quotes.
    bool after_quote = false;  // Behind the closing quote of a field.
    for (;;) {
      for (size_t i = 0; i < line.size(); ++i) {
        const char c = line[i];
        if (quoted) {
          if (c != '"') {
            fields.back().push_back(c);
          } else if (i + 1 < line.size() && line[i + 1] == '"') {
            fields.back().push_back('"');
            ++i;
          } else {
            quoted = false;
            after_quote = true;
          }
        } else if (c == format_.delimiter) {
          fields.emplace_back();
          after_quote = false;
        } else if (c == '"' && fields.back().empty() && !after_quote) {
          quoted = true;
        } else if (after_quote || c == '"') {
          return errors::InvalidArgument(
              Where(lines_.line_number()), ", field ", fields.size(), ": found '",
              std::string(1, c), "' ", after_quote ? "behind the closing quote" : "inside a field",
              "; expected the whole field in quotes, with quotes inside it doubled");
        } else {
          fields.back().push_back(c);
        }
      }
      if (!quoted) return fields;
      fields.back().push_back('\n');
      absl::StatusOr<bool> found = lines_.NextOfSameFile(&line);
      if (!found.ok()) return WithContext(found.status(), "Csv");
      if (!*found || fields.back().size() > FileReader::kMaxLine) {
        return errors::InvalidArgument(Where(begin), ", field ", fields.size(),
                                       ": the file ends inside a quoted field; expected its "
                                       "closing quote");
      }
    }
  }

  absl::StatusOr<Element> Parse(const std::vector<std::string>& fields, int64_t line) const {
    if (fields.size() != format_.types.size()) {
      return errors::InvalidArgument(Where(line), ": found ", fields.size(), " fields, expected ",
                                     format_.types.size());
    }
    Element element;
    for (size_t i = 0; i < fields.size(); ++i) {
      absl::optional<Tensor> tensor = ParseField(format_.types[i], fields[i]);
      if (!tensor) {
        return errors::InvalidArgument(Where(line), ", field ", i + 1, ": found '", fields[i],
                                       "', expected a value of type ",
                                       DataTypeName(format_.types[i]));
      }
      element.push_back(*std::move(tensor));
    }
    return element;
  }

  const Format& format_;
  LineFiles lines_;
};

class CsvStage final : public OpenedStage {
 public:
  explicit CsvStage(Format format) : format_(std::move(format)) {}

  absl::StatusOr<std::unique_ptr<Pass>> Begin(const PassContext&) const override {
    return std::make_unique<CsvPass>(format_);
  }
  int64_t cardinality() const override { return kUnknownCardinality; }

 private:
  const Format format_;
};

absl::StatusOr<OpenedStagePtr> OpenCsv(const Stage& stage) {
  TANDEM_ASSIGN_OR_RETURN(const Attr* const paths, stage.List("paths"));
  TANDEM_ASSIGN_OR_RETURN(const Attr* const types, stage.List("types"));
  TANDEM_ASSIGN_OR_RETURN(const int64_t header, stage.Int("header"));
  TANDEM_ASSIGN_OR_RETURN(const std::string delimiter, stage.String("delimiter"));
  Format format{paths->strings, {}, header != 0, ','};
  if (delimiter.size() != 1 || delimiter == "\"" || delimiter == "\n" || delimiter == "\r") {
    return errors::InvalidArgument("Csv: the delimiter is '", delimiter,
                                   "'; expected one character, no quote and no line end");
  }
  format.delimiter = delimiter[0];
  if (types->ints.empty()) {
    return errors::InvalidArgument("Csv: no types were given; expected one for each field");
  }
  for (const int64_t number : types->ints) {
    const DataType type = static_cast<DataType>(number);
    if (type != kString && type != kFloat32 && type != kFloat64 && type != kInt32 &&
        type != kInt64 && type != kBool) {
      return errors::InvalidArgument("Csv: the type of field ", format.types.size() + 1, " is ",
                                     DataTypeName(type),
                                     "; expected float32, float64, int32, int64, bool or string");
    }
    format.types.push_back(type);
  }
  TANDEM_RETURN_IF_ERROR(CheckFilesExist("Csv", format.paths));
  return std::make_shared<const CsvStage>(std::move(format));
}

const bool registered = RegisterStage("Csv", /*inputs=*/0, OpenCsv);

}  // namespace
}  // namespace tandem::data
