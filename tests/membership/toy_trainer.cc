// toy_trainer STEPS [FOLDER]: a member of a job whose steps are barriers.
//
// Each step is completed by all members of the group or by none that goes on. Writes a line for
// each group and every tenth step; with FOLDER its chief writes the number of each step into the
// file FOLDER/step, behind the fence. SIGTERM: leaves after a step that all agree on, with 143.
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <thread>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "core/base/status.h"
#include "core/io/file.h"
#include "runtime/cluster/job_environment.h"
#include "runtime/cluster/membership/membership.h"

namespace tandem {
namespace {

absl::Time Soon() { return absl::Now() + absl::Seconds(60); }

absl::StatusOr<int64_t> StepInFolder(const std::string& folder) {
  const auto text = ReadFile(PosixFileSystem(), JoinPath(folder, "step"), 64);
  if (absl::IsNotFound(text.status())) return int64_t{0};
  TANDEM_RETURN_IF_ERROR(text.status());
  int64_t step = 0;
  if (!absl::SimpleAtoi(*text, &step)) return errors::DataLoss("the file of the step: ", *text);
  return step;
}

// Returns when the group is lost, or with the end of the training.
absl::Status TrainInGroup(Membership& membership, const Group& group, int64_t last,
                          const std::string& folder, int64_t* step) {
  const uint64_t generation = group.generation.number();
  std::printf("generation %llu rank %d of %d from step %lld\n",
              static_cast<unsigned long long>(generation), group.rank,
              group.generation.members_size(), static_cast<long long>(group.start_step));
  std::fflush(stdout);
  // The state: here the number of the step itself.
  if (group.rank == group.source_rank) {
    if (group.from_checkpoint) {
      TANDEM_ASSIGN_OR_RETURN(*step, StepInFolder(folder));
    }
    TANDEM_RETURN_IF_ERROR(membership.Put(generation, "state", absl::StrCat(*step), Soon()));
  }
  TANDEM_ASSIGN_OR_RETURN(const std::string state, membership.WaitKey(generation, "state", Soon()));
  if (!absl::SimpleAtoi(state, step)) return errors::Internal("the state is '", state, "'");
  TANDEM_RETURN_IF_ERROR(membership.CompletedStep(*step, Soon()).status());
  while (*step < last) {
    absl::SleepFor(absl::Milliseconds(5));  // The work of a step.
    TANDEM_RETURN_IF_ERROR(membership.Barrier(generation, "step", Soon()));
    ++*step;
    if (group.rank == 0 && !folder.empty()) {
      TANDEM_RETURN_IF_ERROR(WriteFileAtomically(membership.ChiefFiles(generation).get(),
                                                 JoinPath(folder, "step"), absl::StrCat(*step)));
      TANDEM_RETURN_IF_ERROR(membership.NoteCheckpoint(generation, *step));
    }
    if (*step % 10 == 0) {
      std::printf("step %lld\n", static_cast<long long>(*step));
      std::fflush(stdout);
    }
    TANDEM_ASSIGN_OR_RETURN(const StepAdvice advice, membership.CompletedStep(*step, Soon()));
    if (advice.save) std::printf("saved step %lld\n", static_cast<long long>(*step));
    std::fflush(stdout);
    if (!advice.regroup) continue;
    membership.ReachedSync(advice.sync);
    return absl::OkStatus();
  }
  return membership.Barrier(generation, "end", Soon());
}

absl::Status Train(int64_t last, const std::string& folder, bool* was_told) {
  TANDEM_ASSIGN_OR_RETURN(const auto job, ReadJobEnvironment());
  if (!job.has_value() || !job->config.task.has_value()) {
    return errors::FailedPrecondition("this process is part of no job; start it by tandem launch");
  }
  MembershipConfig config;
  config.name = absl::StrCat(job->config.task->job, ":", job->config.task->index);
  config.address = *job->config.Address(*job->config.task);
  config.rendezvous = job->rendezvous;
  config.folder = folder;
  config.options.min_members = job->min_workers;
  config.options.max_members = job->max_workers;
  for (const auto& [index, address] : job->config.jobs.at(job->config.task->job)) {
    config.options.seeds.push_back({absl::StrCat(job->config.task->job, ":", index), address});
  }
  TANDEM_ASSIGN_OR_RETURN(const auto membership, Membership::Create(std::move(config)));
  TANDEM_RETURN_IF_ERROR(membership->Join());

  // SIGTERM is blocked in all threads, and waited for by one.
  std::thread([&membership = *membership, was_told] {
    sigset_t signals;
    sigemptyset(&signals);
    sigaddset(&signals, SIGTERM);
    int number = 0;
    sigwait(&signals, &number);
    *was_told = true;
    membership.RequestPreemption();
  }).detach();

  int64_t step = 0;
  uint64_t after = 0;
  while (true) {
    TANDEM_ASSIGN_OR_RETURN(const Group group,
                            membership->WaitForGroup(absl::Now() + absl::Seconds(120), after));
    after = group.generation.number();
    const absl::Status status = TrainInGroup(*membership, group, last, folder, &step);
    if (status.ok() && step >= last) return membership->Leave(Soon());
    if (absl::IsCancelled(status) || absl::IsDeadlineExceeded(status)) return status;
    // Else the group was lost: what this process has completed, it keeps.
  }
}

int Main(int argc, char** argv) {
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGTERM);
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  int64_t last = 0;
  if (argc < 2 || !absl::SimpleAtoi(argv[1], &last)) {
    std::fprintf(stderr, "toy_trainer STEPS [FOLDER]\n");
    return 2;
  }
  bool was_told = false;
  const absl::Status status = Train(last, argc > 2 ? argv[2] : "", &was_told);
  std::fflush(stdout);
  if (status.ok()) {
    std::printf("done\n");
    std::fflush(stdout);
    std::_Exit(0);
  }
  std::fprintf(stderr, "%s\n", status.ToString().c_str());
  // Without destructors: a thread waits for signals still.
  std::_Exit(was_told && absl::IsCancelled(status) ? 143 : 1);
}

}  // namespace
}  // namespace tandem

int main(int argc, char** argv) { return tandem::Main(argc, argv); }
