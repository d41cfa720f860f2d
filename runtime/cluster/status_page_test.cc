#include "runtime/cluster/status_page.h"

#include <atomic>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "core/base/status.h"
#include "gtest/gtest.h"
#include "httplib.h"

namespace tandem {
namespace {

StatusPage::Page Text(const std::string& path, std::function<absl::StatusOr<std::string>()> text) {
  return {path, "text/plain", std::move(text)};
}

TEST(StatusPage, AnswersWithWhatIsSoNow) {
  std::atomic<int> asked{0};
  const auto page = StatusPage::Serve(0, {Text("/", [&]() -> absl::StatusOr<std::string> {
                                        return absl::StrCat("asked ", ++asked);
                                      })});
  ASSERT_TRUE(page.ok()) << page.status();
  for (const char* const expected : {"asked 1", "asked 2"}) {
    httplib::Client client("127.0.0.1", (*page)->port());
    const auto answer = client.Get("/");
    ASSERT_TRUE(answer);
    EXPECT_EQ(answer->status, 200);
    EXPECT_EQ(answer->body, expected);
  }
}

TEST(StatusPage, AnErrorIsAnAnswerToo) {
  const auto page = StatusPage::Serve(0, {Text("/metrics", []() -> absl::StatusOr<std::string> {
                                        return errors::Unavailable("no member answers");
                                      })});
  ASSERT_TRUE(page.ok()) << page.status();
  httplib::Client client("127.0.0.1", (*page)->port());
  const auto answer = client.Get("/metrics");
  ASSERT_TRUE(answer);
  EXPECT_EQ(answer->status, 503);
  EXPECT_EQ(answer->body, "no member answers\n");
  const auto other = client.Get("/nothing");
  ASSERT_TRUE(other);
  EXPECT_EQ(other->status, 404);
}

TEST(StatusPage, APortHasOneOwner) {
  const auto first = StatusPage::Serve(0, {});
  ASSERT_TRUE(first.ok()) << first.status();
  const auto second = StatusPage::Serve((*first)->port(), {});
  EXPECT_EQ(second.status().code(), absl::StatusCode::kUnavailable) << second.status();
  EXPECT_TRUE(absl::StrContains(second.status().message(), absl::StrCat((*first)->port())))
      << second.status();
}

TEST(StatusPage, ShowsTextAsItIs) {
  const std::string html = HtmlOf("a & b", "<script>");
  EXPECT_TRUE(absl::StrContains(html, "a &amp; b"));
  EXPECT_TRUE(absl::StrContains(html, "&lt;script&gt;"));
  EXPECT_FALSE(absl::StrContains(html, "<script>"));
}

}  // namespace
}  // namespace tandem
