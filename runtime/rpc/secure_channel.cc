#include "runtime/rpc/secure_channel.h"

#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "core/base/status.h"
#include "grpc/grpc_security.h"
#include "grpc/slice.h"
#include "grpcpp/create_channel.h"
#include "grpcpp/security/credentials.h"
#include "grpcpp/support/client_interceptor.h"

namespace tandem {
namespace {

constexpr char kHeader[] = "authorization";
constexpr char kScheme[] = "Bearer ";

absl::string_view View(const grpc_slice& slice) {
  return {reinterpret_cast<const char*>(GRPC_SLICE_START_PTR(slice)), GRPC_SLICE_LENGTH(slice)};
}

// gRPC's C++ interface checks metadata of secure connections only; below it, those of all.
void CheckToken(void* state, grpc_auth_context*, const grpc_metadata* metadata, size_t count,
                grpc_process_auth_metadata_done_cb done, void* user_data) {
  const auto& token = *static_cast<const std::string*>(state);
  const char* error =
      "the call has no token, and this server wants one; give the client the server's token "
      "(TANDEM_TOKEN)";
  for (size_t i = 0; i < count; ++i) {
    if (View(metadata[i].key) != kHeader) continue;
    absl::string_view presented = View(metadata[i].value);
    if (absl::ConsumePrefix(&presented, kScheme) && TokensAreEqual(presented, token)) {
      done(user_data, &metadata[i], 1, nullptr, 0, GRPC_STATUS_OK, nullptr);
      return;
    }
    error = "the call's token is not this server's (TANDEM_TOKEN)";
  }
  done(user_data, nullptr, 0, nullptr, 0, GRPC_STATUS_UNAUTHENTICATED, error);
}

class Credentials final : public grpc::ServerCredentials {
 public:
  explicit Credentials(const Security& security) {
    if (security.ServesTls()) {
      grpc_ssl_pem_key_cert_pair pair = {security.key.c_str(), security.certificate.c_str()};
      const bool is_mutual = !security.authorities.empty();
      credentials_ = grpc_ssl_server_credentials_create_ex(
          is_mutual ? security.authorities.c_str() : nullptr, &pair, 1,
          is_mutual ? GRPC_SSL_REQUEST_AND_REQUIRE_CLIENT_CERTIFICATE_AND_VERIFY
                    : GRPC_SSL_DONT_REQUEST_CLIENT_CERTIFICATE,
          nullptr);
    } else {
      credentials_ = grpc_insecure_server_credentials_create();
    }
    if (security.token.empty()) return;
    grpc_auth_metadata_processor processor;
    processor.process = CheckToken;
    processor.destroy = [](void* state) { delete static_cast<std::string*>(state); };
    processor.state = new std::string(security.token);
    grpc_server_credentials_set_auth_metadata_processor(credentials_, processor);
  }
  ~Credentials() override { grpc_server_credentials_release(credentials_); }

  // The token is what they check.
  void SetAuthMetadataProcessor(const std::shared_ptr<grpc::AuthMetadataProcessor>&) override {}

 private:
  int AddPortToServer(const std::string& address, grpc_server* server) override {
    return grpc_server_add_http2_port(server, address.c_str(), credentials_);
  }

  grpc_server_credentials* credentials_ = nullptr;
};

// gRPC's own way to send a token works over TLS only.
class TokenSender final : public grpc::experimental::Interceptor {
 public:
  explicit TokenSender(std::shared_ptr<const std::string> value) : value_(std::move(value)) {}

  void Intercept(grpc::experimental::InterceptorBatchMethods* methods) override {
    if (methods->QueryInterceptionHookPoint(
            grpc::experimental::InterceptionHookPoints::PRE_SEND_INITIAL_METADATA)) {
      methods->GetSendInitialMetadata()->emplace(kHeader, *value_);
    }
    methods->Proceed();
  }

 private:
  const std::shared_ptr<const std::string> value_;
};

class TokenSenderFactory final : public grpc::experimental::ClientInterceptorFactoryInterface {
 public:
  explicit TokenSenderFactory(const std::string& token)
      : value_(std::make_shared<const std::string>(absl::StrCat(kScheme, token))) {}

  grpc::experimental::Interceptor* CreateClientInterceptor(
      grpc::experimental::ClientRpcInfo*) override {
    return new TokenSender(value_);
  }

 private:
  const std::shared_ptr<const std::string> value_;
};

}  // namespace

std::shared_ptr<grpc::ServerCredentials> NewServerCredentials(const Security& security) {
  return std::make_shared<Credentials>(security);
}

std::shared_ptr<grpc::Channel> NewChannel(const std::string& address, const Security& security,
                                          grpc::ChannelArguments arguments) {
  arguments.SetMaxReceiveMessageSize(-1);
  arguments.SetMaxSendMessageSize(-1);
  // A server that comes back is found within a second.
  arguments.SetInt(GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS, 100);
  arguments.SetInt(GRPC_ARG_MIN_RECONNECT_BACKOFF_MS, 100);
  arguments.SetInt(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, 1000);
  // Servers are reached directly.
  arguments.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
  std::shared_ptr<grpc::ChannelCredentials> credentials;
  if (security.ConnectsWithTls()) {
    grpc::SslCredentialsOptions options;
    options.pem_root_certs = security.authorities;
    options.pem_private_key = security.key;
    options.pem_cert_chain = security.certificate;
    credentials = grpc::SslCredentials(options);
  } else {
    credentials = grpc::InsecureChannelCredentials();
  }
  if (security.token.empty()) return grpc::CreateCustomChannel(address, credentials, arguments);
  std::vector<std::unique_ptr<grpc::experimental::ClientInterceptorFactoryInterface>> senders;
  senders.push_back(std::make_unique<TokenSenderFactory>(security.token));
  return grpc::experimental::CreateCustomChannelWithInterceptors(address, credentials, arguments,
                                                                 std::move(senders));
}

// gRPC tells these apart in its messages only.
bool IsNotConnected(const absl::Status& status) {
  return absl::IsUnavailable(status) &&
         absl::StrContains(status.message(), "failed to connect to all addresses");
}

bool MayBeTlsMismatch(const absl::Status& status) {
  return IsNotConnected(status) && (absl::StrContains(status.message(), "Socket closed") ||
                                    absl::StrContains(status.message(), "Connection reset") ||
                                    absl::StrContains(status.message(), "Ssl handshake failed"));
}

absl::Status ExplainConnection(const absl::Status& status, bool with_tls) {
  if (!MayBeTlsMismatch(status)) return status;
  const auto says = [&](const char* words) { return absl::StrContains(status.message(), words); };
  const char* hint =
      "if the server speaks TLS, give the client its certificate authority (TANDEM_TLS_CA)";
  if (says("wrong version number")) {
    hint = "the client speaks TLS (TANDEM_TLS_CA, TANDEM_TLS_CERT), but the server does not";
  } else if (says("Ssl handshake failed") && !says("alert")) {
    hint =
        "the server's certificate is expired, or not signed by an authority that the client trusts "
        "(TANDEM_TLS_CA)";
  } else if (with_tls) {
    hint =
        "the server may want a certificate of the client, signed by an authority that it trusts "
        "(TANDEM_TLS_CERT, TANDEM_TLS_KEY)";
  }
  absl::Status result(status.code(), absl::StrCat(status.message(), "; ", hint));
  status.ForEachPayload(
      [&](absl::string_view url, const absl::Cord& payload) { result.SetPayload(url, payload); });
  return result;
}

}  // namespace tandem
