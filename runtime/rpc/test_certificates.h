// Certificates that are made when a test runs.
#ifndef TANDEM_RUNTIME_RPC_TEST_CERTIFICATES_H_
#define TANDEM_RUNTIME_RPC_TEST_CERTIFICATES_H_

#include <memory>
#include <string>

namespace tandem {

// A certificate authority. Keys are of 256 bits on an elliptic curve; all is valid for a day.
class TestAuthority {
 public:
  struct Identity {
    std::string certificate;  // PEM.
    std::string key;          // PEM.
  };

  TestAuthority();
  ~TestAuthority();

  // PEM.
  std::string certificate() const;
  // `ip`: the address that the certificate is for, in figures.
  Identity Issue(const std::string& ip) const;

 private:
  struct Keys;
  const std::unique_ptr<Keys> keys_;
};

}  // namespace tandem

#endif  // TANDEM_RUNTIME_RPC_TEST_CERTIFICATES_H_
