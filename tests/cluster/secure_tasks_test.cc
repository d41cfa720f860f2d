// Real servers with mutual TLS and a token, as an operator starts them.
#include <fstream>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "core/graph/scope.h"
#include "gtest/gtest.h"
#include "runtime/rpc/remote_session.h"
#include "runtime/rpc/test_certificates.h"
#include "tests/cluster/server_processes.h"

namespace tandem::testing {
namespace {

const TaskId kWorker = {"worker", 0};
const TaskId kPs = {"ps", 0};
constexpr char kToken[] = "open-sesame";

class SecureTasksTest : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string host = cluster_.target(kWorker).substr(std::string("grpc://").size());
    host.resize(host.rfind(':'));
    const TestAuthority::Identity identity = authority_.Issue(host);
    own_ = {identity.certificate, identity.key, authority_.certificate(), kToken};
    flags_ = {absl::StrCat("--tls_cert=", Write("cert.pem", own_.certificate)),
              absl::StrCat("--tls_key=", Write("key.pem", own_.key)),
              absl::StrCat("--tls_ca=", Write("ca.pem", own_.authorities)),
              absl::StrCat("--token_file=", Write("token", kToken))};
  }

  static std::string Write(const std::string& name, const std::string& text) {
    const std::string path = absl::StrCat(::testing::TempDir(), "/", name);
    std::ofstream(path) << text;
    return path;
  }

  // Adds in the ps and multiplies in the worker, the master.
  absl::Status Compute(const Security& security) {
    Scope s = Scope::NewRoot();
    const Output x = s.WithOpName("x").Call("Placeholder", {},
                                            {{"dtype", kFloat32}, {"shape", PartialShape({})}});
    const Output y = s.WithDevice("/job:ps").Call("Add", {x, 1.0f});
    s.WithDevice("/job:worker").WithOpName("z").Call("Mul", {y, 2.0f});
    EXPECT_TRUE(s.ok()) << s.status();
    RemoteSessionOptions options;
    options.security = security;
    const auto session = ConnectSession(cluster_.target(kWorker), *s.graph(), options);
    if (!session.ok()) return session.status();
    const auto results = (*session)->Run({{"x", Tensor::Scalar<float>(2)}}, {"z"});
    if (!results.ok()) return results.status();
    EXPECT_EQ((*results)[0].ScalarValue<float>(), 6);
    return absl::OkStatus();
  }

  ProcessCluster cluster_{{{"worker", 1}, {"ps", 1}}};
  const TestAuthority authority_;
  Security own_;
  std::vector<std::string> flags_;
};

TEST_F(SecureTasksTest, ServeWhoHasACertificateAndTheToken) {
  cluster_.Start(kWorker, flags_);
  cluster_.Start(kPs, flags_);
  const absl::Status status = Compute(own_);
  EXPECT_TRUE(status.ok()) << status;
  Security without_token = own_;
  without_token.token.clear();
  EXPECT_EQ(Compute(without_token).code(), absl::StatusCode::kUnauthenticated);
  Security without_certificate;
  without_certificate.authorities = own_.authorities;
  without_certificate.token = kToken;
  EXPECT_EQ(Compute(without_certificate).code(), absl::StatusCode::kUnavailable);
}

TEST_F(SecureTasksTest, AreNotJustMissingWhenTheyDoNotAgree) {
  cluster_.Start(kWorker, flags_);
  cluster_.Start(kPs);
  const absl::Status status = Compute(own_);
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition) << status;
  EXPECT_TRUE(absl::StrContains(status.message(), "do not agree about TLS")) << status;
  EXPECT_TRUE(absl::StrContains(status.message(), "/job:ps/replica:0/task:0")) << status;
}

}  // namespace
}  // namespace tandem::testing
