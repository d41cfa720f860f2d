// file_speed ACTION …: does one thing with large files and prints how many seconds it took. What
// each action does stands in kActions; file_speed.py runs them in turn with TensorFlow's.
#include <fcntl.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/numbers.h"
#include "core/base/status.h"
#include "core/io/file.h"
#include "core/io/record.h"
#include "runtime/checkpoint/checkpoint.h"
#include "runtime/checkpoint/load.h"
#include "runtime/checkpoint/write.h"
#include "runtime/input/dataset.h"

namespace tandem {
namespace {

using Words = std::vector<std::string>;

constexpr int kTensors = 16;
constexpr int64_t kFloats = int64_t{16} << 20;  // In each: 1 GiB in all.

class Stopwatch {
 public:
  double Seconds() const {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count();
  }

 private:
  const std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
};

std::string Name(int i) { return absl::StrCat("layer", i, "/kernel"); }

NamedTensors MakeTensors() {
  std::mt19937 random(1);
  NamedTensors tensors;
  for (int i = 0; i < kTensors; ++i) {
    Tensor tensor(kFloat32, Shape({kFloats}));
    for (float& value : tensor.MutableElements<float>()) value = static_cast<float>(random());
    tensors.emplace_back(Name(i), std::move(tensor));
  }
  return tensors;
}

// Drops a file from the system's cache, so that the next read goes to the disk.
absl::StatusOr<double> Forget(const Words& paths) {
  for (const std::string& path : paths) {
    const int file = open(path.c_str(), O_RDONLY | O_CLOEXEC);
    if (file < 0) return absl::ErrnoToStatus(errno, path);
    const absl::Cleanup close_it = [file] { close(file); };
    if (fdatasync(file) != 0) return absl::ErrnoToStatus(errno, path);
    const int error = posix_fadvise(file, 0, 0, POSIX_FADV_DONTNEED);
    if (error != 0) return absl::ErrnoToStatus(error, path);
  }
  return 0;
}

// PATH: the tensors' bytes one after the other, then a sync, by the system's calls alone.
absl::StatusOr<double> PlainWrite(const Words& words) {
  const NamedTensors tensors = MakeTensors();
  const Stopwatch watch;
  const int file = open(words[0].c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
  if (file < 0) return absl::ErrnoToStatus(errno, words[0]);
  const absl::Cleanup close_it = [file] { close(file); };
  for (const auto& [name, tensor] : tensors) {
    const char* const bytes = static_cast<const char*>(tensor.data());
    for (size_t at = 0; at < tensor.num_bytes();) {
      const ssize_t put = write(file, bytes + at, tensor.num_bytes() - at);
      if (put < 0) return absl::ErrnoToStatus(errno, words[0]);
      at += static_cast<size_t>(put);
    }
  }
  if (fdatasync(file) != 0) return absl::ErrnoToStatus(errno, words[0]);
  return watch.Seconds();
}

// PREFIX
absl::StatusOr<double> Save(const Words& words) {
  NamedTensors tensors = MakeTensors();
  const Stopwatch watch;
  TANDEM_RETURN_IF_ERROR(WriteCheckpoint(PosixFileSystem(), words[0], std::move(tensors)));
  return watch.Seconds();
}

// PATH: the file into fresh memory, tensor by tensor.
absl::StatusOr<double> PlainRead(const Words& words) {
  const Stopwatch watch;
  TANDEM_ASSIGN_OR_RETURN(const auto file, PosixFileSystem()->OpenToRead(words[0]));
  std::vector<Tensor> tensors;
  for (int64_t i = 0; i < kTensors; ++i) {
    Tensor tensor(kFloat32, Shape({kFloats}));
    const auto bytes = static_cast<int64_t>(tensor.num_bytes());
    TANDEM_RETURN_IF_ERROR(file->ReadExactly(
        i * bytes, absl::MakeSpan(static_cast<char*>(tensor.mutable_data()), tensor.num_bytes())));
    tensors.push_back(std::move(tensor));
  }
  return watch.Seconds();
}

// PREFIX
absl::StatusOr<double> Restore(const Words& words) {
  std::vector<WantedTensor> wanted;
  for (int i = 0; i < kTensors; ++i) wanted.push_back({Name(i), kFloat32, Shape({kFloats})});
  const Stopwatch watch;
  TANDEM_ASSIGN_OR_RETURN(const LoadedTensors loaded, LoadCheckpoint(words[0], wanted));
  return watch.Seconds();
}

// PATH: every record of a file, by the reader alone.
absl::StatusOr<double> ReadRecords(const Words& words) {
  const Stopwatch watch;
  TANDEM_ASSIGN_OR_RETURN(const auto reader, RecordReader::Open(PosixFileSystem(), words[0]));
  for (;;) {
    absl::string_view record;
    const absl::Status status = reader->Read(&record);
    if (absl::IsOutOfRange(status)) return watch.Seconds();
    TANDEM_RETURN_IF_ERROR(status);
  }
}

// PATH: every record of a file as an element of an input pipeline.
absl::StatusOr<double> PipeRecords(const Words& words) {
  const Stopwatch watch;
  TANDEM_ASSIGN_OR_RETURN(const auto iterator, data::Dataset::Records({words[0]}).Open(0));
  for (;;) {
    TANDEM_ASSIGN_OR_RETURN(const auto element, iterator->Next());
    if (!element.has_value()) return watch.Seconds();
  }
}

struct Action {
  const char* name;
  absl::StatusOr<double> (*run)(const Words& words);
};
constexpr Action kActions[] = {
    {"forget", Forget},
    {"plain_write", PlainWrite},
    {"save", Save},
    {"plain_read", PlainRead},
    {"restore", Restore},
    {"read_records", ReadRecords},
    {"pipe_records", PipeRecords},
};

int Main(int argc, char** argv) {
  const Words words(argv + 1, argv + argc);
  for (const Action& action : kActions) {
    if (words.size() < 2 || words[0] != action.name) continue;
    const absl::StatusOr<double> seconds = action.run(Words(words.begin() + 1, words.end()));
    if (seconds.ok()) {
      std::printf("%.4f\n", *seconds);
      return 0;
    }
    std::fprintf(stderr, "file_speed %s: %s\n", action.name, seconds.status().ToString().c_str());
    return 1;
  }
  std::fprintf(stderr, "file_speed ACTION PATH; see tools/benchmarks/file_speed.py\n");
  return 2;
}

}  // namespace
}  // namespace tandem

int main(int argc, char** argv) { return tandem::Main(argc, argv); }
