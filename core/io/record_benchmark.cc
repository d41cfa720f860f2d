// TFRecord files, single-threaded, from the system's cache: bytes of records a second.
//
//   bazel run //core/io:record_benchmark
//
// ReadRecords/SIZE   reads a file of 64 MiB with records of SIZE bytes
// WriteRecords/SIZE  writes one, without waiting for the disk
// The same for packed ones, with bytes that shrink to about a half.
#include <cstdlib>
#include <random>
#include <string>

#include "benchmark/benchmark.h"
#include "core/base/status.h"
#include "core/io/record.h"

namespace tandem {
namespace {

constexpr int64_t kFileBytes = int64_t{64} << 20;

std::string Path() {
  const char* folder = std::getenv("TMPDIR");
  return JoinPath(folder != nullptr ? folder : "/tmp", "tandem_record_benchmark.tfrecord");
}

absl::Status WriteFile(int64_t record_bytes, Compression compression) {
  std::mt19937 random(1);
  std::string record(static_cast<size_t>(record_bytes), '\0');
  for (char& c : record) c = static_cast<char>(random() % 16);
  TANDEM_ASSIGN_OR_RETURN(
      const auto writer,
      RecordWriter::Open(PosixFileSystem(), Path(), {.compression = compression, .level = 1}));
  for (int64_t i = 0; i < kFileBytes; i += record_bytes) {
    TANDEM_RETURN_IF_ERROR(writer->Write(record));
  }
  return writer->Close();
}

void WriteRecords(benchmark::State& state, Compression compression) {
  for (auto _ : state) {
    const absl::Status status = WriteFile(state.range(0), compression);
    if (!status.ok()) return state.SkipWithError(status.ToString().c_str());
  }
  state.SetBytesProcessed(static_cast<int64_t>(state.iterations()) * kFileBytes);
  PosixFileSystem()->Remove(Path()).IgnoreError();
}

void ReadRecords(benchmark::State& state, Compression compression) {
  absl::Status status = WriteFile(state.range(0), compression);
  for (auto _ : state) {
    if (!status.ok()) return state.SkipWithError(status.ToString().c_str());
    const auto reader =
        *RecordReader::Open(PosixFileSystem(), Path(), {.compression = compression});
    absl::string_view record;
    while ((status = reader->Read(&record)).ok()) benchmark::DoNotOptimize(record.data());
    if (status.code() == absl::StatusCode::kOutOfRange) status = absl::OkStatus();
  }
  state.SetBytesProcessed(static_cast<int64_t>(state.iterations()) * kFileBytes);
  PosixFileSystem()->Remove(Path()).IgnoreError();
}

void Sizes(benchmark::internal::Benchmark* benchmark) {
  benchmark->RangeMultiplier(16)->Range(64, 1 << 20)->Unit(benchmark::kMillisecond);
}
BENCHMARK_CAPTURE(ReadRecords, none, Compression::kNone)->Apply(Sizes);
BENCHMARK_CAPTURE(WriteRecords, none, Compression::kNone)->Apply(Sizes);
BENCHMARK_CAPTURE(ReadRecords, gzip, Compression::kGzip)->Apply(Sizes);
BENCHMARK_CAPTURE(ReadRecords, snappy, Compression::kSnappy)->Apply(Sizes);

}  // namespace
}  // namespace tandem

BENCHMARK_MAIN();
