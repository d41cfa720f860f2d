#include "runtime/collective/group_runtime.h"

#include <algorithm>
#include <cstring>
#include <numeric>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "core/base/status.h"
#include "runtime/collective/joint_operation.h"
#include "runtime/collective/reduce_values.h"

namespace tandem::collective {
namespace {

// Steps of a session are those of all groups that it has had (NextStep); a group is told, and shows
// in its messages, the number in its own generation.
constexpr int kGenerationShift = 32;
int64_t StepInGroup(int64_t step) {
  return step < 0 ? step : step & ((int64_t{1} << kGenerationShift) - 1);
}

// Whether a step can take part in the group, which may be null.
absl::Status CheckStep(const Group* group, const CollectiveRequest& request, const char* what) {
  if (group == nullptr) {
    return errors::Aborted(what, " '", request.node, "': this process belongs to no group yet");
  }
  // 0: numbered by somebody else than NextStep.
  const int64_t begun_in = request.step < 0 ? 0 : request.step >> kGenerationShift;
  if (begun_in == 0 || begun_in == group->generation()) return absl::OkStatus();
  return errors::Aborted(what, " '", request.node, "': its step began in generation ", begun_in,
                         " of the group; now it is generation ", group->generation());
}

// Values of one type, side by side in one buffer, so that they travel in one operation.
struct Packed {
  DataType dtype = kFloat32;
  bool lies_alone = false;      // One large value, and nothing else.
  std::vector<size_t> indices;  // Of the values of the request.
  int64_t count = 0;            // Elements of one replica, padding included.
  Tensor input;                 // Of each replica, or of their sum.
  Tensor output;
};

// A value of so many bytes has an operation of its own, which costs less than a copy of it does.
constexpr size_t kLiesAlone = 256 << 10;

// Each value begins on a cache line.
int64_t PaddedCount(const Tensor& value) {
  constexpr int64_t kAlignment = 64;
  return (value.num_elements() + kAlignment - 1) / kAlignment * kAlignment;
}

// An all-reduce between processes, until its last part is done.
struct Reducing {
  int64_t divisor = 1;
  std::vector<Shape> shapes;
  std::vector<Packed> parts;
};

std::vector<Tensor> Unpack(Reducing& reducing) {
  std::vector<Tensor> results(reducing.shapes.size());
  for (Packed& part : reducing.parts) {
    if (reducing.divisor != 1) {
      DivideValues(part.dtype, part.output.mutable_data(), reducing.divisor,
                   part.output.num_elements());
    }
    int64_t begin = 0;
    for (const size_t index : part.indices) {
      const Shape& shape = reducing.shapes[index];
      char* const data = static_cast<char*>(part.output.mutable_data()) +
                         static_cast<size_t>(begin) * DataTypeSize(part.dtype);
      results[index] = Tensor::FromBuffer(part.dtype, shape, part.output.buffer(), data);
      begin += PaddedCount(results[index]);
    }
  }
  return results;
}

// What a process says of each value before the rows are sent: how many rows it brings, how many
// elements a row has, its type, and a hash of the sizes of a row.
constexpr size_t kFacts = 4;

struct Gathering {
  std::vector<Tensor> values;
  std::vector<int64_t> own;  // kFacts for each value.
  std::vector<int64_t> all;  // The same of all processes, by rank.
  std::vector<Tensor> results;
};

int64_t HashOfRow(const Shape& shape) {
  uint64_t hash = 0xcbf29ce484222325;  // FNV-1a.
  for (int i = 1; i < shape.rank(); ++i) {
    hash = (hash ^ static_cast<uint64_t>(shape.dim(i))) * 0x100000001b3;
  }
  return static_cast<int64_t>(hash);
}

std::vector<int64_t> FactsOf(const std::vector<Tensor>& values) {
  std::vector<int64_t> facts;
  for (const Tensor& value : values) {
    int64_t row = 1;
    for (int i = 1; i < value.shape().rank(); ++i) row *= value.shape().dim(i);
    facts.insert(facts.end(), {value.shape().dim(0), row, static_cast<int64_t>(value.dtype()),
                               HashOfRow(value.shape())});
  }
  return facts;
}

// Makes room for the rows of all processes; gives the operations that fetch them, of those values
// that have any. What is compared is the same at all processes, so that all find the same: nobody
// begins to send what another one refuses.
absl::StatusOr<std::vector<Request>> RowsOf(const Group& group, const CollectiveRequest& request,
                                            Gathering& gathering) {
  constexpr int64_t kMost = int64_t{1} << 40;  // Elements of a process.
  const size_t count = gathering.values.size();
  const size_t processes = static_cast<size_t>(group.size());
  std::vector<Request> parts;
  for (size_t i = 0; i < count; ++i) {
    const int64_t* const first = &gathering.all[i * kFacts];
    std::vector<int64_t> counts;
    int64_t rows = 0;
    for (size_t rank = 0; rank < processes; ++rank) {
      const int64_t* const theirs = &gathering.all[(rank * count + i) * kFacts];
      if (theirs[0] < 0 || theirs[1] < 0 || theirs[0] > kMost ||
          theirs[0] > kMost / std::max<int64_t>(theirs[1], 1)) {
        return errors::InvalidArgument(
            "all-gather '", request.node, "': ", group.options().members[rank].name, " brings ",
            theirs[0], " rows of ", theirs[1], " elements; that is too much");
      }
      if (!std::equal(theirs + 1, theirs + kFacts, first + 1)) {
        const auto describe = [&](const int64_t* facts, size_t of) {
          return absl::StrCat(group.options().members[of].name, " brings rows of ", facts[1], " ",
                              DataTypeName(static_cast<DataType>(facts[2])));
        };
        return errors::InvalidArgument("all-gather '", request.node, "': of value ", i, " ",
                                       describe(first, 0), ", ", describe(theirs, rank),
                                       "; rows must have the same type and shape everywhere");
      }
      counts.push_back(theirs[0] * theirs[1]);
      rows += theirs[0];
    }
    const Tensor& own = gathering.values[i];
    std::vector<int64_t> dims(own.shape().dims().begin(), own.shape().dims().end());
    dims[0] = rows;
    TANDEM_ASSIGN_OR_RETURN(const Shape shape, Shape::FromDims(dims));
    TANDEM_ASSIGN_OR_RETURN(Tensor result, Tensor::Create(own.dtype(), shape));
    if (result.num_elements() > 0) {
      Request part;
      part.kind = Kind::kAllGather;
      part.dtype = own.dtype();
      // Who has no rows has no memory either.
      part.input = own.num_elements() == 0 ? result.data() : own.data();
      part.output = result.mutable_data();
      part.counts = std::move(counts);
      part.instance = request.instance;
      part.step = StepInGroup(request.step);
      part.phase = static_cast<uint32_t>(i) + 1;
      part.name = request.node;
      parts.push_back(std::move(part));
    }
    gathering.results.push_back(std::move(result));
  }
  return parts;
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
    steps_ = 0;
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
  all.first = std::accumulate(replicas_.begin(), replicas_.begin() + group_->rank(), 0);
  all.generation = group_->generation();
  return all;
}

int64_t GroupRuntime::NextStep() {
  MutexLock lock(mu_);
  const int64_t generation = group_ == nullptr ? 0 : group_->generation();
  return generation << kGenerationShift | steps_++;
}

BetweenProcesses::Cancel GroupRuntime::AllReduce(const CollectiveRequest& request,
                                                 std::vector<std::vector<Tensor>> values,
                                                 Done done) {
  auto reducing = std::make_shared<Reducing>();
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
  if (const absl::Status fits = CheckStep(group.get(), request, "all-reduce"); !fits.ok()) {
    return fail(fits);
  }
  const size_t rank = static_cast<size_t>(group->rank());
  if (limits[rank + 1] - limits[rank] != static_cast<int>(values.size())) {
    return fail(errors::InvalidArgument("all-reduce '", request.node, "': ", values.size(),
                                        " replicas of ", group->options().members[rank].name,
                                        " take part, its group counts ",
                                        limits[rank + 1] - limits[rank]));
  }
  // With one replica a process the operation itself divides, each member a part of the sum; else
  // the sum is divided at the end, by the number of all replicas.
  const bool divides_at_the_end = request.reduction == Reduction::kMean &&
                                  (is_deterministic_ || limits.back() != group->size());
  if (divides_at_the_end) reducing->divisor = limits.back();
  const Reduction adding = divides_at_the_end ? Reduction::kSum : request.reduction;

  // The replicas of this process first, unless all are to be added along one tree.
  std::vector<std::vector<Tensor>> brought;
  if (is_deterministic_ || values.size() == 1) {
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
    reducing->shapes.push_back(value.shape());
    const bool lies_alone = !is_deterministic_ && value.num_bytes() >= kLiesAlone;
    auto part = std::find_if(reducing->parts.begin(), reducing->parts.end(), [&](const Packed& p) {
      return p.dtype == value.dtype() && !p.lies_alone;
    });
    if (lies_alone || part == reducing->parts.end()) {
      reducing->parts.emplace_back();
      part = reducing->parts.end() - 1;
      part->dtype = value.dtype();
      part->lies_alone = lies_alone;
    }
    part->indices.push_back(i);
    part->count += PaddedCount(value);
  }
  for (Packed& part : reducing->parts) {
    if (!IsReducible(part.dtype)) {
      return fail(
          errors::Unimplemented("all-reduce '", request.node, "' of ", DataTypeName(part.dtype)));
    }
    // What lies alone needs no padding, and is reduced where it is unless it belongs to somebody
    // else, too.
    Tensor& only = brought[0][part.indices[0]];
    if (!is_deterministic_ && part.indices.size() == 1) {
      part.count = only.num_elements();
      if (only.OwnsBufferAlone()) {
        part.input = std::move(only);
        part.output = part.input;
        continue;
      }
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
        const int64_t count = part.indices.size() == 1 ? part.count : PaddedCount(own[index]);
        const size_t padded = static_cast<size_t>(count) * DataTypeSize(part.dtype);
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
  if (reducing->parts.empty()) {
    done(std::vector<Tensor>());
    return [](const absl::Status&) {};
  }
  std::vector<Request> parts;
  for (Packed& part : reducing->parts) {
    Request collective;
    collective.reduction = adding;
    collective.dtype = part.dtype;
    collective.input = part.input.data();
    collective.output = part.output.mutable_data();
    collective.count = part.count;
    if (part.indices.size() == 1) {
      const Shape& shape = reducing->shapes[part.indices[0]];
      collective.dims.assign(shape.dims().begin(), shape.dims().end());
    }
    if (is_deterministic_) collective.replicas = limits;
    collective.instance = request.instance;
    collective.step = StepInGroup(request.step);
    collective.phase = static_cast<uint32_t>(parts.size());
    collective.name = request.node;
    parts.push_back(std::move(collective));
  }
  auto whole = std::make_shared<JointOperation>(group, std::move(done));
  whole->Start(std::move(parts), [whole, reducing](const absl::Status& status) {
    if (status.ok()) {
      whole->End(Unpack(*reducing));
    } else {
      whole->End(status);
    }
  });
  return [whole](const absl::Status& reason) { whole->Cancel(reason); };
}

BetweenProcesses::Cancel GroupRuntime::AllGatherRows(const CollectiveRequest& request,
                                                     std::vector<Tensor> values, Done done) {
  std::shared_ptr<Group> group;
  {
    MutexLock lock(mu_);
    group = group_;
  }
  if (const absl::Status fits = CheckStep(group.get(), request, "all-gather"); !fits.ok()) {
    done(fits);
    return [](const absl::Status&) {};
  }
  // Nothing to send, or nobody to send it to.
  if (values.empty() || (group->size() == 1 && group->status().ok())) {
    done(std::move(values));
    return [](const absl::Status&) {};
  }
  auto gathering = std::make_shared<Gathering>();
  gathering->values = std::move(values);
  gathering->own = FactsOf(gathering->values);
  gathering->all.resize(gathering->own.size() * static_cast<size_t>(group->size()));
  Request facts;
  facts.kind = Kind::kAllGather;
  facts.dtype = kInt64;
  facts.input = gathering->own.data();
  facts.output = gathering->all.data();
  facts.count = static_cast<int64_t>(gathering->own.size());
  facts.instance = request.instance;
  facts.step = StepInGroup(request.step);
  facts.name = request.node;
  auto whole = std::make_shared<JointOperation>(group, std::move(done));
  const auto end = [whole, gathering](const absl::Status& status) {
    if (status.ok()) {
      whole->End(std::move(gathering->results));
    } else {
      whole->End(status);
    }
  };
  // Not an owner of the group, which cannot end on the thread that calls this.
  const auto then = [whole, gathering, end, request,
                     group = group.get()](const absl::Status& status) {
    if (!status.ok()) {
      end(status);
      return;
    }
    absl::StatusOr<std::vector<Request>> rows = RowsOf(*group, request, *gathering);
    if (!rows.ok() || rows->empty()) {
      end(rows.status());
    } else {
      whole->Start(*std::move(rows), end);
    }
  };
  std::vector<Request> parts;
  parts.push_back(std::move(facts));
  whole->Start(std::move(parts), then);
  return [whole](const absl::Status& reason) { whole->Cancel(reason); };
}

}  // namespace tandem::collective
