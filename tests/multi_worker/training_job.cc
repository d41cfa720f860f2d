#include "tests/multi_worker/training_job.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>
#include <system_error>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "absl/time/clock.h"
#include "core/io/file.h"
#include "gtest/gtest.h"
#include "runtime/checkpoint/folder.h"

namespace tandem::testing {
namespace {

constexpr char kTandem[] = "tools/tandem";
constexpr char kTrainer[] = "tests/multi_worker/small_trainer";
constexpr int kStepsPerEpoch = 20;
constexpr absl::Duration kPatience = absl::Minutes(1);

std::string Contents(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

// A zombie is gone, too: it is only not waited for.
bool IsAlive(pid_t pid) {
  const std::string text = Contents(absl::StrCat("/proc/", pid, "/stat"));
  const size_t name_end = text.rfind(')');
  return name_end != std::string::npos && name_end + 2 < text.size() && text[name_end + 2] != 'Z' &&
         text[name_end + 2] != 'X';
}

bool IsListenedOn(int port) {
  const int number = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<uint16_t>(port));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  const bool listened =
      connect(number, reinterpret_cast<const sockaddr*>(&address), sizeof(address)) == 0;
  close(number);
  return listened;
}

// Nothing of what starts the tests shall make them workers of a job, or silent.
const std::map<std::string, std::string>& Environment() {
  static const auto* const environment = [] {
    for (const char* name : {"TF_CONFIG", "TANDEM_DEVICES", "TANDEM_RENDEZVOUS", "TANDEM_WORKERS",
                             "TANDEM_RESTART_COUNT", "RANK", "WORLD_SIZE"}) {
      unsetenv(name);
    }
    return new std::map<std::string, std::string>{{"TANDEM_LOG_LEVEL", "info"}};
  }();
  return *environment;
}

// The words of "started worker:1 pid 4711 port 40001": the worker, its process and its port.
struct Started {
  int worker = 0;
  pid_t pid = 0;
  int port = 0;
};
absl::optional<Started> ParseStarted(absl::string_view text) {
  Started started;
  const std::vector<absl::string_view> words = absl::StrSplit(text, ' ');
  if (words.size() != 6 || words[0] != "started" ||
      !absl::SimpleAtoi(absl::StripPrefix(words[1], "worker:"), &started.worker) ||
      !absl::SimpleAtoi(words[3], &started.pid) || !absl::SimpleAtoi(words[5], &started.port)) {
    return absl::nullopt;
  }
  return started;
}

// The words of "group of 3, rank 1".
struct GroupLine {
  int size = 0;
  int rank = 0;
};
absl::optional<GroupLine> ParseGroup(absl::string_view text) {
  GroupLine group;
  if (std::sscanf(std::string(text).c_str(), "group of %d, rank %d", &group.size, &group.rank) !=
      2) {
    return absl::nullopt;
  }
  return group;
}

}  // namespace

absl::optional<int64_t> StepOf(absl::string_view text) {
  int64_t step = 0;
  const std::vector<absl::string_view> words = absl::StrSplit(text, ' ');
  if (words.size() != 4 || words[0] != "step" || words[2] != "loss" ||
      !absl::SimpleAtoi(words[1], &step)) {
    return absl::nullopt;
  }
  return step;
}

ScratchFolder::ScratchFolder() {
  const char* const parent = std::getenv("TEST_TMPDIR");
  std::string path = absl::StrCat(parent == nullptr ? "/tmp" : parent, "/job.XXXXXX");
  EXPECT_NE(mkdtemp(path.data()), nullptr) << path;
  path_ = path;
}

ScratchFolder::~ScratchFolder() {
  std::error_code ignored;
  if (!::testing::Test::HasFailure()) std::filesystem::remove_all(path_, ignored);
}

std::string ScratchFolder::operator/(absl::string_view name) const {
  return absl::StrCat(path_, "/", name);
}

const Undisturbed& UndisturbedTraining(int epochs, bool validates) {
  static auto* const trainings = new std::map<std::pair<int, bool>, Undisturbed>;
  const auto key = std::make_pair(epochs, validates);
  const auto found = trainings->find(key);
  if (found != trainings->end()) return found->second;
  const ScratchFolder scratch;
  ServerProcess trainer(
      {kTrainer, "--strategy=one_device", "--deterministic", absl::StrCat("--epochs=", epochs),
       absl::StrCat("--validate=", validates), absl::StrCat("--result=", scratch / "result")},
      Environment());
  const absl::optional<int> status = trainer.WaitForEnd(absl::Now() + absl::Minutes(5));
  Undisturbed result;
  std::string all;
  for (const ServerProcess::Line& line : trainer.LinesFrom(0)) {
    absl::StrAppend(&all, line.text, "\n");
    const absl::optional<int64_t> step = StepOf(line.text);
    if (!step.has_value()) continue;
    EXPECT_EQ(*step, static_cast<int64_t>(result.losses.size()) + 1);
    result.losses.push_back(line.text);
  }
  result.variables = Contents(scratch / "result.0");
  EXPECT_TRUE(status.has_value() && *status == 0) << all;
  EXPECT_EQ(result.losses.size(), static_cast<size_t>(epochs * kStepsPerEpoch)) << all;
  EXPECT_FALSE(result.variables.empty());
  return (*trainings)[key] = std::move(result);
}

TrainingJob::TrainingJob(const JobOptions& options, const ScratchFolder& scratch)
    : options_(options), folder_(scratch.path()) {
  std::vector<std::string> command = {
      kTandem,
      "launch",
      absl::StrCat("--workers=", options.min_workers, ":", options.max_workers),
      "--max_restarts=1000",
      "--",
      kTrainer,
      "--deterministic",
      absl::StrCat("--epochs=", options.epochs),
      absl::StrCat("--step_time=", absl::FormatDuration(options.step_time)),
      absl::StrCat("--replicas=", options.replicas),
      absl::StrCat("--validate=", options.validates),
      absl::StrCat("--resume=", options.resumes),
      absl::StrCat("--save_every_steps=", options.save_every_steps),
      absl::StrCat("--result=", scratch / "result"),
      absl::StrCat("--scratch=", scratch.path())};
  if (options.has_checkpoints) command.push_back("--checkpoint_dir=" + (scratch / "run"));
  if (!options.die.empty()) command.push_back("--die=" + options.die);
  launcher_ = std::make_unique<ServerProcess>(command, Environment());
}

TrainingJob::~TrainingJob() {
  ReadLines(absl::InfinitePast());
  launcher_->Kill();
  for (const Line& line : lines_) {
    const absl::optional<Started> started = ParseStarted(line.text);
    // Whoever has ended may have given its number to somebody else.
    if (!started.has_value() || !IsAlive(started->pid)) continue;
    const std::string command = Contents(absl::StrCat("/proc/", started->pid, "/cmdline"));
    if (absl::StrContains(command, folder_)) kill(started->pid, SIGKILL);
  }
}

void TrainingJob::ReadLines(absl::Time deadline) {
  for (ServerProcess::Line& read : launcher_->LinesFrom(lines_.size(), deadline)) {
    Line line = {read.when, -1, std::move(read.text)};
    const absl::string_view text = line.text;
    const size_t end = text.find("] ");
    if (absl::StartsWith(text, "[worker:") && end != absl::string_view::npos &&
        absl::SimpleAtoi(text.substr(8, end - 8), &line.worker)) {
      line.text = std::string(text.substr(end + 2));
    }
    lines_.push_back(std::move(line));
  }
}

int TrainingJob::num_lines() {
  ReadLines(absl::InfinitePast());
  return static_cast<int>(lines_.size());
}

int TrainingJob::Find(const std::string& what, const Matches& matches, int from) {
  const absl::Time deadline = absl::Now() + kPatience;
  for (size_t i = static_cast<size_t>(std::max(from, 0));;) {
    for (; i < lines_.size(); ++i) {
      if (matches(lines_[i])) return static_cast<int>(i);
    }
    ReadLines(deadline);
    if (i < lines_.size()) continue;
    ADD_FAILURE() << what << " did not come within " << absl::FormatDuration(kPatience)
                  << ", or before the end:\n"
                  << All();
    return -1;
  }
}

int64_t TrainingJob::step() {
  ReadLines(absl::InfinitePast());
  int64_t last = 0;
  for (const Line& line : lines_) last = std::max(last, StepOf(line.text).value_or(0));
  return last;
}

bool TrainingJob::WaitForStep(int64_t step) {
  return Find(absl::StrCat("step ", step),
              [step](const Line& line) { return StepOf(line.text).value_or(0) >= step; }) >= 0;
}

bool TrainingJob::WaitForGroup(int size, int from) {
  std::set<int> members;
  return Find(
             absl::StrCat("a group of ", size),
             [&](const Line& line) {
               const absl::optional<GroupLine> group = ParseGroup(line.text);
               if (!group.has_value()) return false;
               if (group->size != size) {
                 members.clear();
               } else {
                 members.insert(line.worker);
               }
               return static_cast<int>(members.size()) == size;
             },
             from) >= 0;
}

int TrainingJob::chief() {
  ReadLines(absl::InfinitePast());
  int chief = -1;
  for (const Line& line : lines_) {
    const absl::optional<GroupLine> group = ParseGroup(line.text);
    if (group.has_value() && group->rank == 0) chief = line.worker;
  }
  return chief;
}

pid_t TrainingJob::pid(int worker) {
  ReadLines(absl::InfinitePast());
  pid_t pid = 0;
  for (const Line& line : lines_) {
    const absl::optional<Started> started = ParseStarted(line.text);
    if (line.worker < 0 && started.has_value() && started->worker == worker) pid = started->pid;
  }
  return pid;
}

void TrainingJob::Signal(int worker, int signal) {
  const pid_t process = pid(worker);
  ASSERT_GT(process, 0) << "there is no worker " << worker << ":\n" << All();
  ASSERT_EQ(kill(process, signal), 0) << "worker " << worker << " is not there:\n" << All();
}

void TrainingJob::Hurry() { std::ofstream(absl::StrCat(folder_, "/hurry")) << "now"; }

absl::optional<std::string> TrainingJob::Happened(const std::string& fault) const {
  const std::string path = absl::StrCat(folder_, "/", fault);
  if (!std::filesystem::exists(path)) return absl::nullopt;
  return Contents(path);
}

int TrainingJob::WaitForEnd(absl::Duration patience) {
  const absl::optional<int> status = launcher_->WaitForEnd(absl::Now() + patience);
  ReadLines(absl::InfinitePast());
  if (!status.has_value()) {
    ADD_FAILURE() << "the job does not end within " << absl::FormatDuration(patience) << ":\n"
                  << All();
    return -1;
  }
  CheckNothingIsLeft();
  return WIFEXITED(*status) ? WEXITSTATUS(*status) : 128 + WTERMSIG(*status);
}

void TrainingJob::CheckNothingIsLeft() {
  for (const Line& line : lines_) {
    const absl::optional<Started> started = ParseStarted(line.text);
    if (line.worker >= 0 || !started.has_value()) continue;
    EXPECT_FALSE(IsAlive(started->pid)) << line.text << " lives on";
    EXPECT_FALSE(IsListenedOn(started->port)) << line.text << ": its port is still served";
  }
}

void TrainingJob::CheckSteps(const Undisturbed& expected) {
  ReadLines(absl::InfinitePast());
  std::set<int64_t> done;
  // Of each worker: the step that it did last, and whether it may have been given another state.
  std::map<int, std::pair<int64_t, bool>> last;
  for (const Line& line : lines_) {
    if (line.worker < 0) {
      const absl::optional<Started> started = ParseStarted(line.text);
      if (started.has_value()) last[started->worker] = {0, true};
      continue;
    }
    auto& [before, may_move] = last[line.worker];
    if (ParseGroup(line.text).has_value()) may_move = true;
    const absl::optional<int64_t> step = StepOf(line.text);
    if (!step.has_value()) continue;
    const std::string who = absl::StrCat("worker ", line.worker, " after step ", before);
    EXPECT_GT(*step, before) << who;
    if (!may_move) {
      EXPECT_EQ(*step, before + 1) << who;
    }
    before = *step;
    may_move = false;
    done.insert(*step);
    if (*step <= static_cast<int64_t>(expected.losses.size())) {
      EXPECT_EQ(line.text, expected.losses[static_cast<size_t>(*step - 1)]) << who;
    }
  }
  EXPECT_EQ(done.size(), expected.losses.size()) << All();
}

void TrainingJob::CheckResults(const Undisturbed& expected, const std::vector<int>& workers) {
  for (const int worker : workers) {
    const std::string variables = Contents(absl::StrCat(folder_, "/result.", worker));
    EXPECT_FALSE(variables.empty()) << "worker " << worker << " has no result";
    EXPECT_TRUE(variables == expected.variables)
        << "worker " << worker << " ended with other variables";
  }
}

std::vector<int64_t> TrainingJob::CheckpointedSteps() const {
  std::vector<int64_t> steps;
  const auto paths = CheckpointsNewestFirst(PosixFileSystem(), absl::StrCat(folder_, "/run"));
  EXPECT_TRUE(paths.ok()) << paths.status();
  if (!paths.ok()) return steps;
  for (const std::string& path : *paths) {
    int64_t step = 0;
    if (absl::SimpleAtoi(path.substr(path.rfind('-') + 1), &step)) steps.push_back(step);
  }
  return steps;
}

std::string TrainingJob::All() {
  ReadLines(absl::InfinitePast());
  std::string all;
  const absl::Time begin = lines_.empty() ? absl::Now() : lines_.front().when;
  for (const Line& line : lines_) {
    absl::StrAppend(&all, absl::ToInt64Milliseconds(line.when - begin), " ms ",
                    line.worker < 0 ? "" : absl::StrCat("[", line.worker, "] "), line.text, "\n");
  }
  return all;
}

}  // namespace tandem::testing
