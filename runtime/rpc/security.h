// Security: what servers and their clients know each other by, TLS and a token. The same on both
// ends: a task is a server to clients and a client of other tasks.
//
// - A server with a certificate speaks TLS, and nothing else; with authorities, too, it wants a
//   certificate that they signed from every client (mutual TLS).
// - A client with a certificate or authorities speaks TLS. It trusts what the authorities signed;
//   without any, what this system trusts. The server's certificate has to be for the host, or
//   address, that the client connects to.
// - With a token a server answers only calls that bring it, and a client sends it with all calls
//   ("authorization: Bearer …"), over plain text, too, where others may be able to read it.
#ifndef TANDEM_RUNTIME_RPC_SECURITY_H_
#define TANDEM_RUNTIME_RPC_SECURITY_H_

#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/optional.h"

namespace tandem {

struct Security {
  // Texts in PEM, as in the files that OpenSSL makes. The certificate may be a chain; the key has
  // no passphrase.
  std::string certificate;
  std::string key;
  std::string authorities;
  // Up to 4096 visible ASCII characters. It is never logged, nor part of a message.
  std::string token;

  bool ServesTls() const { return !certificate.empty(); }
  bool ConnectsWithTls() const { return !certificate.empty() || !authorities.empty(); }
};

// Names of files. Empty: as the environment says.
struct SecurityFiles {
  std::string certificate;  // TANDEM_TLS_CERT
  std::string key;          // TANDEM_TLS_KEY
  std::string authorities;  // TANDEM_TLS_CA
  // White space around the token does not count. In the environment is the token itself,
  // TANDEM_TOKEN.
  std::string token;
};

// Reads and checks. Errors name the file, and how it was named.
absl::StatusOr<Security> LoadSecurity(const SecurityFiles& files = {});

// `security` if there is one, else what the environment says; checked.
absl::StatusOr<Security> SecurityOrEnvironment(const absl::optional<Security>& security);

// InvalidArgument: a certificate without its key, a text that cannot be read, a token with other
// characters.
absl::Status CheckSecurity(const Security& security);

// Takes as long whatever `presented` has in common with `token`.
bool TokensAreEqual(absl::string_view presented, absl::string_view token);

}  // namespace tandem

#endif  // TANDEM_RUNTIME_RPC_SECURITY_H_
