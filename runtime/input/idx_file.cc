#include "runtime/input/idx_file.h"

#include <algorithm>
#include <cstring>
#include <filesystem>

#include "absl/strings/match.h"
#include "absl/strings/str_format.h"
#include "core/base/status.h"
#include "runtime/input/file_reader.h"

namespace tandem::data {
namespace {

constexpr int kMaxIdxRank = 8;

uint32_t BigEndian(const char* bytes) {
  uint32_t value = 0;
  for (int i = 0; i < 4; ++i) value = value << 8 | static_cast<unsigned char>(bytes[i]);
  return value;
}

DataType TypeOfCode(uint32_t code) {
  switch (code) {
    case 0x08:
      return kUint8;
    case 0x09:
      return kInt8;
    case 0x0b:
      return kInt16;
    case 0x0c:
      return kInt32;
    case 0x0d:
      return kFloat32;
    case 0x0e:
      return kFloat64;
    default:
      return DataType::kInvalid;
  }
}

std::string Hex(uint32_t magic) { return absl::StrFormat("0x%08x", magic); }

// Reads exactly `count` bytes, or says that the file ends.
absl::Status ReadExactly(FileReader& file, size_t count, const std::string& what,
                         std::string* bytes) {
  const int64_t begin = file.offset();
  const absl::Status read = file.Read(count, bytes);
  const size_t found = static_cast<size_t>(file.offset() - begin);
  if (found == count) return absl::OkStatus();
  return errors::DataLoss(file.path(), ", offset ", begin, ": found ", found, " bytes, expected ",
                          count, " (", what, "); the file is cut off, get it anew",
                          read.ok() ? "" : " (", read.message(), read.ok() ? "" : ")");
}

}  // namespace

absl::StatusOr<std::string> FindIdxFile(const std::string& path) {
  std::error_code ignored;
  if (std::filesystem::exists(path, ignored)) return path;
  if (!absl::EndsWith(path, ".gz") && std::filesystem::exists(path + ".gz", ignored)) {
    return path + ".gz";
  }
  const std::filesystem::path absolute = std::filesystem::absolute(path, ignored);
  return errors::NotFound(path, ": there is no such file",
                          absl::EndsWith(path, ".gz") ? "" : ", nor one with the ending .gz",
                          " (looked for ", absolute.string(), "); check the path");
}

absl::StatusOr<Tensor> ReadIdxFile(const std::string& path, const IdxContents& expected) {
  TANDEM_ASSIGN_OR_RETURN(const std::string found_path, FindIdxFile(path));
  TANDEM_ASSIGN_OR_RETURN(const std::unique_ptr<FileReader> file, FileReader::Open(found_path));
  std::string header;
  TANDEM_RETURN_IF_ERROR(ReadExactly(*file, 4, "the magic number", &header));
  const uint32_t magic = BigEndian(header.data());
  if (expected.magic != 0 && magic != expected.magic) {
    return errors::InvalidArgument(found_path, ", offset 0: found the magic number ", Hex(magic),
                                   ", expected ", Hex(expected.magic), " (", expected.name,
                                   "); is it the file that its name says?");
  }
  const DataType type = magic >> 16 == 0 ? TypeOfCode(magic >> 8) : DataType::kInvalid;
  const int rank = static_cast<int>(magic & 0xff);
  if (type == DataType::kInvalid || rank < 1 || rank > kMaxIdxRank) {
    return errors::InvalidArgument(found_path, ", offset 0: found ", Hex(magic),
                                   ", expected the magic number of an IDX file: 0x0000, a type "
                                   "(08, 09, 0b to 0e), a rank (01 to 08)");
  }
  std::string sizes;
  TANDEM_RETURN_IF_ERROR(ReadExactly(*file, 4 * static_cast<size_t>(rank), "the sizes", &sizes));
  Shape::Dims dims;
  for (int d = 0; d < rank; ++d) dims.push_back(BigEndian(sizes.data() + 4 * d));
  absl::StatusOr<Shape> shape = Shape::FromDims(dims);
  const int64_t size = static_cast<int64_t>(DataTypeSize(type));
  if (!shape.ok() || shape->num_elements() > INT64_MAX / size) {
    return errors::InvalidArgument(found_path,
                                   ", offset 4: found sizes whose product is no "
                                   "64-bit number, expected those of a file");
  }
  if (shape->num_elements() == 0) {
    return errors::InvalidArgument(found_path, ", offset 4: found the sizes ", shape->DebugString(),
                                   ", expected at least one item: the data set is empty");
  }
  std::string values;
  TANDEM_RETURN_IF_ERROR(ReadExactly(
      *file, static_cast<size_t>(shape->num_elements() * size),
      absl::StrCat(DataTypeName(type), shape->DebugString(), " by the sizes at offset 4"),
      &values));
  std::string rest;
  const int64_t end = file->offset();
  TANDEM_RETURN_IF_ERROR(file->Read(1, &rest));
  if (!rest.empty()) {
    return errors::DataLoss(found_path, ", offset ", end,
                            ": found more bytes, expected the end of the file by the sizes at "
                            "offset 4, ",
                            shape->DebugString(), "; the file is damaged, get it anew");
  }
  // To the byte order of the machine, which is little-endian wherever this runs.
  const size_t width = static_cast<size_t>(size);
  if (width > 1) {
    for (size_t i = 0; i < values.size(); i += width) {
      std::reverse(values.data() + i, values.data() + i + width);
    }
  }
  TANDEM_ASSIGN_OR_RETURN(Tensor result, Tensor::Create(type, *std::move(shape)));
  std::memcpy(result.mutable_data(), values.data(), values.size());
  return result;
}

}  // namespace tandem::data
