#include "runtime/rpc/security.h"

#include <openssl/bio.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/x509.h>

#include <cstdlib>
#include <memory>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "core/base/status.h"
#include "core/io/file.h"

namespace tandem {
namespace {

constexpr int64_t kMostFileBytes = int64_t{4} << 20;
constexpr size_t kMostTokenBytes = 4096;

struct Free {
  void operator()(BIO* bio) const { BIO_free(bio); }
  void operator()(X509* certificate) const { X509_free(certificate); }
  void operator()(EVP_PKEY* key) const { EVP_PKEY_free(key); }
};

std::unique_ptr<BIO, Free> Text(const std::string& text) {
  return std::unique_ptr<BIO, Free>(BIO_new_mem_buf(text.data(), static_cast<int>(text.size())));
}

// An encrypted key fails with this passphrase, instead of asking the terminal for another one.
char kNoPassphrase[] = "";

absl::StatusOr<std::unique_ptr<X509, Free>> FirstCertificate(const std::string& text,
                                                             const char* what) {
  if (static_cast<int64_t>(text.size()) > kMostFileBytes) {
    return errors::InvalidArgument("the ", what, ": ", text.size(), " bytes are too many");
  }
  const auto bio = Text(text);
  std::unique_ptr<X509, Free> certificate(
      PEM_read_bio_X509(bio.get(), nullptr, nullptr, kNoPassphrase));
  ERR_clear_error();
  if (certificate == nullptr) {
    return errors::InvalidArgument("the ", what,
                                   " has no certificate that can be read; expected PEM, "
                                   "-----BEGIN CERTIFICATE-----");
  }
  return certificate;
}

absl::Status CheckCertificate(const Security& security) {
  if (security.certificate.empty() != security.key.empty()) {
    return errors::InvalidArgument(security.key.empty()
                                       ? "there is a TLS certificate, but not its key"
                                       : "there is a TLS key, but not its certificate");
  }
  if (security.certificate.empty()) return absl::OkStatus();
  TANDEM_ASSIGN_OR_RETURN(const auto certificate,
                          FirstCertificate(security.certificate, "TLS certificate"));
  if (static_cast<int64_t>(security.key.size()) > kMostFileBytes) {
    return errors::InvalidArgument("the TLS key: ", security.key.size(), " bytes are too many");
  }
  const auto bio = Text(security.key);
  const std::unique_ptr<EVP_PKEY, Free> key(
      PEM_read_bio_PrivateKey(bio.get(), nullptr, nullptr, kNoPassphrase));
  const bool fits = key != nullptr && X509_check_private_key(certificate.get(), key.get()) == 1;
  ERR_clear_error();
  if (key == nullptr) {
    return errors::InvalidArgument(
        "the TLS key cannot be read; expected PEM, -----BEGIN PRIVATE KEY-----, without a "
        "passphrase");
  }
  if (!fits) return errors::InvalidArgument("the TLS key is not that of the TLS certificate");
  return absl::OkStatus();
}

absl::Status CheckToken(const std::string& token) {
  if (token.size() > kMostTokenBytes) {
    return errors::InvalidArgument("the token has ", token.size(), " characters; at most ",
                                   kMostTokenBytes, " are allowed");
  }
  for (const char c : token) {
    if (!absl::ascii_isgraph(static_cast<unsigned char>(c))) {
      return errors::InvalidArgument(
          "the token has a character that is not a visible one of ASCII (a space, a line end?)");
    }
  }
  return absl::OkStatus();
}

std::string Environment(const char* name) {
  const char* const value = std::getenv(name);
  return value == nullptr ? "" : value;
}

// The contents of the file that is named by `flag`, or else by a variable of the environment.
absl::StatusOr<std::string> ReadNamed(const std::string& flag, const char* flag_name,
                                      const char* variable) {
  const std::string path = flag.empty() ? Environment(variable) : flag;
  if (path.empty()) return std::string();
  absl::StatusOr<std::string> text = ReadFile(PosixFileSystem(), path, kMostFileBytes);
  const char* const source = flag.empty() ? variable : flag_name;
  if (!text.ok()) return WithContext(text.status(), source);
  if (absl::StripAsciiWhitespace(*text).empty()) {
    return errors::InvalidArgument(source, ": the file '", path, "' is empty");
  }
  return text;
}

}  // namespace

absl::Status CheckSecurity(const Security& security) {
  TANDEM_RETURN_IF_ERROR(CheckCertificate(security));
  if (!security.authorities.empty()) {
    TANDEM_RETURN_IF_ERROR(
        FirstCertificate(security.authorities, "TLS certificate authority").status());
  }
  return CheckToken(security.token);
}

absl::StatusOr<Security> LoadSecurity(const SecurityFiles& files) {
  Security security;
  TANDEM_ASSIGN_OR_RETURN(security.certificate,
                          ReadNamed(files.certificate, "--tls_cert", "TANDEM_TLS_CERT"));
  TANDEM_ASSIGN_OR_RETURN(security.key, ReadNamed(files.key, "--tls_key", "TANDEM_TLS_KEY"));
  TANDEM_ASSIGN_OR_RETURN(security.authorities,
                          ReadNamed(files.authorities, "--tls_ca", "TANDEM_TLS_CA"));
  if (files.token.empty()) {
    security.token = Environment("TANDEM_TOKEN");
  } else {
    TANDEM_ASSIGN_OR_RETURN(security.token, ReadNamed(files.token, "--token_file", ""));
  }
  absl::StripAsciiWhitespace(&security.token);
  const absl::Status status = CheckSecurity(security);
  if (!status.ok()) {
    return WithContext(status,
                       "--tls_cert, --tls_key, --tls_ca, --token_file, or TANDEM_TLS_CERT, "
                       "TANDEM_TLS_KEY, TANDEM_TLS_CA, TANDEM_TOKEN");
  }
  return security;
}

absl::StatusOr<Security> SecurityOrEnvironment(const absl::optional<Security>& security) {
  if (!security.has_value()) return LoadSecurity();
  TANDEM_RETURN_IF_ERROR(CheckSecurity(*security));
  return *security;
}

bool TokensAreEqual(absl::string_view presented, absl::string_view token) {
  unsigned different = presented.size() == token.size() ? 0 : 1;
  for (size_t i = 0; i < presented.size(); ++i) {
    const char wanted = token.empty() ? '\0' : token[i % token.size()];
    different |= static_cast<unsigned char>(presented[i]) ^ static_cast<unsigned char>(wanted);
  }
  return different == 0;
}

}  // namespace tandem
