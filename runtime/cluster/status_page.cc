#include "runtime/cluster/status_page.h"

#include <sys/socket.h>

#include <system_error>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "core/base/status.h"
#include "httplib.h"

namespace tandem {
namespace {

constexpr char kHost[] = "127.0.0.1";
constexpr int kThreads = 2;
constexpr size_t kMostRequestBytes = size_t{16} << 10;
constexpr int kTimeoutSeconds = 5;  // Of a client that does not read, or does not send.

}  // namespace

class StatusPage::Impl {
 public:
  Impl() {
    server_.new_task_queue = [] { return new httplib::ThreadPool(kThreads); };
    server_.set_payload_max_length(kMostRequestBytes);
    server_.set_read_timeout(kTimeoutSeconds);
    server_.set_write_timeout(kTimeoutSeconds);
    server_.set_keep_alive_max_count(1);
    // Not the library's default, with which two processes could share the port.
    server_.set_socket_options([](socket_t socket) {
      const int yes = 1;
      setsockopt(socket, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof(yes));
    });
  }

  ~Impl() {
    server_.stop();
    if (thread_.joinable()) thread_.join();
  }

  void Add(Page page) {
    const std::string path = page.path;
    server_.Get(path,
                [page = std::move(page)](const httplib::Request&, httplib::Response& response) {
                  const absl::StatusOr<std::string> text = page.text();
                  if (text.ok()) {
                    response.set_content(*text, page.content_type);
                    return;
                  }
                  response.status = 503;
                  response.set_content(absl::StrCat(text.status().message(), "\n"),
                                       "text/plain; charset=utf-8");
                });
  }

  absl::StatusOr<int> Start(int port) {
    if (port == 0) {
      port = server_.bind_to_any_port(kHost);
    } else if (!server_.bind_to_port(kHost, port)) {
      port = -1;
    }
    if (port <= 0) {
      return errors::Unavailable(
          "the status page cannot listen on ", kHost,
          ": the port is taken, or this user may not; give another one, or 0 "
          "for one that is free");
    }
    try {
      thread_ = std::thread([this] { server_.listen_after_bind(); });
    } catch (const std::system_error& error) {
      return errors::ResourceExhausted("there is no thread for the status page: ", error.what());
    }
    // Or else a stop that comes before would be forgotten.
    while (!server_.is_running()) std::this_thread::yield();
    return port;
  }

 private:
  httplib::Server server_;
  std::thread thread_;
};

StatusPage::StatusPage(std::unique_ptr<Impl> impl, int port)
    : impl_(std::move(impl)), port_(port) {}
StatusPage::~StatusPage() = default;

absl::StatusOr<std::unique_ptr<StatusPage>> StatusPage::Serve(int port, std::vector<Page> pages) {
  auto impl = std::make_unique<Impl>();
  for (Page& page : pages) impl->Add(std::move(page));
  absl::StatusOr<int> listens = impl->Start(port);
  if (!listens.ok()) return WithContext(listens.status(), absl::StrCat("port ", port));
  return std::unique_ptr<StatusPage>(new StatusPage(std::move(impl), *listens));
}

std::string StatusPage::address() const { return absl::StrCat("http://", kHost, ":", port_, "/"); }

std::string HtmlOf(absl::string_view title, absl::string_view text) {
  const auto escaped = [](absl::string_view from) {
    return absl::StrReplaceAll(from, {{"&", "&amp;"}, {"<", "&lt;"}, {">", "&gt;"}});
  };
  return absl::StrCat(
      "<!DOCTYPE html>\n<html><head><meta charset=\"utf-8\"><meta http-equiv=\"refresh\" "
      "content=\"2\"><title>",
      escaped(title), "</title></head>\n<body><h1>", escaped(title), "</h1>\n<pre>", escaped(text),
      "</pre>\n<p><a href=\"/metrics\">metrics</a></p></body></html>\n");
}

}  // namespace tandem
