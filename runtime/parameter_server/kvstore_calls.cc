// Calls of a KvStore: how tensors are cut into the parts of a key, and put together again.
#include <algorithm>
#include <cstring>

#include "core/base/status.h"
#include "runtime/parameter_server/kvstore.h"
#include "runtime/parameter_server/kvstore_parts.h"

namespace tandem::parameter_server {
namespace {

// Copies the rows of several tensors into one, one after the other. REQUIRES: they fit.
void JoinRows(const std::vector<Tensor>& values, Tensor& whole) {
  char* to = static_cast<char*>(whole.mutable_data());
  for (const Tensor& value : values) {
    if (value.num_bytes() > 0) std::memcpy(to, value.data(), value.num_bytes());
    to += value.num_bytes();
  }
}

// Of a call that was not begun.
absl::Status DoesNotFit(const std::string& key, const std::string& what, const Tensor& given,
                        const std::string& wanted) {
  return errors::InvalidArgument("key '", key, "': ", what, " is ", TypeAndShape(given), "; ",
                                 wanted, " is wanted");
}

absl::StatusOr<Tensor> NoResult(std::vector<Tensor>) { return Tensor(); }

}  // namespace

KvFuture KvStore::PushAsync(const std::string& name, const Tensor& gradient) {
  const auto refuse = [](const absl::Status& status) {
    KvFuture future;
    future.Set(status);
    return future;
  };
  const absl::StatusOr<KeyPtr> found = Find(name);
  if (!found.ok()) return refuse(found.status());
  const Key& key = **found;
  if (!gradient.is_valid() || gradient.dtype() != key.dtype || gradient.shape() != key.shape) {
    return refuse(DoesNotFit(name, "the gradient", gradient,
                             absl::StrCat(DataTypeName(key.dtype), key.shape.DebugString())));
  }
  PartArguments arguments;
  for (const std::unique_ptr<Part>& part : key.parts) {
    Tensor rows = key.parts.size() == 1
                      ? gradient
                      : gradient.Slice(part->offset, part->offset + part->shape.dim(0));
    if (options_.compression != nullptr) {
      absl::StatusOr<Tensor> encoded =
          options_.compression->Encode(absl::StrCat(name, "/", part->number), rows);
      if (!encoded.ok()) return refuse(encoded.status());
      rows = *std::move(encoded);
    }
    arguments.push_back(std::vector<Tensor>{std::move(rows)});
  }
  return CallParts(*found, "push", /*updates=*/true, std::move(arguments), NoResult);
}

KvFuture KvStore::PullAsync(const std::string& name) {
  const absl::StatusOr<KeyPtr> found = Find(name);
  if (!found.ok()) {
    KvFuture future;
    future.Set(found.status());
    return future;
  }
  PartArguments arguments((*found)->parts.size(), std::vector<Tensor>());
  return CallParts(
      *found, "pull", /*updates=*/false, std::move(arguments),
      [key = *found](std::vector<Tensor> values) -> absl::StatusOr<Tensor> {
        for (size_t i = 0; i < values.size(); ++i) {
          if (values[i].dtype() == key->dtype && values[i].shape() == key->parts[i]->shape) {
            continue;
          }
          return errors::Internal("key '", key->name, "' came as ", TypeAndShape(values[i]));
        }
        if (values.size() == 1) return std::move(values[0]);
        TANDEM_ASSIGN_OR_RETURN(Tensor whole, Tensor::Create(key->dtype, key->shape));
        JoinRows(values, whole);
        return whole;
      });
}

absl::StatusOr<std::vector<std::vector<int64_t>>> KvStore::PositionsByPart(const Key& key,
                                                                           const Tensor& indices) {
  if (!indices.is_valid() || indices.dtype() != kInt64 || !indices.shape().IsVector()) {
    return DoesNotFit(key.name, "the tensor of indices", indices, "int64[n]");
  }
  if (key.shape.rank() == 0) {
    return errors::InvalidArgument("key '", key.name, "' is a scalar, and has no rows");
  }
  std::vector<std::vector<int64_t>> positions(key.parts.size());
  const absl::Span<const int64_t> rows = indices.Elements<int64_t>();
  for (size_t i = 0; i < rows.size(); ++i) {
    if (rows[i] < 0 || rows[i] >= key.rows()) {
      return errors::InvalidArgument("key '", key.name, "' has ", key.rows(), " rows; there is no ",
                                     rows[i]);
    }
    const auto after = std::upper_bound(
        key.parts.begin(), key.parts.end(), rows[i],
        [](int64_t row, const std::unique_ptr<Part>& part) { return row < part->offset; });
    positions[static_cast<size_t>(after - key.parts.begin()) - 1].push_back(
        static_cast<int64_t>(i));
  }
  return positions;
}

KvFuture KvStore::PushRowsAsync(const std::string& name, const Tensor& indices,
                                const Tensor& values) {
  KvFuture refused;
  const absl::StatusOr<KeyPtr> found = Find(name);
  if (!found.ok()) {
    refused.Set(found.status());
    return refused;
  }
  const Key& key = **found;
  const auto positions = PositionsByPart(key, indices);
  absl::Status status = positions.status();
  if (status.ok() && !options_.updater.rows) {
    status = errors::InvalidArgument("the updater has no update by rows");
  }
  Shape row_shape = key.shape;
  if (status.ok()) {
    row_shape.SetDim(0, indices.shape().dim(0));
    if (!values.is_valid() || values.dtype() != key.dtype || values.shape() != row_shape) {
      status = DoesNotFit(name, "the tensor of rows", values,
                          absl::StrCat(DataTypeName(key.dtype), row_shape.DebugString()));
    }
  }
  PartArguments arguments(key.parts.size());
  for (size_t p = 0; p < key.parts.size() && status.ok(); ++p) {
    const std::vector<int64_t>& mine = (*positions)[p];
    // In a round all take part, since the others wait for this worker.
    if (mine.empty() && options_.aggregation == Aggregation::kEachPush) continue;
    row_shape.SetDim(0, static_cast<int64_t>(mine.size()));
    absl::StatusOr<Tensor> rows = Tensor::Create(key.dtype, row_shape);
    absl::StatusOr<Tensor> numbers =
        Tensor::Create(kInt64, Shape({static_cast<int64_t>(mine.size())}));
    status = rows.ok() ? numbers.status() : rows.status();
    if (!status.ok()) break;
    const size_t bytes = mine.empty() ? 0 : rows->num_bytes() / mine.size();
    for (size_t i = 0; i < mine.size(); ++i) {
      const auto from = static_cast<size_t>(mine[i]);
      if (bytes > 0) {
        std::memcpy(static_cast<char*>(rows->mutable_data()) + i * bytes,
                    static_cast<const char*>(values.data()) + from * bytes, bytes);
      }
      numbers->MutableElements<int64_t>()[i] =
          indices.Elements<int64_t>()[from] - key.parts[p]->offset;
    }
    arguments[p] = std::vector<Tensor>{*std::move(rows), *std::move(numbers)};
  }
  if (!status.ok()) {
    refused.Set(status);
    return refused;
  }
  return CallParts(*found, "push_rows", /*updates=*/true, std::move(arguments), NoResult);
}

KvFuture KvStore::PullRowsAsync(const std::string& name, const Tensor& indices) {
  KvFuture refused;
  const absl::StatusOr<KeyPtr> found = Find(name);
  if (!found.ok()) {
    refused.Set(found.status());
    return refused;
  }
  const KeyPtr key = *found;
  absl::StatusOr<std::vector<std::vector<int64_t>>> positions = PositionsByPart(*key, indices);
  if (!positions.ok()) {
    refused.Set(positions.status());
    return refused;
  }
  PartArguments arguments(key->parts.size());
  for (size_t p = 0; p < key->parts.size(); ++p) {
    const std::vector<int64_t>& mine = (*positions)[p];
    if (mine.empty()) continue;
    Tensor numbers(kInt64, Shape({static_cast<int64_t>(mine.size())}));
    for (size_t i = 0; i < mine.size(); ++i) {
      numbers.MutableElements<int64_t>()[i] =
          indices.Elements<int64_t>()[static_cast<size_t>(mine[i])] - key->parts[p]->offset;
    }
    arguments[p] = std::vector<Tensor>{std::move(numbers)};
  }
  Shape shape = key->shape;
  shape.SetDim(0, indices.shape().dim(0));
  return CallParts(key, "pull_rows", /*updates=*/false, std::move(arguments),
                   [key, shape, positions = *std::move(positions)](
                       std::vector<Tensor> values) -> absl::StatusOr<Tensor> {
                     TANDEM_ASSIGN_OR_RETURN(Tensor rows, Tensor::Create(key->dtype, shape));
                     const size_t bytes =
                         shape.dim(0) == 0 ? 0
                                           : rows.num_bytes() / static_cast<size_t>(shape.dim(0));
                     for (size_t p = 0; p < positions.size(); ++p) {
                       if (positions[p].empty()) continue;
                       if (values[p].dtype() != key->dtype ||
                           values[p].num_bytes() != bytes * positions[p].size()) {
                         return errors::Internal("rows of key '", key->name, "' came as ",
                                                 TypeAndShape(values[p]));
                       }
                       for (size_t i = 0; i < positions[p].size() && bytes > 0; ++i) {
                         std::memcpy(static_cast<char*>(rows.mutable_data()) +
                                         static_cast<size_t>(positions[p][i]) * bytes,
                                     static_cast<const char*>(values[p].data()) + i * bytes, bytes);
                       }
                     }
                     return rows;
                   });
}

KvFuture KvStore::CallParts(const KeyPtr& key, const std::string& program, bool updates,
                            PartArguments arguments,
                            std::function<absl::StatusOr<Tensor>(std::vector<Tensor>)> join) {
  const auto joint = std::make_shared<Joint>(this, key->parts.size(), std::move(join));
  const KvFuture future = joint->future();
  {
    MutexLock lock(mu_);
    ++begun_;
  }
  for (size_t place = 0; place < arguments.size(); ++place) {
    if (!arguments[place].has_value()) {
      joint->Done(place, Tensor());
    } else {
      CallPart(key, place, program, updates, *std::move(arguments[place]), joint);
    }
  }
  return future;
}

void KvStore::CallPart(const KeyPtr& key, size_t place, const std::string& program, bool updates,
                       std::vector<Tensor> arguments, const JointPtr& joint) {
  Part& part = *key->parts[place];
  const bool in_rounds = options_.aggregation == Aggregation::kAllWorkers;
  Route route;
  route.set_job(absl::StrCat(options_.job, "/", key->name));
  route.set_timeout_ms(absl::ToInt64Milliseconds(options_.timeout) + 1);
  Route::Shard& shard = *route.add_shards();
  shard.set_number(part.number);
  shard.set_address(clients_[part.server]->address());
  int64_t sequence = 0;
  absl::AnyInvocable<void()> start;
  {
    MutexLock lock(mu_);
    shard.set_incarnation(part.incarnation);
    if (in_rounds) shard.set_version(part.version);
    if (updates) {
      sequence = ++part.sequence;
      part.in_flight.insert(sequence);
      route.mutable_id()->set_client(client_);
      route.mutable_id()->set_sequence(sequence);
      route.mutable_id()->set_finished_below(*part.in_flight.begin());
      if (in_rounds) {
        Round& round = *route.mutable_round();
        round.set_number(part.version++);
        round.set_part(options_.worker);
        round.set_parts(options_.workers);
        round.set_enough(options_.workers);
        round.set_weight(1);
        round.set_all_weight(options_.workers);
      }
    }
    ShardCall call;
    call.route = route.SerializeAsString();
    call.shard = part.number;
    call.program = program;
    call.updates = updates;
    call.node = absl::StrCat("key '", key->name, "'");
    start = [this, key, place, sequence, updates, call = std::move(call),
             arguments = std::move(arguments), joint]() mutable {
      calls_->Call(
          std::move(call), std::move(arguments), &cancellation_,
          [this, key, place, sequence, updates, joint](absl::StatusOr<ShardAnswer> answer) {
            if (updates) PushEnded(*key->parts[place], sequence);
            if (!answer.ok()) {
              joint->Done(place, answer.status());
            } else if (updates) {
              joint->Done(place, Tensor());
            } else if (answer->results.size() != 1) {
              joint->Done(place, errors::Internal("key '", key->name, "' came as ",
                                                  answer->results.size(), " tensors"));
            } else {
              joint->Done(place, std::move(answer->results[0]));
            }
          });
    };
    if (!in_rounds) {
      if (part.is_busy || !part.queue.empty()) {
        part.queue.emplace_back(updates, std::move(start));
        return;
      }
      part.is_busy = updates;
    }
  }
  start();
}

// The push is still counted, so that this lives until it returns. Pushes that end at once, such as
// those of a store that is let go, are found by the thread that started them, without recursion.
void KvStore::PushEnded(Part& part, int64_t sequence) {
  {
    MutexLock lock(mu_);
    part.in_flight.erase(sequence);
    if (options_.aggregation == Aggregation::kAllWorkers) return;
    part.is_busy = false;
    if (std::exchange(part.is_pumping, true)) return;
  }
  while (true) {
    absl::AnyInvocable<void()> start;
    {
      MutexLock lock(mu_);
      if (part.is_busy || part.queue.empty()) {
        part.is_pumping = false;
        return;
      }
      part.is_busy = part.queue.front().first;
      start = std::move(part.queue.front().second);
      part.queue.pop_front();
    }
    start();
  }
}

void KvStore::End(const absl::Status& status) {
  MutexLock lock(mu_);
  if (first_error_.ok()) first_error_ = status;
  --begun_;
  ended_.NotifyAll();  // Under the lock: this may end as soon as it is released.
}

absl::Status KvStore::WaitAll() {
  MutexLock lock(mu_);
  while (begun_ > 0) ended_.Wait(mu_);  // Every call has a deadline.
  return std::exchange(first_error_, absl::OkStatus());
}

}  // namespace tandem::parameter_server
