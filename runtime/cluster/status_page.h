// StatusPage: pages over HTTP that say how a job is, for people and for Prometheus.
//
//   TANDEM_ASSIGN_OR_RETURN(auto page, StatusPage::Serve(8080, {
//       {"/", "text/html", [&] { return HtmlOf("my job", StatusTable(…)); }},
//       {"/metrics", StatusPage::kMetrics, [&] { return StatusMetrics(…); }}}));
//
// It listens on the loopback interface alone, since it asks nobody for a token: whoever wants it
// from elsewhere forwards the port (ssh -L), or puts a proxy before it.
#ifndef TANDEM_RUNTIME_CLUSTER_STATUS_PAGE_H_
#define TANDEM_RUNTIME_CLUSTER_STATUS_PAGE_H_

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace tandem {

// Threads: any. Lifetime: the destructor waits for the requests that are being answered.
class StatusPage {
 public:
  static constexpr char kMetrics[] = "text/plain; version=0.0.4; charset=utf-8";

  struct Page {
    std::string path;  // "/metrics"
    std::string content_type;
    // Called for each request, several at a time, on threads of the page's. An error is answered as
    // "503 Service Unavailable", with its message.
    std::function<absl::StatusOr<std::string>()> text;
  };

  // `port` 0: one that is free. Unavailable: the port is taken.
  static absl::StatusOr<std::unique_ptr<StatusPage>> Serve(int port, std::vector<Page> pages);
  ~StatusPage();

  int port() const { return port_; }
  std::string address() const;  // "http://127.0.0.1:8080/"

 private:
  class Impl;
  StatusPage(std::unique_ptr<Impl> impl, int port);

  const std::unique_ptr<Impl> impl_;
  const int port_;
};

// A page that shows `text` as it is, and asks for itself again every two seconds.
std::string HtmlOf(absl::string_view title, absl::string_view text);

}  // namespace tandem

#endif  // TANDEM_RUNTIME_CLUSTER_STATUS_PAGE_H_
