#include "tools/cli/flight_report.h"

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"

namespace tandem::cli {
namespace {

std::string Head(int rank) {
  return absl::StrCat(R"({"group":"workers","generation":2,"rank":)", rank, R"(,"member":"worker:)",
                      rank, R"(","size":2,"why":"test"})", "\n");
}

std::string Line(int seq, int step, const std::string& state, const std::string& what = "sum",
                 const std::string& missing = "") {
  return absl::StrCat(R"({"seq":)", seq, R"(,"instance":1,"step":)", step,
                      R"(,"phase":0,"name":"g","kind":"all-reduce","what":")", what,
                      R"(","state":")", state, R"(","begun":)", 100 + step,
                      R"(,"ended":100.5,"status":"","missing":")", missing, "\"}\n");
}

std::string Report(const std::string& a, const std::string& b) {
  const absl::StatusOr<std::string> report = FlightReport({{"a", a}, {"b", b}});
  EXPECT_TRUE(report.ok()) << report.status();
  return report.ok() ? *report : "";
}

TEST(FlightReport, NamesWhoNeverCame) {
  const std::string report =
      Report(Head(0) + Line(0, 1, "done") + Line(1, 2, "failed", "sum", "worker:1 on b"),
             Head(1) + Line(0, 1, "done"));
  EXPECT_TRUE(absl::StrContains(report, "parted at all-reduce 'g' (instance 1, step 2)")) << report;
  EXPECT_TRUE(absl::StrContains(report, "worker:0: failed, waited for worker:1 on b")) << report;
  EXPECT_TRUE(absl::StrContains(report, "worker:1: never began it")) << report;
  EXPECT_TRUE(absl::StrContains(report, "worker:1 did not call it")) << report;
}

TEST(FlightReport, ShowsWhatEachCalled) {
  const std::string report = Report(Head(0) + Line(0, 1, "failed", "float32[2]"),
                                    Head(1) + Line(0, 1, "failed", "float32[3]"));
  EXPECT_TRUE(absl::StrContains(report, "worker:0 called float32[2]")) << report;
  EXPECT_TRUE(absl::StrContains(report, "worker:1 called float32[3]")) << report;
}

TEST(FlightReport, AShorterRecordIsNoAbsence) {
  // The second has forgotten step 1.
  const std::string report =
      Report(Head(0) + Line(0, 1, "done") + Line(1, 2, "done"), Head(1) + Line(1, 2, "done"));
  EXPECT_TRUE(absl::StrContains(report, "They agree")) << report;
}

TEST(FlightReport, RefusesWhatCannotBeCompared) {
  std::string other = Head(1);
  other.replace(other.find(":2"), 2, ":3");
  for (const std::string& text : {std::string("no record"), std::string(), other, Head(0)}) {
    EXPECT_EQ(FlightReport({{"a", Head(0)}, {"b", text}}).status().code(),
              absl::StatusCode::kInvalidArgument)
        << text;
  }
}

}  // namespace
}  // namespace tandem::cli
