#include "core/io/npz.h"

#include <algorithm>
#include <memory>
#include <set>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/str_join.h"
#include "absl/strings/strip.h"
#include "core/base/status.h"
#include "core/io/npy.h"

namespace tandem {
namespace {

constexpr absl::string_view kEnding = ".npy";

}  // namespace

absl::StatusOr<NpzReader> NpzReader::Open(FileSystem* files, const std::string& path) {
  TANDEM_ASSIGN_OR_RETURN(std::unique_ptr<RandomAccessFile> file, files->OpenToRead(path));
  TANDEM_ASSIGN_OR_RETURN(ZipReader zip, ZipReader::Open(std::move(file)));
  NpzReader reader(std::move(zip));
  std::set<absl::string_view> seen;
  const std::vector<ZipMember>& members = reader.zip_.members();
  for (size_t i = 0; i < members.size(); ++i) {
    absl::string_view name = members[i].name;
    if (!absl::ConsumeSuffix(&name, kEnding)) continue;
    if (!seen.insert(name).second) {
      return errors::InvalidArgument(path, ": two arrays are named '", absl::CHexEscape(name), "'");
    }
    reader.names_.emplace_back(name);
    reader.member_of_name_.push_back(i);
  }
  return reader;
}

absl::StatusOr<Tensor> NpzReader::Read(absl::string_view name) const {
  const auto found = std::find(names_.begin(), names_.end(), name);
  if (found == names_.end()) {
    return errors::NotFound(zip_.path(), ": no array '", absl::CHexEscape(name), "'; there are ",
                            names_.empty() ? "none" : absl::StrJoin(names_, ", "));
  }
  const size_t member = member_of_name_[static_cast<size_t>(found - names_.begin())];
  TANDEM_ASSIGN_OR_RETURN(const std::string bytes, zip_.Read(zip_.members()[member]));
  return ParseNpy(bytes, absl::StrCat(zip_.path(), ": array '", absl::CHexEscape(name), "'"));
}

absl::StatusOr<std::vector<NamedArray>> ReadNpz(FileSystem* files, const std::string& path) {
  TANDEM_ASSIGN_OR_RETURN(const NpzReader reader, NpzReader::Open(files, path));
  std::vector<NamedArray> arrays;
  for (const std::string& name : reader.names()) {
    TANDEM_ASSIGN_OR_RETURN(Tensor tensor, reader.Read(name));
    arrays.push_back({name, std::move(tensor)});
  }
  return arrays;
}

absl::Status WriteNpz(FileSystem* files, const std::string& path,
                      absl::Span<const NamedArray> arrays, bool compress) {
  std::set<absl::string_view> names;
  for (const NamedArray& array : arrays) {
    if (array.name.empty()) return errors::InvalidArgument(path, ": an array has no name");
    if (names.insert(array.name).second) continue;
    return errors::InvalidArgument(path, ": two arrays are named '", absl::CHexEscape(array.name),
                                   "'");
  }
  TANDEM_ASSIGN_OR_RETURN(std::unique_ptr<WritableFile> file,
                          files->OpenToWrite(path, WriteMode::kReplace));
  ZipWriter zip(std::move(file), {.deflate = compress});
  for (const NamedArray& array : arrays) {
    const absl::StatusOr<std::string> bytes = SerializeNpy(array.tensor);
    if (!bytes.ok()) {
      return WithContext(bytes.status(),
                         absl::StrCat(path, ": array '", absl::CHexEscape(array.name), "'"));
    }
    TANDEM_RETURN_IF_ERROR(zip.Add(absl::StrCat(array.name, kEnding), *bytes));
  }
  return zip.Close();
}

}  // namespace tandem
