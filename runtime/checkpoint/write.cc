#include "runtime/checkpoint/write.h"

#include <algorithm>
#include <memory>
#include <set>

#include "absl/strings/str_format.h"
#include "core/base/log.h"
#include "core/base/status.h"
#include "core/io/bundle_writer.h"
#include "runtime/checkpoint/folder.h"
#include "runtime/threads/inner_loop.h"

namespace tandem {
namespace {

int64_t BytesOf(const Tensor& tensor) {
  size_t bytes = tensor.is_valid() ? tensor.num_bytes() : 0;
  if (tensor.dtype() == kString) {
    for (const std::string& text : tensor.Elements<std::string>()) bytes += text.size();
  }
  return static_cast<int64_t>(bytes);
}

// The shard of each tensor: in order, always the one that has least so far.
std::vector<size_t> Spread(const std::vector<LazyTensor>& tensors, size_t num_shards) {
  std::vector<int64_t> bytes(num_shards, 0);
  std::vector<size_t> shards;
  for (const LazyTensor& tensor : tensors) {
    const auto least = std::min_element(bytes.begin(), bytes.end());
    shards.push_back(static_cast<size_t>(least - bytes.begin()));
    *least += tensor.bytes + 1;  // Empty ones are spread too.
  }
  return shards;
}

absl::Status WriteOneShard(FileSystem* files, const std::string& prefix,
                           const std::vector<LazyTensor>& tensors,
                           const std::vector<size_t>& shards, size_t shard) {
  BundleWriterOptions options;
  options.parallel_for = IdleCores();
  TANDEM_ASSIGN_OR_RETURN(const std::unique_ptr<BundleWriter> writer,
                          BundleWriter::Create(files, prefix, options));
  for (size_t i = 0; i < tensors.size(); ++i) {
    if (shards[i] != shard) continue;
    // Let go at once: whoever trains meanwhile may write over it again, instead of into fresh
    // memory.
    TANDEM_ASSIGN_OR_RETURN(const Tensor tensor, tensors[i].read());
    TANDEM_RETURN_IF_ERROR(writer->Add(tensors[i].name, tensor));
  }
  return writer->Finish();
}

absl::Status WriteShards(FileSystem* files, const std::string& prefix,
                         const std::vector<LazyTensor>& tensors, int num_shards) {
  const auto count = static_cast<size_t>(num_shards);
  const std::vector<size_t> shards = Spread(tensors, count);
  if (count == 1) return WriteOneShard(files, prefix, tensors, shards, 0);
  const std::string folder = PartsFolder(prefix);
  TANDEM_RETURN_IF_ERROR(RemovePartsFolder(files, folder));
  std::vector<std::string> parts;
  absl::Status status;
  for (size_t shard = 0; shard < count && status.ok(); ++shard) {
    parts.push_back(JoinPath(folder, absl::StrFormat("part-%05d-of-%05d", shard, count)));
    status = WriteOneShard(files, parts.back(), tensors, shards, shard);
  }
  if (status.ok()) status = MergeBundles(files, parts, prefix);
  // What is left of the parts, if anything, does no harm.
  RemovePartsFolder(files, folder).IgnoreError();
  return status;
}

}  // namespace

ParallelFor IdleCores() {
  constexpr double kNanosecondsPerPiece = 500'000;  // 4 MiB.
  return [](int64_t count, absl::FunctionRef<void(int64_t)> body) {
    InnerLoopRunner()->For(count, kNanosecondsPerPiece, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) body(i);
    });
  };
}

absl::Status WriteCheckpoint(FileSystem* files, const std::string& prefix, NamedTensors tensors,
                             int num_shards) {
  std::vector<LazyTensor> lazy;
  lazy.reserve(tensors.size());
  for (auto& [name, tensor] : tensors) {
    lazy.push_back({name, BytesOf(tensor),
                    [&tensor = tensor]() -> absl::StatusOr<Tensor> { return std::move(tensor); }});
  }
  return WriteCheckpointLazily(files, prefix, lazy, num_shards);
}

absl::Status WriteCheckpointLazily(FileSystem* files, const std::string& prefix,
                                   const std::vector<LazyTensor>& tensors, int num_shards) {
  if (num_shards < 1 || num_shards > kMaxCheckpointShards) {
    return errors::InvalidArgument("checkpoint '", prefix, "': ", num_shards,
                                   " shards; expected 1 to ", kMaxCheckpointShards);
  }
  TANDEM_ASSIGN_OR_RETURN(const std::vector<DataFileName> before, DataFilesOf(files, prefix));
  std::set<int> taken;
  for (const DataFileName& file : before) taken.insert(file.num_shards);
  while (taken.count(num_shards) != 0) ++num_shards;
  TANDEM_RETURN_IF_ERROR(WriteShards(files, prefix, tensors, num_shards));
  for (const DataFileName& file : before) {
    const absl::Status removed = files->Remove(file.path);
    if (removed.ok()) continue;
    TANDEM_LOG(Warning) << "a file of a former checkpoint stays: " << removed.message();
  }
  return absl::OkStatus();
}

}  // namespace tandem
