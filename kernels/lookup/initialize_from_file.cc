// InitializeTableFromTextFile: a static table filled from the lines of a file, a vocabulary say.
//
// Keys and values come each from a column of the line, from the whole line (-2), or are the number
// of the line (-1).
#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "core/base/status.h"
#include "core/io/file.h"
#include "core/kernel/factories.h"
#include "core/op/registry.h"
#include "core/op/shape_context.h"
#include "core/tensor/element_text.h"
#include "kernels/io/file_kernel.h"
#include "kernels/lookup/lookup_table.h"
#include "kernels/lookup/table_input.h"
#include "kernels/strings/parse_number.h"

namespace tandem::lookup {
namespace {

constexpr int64_t kWholeLine = -2;
constexpr int64_t kLineNumber = -1;
constexpr int64_t kNoLimit = -1;

// Where one half of each pair comes from.
struct Column {
  absl::string_view name;  // "key" or "value"
  int64_t index = 0;
  DataType dtype = DataType::kInvalid;

  absl::Status Check() const {
    if (index == kLineNumber && dtype != kInt64) {
      return errors::InvalidArgument(name,
                                     "_index is -1, the number of the line, which is an int64; "
                                     "the table's ",
                                     name, "s are ", DataTypeName(dtype));
    }
    if (index == kWholeLine && dtype != kString && !IsInteger(dtype)) {
      return errors::InvalidArgument(name,
                                     "_index is -2, the whole line, which is a string or an "
                                     "integer; the table's ",
                                     name, "s are ", DataTypeName(dtype));
    }
    return absl::OkStatus();
  }
};

// The lines of a text, without their ends ("\n" or "\r\n").
std::vector<absl::string_view> Lines(absl::string_view text, int64_t limit) {
  std::vector<absl::string_view> lines;
  while (!text.empty() && (limit == kNoLimit || static_cast<int64_t>(lines.size()) < limit)) {
    const size_t end = std::min(text.find('\n'), text.size());
    absl::string_view line = text.substr(0, end);
    if (!line.empty() && line.back() == '\r') line.remove_suffix(1);
    lines.push_back(line);
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return lines;
}

template <typename T>
absl::Status ParseInto(absl::string_view field, size_t i, Tensor* to) {
  if (strings::ParseNumber(field, &to->MutableElements<T>()[i])) return absl::OkStatus();
  return errors::InvalidArgument(QuotedText(field), " is no ", DataTypeName(to->dtype()));
}

absl::Status SetField(absl::string_view field, size_t i, Tensor* to) {
  switch (to->dtype()) {
    case kString:
      to->MutableElements<std::string>()[i] = std::string(field);
      return absl::OkStatus();
    case kInt32:
      return ParseInto<int32_t>(field, i, to);
    case kInt64:
      return ParseInto<int64_t>(field, i, to);
    case kFloat32:
      return ParseInto<float>(field, i, to);
    case kFloat64:
      return ParseInto<double>(field, i, to);
    default:
      return errors::InvalidArgument("a file has no values of type ", DataTypeName(to->dtype()));
  }
}

class FromFileKernel final : public io::FileKernel {
 public:
  absl::Status Init(KernelInit& init) {
    key_index_ = init.Attr<int64_t>("key_index");
    value_index_ = init.Attr<int64_t>("value_index");
    limit_ = init.Attr<int64_t>("vocab_size");
    offset_ = init.Attr<int64_t>("offset");
    const std::string& delimiter = init.Attr<std::string>("delimiter");
    if (delimiter.size() != 1) {
      return errors::InvalidArgument("delimiter is ", QuotedText(delimiter),
                                     "; one character is wanted");
    }
    delimiter_ = delimiter[0];
    return absl::OkStatus();
  }

 protected:
  absl::Status Work(KernelContext& c) override {
    TANDEM_ASSIGN_OR_RETURN(const RefPtr<LookupTable> table, TableInput(c));
    TANDEM_ASSIGN_OR_RETURN(const std::string path, io::StringArgument(c.input(1), "filename"));
    const Column key{"key", key_index_, table->type().key};
    const Column value{"value", value_index_, table->type().value};
    TANDEM_RETURN_IF_ERROR(key.Check());
    TANDEM_RETURN_IF_ERROR(value.Check());
    TANDEM_ASSIGN_OR_RETURN(const std::string text, ReadFile(io::FilesOf(c), path));
    const std::vector<absl::string_view> lines = Lines(text, limit_);
    const auto count = static_cast<int64_t>(lines.size());
    if (limit_ != kNoLimit && count < limit_) {
      return errors::InvalidArgument("vocab_size is ", limit_, "; '", path, "' has ", count,
                                     " lines");
    }
    TANDEM_ASSIGN_OR_RETURN(Tensor keys, Tensor::Create(key.dtype, Shape({count})));
    TANDEM_ASSIGN_OR_RETURN(Tensor values, Tensor::Create(value.dtype, Shape({count})));
    for (size_t i = 0; i < lines.size(); ++i) {
      absl::Status status = ReadLine(lines[i], i, &keys, &values);
      if (!status.ok()) return WithContext(status, absl::StrCat("'", path, "', line ", i + 1));
    }
    return WithContext(table->Initialize(keys, values), absl::StrCat("'", path, "'"));
  }

 private:
  absl::Status ReadLine(absl::string_view line, size_t i, Tensor* keys, Tensor* values) const {
    if (line.empty()) return errors::InvalidArgument("the line is empty");
    std::vector<absl::string_view> fields;
    const int64_t last = std::max(key_index_, value_index_);
    if (last >= 0) {
      fields = absl::StrSplit(line, delimiter_);
      if (static_cast<int64_t>(fields.size()) <= last) {
        return errors::InvalidArgument("there are ", fields.size(), " columns; column ", last,
                                       " (from 0) is wanted");
      }
    }
    for (const auto& [index, to] : {std::pair(key_index_, keys), std::pair(value_index_, values)}) {
      if (index == kLineNumber) {
        to->MutableElements<int64_t>()[i] = static_cast<int64_t>(i) + offset_;
      } else {
        TANDEM_RETURN_IF_ERROR(
            SetField(index == kWholeLine ? line : fields[static_cast<size_t>(index)], i, to));
      }
    }
    return absl::OkStatus();
  }

  int64_t key_index_ = 0;
  int64_t value_index_ = 0;
  int64_t limit_ = kNoLimit;
  int64_t offset_ = 0;
  char delimiter_ = '\t';
};

absl::Status FromFileShape(ShapeContext& c) {
  TANDEM_RETURN_IF_ERROR(CheckTableHandle(c));
  return c.RequireRank(1, 0);
}

OpDefBuilder FromFile(const char* name, const char* handle) {
  OpDefBuilder op(name);
  op.Inputs(absl::StrCat("table_handle:", handle, ", filename:string"));
  op.Attrs(
      "key_index:int>=-2; value_index:int>=-2; vocab_size:int>=-1=-1; delimiter:string=\"\t\"; "
      "offset:int=0");
  op.Shape(FromFileShape).NotDifferentiable().HostMemory({"table_handle", "filename"});
  op.Cpu(Make<FromFileKernel>());
  return op;
}

const OpRegistration registrations[] = {
    FromFile("InitializeTableFromTextFile", "ref string"),
    FromFile("InitializeTableFromTextFileV2", "resource").Stateful(),
};

}  // namespace
}  // namespace tandem::lookup
