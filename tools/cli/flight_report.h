// What the flight records of several members say together (runtime/collective/flight_record.h).
#ifndef TANDEM_TOOLS_CLI_FLIGHT_REPORT_H_
#define TANDEM_TOOLS_CLI_FLIGHT_REPORT_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace tandem::cli {

struct FlightFile {
  std::string name;
  std::string text;
};

// A line for each member (its last finished operation, and what it was in), then the first
// operation at which they parted, with what each member did there, and a sentence that names who
// was missing. InvalidArgument: a file is no flight record (with its line), or they are of
// different groups or generations.
absl::StatusOr<std::string> FlightReport(const std::vector<FlightFile>& files);

}  // namespace tandem::cli

#endif  // TANDEM_TOOLS_CLI_FLIGHT_REPORT_H_
