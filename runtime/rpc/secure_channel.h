// The two ends of gRPC's connections, as a Security says.
#ifndef TANDEM_RUNTIME_RPC_SECURE_CHANNEL_H_
#define TANDEM_RUNTIME_RPC_SECURE_CHANNEL_H_

#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "grpcpp/channel.h"
#include "grpcpp/security/server_credentials.h"
#include "grpcpp/support/channel_arguments.h"
#include "runtime/rpc/security.h"

namespace tandem {

// REQUIRES: CheckSecurity. Calls without the token get Unauthenticated before they reach a service.
std::shared_ptr<grpc::ServerCredentials> NewServerCredentials(const Security& security);

// REQUIRES: CheckSecurity. `arguments` get what all of our connections have.
std::shared_ptr<grpc::Channel> NewChannel(const std::string& address, const Security& security,
                                          grpc::ChannelArguments arguments = {});

// Of what a call over such a channel ended with.
// True when no connection came about, so that the server has not seen the call.
bool IsNotConnected(const absl::Status& status);
// True when somebody listens there, but the two ends may not agree about TLS.
bool MayBeTlsMismatch(const absl::Status& status);
// Adds what may be wrong with the two ends' security, if that is what the error may come from.
// `with_tls`: the channel's Security::ConnectsWithTls.
absl::Status ExplainConnection(const absl::Status& status, bool with_tls);

}  // namespace tandem

#endif  // TANDEM_RUNTIME_RPC_SECURE_CHANNEL_H_
