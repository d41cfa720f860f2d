#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/base/status.h"
#include "core/io/bundle.h"

namespace tandem {
namespace {

// Moves the entries of a part into the whole, whose shards begin at `first_shard`.
absl::Status MergeEntries(BundleIndex part, int first_shard, BundleIndex* merged) {
  for (auto& [key, entry] : part.entries) {
    if (!entry.slices.empty()) {
      for (const TensorSlice& slice : entry.slices) {
        TANDEM_ASSIGN_OR_RETURN(const std::string slice_key,
                                AddBundleSlice(key, entry.dtype, entry.shape, slice, merged));
        BundleEntry& slice_entry = merged->entries[slice_key];
        slice_entry = part.entries.find(slice_key)->second;
        slice_entry.shard += first_shard;
      }
    } else if (CheckBundleName(key).ok()) {
      entry.shard += first_shard;
      if (!merged->entries.emplace(key, std::move(entry)).second) {
        return errors::InvalidArgument("the tensor '", key, "' is in more than one of them");
      }
    }
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status MergeBundles(FileSystem* files, absl::Span<const std::string> prefixes,
                          const std::string& destination, const MergeBundlesOptions& options) {
  const auto context = [&](const absl::Status& status) {
    return WithContext(status, absl::StrCat("merging checkpoints into '", destination, "'"));
  };
  BundleIndex merged;
  merged.num_shards = 0;
  struct Part {
    std::string prefix;
    int num_shards;
  };
  std::vector<Part> parts;
  std::set<std::string> seen = {destination};
  for (const std::string& prefix : prefixes) {
    if (!seen.insert(prefix).second) {
      return context(errors::InvalidArgument("'", prefix, "' is given twice"));
    }
    absl::StatusOr<BundleIndex> part = ReadBundleIndex(files, prefix);
    if (options.allow_missing && part.status().code() == absl::StatusCode::kNotFound) continue;
    if (!part.ok()) return context(part.status());
    if (!parts.empty() && part->big_endian != merged.big_endian) {
      return context(errors::InvalidArgument("'", prefix, "' has another byte order than '",
                                             parts.front().prefix, "'"));
    }
    merged.big_endian = part->big_endian;
    TANDEM_RETURN_IF_ERROR(context(CheckBundleData(files, prefix, *part)));
    const int first_shard = merged.num_shards;
    merged.num_shards += part->num_shards;
    parts.push_back({prefix, part->num_shards});
    TANDEM_RETURN_IF_ERROR(context(MergeEntries(*std::move(part), first_shard, &merged)));
  }
  if (parts.empty()) {
    return context(errors::InvalidArgument("none of the ", prefixes.size(), " parts is there"));
  }

  // All that can fail for want of space comes before the first rename.
  const std::string index = TemporaryPath(BundleIndexPath(destination));
  std::vector<std::pair<std::string, std::string>> data;
  int shard_of_all = 0;
  for (const Part& part : parts) {
    for (int shard = 0; shard < part.num_shards; ++shard, ++shard_of_all) {
      std::string from = BundleDataPath(part.prefix, shard, part.num_shards);
      // A shard without tensors may have no file.
      if (!files->Stat(from).ok()) continue;
      data.emplace_back(std::move(from),
                        BundleDataPath(destination, shard_of_all, merged.num_shards));
    }
  }
  absl::Status status = files->MakeDirectories(DirectoryOf(destination));
  if (status.ok()) status = WriteBundleIndex(files, index, merged);
  if (status.ok()) status = PublishBundle(files, data, index, destination);
  if (!status.ok()) {
    files->Remove(index).IgnoreError();
    return context(status);
  }

  // The bundle is complete; what is left of the parts does no harm.
  std::set<std::string> folders;
  for (const Part& part : parts) {
    files->Remove(BundleIndexPath(part.prefix)).IgnoreError();
    folders.insert(DirectoryOf(part.prefix));
  }
  folders.erase(DirectoryOf(destination));
  for (const std::string& folder : folders) {
    if (options.remove_folders) files->RemoveDirectory(folder).IgnoreError();
  }
  return absl::OkStatus();
}

}  // namespace tandem
