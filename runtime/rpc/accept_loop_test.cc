#include "runtime/rpc/accept_loop.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <vector>

#include "absl/time/clock.h"
#include "core/base/mutex.h"
#include "gtest/gtest.h"
#include "runtime/rpc/listen_address.h"

namespace tandem {
namespace {

// Counts what is accepted, and keeps it.
class AcceptLoopTest : public ::testing::Test {
 protected:
  void SetUp() override {
    absl::StatusOr<OwnedFd> listener = ListenOn("127.0.0.1", 0);
    ASSERT_TRUE(listener.ok()) << listener.status();
    port_ = *PortOf(*listener);
    auto loop = AcceptLoop::Start(*std::move(listener), [this](OwnedFd connection) {
      MutexLock lock(mu_);
      accepted_.push_back(std::move(connection));
      changed_.NotifyAll();
    });
    ASSERT_TRUE(loop.ok()) << loop.status();
    loop_ = *std::move(loop);
  }

  static int NewSocket() { return socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0); }
  bool Connect(const OwnedFd& socket) const {
    sockaddr_in address = {};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    address.sin_port = htons(static_cast<uint16_t>(port_));
    return connect(socket.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)) == 0;
  }
  bool WaitForAccepted(size_t count) {
    const absl::Time deadline = absl::Now() + absl::Seconds(60);
    MutexLock lock(mu_);
    while (accepted_.size() < count) {
      if (!changed_.WaitUntil(mu_, deadline)) return false;
    }
    return true;
  }

  int port_ = 0;
  Mutex mu_;
  CondVar changed_;
  std::vector<OwnedFd> accepted_ ABSL_GUARDED_BY(mu_);
  std::unique_ptr<AcceptLoop> loop_;
};

TEST_F(AcceptLoopTest, ConnectionsAreHandedOver) {
  const OwnedFd first(NewSocket());
  const OwnedFd second(NewSocket());
  EXPECT_TRUE(Connect(first));
  EXPECT_TRUE(Connect(second));
  EXPECT_TRUE(WaitForAccepted(2));
  MutexLock lock(mu_);
  EXPECT_NE(fcntl(accepted_[0].get(), F_GETFL) & O_NONBLOCK, 0);
}

TEST_F(AcceptLoopTest, ItHearsAgainAfterTooManyOpenFiles) {
  const OwnedFd before(NewSocket());
  ASSERT_TRUE(Connect(before));
  ASSERT_TRUE(WaitForAccepted(1));
  const OwnedFd late(NewSocket());
  // None are left: the connection can be made, and not be accepted.
  rlimit limit = {};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &limit), 0);
  const rlimit none = {static_cast<rlim_t>(late.get()) + 1, limit.rlim_max};
  std::vector<OwnedFd> fillers;
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &none), 0);
  for (OwnedFd filler(open("/dev/null", O_RDONLY)); filler.is_valid();
       filler = OwnedFd(open("/dev/null", O_RDONLY))) {
    fillers.push_back(std::move(filler));
  }
  EXPECT_TRUE(Connect(late));
  {
    // One more, so that the first has been tried before it.
    MutexLock lock(mu_);
    EXPECT_FALSE(changed_.WaitUntil(mu_, absl::Now() + absl::Milliseconds(300)));
    EXPECT_EQ(accepted_.size(), 1u);
  }
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &limit), 0);
  EXPECT_TRUE(WaitForAccepted(2));
}

TEST_F(AcceptLoopTest, ItEnds) {
  loop_.reset();
  const OwnedFd late(NewSocket());
  EXPECT_FALSE(Connect(late));
}

}  // namespace
}  // namespace tandem
