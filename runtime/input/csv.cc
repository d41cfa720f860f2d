// Csv: a scalar for each field of a record, or for each of some columns. Attributes: paths, types,
// header, delimiter, quotes, columns (names; without a header numbers), has_default (none, or one
// for each type), defaults (of the types that have one), missing.
//
// The format is that of RFC 4180: a field in double quotes may contain delimiters, line ends and
// doubled double quotes.
#include "absl/algorithm/container.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_join.h"
#include "core/base/status.h"
#include "proto/input.pb.h"
#include "runtime/input/file_reader.h"
#include "runtime/input/line_files.h"
#include "runtime/input/opened_stage.h"

namespace tandem::data {
namespace {

// What some editors put before text in UTF-8.
constexpr char kByteOrderMark[] = "\xef\xbb\xbf";

struct Format {
  std::vector<std::string> paths;
  std::vector<DataType> types;
  std::vector<Tensor> defaults;  // For each type; not valid: it has none.
  std::vector<std::string> columns;
  std::string missing;
  bool header;
  bool quotes;
  char delimiter;
};

using Fields = std::vector<std::string>;

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

// Reads records of files.
class CsvReader {
 public:
  explicit CsvReader(const Format& format, const std::vector<std::string>& paths)
      : format_(format), lines_(paths) {}

  LineFiles& lines() { return lines_; }
  const LineFiles& lines() const { return lines_; }

  // False at the end. `first_line`: where the record begins.
  absl::StatusOr<bool> Next(Fields* fields, int64_t* first_line) {
    std::string line;
    for (;;) {
      absl::StatusOr<bool> found = lines_.Next(&line);
      if (!found.ok()) return WithContext(found.status(), "Csv");
      if (!*found) return false;
      *first_line = lines_.line_number();
      if (*first_line == 1 && absl::StartsWith(line, kByteOrderMark)) {
        line.erase(0, sizeof(kByteOrderMark) - 1);
      }
      if (line.empty() && !(format_.header && *first_line == 1)) continue;
      TANDEM_ASSIGN_OR_RETURN(*fields, Split(line));
      return true;
    }
  }

  std::string Where(int64_t line) const {
    return absl::StrCat("Csv: ", lines_.path(), ", line ", line);
  }

 private:
  // The fields of a record that begins with `line`, reading on while a quoted field is open.
  absl::StatusOr<Fields> Split(std::string line) {
    const int64_t begin = lines_.line_number();
    Fields fields(1);
    bool quoted = false;       // Inside of quotes.
    bool after_quote = false;  // Behind the closing quote of a field.
    for (;;) {
      for (size_t i = 0; i < line.size(); ++i) {
        const char c = line[i];
        const bool quote = c == '"' && format_.quotes;
        if (quoted) {
          if (!quote) {
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
        } else if (quote && fields.back().empty() && !after_quote) {
          quoted = true;
        } else if (after_quote || quote) {
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

  const Format& format_;
  LineFiles lines_;
};

class CsvPass final : public Pass {
 public:
  CsvPass(const Format& format, const PassContext& context)
      : format_(format), context_(context), reader_(format, format.paths) {}

  absl::StatusOr<MaybeElement> Next() override {
    Fields fields;
    int64_t line = 0;
    for (;;) {
      // Here too, for stages that read many elements in one call (Skip, Shard).
      if (context_.cancellation->IsCancelled()) return context_.cancellation->status();
      TANDEM_RETURN_IF_ERROR(header_status_);
      TANDEM_ASSIGN_OR_RETURN(const bool found, reader_.Next(&fields, &line));
      if (!found) return MaybeElement();
      if (format_.header && line == 1) {
        header_status_ = ChooseColumns(fields);
        continue;
      }
      TANDEM_ASSIGN_OR_RETURN(Element element, Parse(fields, line));
      return MaybeElement(std::move(element));
    }
  }

  absl::Status Begin() {
    if (format_.header) return absl::OkStatus();
    for (const std::string& column : format_.columns) {
      size_t number = 0;
      if (!absl::SimpleAtoi(column, &number)) {
        return errors::InvalidArgument("Csv: the column '", column,
                                       "' is no number; without a header columns are called by "
                                       "their numbers, from 0");
      }
      chosen_.push_back(number);
    }
    return absl::OkStatus();
  }

  absl::Status Save(InputState* state) override { return reader_.lines().Save("Csv", state); }

  absl::Status Restore(const InputState& state) override {
    TANDEM_RETURN_IF_ERROR(reader_.lines().Restore("Csv", state));
    if (!format_.header || format_.columns.empty() || reader_.lines().line_number() == 0) {
      return absl::OkStatus();
    }
    // The order of the columns is in the line that this pass has behind it.
    const std::vector<std::string> path{reader_.lines().path()};
    CsvReader from_top(format_, path);
    Fields fields;
    int64_t line = 0;
    TANDEM_ASSIGN_OR_RETURN(const bool found, from_top.Next(&fields, &line));
    return found ? ChooseColumns(fields) : BadState("Csv", "is of a file that is empty now");
  }

 private:
  absl::Status ChooseColumns(const Fields& header) {
    if (format_.columns.empty()) return absl::OkStatus();
    width_ = header.size();
    chosen_.clear();
    for (const std::string& column : format_.columns) {
      const auto found = absl::c_find(header, column);
      if (found == header.end()) {
        return errors::InvalidArgument(reader_.Where(1), ": there is no column '", column,
                                       "'; the header has ", absl::StrJoin(header, ", "));
      }
      chosen_.push_back(static_cast<size_t>(found - header.begin()));
    }
    return absl::OkStatus();
  }

  absl::StatusOr<Element> Parse(const Fields& fields, int64_t line) const {
    const bool all = format_.columns.empty();
    const size_t width = all ? format_.types.size() : width_;
    if (width != 0 && fields.size() != width) {
      return errors::InvalidArgument(reader_.Where(line), ": found ", fields.size(),
                                     " fields, expected ", width);
    }
    Element element;
    for (size_t i = 0; i < format_.types.size(); ++i) {
      const size_t at = all ? i : chosen_[i];
      if (at >= fields.size()) {
        return errors::InvalidArgument(reader_.Where(line), ": found ", fields.size(),
                                       " fields, expected a column ", at, " (counted from 0)");
      }
      TANDEM_ASSIGN_OR_RETURN(Tensor tensor, ParseValue(fields[at], i, at, line));
      element.push_back(std::move(tensor));
    }
    return element;
  }

  absl::StatusOr<Tensor> ParseValue(const std::string& text, size_t i, size_t at,
                                    int64_t line) const {
    const Tensor& otherwise = format_.defaults[i];
    if (otherwise.is_valid() && (text.empty() || text == format_.missing)) return otherwise;
    absl::optional<Tensor> tensor = ParseField(format_.types[i], text);
    if (tensor) return *std::move(tensor);
    return errors::InvalidArgument(reader_.Where(line), ", field ", at + 1, ": found '", text,
                                   "', expected a value of type ", DataTypeName(format_.types[i]),
                                   text.empty() ? "; a default would stand in for it" : "");
  }

  const Format& format_;
  const PassContext context_;
  CsvReader reader_;
  // Of the file that is being read, when columns were asked for.
  std::vector<size_t> chosen_;
  size_t width_ = 0;  // Fields of a record; 0: any number.
  absl::Status header_status_;
};

class CsvStage final : public OpenedStage {
 public:
  explicit CsvStage(Format format) : format_(std::move(format)) {}

  absl::StatusOr<std::unique_ptr<Pass>> Begin(const PassContext& context) const override {
    auto pass = std::make_unique<CsvPass>(format_, context);
    TANDEM_RETURN_IF_ERROR(pass->Begin());
    return pass;
  }
  int64_t cardinality() const override { return kUnknownCardinality; }

 private:
  const Format format_;
};

absl::Status ReadTypes(const Stage& stage, Format* format) {
  TANDEM_ASSIGN_OR_RETURN(const Attr* const types, stage.List("types"));
  if (types->ints.empty()) {
    return errors::InvalidArgument("Csv: no types were given; expected one for each field");
  }
  for (const int64_t number : types->ints) {
    const DataType type = static_cast<DataType>(number);
    if (type != kString && type != kFloat32 && type != kFloat64 && type != kInt32 &&
        type != kInt64 && type != kBool) {
      return errors::InvalidArgument("Csv: the type of field ", format->types.size() + 1, " is ",
                                     DataTypeName(type),
                                     "; expected float32, float64, int32, int64, bool or string");
    }
    format->types.push_back(type);
  }
  return absl::OkStatus();
}

absl::Status ReadDefaults(const Stage& stage, Format* format) {
  TANDEM_ASSIGN_OR_RETURN(const Attr* const has_default, stage.List("has_default"));
  TANDEM_ASSIGN_OR_RETURN(const Attr* const defaults, stage.List("defaults"));
  format->defaults.resize(format->types.size());
  if (has_default->ints.empty()) return absl::OkStatus();
  if (has_default->ints.size() != format->types.size()) {
    return errors::InvalidArgument("Csv: there are ", has_default->ints.size(), " defaults for ",
                                   format->types.size(),
                                   " types; expected one for each, which may be an empty Tensor()");
  }
  size_t next = 0;
  for (size_t i = 0; i < format->types.size(); ++i) {
    if (has_default->ints[i] == 0) continue;
    if (next == defaults->tensors.size()) {
      return errors::InvalidArgument("Csv: the default of field ", i + 1, " is missing");
    }
    const Tensor& tensor = defaults->tensors[next++];
    if (tensor.dtype() != format->types[i] || !tensor.shape().IsScalar()) {
      return errors::InvalidArgument("Csv: the default of field ", i + 1, " is ",
                                     DataTypeName(tensor.dtype()), tensor.shape().DebugString(),
                                     "; expected one ", DataTypeName(format->types[i]));
    }
    format->defaults[i] = tensor;
  }
  return absl::OkStatus();
}

absl::StatusOr<OpenedStagePtr> OpenCsv(const Stage& stage) {
  TANDEM_ASSIGN_OR_RETURN(const Attr* const paths, stage.List("paths"));
  TANDEM_ASSIGN_OR_RETURN(const Attr* const columns, stage.List("columns"));
  TANDEM_ASSIGN_OR_RETURN(const int64_t header, stage.Int("header"));
  TANDEM_ASSIGN_OR_RETURN(const int64_t quotes, stage.Int("quotes"));
  TANDEM_ASSIGN_OR_RETURN(const std::string delimiter, stage.String("delimiter"));
  TANDEM_ASSIGN_OR_RETURN(const std::string missing, stage.String("missing"));
  if (delimiter.size() != 1 || delimiter == "\"" || delimiter == "\n" || delimiter == "\r") {
    return errors::InvalidArgument("Csv: the delimiter is '", delimiter,
                                   "'; expected one character, no quote and no line end");
  }
  Format format;
  format.paths = paths->strings;
  format.columns = columns->strings;
  format.missing = missing;
  format.header = header != 0;
  format.quotes = quotes != 0;
  format.delimiter = delimiter[0];
  TANDEM_RETURN_IF_ERROR(ReadTypes(stage, &format));
  TANDEM_RETURN_IF_ERROR(ReadDefaults(stage, &format));
  if (!format.columns.empty() && format.columns.size() != format.types.size()) {
    return errors::InvalidArgument("Csv: there are ", format.types.size(), " types for ",
                                   format.columns.size(), " columns; expected one for each");
  }
  TANDEM_RETURN_IF_ERROR(CheckFilesExist("Csv", format.paths));
  return std::make_shared<const CsvStage>(std::move(format));
}

const bool registered = RegisterStage("Csv", /*inputs=*/0, OpenCsv);

}  // namespace
}  // namespace tandem::data
