#include "core/io/npy.h"

#include <algorithm>
#include <complex>
#include <cstring>
#include <limits>
#include <memory>
#include <utility>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "core/base/status.h"
#include "core/io/file.h"

// The format (NumPy Enhancement Proposal 1):
//
//   file    := magic major:u8 minor:u8 length header data
//   magic   := "\x93NUMPY"
//   length  := u16 in version 1, u32 from version 2; little-endian; bytes of the header
//   header  := a Python dictionary, "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }",
//              padded with spaces and ended with "\n", so that data begins at a multiple of 64
//   data    := the elements without padding
namespace tandem {
namespace {

constexpr char kMagic[] = "\x93NUMPY";
constexpr size_t kMagicSize = 6;
constexpr size_t kDataAlignment = 64;

struct Header {
  std::string descr;
  bool fortran_order = false;
  Shape shape;
};

// What a "descr" says. Strings have their width in bytes, and `utf32` where they are U.
struct ElementType {
  DataType dtype = DataType::kInvalid;
  size_t bytes = 0;
  bool utf32 = false;
};

struct NumberType {
  DataType dtype;
  const char* descr;
};
constexpr NumberType kNumberTypes[] = {
    {kBool, "|b1"},      {kInt8, "|i1"},        {kInt16, "<i2"},   {kInt32, "<i4"},
    {kInt64, "<i8"},     {kUint8, "|u1"},       {kUint16, "<u2"},  {kUint32, "<u4"},
    {kUint64, "<u8"},    {kFloat16, "<f2"},     {kFloat32, "<f4"}, {kFloat64, "<f8"},
    {kComplex64, "<c8"}, {kComplex128, "<c16"},
};

// Reads the file from its first byte to its last, and knows where it is for messages.
class Parser {
 public:
  Parser(absl::string_view bytes, absl::string_view name) : bytes_(bytes), name_(name) {}

  absl::StatusOr<Tensor> Parse() {
    TANDEM_RETURN_IF_ERROR(FindHeader());
    TANDEM_ASSIGN_OR_RETURN(const Header header, ParseHeader());
    TANDEM_ASSIGN_OR_RETURN(const ElementType type, ParseType(header.descr));
    TANDEM_RETURN_IF_ERROR(CheckDataSize(header, type));
    TANDEM_ASSIGN_OR_RETURN(Tensor tensor, ReadData(header.shape, type, header.fortran_order));
    return tensor;
  }

 private:
  template <typename... Args>
  absl::Status Error(size_t offset, const Args&... args) const {
    return errors::InvalidArgument(name_, ": at byte ", offset, ": ", args...);
  }

  // Up to 20 bytes from `offset` on, readable.
  std::string Found(size_t offset) const {
    if (offset >= bytes_.size()) return "the end of the file";
    return absl::StrCat("\"", absl::CHexEscape(bytes_.substr(offset, 20)), "\"");
  }

  // Sets position_ to the header's first byte and data_ to that of the elements.
  absl::Status FindHeader() {
    if (!absl::StartsWith(bytes_, absl::string_view(kMagic, kMagicSize))) {
      return Error(0, "expected \"\\x93NUMPY\", the start of a .npy file; found ", Found(0));
    }
    if (bytes_.size() < kMagicSize + 2) {
      return Error(kMagicSize, "expected the format's version; found ", Found(bytes_.size()));
    }
    const int major = static_cast<unsigned char>(bytes_[kMagicSize]);
    if (major < 1 || major > 3) {
      return Error(kMagicSize, "expected a version from 1 to 3; found ", major);
    }
    const size_t length_at = kMagicSize + 2;
    const size_t length_bytes = major == 1 ? 2 : 4;
    position_ = length_at + length_bytes;
    if (bytes_.size() < position_) {
      return Error(length_at, "expected the ", length_bytes,
                   " bytes of the header's length; found ", Found(bytes_.size()));
    }
    size_t length = 0;
    for (size_t i = length_bytes; i-- > 0;) {
      length = length << 8 | static_cast<unsigned char>(bytes_[length_at + i]);
    }
    if (length > bytes_.size() - position_) {
      return Error(position_, "expected a header of ", length, " bytes; found ",
                   bytes_.size() - position_, " until the end of the file");
    }
    data_ = position_ + length;
    return absl::OkStatus();
  }

  void SkipSpace() {
    while (position_ < data_ &&
           absl::ascii_isspace(static_cast<unsigned char>(bytes_[position_]))) {
      ++position_;
    }
  }
  // Skips white space and `text`, if that comes next.
  bool Accept(absl::string_view text) {
    SkipSpace();
    if (!absl::StartsWith(bytes_.substr(position_, data_ - position_), text)) return false;
    position_ += text.size();
    return true;
  }
  absl::Status Expected(absl::string_view what) const {
    return Error(position_, "expected ", what, " in the header; found ",
                 position_ < data_ ? Found(position_) : "the end of the header");
  }

  absl::StatusOr<std::string> ParseString(absl::string_view what) {
    const char* quote = Accept("'") ? "'" : Accept("\"") ? "\"" : nullptr;
    if (quote == nullptr) return Expected(what);
    const size_t end = bytes_.find(*quote, position_);
    if (end >= data_) return Expected("the end of a string");
    std::string value(bytes_.substr(position_, end - position_));
    position_ = end + 1;
    return value;
  }

  absl::StatusOr<Shape> ParseShape() {
    if (!Accept("(")) return Expected("a tuple, the shape,");
    const size_t begin = position_;
    Shape::Dims dims;
    bool separated = true;
    while (!Accept(")")) {
      SkipSpace();
      const size_t digits = position_;
      while (position_ < data_ &&
             absl::ascii_isdigit(static_cast<unsigned char>(bytes_[position_]))) {
        ++position_;
      }
      int64_t size = 0;
      if (!separated || !absl::SimpleAtoi(bytes_.substr(digits, position_ - digits), &size)) {
        position_ = digits;
        return Expected("a size of at most 64 bits");
      }
      dims.push_back(size);
      Accept("L");  // Python 2 wrote long integers so.
      separated = Accept(",");
    }
    absl::StatusOr<Shape> shape = Shape::FromDims(dims);
    if (!shape.ok()) return Error(begin, shape.status().message());
    return shape;
  }

  absl::StatusOr<Header> ParseHeader() {
    Header header;
    bool has_descr = false, has_order = false, has_shape = false;
    if (!Accept("{")) return Expected("\"{\"");
    while (!Accept("}")) {
      TANDEM_ASSIGN_OR_RETURN(const std::string key, ParseString("a key or \"}\""));
      if (!Accept(":")) return Expected("\":\"");
      if (key == "descr") {
        SkipSpace();
        if (position_ < data_ && bytes_[position_] == '[') {
          return errors::Unimplemented(name_, ": at byte ", position_,
                                       ": an array of records; save its columns one by one");
        }
        TANDEM_ASSIGN_OR_RETURN(header.descr, ParseString("a string, the type of the elements,"));
        has_descr = true;
      } else if (key == "fortran_order") {
        header.fortran_order = Accept("True");
        if (!header.fortran_order && !Accept("False")) return Expected("True or False");
        has_order = true;
      } else if (key == "shape") {
        TANDEM_ASSIGN_OR_RETURN(header.shape, ParseShape());
        has_shape = true;
      } else {
        return Error(position_, "expected the keys 'descr', 'fortran_order' and 'shape'; found '",
                     absl::CHexEscape(key), "'");
      }
      if (!Accept(",")) {
        if (Accept("}")) break;
        return Expected("\",\" or \"}\"");
      }
    }
    SkipSpace();
    if (position_ != data_) return Expected("only spaces");
    if (!has_descr || !has_order || !has_shape) {
      return Error(position_, "expected the keys 'descr', 'fortran_order' and 'shape'; found no '",
                   !has_descr   ? "descr"
                   : !has_order ? "fortran_order"
                                : "shape",
                   "'");
    }
    return header;
  }

  absl::StatusOr<ElementType> ParseType(const std::string& descr) const {
    const auto refuse = [&](absl::string_view advice) {
      return errors::Unimplemented(name_, ": elements of type '", absl::CHexEscape(descr),
                                   "' cannot be read; ", advice);
    };
    if (descr.size() >= 2 && descr[0] == '>') {
      return refuse("save them little-endian: a.astype(a.dtype.newbyteorder('<'))");
    }
    const absl::string_view code =
        descr.empty() ? absl::string_view() : absl::string_view(descr).substr(1);
    for (const NumberType& type : kNumberTypes) {
      if (descr != "" && (descr[0] == '<' || descr[0] == '|' || descr[0] == '=') &&
          code == absl::string_view(type.descr).substr(1)) {
        return ElementType{type.dtype, DataTypeSize(type.dtype)};
      }
    }
    uint32_t width = 0;
    const bool utf32 = absl::StartsWith(code, "U");
    if ((utf32 || absl::StartsWith(code, "S")) && absl::SimpleAtoi(code.substr(1), &width)) {
      return ElementType{kString, size_t{width} * (utf32 ? 4 : 1), utf32};
    }
    return refuse("save numbers, bools or strings (a.astype(...))");
  }

  absl::Status CheckDataSize(const Header& header, const ElementType& type) const {
    const auto count = static_cast<size_t>(header.shape.num_elements());
    const size_t found = bytes_.size() - data_;
    if (type.bytes == 0 && count > 0) {
      // Their number would not be bounded by the size of the file.
      return errors::Unimplemented(name_, ": elements of type '", header.descr,
                                   "' have no bytes at all");
    }
    const bool fits = count == 0 || type.bytes <= std::numeric_limits<size_t>::max() / count;
    if (fits && count * type.bytes == found) return absl::OkStatus();
    return Error(data_, "expected ", count, " elements of ", type.bytes, " bytes each (shape ",
                 header.shape.DebugString(), ", type '", header.descr, "'); found ", found,
                 " bytes until the end of the file");
  }

  // Calls `copy(position in the tensor, position in the file)` for each element.
  template <typename Copy>
  static void ForEachElement(const Shape& shape, bool fortran_order, const Copy& copy) {
    if (!fortran_order || shape.rank() < 2) {
      for (int64_t i = 0; i < shape.num_elements(); ++i) copy(i, i);
      return;
    }
    // Counts up the indices, the last one quickest, and moves in the file by their strides.
    const int rank = shape.rank();
    std::vector<int64_t> index(static_cast<size_t>(rank)), stride(static_cast<size_t>(rank));
    int64_t step = 1;
    for (int d = 0; d < rank; ++d) {
      stride[static_cast<size_t>(d)] = step;
      step *= shape.dim(d);
    }
    int64_t source = 0;
    for (int64_t i = 0; i < shape.num_elements(); ++i) {
      copy(i, source);
      for (int d = rank - 1; d >= 0; --d) {
        const auto k = static_cast<size_t>(d);
        source += stride[k];
        if (++index[k] < shape.dim(d)) break;
        source -= stride[k] * index[k];
        index[k] = 0;
      }
    }
  }

  absl::StatusOr<Tensor> ReadData(const Shape& shape, const ElementType& type,
                                  bool fortran_order) const {
    TANDEM_ASSIGN_OR_RETURN(Tensor tensor, Tensor::Create(type.dtype, shape));
    const char* const data = bytes_.data() + data_;
    if (type.dtype == kString) {
      absl::Status status;
      const absl::Span<std::string> out = tensor.MutableElements<std::string>();
      ForEachElement(shape, fortran_order, [&](int64_t to, int64_t from) {
        const size_t at = data_ + static_cast<size_t>(from) * type.bytes;
        const absl::string_view element = bytes_.substr(at, type.bytes);
        std::string& value = out[static_cast<size_t>(to)];
        if (type.utf32) {
          if (status.ok()) status = AppendUtf8(element, at, &value);
        } else {
          const size_t end = element.find_last_not_of('\0');
          value = std::string(element.substr(0, end == absl::string_view::npos ? 0 : end + 1));
        }
      });
      if (!status.ok()) return status;
      return tensor;
    }
    if (type.dtype == kBool) {
      for (size_t i = 0; i < tensor.num_bytes(); ++i) {
        if (static_cast<unsigned char>(data[i]) > 1) {
          return Error(data_ + i, "expected a bool, 0 or 1; found ",
                       static_cast<int>(static_cast<unsigned char>(data[i])));
        }
      }
    }
    if (!fortran_order || shape.rank() < 2) {
      if (tensor.num_bytes() > 0) std::memcpy(tensor.mutable_data(), data, tensor.num_bytes());
      return tensor;
    }
    char* const out = static_cast<char*>(tensor.mutable_data());
    const auto width = static_cast<int64_t>(type.bytes);
    ForEachElement(shape, fortran_order, [&](int64_t to, int64_t from) {
      std::memcpy(out + to * width, data + from * width, type.bytes);
    });
    return tensor;
  }

  // `element`: code points of four bytes, padded with zeros.
  absl::Status AppendUtf8(absl::string_view element, size_t offset, std::string* value) const {
    size_t pending_nuls = 0;  // Become part of the string once something follows them.
    for (size_t i = 0; i < element.size(); i += 4) {
      uint32_t point;
      std::memcpy(&point, element.data() + i, sizeof(point));
      if (point == 0) {
        ++pending_nuls;
        continue;
      }
      if (point > 0x10ffff || (point >= 0xd800 && point < 0xe000)) {
        return Error(offset + i, "expected a Unicode code point; found ", absl::Hex(point));
      }
      value->append(pending_nuls, '\0');
      pending_nuls = 0;
      const auto tail = [&](int shift) {
        value->push_back(static_cast<char>(0x80 | (point >> shift & 0x3f)));
      };
      if (point < 0x80) {
        value->push_back(static_cast<char>(point));
      } else if (point < 0x800) {
        value->push_back(static_cast<char>(0xc0 | point >> 6));
        tail(0);
      } else if (point < 0x10000) {
        value->push_back(static_cast<char>(0xe0 | point >> 12));
        tail(6);
        tail(0);
      } else {
        value->push_back(static_cast<char>(0xf0 | point >> 18));
        tail(12);
        tail(6);
        tail(0);
      }
    }
    return absl::OkStatus();
  }

  const absl::string_view bytes_;
  const absl::string_view name_;
  size_t position_ = 0;  // In the header.
  size_t data_ = 0;      // The first byte after it.
};

std::string MakeHeader(absl::string_view descr, const Shape& shape) {
  std::string text = absl::StrCat("{'descr': '", descr, "', 'fortran_order': False, 'shape': (");
  for (const int64_t size : shape.dims()) absl::StrAppend(&text, size, ", ");
  // A tuple of one keeps its comma.
  if (shape.rank() == 1) {
    text.pop_back();
  } else if (shape.rank() > 1) {
    text.resize(text.size() - 2);
  }
  text += "), }";
  constexpr size_t kBefore = kMagicSize + 4;
  while ((kBefore + text.size() + 1) % kDataAlignment != 0) text.push_back(' ');
  text.push_back('\n');
  // A rank of at most 254 and sizes of at most 19 digits keep the length within 16 bits.
  std::string header(kMagic, kMagicSize);
  header.push_back(1);
  header.push_back(0);
  header.push_back(static_cast<char>(text.size() & 0xff));
  header.push_back(static_cast<char>(text.size() >> 8));
  return header + text;
}

absl::StatusOr<std::string> SerializeStrings(const Tensor& tensor) {
  const absl::Span<const std::string> values = tensor.Elements<std::string>();
  size_t width = 1;  // NumPy has no strings of no bytes.
  for (size_t i = 0; i < values.size(); ++i) {
    if (!values[i].empty() && values[i].back() == '\0') {
      return errors::InvalidArgument(
          "element ", i, " of ", tensor.DebugString(),
          " ends with a NUL, which a .npy file cannot tell from padding");
    }
    width = std::max(width, values[i].size());
  }
  std::string bytes = MakeHeader(absl::StrCat("|S", width), tensor.shape());
  // Every string takes as much as the longest: a single long one can make this large.
  if (width > bytes.max_size() / 2 / (values.size() + 1)) {
    return errors::ResourceExhausted(values.size(), " strings of ", width,
                                     " bytes each do not fit into a .npy file");
  }
  bytes.reserve(bytes.size() + values.size() * width);
  for (const std::string& value : values) {
    bytes += value;
    bytes.append(width - value.size(), '\0');
  }
  return bytes;
}

}  // namespace

absl::StatusOr<Tensor> ParseNpy(absl::string_view bytes, absl::string_view name) {
  return Parser(bytes, name).Parse();
}

absl::StatusOr<Tensor> ReadNpy(const std::string& path) {
  TANDEM_ASSIGN_OR_RETURN(const std::string bytes,
                          ReadFile(PosixFileSystem(), path, std::numeric_limits<int64_t>::max()));
  return ParseNpy(bytes, path);
}

absl::StatusOr<std::string> SerializeNpy(const Tensor& tensor) {
  if (!tensor.is_valid()) return errors::InvalidArgument("there is no tensor to write as .npy");
  if (tensor.dtype() == kString) return SerializeStrings(tensor);
  if (tensor.dtype() == kBfloat16) {
    TANDEM_ASSIGN_OR_RETURN(Tensor wide, Tensor::Create(kFloat32, tensor.shape()));
    std::transform(tensor.Elements<Bfloat16>().begin(), tensor.Elements<Bfloat16>().end(),
                   wide.MutableElements<float>().begin(),
                   [](Bfloat16 value) { return static_cast<float>(value); });
    return SerializeNpy(wide);
  }
  for (const NumberType& type : kNumberTypes) {
    if (type.dtype != tensor.dtype()) continue;
    std::string bytes = MakeHeader(type.descr, tensor.shape());
    bytes.append(static_cast<const char*>(tensor.data()), tensor.num_bytes());
    return bytes;
  }
  return errors::Unimplemented("a tensor of type ", DataTypeName(tensor.dtype()),
                               " cannot be written as .npy");
}

absl::Status WriteNpy(const std::string& path, const Tensor& tensor) {
  absl::StatusOr<std::string> bytes = SerializeNpy(tensor);
  if (!bytes.ok()) return WithContext(bytes.status(), path);
  TANDEM_ASSIGN_OR_RETURN(const std::unique_ptr<WritableFile> file,
                          PosixFileSystem()->OpenToWrite(path, WriteMode::kReplace));
  TANDEM_RETURN_IF_ERROR(file->Append(*bytes));
  return file->Close();
}

}  // namespace tandem
