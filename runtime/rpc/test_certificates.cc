#include "runtime/rpc/test_certificates.h"

#include <openssl/bio.h>
#include <openssl/ec.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/x509.h>
#include <openssl/x509v3.h>

#include <random>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"

namespace tandem {
namespace {

struct Free {
  void operator()(BIO* bio) const { BIO_free(bio); }
  void operator()(X509* certificate) const { X509_free(certificate); }
  void operator()(EVP_PKEY* key) const { EVP_PKEY_free(key); }
};
using Key = std::unique_ptr<EVP_PKEY, Free>;
using Certificate = std::unique_ptr<X509, Free>;

Key NewKey() { return Key(EVP_EC_gen("P-256")); }

template <typename Write>
std::string ToText(Write write) {
  const std::unique_ptr<BIO, Free> bio(BIO_new(BIO_s_mem()));
  EXPECT_EQ(write(bio.get()), 1);
  char* data = nullptr;
  const auto size = BIO_get_mem_data(bio.get(), &data);
  return std::string(data, static_cast<size_t>(size));
}

std::string ToText(X509* certificate) {
  return ToText([&](BIO* bio) { return PEM_write_bio_X509(bio, certificate); });
}

void AddExtension(int id, const std::string& value, X509* certificate) {
  X509V3_CTX context;
  X509V3_set_ctx(&context, certificate, certificate, nullptr, nullptr, 0);
  X509_EXTENSION* const extension = X509V3_EXT_conf_nid(nullptr, &context, id, value.c_str());
  ASSERT_NE(extension, nullptr) << value;
  X509_add_ext(certificate, extension, -1);
  X509_EXTENSION_free(extension);
}

// Everything but the signature. `issuer` null: its own.
Certificate NewCertificate(const std::string& name, EVP_PKEY* key, X509* issuer) {
  constexpr long kHour = 3600;
  Certificate certificate(X509_new());
  X509_set_version(certificate.get(), X509_VERSION_3);
  std::random_device random;
  ASN1_INTEGER_set(X509_get_serialNumber(certificate.get()), static_cast<long>(random() >> 1));
  X509_gmtime_adj(X509_getm_notBefore(certificate.get()), -kHour);
  X509_gmtime_adj(X509_getm_notAfter(certificate.get()), 24 * kHour);
  X509_set_pubkey(certificate.get(), key);
  X509_NAME_add_entry_by_txt(X509_get_subject_name(certificate.get()), "CN", MBSTRING_ASC,
                             reinterpret_cast<const unsigned char*>(name.c_str()), -1, -1, 0);
  X509_set_issuer_name(certificate.get(),
                       X509_get_subject_name(issuer == nullptr ? certificate.get() : issuer));
  return certificate;
}

}  // namespace

struct TestAuthority::Keys {
  Key key = NewKey();
  Certificate certificate;
};

TestAuthority::TestAuthority() : keys_(std::make_unique<Keys>()) {
  keys_->certificate = NewCertificate("Test authority", keys_->key.get(), nullptr);
  AddExtension(NID_basic_constraints, "critical,CA:TRUE", keys_->certificate.get());
  EXPECT_NE(X509_sign(keys_->certificate.get(), keys_->key.get(), EVP_sha256()), 0);
}

TestAuthority::~TestAuthority() = default;

std::string TestAuthority::certificate() const { return ToText(keys_->certificate.get()); }

TestAuthority::Identity TestAuthority::Issue(const std::string& ip) const {
  const Key key = NewKey();
  const Certificate certificate = NewCertificate("task", key.get(), keys_->certificate.get());
  AddExtension(NID_subject_alt_name, absl::StrCat("IP:", ip), certificate.get());
  EXPECT_NE(X509_sign(certificate.get(), keys_->key.get(), EVP_sha256()), 0);
  Identity identity;
  identity.certificate = ToText(certificate.get());
  identity.key = ToText([&](BIO* bio) {
    return PEM_write_bio_PKCS8PrivateKey(bio, key.get(), nullptr, nullptr, 0, nullptr, nullptr);
  });
  return identity;
}

}  // namespace tandem
