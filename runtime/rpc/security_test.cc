#include "runtime/rpc/security.h"

#include <cstdlib>
#include <fstream>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "core/base/mutex.h"
#include "core/graph/scope.h"
#include "gtest/gtest.h"
#include "runtime/rpc/join_tasks.h"
#include "runtime/rpc/remote_server.h"
#include "runtime/rpc/remote_session.h"
#include "runtime/rpc/test_certificates.h"
#include "runtime/rpc/test_cluster.h"

namespace tandem {
namespace {

constexpr char kToken[] = "Sesame/open-1";
const TaskId kWorker = {"worker", 0};
const TaskId kPs = {"ps", 0};

Security WithIdentity(const TestAuthority& authority) {
  const TestAuthority::Identity identity = authority.Issue(TestCluster::Host());
  return {identity.certificate, identity.key, authority.certificate(), ""};
}

Security WithToken(const std::string& token) {
  Security security;
  security.token = token;
  return security;
}

Security WithAuthority(const TestAuthority& authority) {
  Security security;
  security.authorities = authority.certificate();
  return security;
}

Output Placeholder(const Scope& scope, const std::string& name) {
  return scope.WithOpName(name).Call("Placeholder", {},
                                     {{"dtype", kFloat32}, {"shape", PartialShape({})}});
}

// A cluster of two tasks; what clients compute crosses from one to the other.
class SecurityTest : public ::testing::Test {
 protected:
  void Serve(const Security& security) {
    cluster_.options().security = security;
    cluster_.StartAll();
  }

  // Adds in the ps, and multiplies in the worker, the master.
  absl::Status Compute(const Security& security) {
    Scope s = Scope::NewRoot();
    const Output x = Placeholder(s, "x");
    const Output y = s.WithDevice("/job:ps").Call("Add", {x, 1.0f});
    s.WithDevice("/job:worker").WithOpName("z").Call("Mul", {y, 2.0f});
    EXPECT_TRUE(s.ok()) << s.status();
    RemoteSessionOptions options;
    options.security = security;
    options.start_timeout = absl::Seconds(60);
    const auto session = ConnectSession(target(), *s.graph(), options);
    if (!session.ok()) return session.status();
    const auto results = (*session)->Run({{"x", Tensor::Scalar<float>(2)}}, {"z"});
    if (!results.ok()) return results.status();
    EXPECT_EQ((*results)[0].ScalarValue<float>(), 6);
    return absl::OkStatus();
  }

  absl::Status Ping(const Security& security) {
    const auto server = RemoteServer::Create(target(), security);
    if (!server.ok()) return server.status();
    return server->OwnDevices(absl::Seconds(60)).status();
  }

  std::string target() const { return absl::StrCat("grpc://", cluster_.address(kWorker)); }

  TestCluster cluster_{{{"worker", 1}, {"ps", 1}}};
};

void ExpectError(const absl::Status& status, absl::StatusCode code, absl::string_view words) {
  EXPECT_EQ(status.code(), code) << status;
  EXPECT_TRUE(absl::StrContains(status.message(), words)) << status;
}

TEST_F(SecurityTest, ATokenKeepsOutWhoDoesNotHaveIt) {
  Serve(WithToken(kToken));
  EXPECT_TRUE(Compute(WithToken(kToken)).ok()) << Compute(WithToken(kToken));
  for (const char* const token : {"Sesame/open-2", "Sesame/open-", "Sesame/open-11"}) {
    ExpectError(Ping(WithToken(token)), absl::StatusCode::kUnauthenticated,
                "the call's token is not this server's");
  }
  ExpectError(Ping({}), absl::StatusCode::kUnauthenticated, "the call has no token");
  const absl::Status refused = Compute({});
  ExpectError(refused, absl::StatusCode::kUnauthenticated, "the call has no token");
  EXPECT_FALSE(absl::StrContains(refused.message(), kToken)) << refused;
}

TEST_F(SecurityTest, TasksOfOtherTokensAreNotJoined) {
  Serve(WithToken(kToken));
  cluster_.options().security = WithToken("another");
  cluster_.Start(kPs);
  const absl::Status refused = Compute(WithToken(kToken));
  ExpectError(refused, absl::StatusCode::kUnauthenticated, "/job:ps/replica:0/task:0 at ");
}

TEST_F(SecurityTest, WithoutATokenOneThatIsSentDoesNotMatter) {
  Serve({});
  EXPECT_TRUE(Ping(WithToken(kToken)).ok()) << Ping(WithToken(kToken));
}

TEST_F(SecurityTest, MutualTlsKeepsOutWhoHasNoCertificate) {
  const TestAuthority authority;
  Serve(WithIdentity(authority));
  EXPECT_TRUE(Compute(WithIdentity(authority)).ok()) << Compute(WithIdentity(authority));
  ExpectError(Ping(WithAuthority(authority)), absl::StatusCode::kUnavailable, "TANDEM_TLS_CERT");
  const TestAuthority other;
  Security stranger = WithIdentity(other);
  stranger.authorities = authority.certificate();
  ExpectError(Ping(stranger), absl::StatusCode::kUnavailable, "TANDEM_TLS_CERT");
}

TEST_F(SecurityTest, TlsOfTheServerAloneWithAToken) {
  const TestAuthority authority;
  Security server = WithIdentity(authority);
  server.authorities.clear();
  server.token = kToken;
  Serve(server);
  Security client = WithAuthority(authority);
  client.token = kToken;
  EXPECT_TRUE(Ping(client).ok()) << Ping(client);
  ExpectError(Ping(WithAuthority(authority)), absl::StatusCode::kUnauthenticated,
              "the call has no token");
}

TEST_F(SecurityTest, TwoEndsThatDoNotAgreeAboutTlsSaySo) {
  const TestAuthority authority;
  Serve(WithIdentity(authority));
  ExpectError(Ping({}), absl::StatusCode::kUnavailable, "if the server speaks TLS");
  // Not only when the time to wait for a server is over.
  ExpectError(Compute({}), absl::StatusCode::kUnavailable, "if the server speaks TLS");
  const TestAuthority other;
  ExpectError(Ping(WithAuthority(other)), absl::StatusCode::kUnavailable,
              "not signed by an authority that the client trusts");
  cluster_.options().security = Security();
  cluster_.Start(kWorker);
  ExpectError(Ping(WithAuthority(authority)), absl::StatusCode::kUnavailable,
              "but the server does not");
}

// Joins a ps whose security is `theirs` from a task whose own is `ours`.
absl::Status JoinPs(TestCluster& cluster, const Security& theirs, const Security& ours) {
  cluster.options().security = theirs;
  cluster.Start(kPs);
  const auto ps =
      std::make_shared<WorkerClient>("/job:ps/replica:0/task:0", cluster.address(kPs), ours);
  absl::Status status;
  Event joined;
  JoinTasks({ps}, absl::Seconds(60), absl::Milliseconds(50), nullptr, [&](const auto& devices) {
    status = devices.status();
    joined.Set();
  });
  joined.Wait();
  return status;
}

TEST_F(SecurityTest, TasksThatDoNotAgreeAboutTlsAreNotJustMissing) {
  const TestAuthority authority;
  const Security with_tls = WithIdentity(authority);
  const absl::Status joined = JoinPs(cluster_, with_tls, with_tls);
  EXPECT_TRUE(joined.ok()) << joined;
  constexpr auto kCode = absl::StatusCode::kFailedPrecondition;
  constexpr char kWords[] = "/job:ps/replica:0/task:0 at ";
  ExpectError(JoinPs(cluster_, Security(), with_tls), kCode, kWords);
  ExpectError(JoinPs(cluster_, with_tls, Security()), kCode, kWords);
  const TestAuthority other;
  ExpectError(JoinPs(cluster_, with_tls, WithIdentity(other)), kCode, "do not agree about TLS");
}

TEST(Security, ChecksWhatItIsGiven) {
  const TestAuthority authority;
  const Security good = WithIdentity(authority);
  EXPECT_TRUE(CheckSecurity(good).ok()) << CheckSecurity(good);
  EXPECT_TRUE(CheckSecurity({}).ok());
  const auto expect_refused = [&](void (*change)(Security*), absl::string_view words) {
    Security security = good;
    change(&security);
    ExpectError(CheckSecurity(security), absl::StatusCode::kInvalidArgument, words);
  };
  expect_refused([](Security* s) { s->key.clear(); }, "but not its key");
  expect_refused([](Security* s) { s->certificate.clear(); }, "but not its certificate");
  expect_refused([](Security* s) { s->certificate = "junk"; },
                 "TLS certificate has no certificate");
  expect_refused([](Security* s) { s->authorities = s->key; }, "authority has no certificate");
  expect_refused([](Security* s) { s->key = "junk"; }, "TLS key cannot be read");
  expect_refused([](Security* s) { s->key = TestAuthority().Issue("127.0.0.1").key; },
                 "not that of the TLS certificate");
  expect_refused([](Security* s) { s->token = "two words"; }, "visible");
  expect_refused([](Security* s) { s->token = "\xc3\xa4"; }, "visible");
  expect_refused([](Security* s) { s->token = std::string(5000, 'x'); }, "at most 4096");
}

TEST(Security, ReadsFilesAndTheEnvironment) {
  const TestAuthority authority;
  const Security wanted = WithIdentity(authority);
  const std::string folder = ::testing::TempDir();
  const auto write = [&](const std::string& name, const std::string& text) {
    std::ofstream(absl::StrCat(folder, "/", name)) << text;
    return absl::StrCat(folder, "/", name);
  };
  const SecurityFiles files = {write("cert.pem", wanted.certificate), write("key.pem", wanted.key),
                               write("ca.pem", wanted.authorities),
                               write("token", absl::StrCat(kToken, "\n"))};
  const auto from_files = LoadSecurity(files);
  ASSERT_TRUE(from_files.ok()) << from_files.status();
  EXPECT_EQ(from_files->certificate, wanted.certificate);
  EXPECT_EQ(from_files->key, wanted.key);
  EXPECT_EQ(from_files->authorities, wanted.authorities);
  EXPECT_EQ(from_files->token, kToken);

  setenv("TANDEM_TLS_CA", files.authorities.c_str(), 1);
  setenv("TANDEM_TOKEN", "other", 1);
  const auto from_environment = SecurityOrEnvironment({});
  ASSERT_TRUE(from_environment.ok()) << from_environment.status();
  EXPECT_EQ(from_environment->authorities, wanted.authorities);
  EXPECT_EQ(from_environment->token, "other");
  // What is given in the program counts alone.
  const auto given = SecurityOrEnvironment(Security());
  ASSERT_TRUE(given.ok()) << given.status();
  EXPECT_EQ(given->token, "");
  setenv("TANDEM_TLS_CA", "/nowhere/ca.pem", 1);
  const absl::Status missing = LoadSecurity().status();
  EXPECT_TRUE(absl::StrContains(missing.message(), "TANDEM_TLS_CA")) << missing;
  unsetenv("TANDEM_TLS_CA");
  unsetenv("TANDEM_TOKEN");

  SecurityFiles empty;
  empty.token = write("empty", "\n");
  ExpectError(LoadSecurity(empty).status(), absl::StatusCode::kInvalidArgument, "--token_file");
}

TEST(Security, ComparesTokens) {
  EXPECT_TRUE(TokensAreEqual("abc", "abc"));
  EXPECT_FALSE(TokensAreEqual("abd", "abc"));
  EXPECT_FALSE(TokensAreEqual("ab", "abc"));
  EXPECT_FALSE(TokensAreEqual("abcabc", "abc"));
  EXPECT_FALSE(TokensAreEqual("", "abc"));
  EXPECT_FALSE(TokensAreEqual("abc", ""));
}

TEST(Security, AServerThatOthersCanReachNeedsSomeOfIt) {
  const TestAuthority authority;
  ServerOptions options;
  options.config = *ParseClusterConfig(R"({"worker": ["10.1.2.3:0"]})");
  options.task = kWorker;
  options.devices = "CPU:1";
  options.security = Security();
  ExpectError(Server::Create(options).status(), absl::StatusCode::kFailedPrecondition,
              "without TLS");
  options.security = WithToken(kToken);
  EXPECT_TRUE(Server::Create(options).ok());
  options.security = WithIdentity(authority);
  EXPECT_TRUE(Server::Create(options).ok());
  options.security = WithAuthority(authority);
  ExpectError(Server::Create(options).status(), absl::StatusCode::kInvalidArgument, "--tls_cert");
  options.security = Security();
  setenv("TANDEM_INSECURE", "1", 1);
  EXPECT_TRUE(Server::Create(options).ok());
  unsetenv("TANDEM_INSECURE");
}

}  // namespace
}  // namespace tandem
