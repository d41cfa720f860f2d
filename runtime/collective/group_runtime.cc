#include "runtime/collective/group_runtime.h"

#include <algorithm>
#include <cstring>
#include <numeric>
#include <utility>

#include "absl/strings/str_join.h"
#include "core/base/status.h"
#include "runtime/collective/reduce_values.h"

namespace tandem::collective {
namespace {

// Values of one type, side by side in one buffer, so that they travel in one operation.
struct Packed {
  DataType dtype = kFloat32;
  std::vector<size_t> indices;  // Of the values of the request.
  int64_t count = 0;            // Elements of one replica, padding included.
  Tensor input;                 // Of each replica, or of their sum.
  Tensor output;
};

// Each value begins on a cache line.
int64_t PaddedCount(const Tensor& value) {
  constexpr int64_t kAlignment = 64;
  return (value.num_elements() + kAlignment - 1) / kAlignment * kAlignment;
}

// An all-reduce between processes, until its last part is done.
struct Running {
  Reduction reduction = Reduction::kSum;
  int64_t divisor = 1;
  std::vector<Shape> shapes;
  std::vector<Packed> parts;

  Mutex mu;
  size_t left ABSL_GUARDED_BY(mu) = 0;
  absl::Status status ABSL_GUARDED_BY(mu);
  std::vector<Handle> handles ABSL_GUARDED_BY(mu);
  BetweenProcesses::Done done ABSL_GUARDED_BY(mu);
};

std::vector<Tensor> Unpack(Running& running) {
  std::vector<Tensor> results(running.shapes.size());
  for (Packed& part : running.parts) {
    if (running.divisor != 1) {
      DivideValues(part.dtype, part.output.mutable_data(), running.divisor,
                   part.output.num_elements());
    }
    int64_t begin = 0;
    for (const size_t index : part.indices) {
      const Shape& shape = running.shapes[index];
      char* const data = static_cast<char*>(part.output.mutable_data()) +
                         static_cast<size_t>(begin) * DataTypeSize(part.dtype);
      results[index] = Tensor::FromBuffer(part.dtype, shape, part.output.buffer(), data);
      begin += PaddedCount(results[index]);
    }
  }
  return results;
}

void EndPart(const std::shared_ptr<Running>& running, const absl::Status& status) {
  BetweenProcesses::Done done;
  absl::Status whole;
  {
    MutexLock lock(running->mu);
    if (running->status.ok()) running->status = status;
    if (--running->left > 0) return;
    whole = running->status;
    done = std::move(running->done);
    running->handles.clear();
  }
  if (whole.ok()) {
    done(Unpack(*running));
  } else {
    done(whole);
  }
}

}  // namespace

absl::Status GroupRuntime::SetGroup(std::shared_ptr<Group> group, std::vector<int> replicas) {
  if (replicas.size() != static_cast<size_t>(group->size()) ||
      *std::min_element(replicas.begin(), replicas.end()) < 1) {
    return errors::InvalidArgument("a group of ", group->size(), " processes with ",
                                   absl::StrJoin(replicas, ","),
                                   " replicas; each process has at least one");
  }
  std::vector<std::shared_ptr<Group>> unused;
  std::shared_ptr<Group> former;
  {
    MutexLock lock(mu_);
    former = std::exchange(group_, std::move(group));
    replicas_ = std::move(replicas);
    for (auto& old : former_) {
      if (old.use_count() == 1) unused.push_back(std::move(old));
    }
    former_.erase(std::remove(former_.begin(), former_.end(), nullptr), former_.end());
    if (former != nullptr) former_.push_back(former);
  }
  if (former != nullptr) {
    former->Abort(errors::Aborted("the members of the group changed"));
  }
  return absl::OkStatus();
}

CollectiveGroup GroupRuntime::Describe(const CollectiveGroup& local) const {
  MutexLock lock(mu_);
  if (group_ == nullptr) return local;
  CollectiveGroup all;
  all.size = std::accumulate(replicas_.begin(), replicas_.end(), 0);
  all.generation = group_->generation();
  return all;
}

BetweenProcesses::Cancel GroupRuntime::AllReduce(const CollectiveRequest& request,
                                                 std::vector<std::vector<Tensor>> values,
                                                 Done done) {
  auto running = std::make_shared<Running>();
  std::vector<int> limits = {0};
  std::shared_ptr<Group> group;
  {
    MutexLock lock(mu_);
    group = group_;
    for (const int count : replicas_) limits.push_back(limits.back() + count);
  }
  const auto fail = [&done](const absl::Status& status) {
    done(status);
    return Cancel([](const absl::Status&) {});
  };
  if (group == nullptr) {
    return fail(errors::Unavailable("all-reduce '", request.node,
                                    "': this process belongs to no group yet"));
  }
  const size_t rank = static_cast<size_t>(group->rank());
  if (limits[rank + 1] - limits[rank] != static_cast<int>(values.size())) {
    return fail(errors::InvalidArgument("all-reduce '", request.node, "': ", values.size(),
                                        " replicas of ", group->options().members[rank].name,
                                        " take part, its group counts ",
                                        limits[rank + 1] - limits[rank]));
  }
  running->reduction = request.reduction;
  if (request.reduction == Reduction::kMean) running->divisor = limits.back();
  // Divided at the end, by the number of all replicas.
  const Reduction adding =
      request.reduction == Reduction::kMean ? Reduction::kSum : request.reduction;

  // The replicas of this process first, unless all are to be added along one tree.
  std::vector<std::vector<Tensor>> brought;
  if (is_deterministic_) {
    brought = std::move(values);
  } else {
    brought.emplace_back();
    for (size_t i = 0; i < values[0].size(); ++i) {
      std::vector<const Tensor*> parts;
      for (const auto& own : values) parts.push_back(&own[i]);
      absl::StatusOr<Tensor> reduced = ReduceAlongTree(adding, parts);
      if (!reduced.ok()) return fail(WithContext(reduced.status(), request.node));
      brought[0].push_back(*std::move(reduced));
    }
    values.clear();
  }
  for (size_t i = 0; i < brought[0].size(); ++i) {
    const Tensor& value = brought[0][i];
    running->shapes.push_back(value.shape());
    auto part = std::find_if(running->parts.begin(), running->parts.end(),
                             [&](const Packed& p) { return p.dtype == value.dtype(); });
    if (part == running->parts.end()) {
      running->parts.emplace_back();
      part = running->parts.end() - 1;
      part->dtype = value.dtype();
    }
    part->indices.push_back(i);
    part->count += PaddedCount(value);
  }
  for (Packed& part : running->parts) {
    if (!IsReducible(part.dtype)) {
      return fail(
          errors::Unimplemented("all-reduce '", request.node, "' of ", DataTypeName(part.dtype)));
    }
    // What lies alone and belongs to nobody else is reduced where it is.
    Tensor& only = brought[0][part.indices[0]];
    if (!is_deterministic_ && part.indices.size() == 1 && only.OwnsBufferAlone()) {
      part.count = only.num_elements();
      part.input = std::move(only);
      part.output = part.input;
      continue;
    }
    const int64_t replicas = static_cast<int64_t>(brought.size());
    absl::StatusOr<Tensor> input = Tensor::Create(part.dtype, Shape({replicas * part.count}));
    if (!input.ok()) return fail(input.status());
    part.input = *std::move(input);
    part.output = part.input;
    char* to = static_cast<char*>(part.input.mutable_data());
    for (const auto& own : brought) {
      for (const size_t index : part.indices) {
        const size_t bytes = own[index].num_bytes();
        const size_t padded =
            static_cast<size_t>(PaddedCount(own[index])) * DataTypeSize(part.dtype);
        if (bytes != 0) std::memcpy(to, own[index].data(), bytes);
        std::memset(to + bytes, 0, padded - bytes);
        to += padded;
      }
    }
    if (!is_deterministic_) continue;
    absl::StatusOr<Tensor> output = Tensor::Create(part.dtype, Shape({part.count}));
    if (!output.ok()) return fail(output.status());
    part.output = *std::move(output);
  }
  if (running->parts.empty()) {
    done(std::vector<Tensor>());
    return [](const absl::Status&) {};
  }
  {
    MutexLock lock(running->mu);
    running->left = running->parts.size();
    running->done = std::move(done);
  }
  for (size_t i = 0; i < running->parts.size(); ++i) {
    Packed& part = running->parts[i];
    Request collective;
    collective.reduction = adding;
    collective.dtype = part.dtype;
    collective.input = part.input.data();
    collective.output = part.output.mutable_data();
    collective.count = part.count;
    if (part.indices.size() == 1) {
      const Shape& shape = running->shapes[part.indices[0]];
      collective.dims.assign(shape.dims().begin(), shape.dims().end());
    }
    if (is_deterministic_) collective.replicas = limits;
    collective.instance = request.instance;
    collective.step = request.step;
    collective.phase = static_cast<uint32_t>(i);
    collective.name = request.node;
    Handle handle = group->Start(
        std::move(collective), [running](const absl::Status& status) { EndPart(running, status); });
    MutexLock lock(running->mu);
    if (running->left > 0) running->handles.push_back(std::move(handle));
  }
  return [running](const absl::Status& status) {
    std::vector<Handle> handles;
    {
      MutexLock lock(running->mu);
      handles = running->handles;
    }
    for (const Handle& handle : handles) handle->Cancel(status);
  };
}

}  // namespace tandem::collective
