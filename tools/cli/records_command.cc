#include <algorithm>
#include <cstdio>
#include <string>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/types/optional.h"
#include "core/base/status.h"
#include "core/io/file.h"
#include "core/io/record.h"
#include "nlohmann/json.hpp"
#include "runtime/input/record_compression.h"
#include "tools/cli/command.h"
#include "tools/cli/record_text.h"
#include "tools/cli/text_table.h"

namespace tandem::cli {
namespace {

using Json = nlohmann::json;

constexpr char kHelp[] =
    "tandem records count|head|verify [OPTION…] FILE…\n\n"
    "Looks into TFRecord files: data sets of TensorFlow, and the event files of TensorBoard.\n\n"
    "  count    records, their sizes, and how each file is packed; stops at damage\n"
    "  head     the first records: the features of tf.Examples and tf.SequenceExamples with their\n"
    "           first values, the first bytes of others\n"
    "  verify   reads everything, checks each record's checksums, and goes on behind damage; says\n"
    "           where it is and whether a file is cut off, and fails when there is any\n\n"
    "  --records=N           head: how many of each file (default 3)\n"
    "  --compression=NAME    none, zlib, gzip or snappy (default: as each file's contents show)\n"
    "  --json                for programs; strings of features are in base64\n\n"
    "Offsets are those of the unpacked contents.\n\n"
    "Examples:\n"
    "  tandem records count train-*.tfrecord\n"
    "  tandem records head --records=1 train-00000-of-00008\n"
    "  tandem records verify --json logs/events.out.tfevents.* && echo whole\n";

constexpr int64_t kFrameBytes = 16;  // Of a record, beside its data.

struct Options {
  absl::optional<Compression> compression;
  int64_t head = 3;
  bool json = false;
};

// A stretch of a file without good records.
struct Damage {
  int64_t begin = 0;
  int64_t end = 0;
  int64_t places = 0;
  bool cut_off = false;  // The file ends within a record, or before its packed contents do.
};

struct Summary {
  std::string path;
  std::string compression;
  int64_t records = 0;
  int64_t bytes = 0;
  int64_t smallest = 0;
  int64_t largest = 0;
  std::vector<Damage> damage;
};

// A file that is being read.
struct Opened {
  std::unique_ptr<RandomAccessFile> file;
  std::unique_ptr<RecordReader> reader;
  std::string compression;
};

absl::StatusOr<Opened> Open(const std::string& path, const Options& options, bool skip_damaged) {
  Opened opened;
  TANDEM_ASSIGN_OR_RETURN(opened.file, PosixFileSystem()->OpenToRead(path));
  RecordReaderOptions reading;
  reading.skip_damaged = skip_damaged;
  if (options.compression) {
    reading.compression = *options.compression;
  } else {
    TANDEM_ASSIGN_OR_RETURN(reading.compression, data::FindRecordCompression(*opened.file));
  }
  const std::string name(CompressionName(reading.compression));
  opened.compression = name.empty() ? "none" : absl::AsciiStrToLower(name);
  opened.reader = std::make_unique<RecordReader>(opened.file.get(), reading);
  return opened;
}

void Add(absl::string_view record, Summary* summary) {
  const int64_t size = static_cast<int64_t>(record.size());
  summary->smallest = summary->records == 0 ? size : std::min(summary->smallest, size);
  summary->largest = std::max(summary->largest, size);
  summary->bytes += size;
  ++summary->records;
}

absl::StatusOr<Summary> Read(const std::string& path, const Options& options, bool skip_damaged) {
  TANDEM_ASSIGN_OR_RETURN(const Opened opened, Open(path, options, skip_damaged));
  RecordReader& reader = *opened.reader;
  Summary summary;
  summary.path = path;
  summary.compression = opened.compression;
  for (;;) {
    const int64_t begin = reader.position();
    const int64_t damaged = reader.damaged();
    absl::string_view record;
    const absl::Status status = reader.Read(&record);
    const bool ended = absl::IsOutOfRange(status);
    if (!status.ok() && !ended) return status;
    const int64_t found =
        ended ? reader.position()
              : reader.position() - static_cast<int64_t>(record.size()) - kFrameBytes;
    if (reader.damaged() > damaged) {
      summary.damage.push_back({begin, found, reader.damaged() - damaged});
    }
    if (ended) {
      if (reader.ended_in_record()) summary.damage.push_back({found, found, 1, true});
      return summary;
    }
    Add(record, &summary);
  }
}

void Print(const Json& json) {
  // Names of files need not be UTF-8.
  std::printf("%s\n", json.dump(2, ' ', false, Json::error_handler_t::replace).c_str());
}

Json ToJson(const Summary& summary) {
  return {{"file", summary.path},         {"compression", summary.compression},
          {"records", summary.records},   {"bytes", summary.bytes},
          {"smallest", summary.smallest}, {"largest", summary.largest}};
}

absl::Status Count(const std::vector<std::string>& paths, const Options& options) {
  TextTable table({"FILE", "RECORDS", "BYTES", "SMALLEST", "LARGEST", "COMPRESSION"});
  Json files = Json::array();
  Summary total;
  for (const std::string& path : paths) {
    TANDEM_ASSIGN_OR_RETURN(const Summary summary, Read(path, options, /*skip_damaged=*/false));
    files.push_back(ToJson(summary));
    table.AddRow({path, absl::StrCat(summary.records), absl::StrCat(summary.bytes),
                  absl::StrCat(summary.smallest), absl::StrCat(summary.largest),
                  summary.compression});
    total.records += summary.records;
    total.bytes += summary.bytes;
  }
  if (options.json) {
    Print({{"files", files}, {"records", total.records}, {"bytes", total.bytes}});
    return absl::OkStatus();
  }
  std::printf("%s", table.ToString().c_str());
  if (paths.size() > 1) {
    std::printf("%zu files, %lld records, %lld bytes\n", paths.size(),
                static_cast<long long>(total.records), static_cast<long long>(total.bytes));
  }
  return absl::OkStatus();
}

absl::Status Head(const std::vector<std::string>& paths, const Options& options) {
  Json files = Json::array();
  for (const std::string& path : paths) {
    TANDEM_ASSIGN_OR_RETURN(const Opened opened, Open(path, options, /*skip_damaged=*/false));
    Json records = Json::array();
    if (!options.json)
      std::printf("%s (compression: %s)\n", path.c_str(), opened.compression.c_str());
    for (int64_t i = 0; i < options.head; ++i) {
      const int64_t offset = opened.reader->position();
      absl::string_view record;
      const absl::Status status = opened.reader->Read(&record);
      if (absl::IsOutOfRange(status)) break;
      TANDEM_RETURN_IF_ERROR(status);
      if (options.json) {
        Json json = RecordJson(record);
        json["offset"] = offset;
        json["bytes"] = record.size();
        records.push_back(std::move(json));
      } else {
        std::printf("record %lld, offset %lld, %zu bytes\n%s", static_cast<long long>(i),
                    static_cast<long long>(offset), record.size(), RecordText(record).c_str());
      }
    }
    files.push_back({{"file", path}, {"compression", opened.compression}, {"records", records}});
  }
  if (options.json) Print({{"files", files}});
  return absl::OkStatus();
}

std::string DamageText(const Damage& damage, const std::string& compression) {
  if (!damage.cut_off) {
    return absl::StrCat("damaged from offset ", damage.begin, " to ", damage.end);
  }
  if (compression == "none") return absl::StrCat("ends within the record at offset ", damage.begin);
  return absl::StrCat("its ", compression, " stream is cut off, at or within the record at offset ",
                      damage.begin);
}

absl::Status Verify(const std::vector<std::string>& paths, const Options& options) {
  TextTable table({"FILE", "RECORDS", "DAMAGED", "RESULT"});
  Json files = Json::array();
  std::string places;
  size_t bad = 0;
  for (const std::string& path : paths) {
    TANDEM_ASSIGN_OR_RETURN(const Summary summary, Read(path, options, /*skip_damaged=*/true));
    int64_t damaged = 0;
    Json damage = Json::array();
    bool cut_off = false;
    for (const Damage& d : summary.damage) {
      cut_off |= d.cut_off;
      if (!d.cut_off) damaged += d.places;
      damage.push_back({{"begin", d.begin}, {"end", d.end}, {"cut_off", d.cut_off}});
      absl::StrAppend(&places, path, ": ", DamageText(d, summary.compression), "\n");
    }
    const bool good = summary.damage.empty();
    if (!good) ++bad;
    Json json = ToJson(summary);
    json["good"] = good;
    json["damage"] = std::move(damage);
    files.push_back(std::move(json));
    table.AddRow({path, absl::StrCat(summary.records), absl::StrCat(damaged),
                  good           ? "good"
                  : damaged == 0 ? "CUT OFF"
                  : cut_off      ? "DAMAGED, CUT OFF"
                                 : "DAMAGED"});
  }
  if (options.json) {
    Print({{"files", files}, {"good", bad == 0}});
  } else {
    std::printf("%s%s", table.ToString().c_str(), places.c_str());
  }
  if (bad == 0) return absl::OkStatus();
  return errors::DataLoss(bad, " of ", paths.size(), " files are damaged or cut off");
}

absl::StatusOr<Options> ParseOptions(const Arguments& arguments) {
  Options options;
  options.json = arguments.Has("json");
  if (arguments.Has("records") &&
      (!absl::SimpleAtoi(arguments.Last("records"), &options.head) || options.head < 0)) {
    return errors::InvalidArgument("--records=", arguments.Last("records"),
                                   ": expected a number, 0 or more");
  }
  const std::string name = arguments.Last("compression", "auto");
  if (name == "none") {
    options.compression = Compression::kNone;
  } else if (name != "auto") {
    absl::StatusOr<Compression> compression = ParseCompression(absl::AsciiStrToUpper(name));
    if (!compression.ok() || name.empty()) {
      return errors::InvalidArgument("--compression=", name,
                                     ": expected none, zlib, gzip, snappy or auto");
    }
    options.compression = *compression;
  }
  return options;
}

absl::Status Run(const std::vector<std::string>& words) {
  TANDEM_ASSIGN_OR_RETURN(const Arguments arguments,
                          Arguments::Parse(words, {"records", "compression"}, {"json"}));
  TANDEM_ASSIGN_OR_RETURN(const Options options, ParseOptions(arguments));
  std::vector<std::string> paths = arguments.positional();
  const std::string action = paths.empty() ? "" : paths[0];
  if (action != "count" && action != "head" && action != "verify") {
    return errors::InvalidArgument(
        "says what to do first: count, head or verify; see tandem records --help");
  }
  paths.erase(paths.begin());
  if (paths.empty()) {
    return errors::InvalidArgument(action, " names at least one file; see tandem records --help");
  }
  if (action == "count") return Count(paths, options);
  if (action == "head") return Head(paths, options);
  return Verify(paths, options);
}

}  // namespace

const Command kRecordsCommand = {"records", "counts, shows and checks the records of files", kHelp,
                                 Run};

}  // namespace tandem::cli
