#include "strategies/parameter_server/fleet.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "core/base/log.h"
#include "core/base/status.h"

namespace tandem::parameter_server {
namespace {

constexpr absl::Duration kFirstDelay = absl::Milliseconds(50);
constexpr absl::Duration kLongestDelay = absl::Seconds(2);
constexpr absl::Duration kWatchEvery = absl::Seconds(1);

// What a worker or a server that is lost leaves behind. A server that is just ending cancels steps,
// but programs may end with Cancelled, too: that is believed after some times.
bool IsLoss(const absl::Status& status, int failures) {
  constexpr int kMostCancelled = 5;
  return absl::IsUnavailable(status) || absl::IsAborted(status) ||
         (absl::IsCancelled(status) && failures < kMostCancelled);
}

}  // namespace

Fleet::Fleet(FleetOptions options) : options_(std::move(options)) {
  links_.resize(options_.workers.size());
  size_t next = 0;
  for (const auto& [number, address] : options_.workers) {
    WorkerLinkOptions link;
    link.member = absl::StrCat("/job:", options_.job, "/task:", number);
    link.address = address;
    link.heartbeat = options_.heartbeat;
    link.lost_after = options_.lost_after;
    link.security = options_.security;
    Worker& worker = links_[next++];
    // Until all are there nobody looks at them.
    MutexLock lock(mu_);
    worker.link.reset(new WorkerLink(std::move(link), this));
  }
  watch_ = std::thread([this] { Watch(); });
}

Fleet::~Fleet() {
  CancelAll(errors::Cancelled("the training ends"));
  {
    MutexLock lock(mu_);
    ends_ = true;
    changed_.NotifyAll();
  }
  watch_.join();
  // Their threads call this object, and look for themselves among the links: none may go before all
  // threads have ended.
  for (Worker& worker : links_) worker.link->Stop();
}

int Fleet::num_there() const {
  int count = 0;
  MutexLock lock(mu_);
  for (const Worker& worker : links_) count += worker.link->status().ok() ? 1 : 0;
  return count;
}

int Fleet::AddProgram(WorkerProgram program) {
  MutexLock lock(mu_);
  programs_.push_back(std::make_shared<const WorkerProgram>(std::move(program)));
  return static_cast<int>(programs_.size()) - 1;
}

void Fleet::Submit(FleetStep step) {
  absl::Status refusal;
  {
    MutexLock lock(mu_);
    const auto bad = bad_.find(step.program);
    if (bad != bad_.end()) {
      refusal = bad->second;
    } else if (ends_) {
      refusal = errors::Cancelled("the training ends");
    } else {
      for (Worker& worker : links_) {
        worker.link->Want(step.program, programs_[static_cast<size_t>(step.program)]);
      }
      if (running_ == 0 && items_.empty()) idle_since_ = absl::Now();
      auto item = std::make_shared<Item>();
      item->step = std::move(step);
      const Key key = {item->step.order, item->step.id};
      all_.insert(key);
      waiting_.insert(key);
      items_[key.second] = std::move(item);
    }
  }
  if (!refusal.ok()) {
    step.done(refusal);
    return;
  }
  Dispatch();
}

void Fleet::Remove(Item& item) {
  const Key key = {item.step.order, item.step.id};
  all_.erase(key);
  waiting_.erase(key);
  items_.erase(key.second);
}

std::vector<std::shared_ptr<Fleet::Item>> Fleet::TakeWaiting(
    const std::function<bool(const Item&)>& fits) {
  std::vector<std::shared_ptr<Item>> taken;
  for (const Key& key : waiting_) {
    const std::shared_ptr<Item>& item = items_.at(key.second);
    if (fits(*item)) taken.push_back(item);
  }
  for (const std::shared_ptr<Item>& item : taken) Remove(*item);
  return taken;
}

void Fleet::Cancel(int64_t id, const absl::Status& reason) {
  std::shared_ptr<Attempt> attempt;
  std::shared_ptr<Item> removed;
  {
    MutexLock lock(mu_);
    const auto found = items_.find(id);
    if (found == items_.end()) return;
    const std::shared_ptr<Item> item = found->second;
    item->cancelled = reason;
    attempt = item->attempt;
    if (!item->is_running) {
      Remove(*item);
      removed = item;
    }
  }
  if (attempt != nullptr) attempt->cancellation.Cancel(reason);
  if (removed != nullptr) removed->step.done(reason);
}

void Fleet::CancelAll(const absl::Status& reason) {
  std::vector<int64_t> ids;
  {
    MutexLock lock(mu_);
    for (const auto& [id, item] : items_) ids.push_back(id);
  }
  for (const int64_t id : ids) Cancel(id, reason);
}

void Fleet::Wake() {
  {
    MutexLock lock(mu_);
    ++wakes_;
    if (lacks_route_) {
      lacks_route_ = false;
      if (running_ == 0 && !items_.empty()) idle_since_ = absl::Now();
    }
  }
  Dispatch();
}

Fleet::Worker* Fleet::Choose(const Item& item) {
  const bool is_urgent =
      item.step.belongs_together && !all_.empty() && all_.begin()->first == item.step.order;
  Worker* best = nullptr;
  const int count = static_cast<int>(links_.size());
  for (int i = 0; i < count; ++i) {
    Worker& worker = links_[static_cast<size_t>((next_worker_ + i) % count)];
    if (worker.load >= options_.steps_in_flight && !is_urgent) continue;
    if (best != nullptr && worker.load >= best->load) continue;
    if (worker.link->CanRun(item.step.program)) best = &worker;
  }
  return best;
}

std::shared_ptr<Fleet::Item> Fleet::TakeNext(Worker** worker) {
  if (lacks_route_) return nullptr;
  const absl::Time now = absl::Now();
  for (const Key& key : waiting_) {
    const std::shared_ptr<Item> item = items_.at(key.second);
    if (item->not_before > now) continue;
    *worker = Choose(*item);
    if (*worker == nullptr) continue;
    next_worker_ = static_cast<int>(*worker - links_.data()) + 1;
    ++(*worker)->load;
    ++running_;
    item->is_running = true;
    waiting_.erase(key);
    return item;
  }
  return nullptr;
}

void Fleet::Dispatch() {
  {
    MutexLock lock(mu_);
    if (is_dispatching_) {
      dispatch_again_ = true;
      return;
    }
    is_dispatching_ = true;
  }
  for (;;) {
    Worker* worker = nullptr;
    std::shared_ptr<Item> item;
    uint64_t wakes = 0;
    {
      MutexLock lock(mu_);
      item = TakeNext(&worker);
      wakes = wakes_;
      if (item == nullptr && !std::exchange(dispatch_again_, false)) {
        is_dispatching_ = false;
        return;
      }
    }
    if (item != nullptr) Send(item, worker, wakes);
  }
}

void Fleet::Requeue(const std::shared_ptr<Item>& item, Worker* worker) {
  --worker->load;
  --running_;
  if (running_ == 0) idle_since_ = absl::Now();
  item->is_running = false;
  item->attempt.reset();
  waiting_.insert({item->step.order, item->step.id});
}

void Fleet::Send(const std::shared_ptr<Item>& item, Worker* worker, uint64_t wakes) {
  std::vector<Tensor> feeds = item->step.feeds;
  bool has_route = true;
  if (item->step.route) {
    absl::optional<Tensor> route = item->step.route();
    has_route = route.has_value();
    if (has_route) feeds.push_back(*std::move(route));
  }
  const auto attempt = std::make_shared<Attempt>();
  absl::Status cancelled;
  {
    MutexLock lock(mu_);
    cancelled = item->cancelled;
    if (cancelled.ok() && !has_route) {
      Requeue(item, worker);
      // Unless somebody has woken it meanwhile.
      if (wakes == wakes_) lacks_route_ = true;
      return;
    }
    item->attempt = attempt;
  }
  if (!cancelled.ok()) {
    Ended(item, worker, cancelled);
    return;
  }
  worker->link->Start(item->step.program, std::move(feeds), &attempt->cancellation,
                      [this, item, attempt, worker](absl::StatusOr<std::vector<Tensor>> result) {
                        Ended(item, worker, std::move(result));
                      });
}

void Fleet::Ended(const std::shared_ptr<Item>& item, Worker* worker,
                  absl::StatusOr<std::vector<Tensor>> result) {
  bool is_loss = false;
  bool is_over = true;
  {
    MutexLock lock(mu_);
    if (!item->cancelled.ok()) {
      result = item->cancelled;
    } else if (IsLoss(result.status(), item->failures) && !ends_) {
      is_loss = true;
      const absl::Time now = absl::Now();
      if (item->failures++ == 0) item->first_failure = now;
      is_over = item->failures > 3 && now - item->first_failure > options_.start_timeout;
      if (is_over) {
        result =
            errors::Unavailable("a step has failed ", item->failures, " times in ",
                                absl::FormatDuration(now - item->first_failure), ", at last at ",
                                worker->link->member(), ": ", result.status().message());
      }
      // The first time another one, or this one when it has answered, takes it at once.
      if (item->failures > 1) {
        item->not_before =
            now + std::min(kFirstDelay * (1 << std::min(item->failures, 10)), kLongestDelay);
        changed_.NotifyAll();
      }
    }
    if (is_loss && !is_over) {
      Requeue(item, worker);
    } else {
      --worker->load;
      --running_;
      if (running_ == 0) idle_since_ = absl::Now();
      Remove(*item);
    }
  }
  if (is_loss) {
    worker->link->Suspect();
    if (options_.on_trouble) options_.on_trouble();
  }
  if (is_over) item->step.done(std::move(result));
  Dispatch();
}

void Fleet::WorkerJoined(WorkerLink* link) {
  MutexLock lock(mu_);
  for (Worker& worker : links_) {
    if (worker.link.get() != link) continue;
    // Those of the beginning are no news.
    if (worker.was_lost || absl::Now() - began_ > options_.lost_after) {
      std::string text =
          absl::StrCat(worker.was_lost ? "is there again, at " : "is there, at ", link->address());
      TANDEM_LOG(Warning) << "worker " << link->member() << " " << text;
      events_.push_back(
          {MemberEvent::Kind::kJoined, link->member(), std::move(text), ++generation_, true});
    }
    worker.was_lost = false;
  }
}

void Fleet::WorkerLeft(WorkerLink* link, const absl::Status& reason) {
  TANDEM_LOG(Warning) << "worker " << link->member() << " is lost: " << reason.message()
                      << "; its steps run elsewhere, or when it is there again";
  MutexLock lock(mu_);
  for (Worker& worker : links_) {
    if (worker.link.get() == link) worker.was_lost = true;
  }
  events_.push_back({MemberEvent::Kind::kLeft, link->member(), std::string(reason.message()),
                     ++generation_, true});
}

void Fleet::WorkerIsReady(WorkerLink*) { Dispatch(); }

void Fleet::ProgramIsBad(int program, const absl::Status& error) {
  std::vector<std::shared_ptr<Item>> failed;
  {
    MutexLock lock(mu_);
    bad_.emplace(program, error);
    failed = TakeWaiting([program](const Item& item) { return item.step.program == program; });
  }
  for (const std::shared_ptr<Item>& item : failed) item->step.done(error);
}

std::vector<MemberEvent> Fleet::TakeEvents() {
  MutexLock lock(mu_);
  return std::exchange(events_, {});
}

std::string Fleet::DescribeWorkers() const {
  std::string text;
  for (const Worker& worker : links_) {
    const absl::Status status = worker.link->status();
    absl::StrAppend(&text, text.empty() ? "" : "; ", worker.link->member(), " at ",
                    worker.link->address(), ": ", status.ok() ? "is there" : status.message());
  }
  return text;
}

void Fleet::Watch() {
  for (;;) {
    std::vector<std::shared_ptr<Item>> failed;
    {
      MutexLock lock(mu_);
      const absl::Time now = absl::Now();
      // Nobody tells when the last worker goes.
      absl::Time next = now + kWatchEvery;
      for (const Key& key : waiting_) {
        const absl::Time at = items_.at(key.second)->not_before;
        if (at > now) next = std::min(next, at);
      }
      const bool is_stuck = running_ == 0 && !waiting_.empty() && !lacks_route_;
      if (is_stuck) next = std::min(next, idle_since_ + options_.start_timeout);
      if (ends_) return;
      if (is_stuck && now >= idle_since_ + options_.start_timeout) {
        failed = TakeWaiting([](const Item&) { return true; });
      } else {
        changed_.WaitUntil(mu_, next);
        if (ends_) return;
      }
    }
    if (!failed.empty()) {
      const absl::Status status = errors::DeadlineExceeded(
          "no worker has taken a step for ", absl::FormatDuration(options_.start_timeout), ": ",
          DescribeWorkers());
      for (const std::shared_ptr<Item>& item : failed) item->step.done(status);
    }
    Dispatch();
  }
}

}  // namespace tandem::parameter_server
