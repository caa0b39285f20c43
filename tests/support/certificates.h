#pragma once

// Certificates made on the spot, so that no test depends on a file or a date.

#include <chrono>
#include <memory>
#include <stdexcept>
#include <string>

#include <openssl/ec.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/x509.h>
#include <openssl/x509v3.h>

namespace moonfence::test {

struct KeyPair {
  std::string certificate_pem;
  std::string key_pem;
};

struct CertificateWish {
  std::string common_name;
  std::string alternative_names = "IP:127.0.0.1";  // as openssl.cnf writes them
  std::chrono::seconds from = std::chrono::hours(-1);
  std::chrono::seconds until = std::chrono::hours(1);
};

class Authority {
 public:
  explicit Authority(const std::string& name)
      : key_(EVP_EC_gen("P-256")), certificate_(fresh({.common_name = name}, key_.get())) {
    add(certificate_.get(), NID_basic_constraints, "critical,CA:TRUE");
    add(certificate_.get(), NID_subject_key_identifier, "hash");
    sign(certificate_.get(), certificate_.get());
  }

  [[nodiscard]] std::string pem() const { return pem_of(certificate_.get()); }

  [[nodiscard]] KeyPair issue(const CertificateWish& wish) const {
    const Key key(EVP_EC_gen("P-256"));
    const Certificate certificate = fresh(wish, key.get());
    add(certificate.get(), NID_subject_alt_name, wish.alternative_names);
    sign(certificate.get(), certificate_.get());
    return {pem_of(certificate.get()), pem_of(key.get())};
  }

 private:
  struct Free {
    void operator()(EVP_PKEY* key) const { EVP_PKEY_free(key); }
    void operator()(X509* certificate) const { X509_free(certificate); }
    void operator()(BIO* bio) const { BIO_free(bio); }
    void operator()(X509_EXTENSION* extension) const { X509_EXTENSION_free(extension); }
  };
  using Key = std::unique_ptr<EVP_PKEY, Free>;
  using Certificate = std::unique_ptr<X509, Free>;
  using Bio = std::unique_ptr<BIO, Free>;

  static Certificate fresh(const CertificateWish& wish, EVP_PKEY* key) {
    static long serial = 1;
    Certificate certificate(X509_new());
    X509_set_version(certificate.get(), 2);
    ASN1_INTEGER_set(X509_get_serialNumber(certificate.get()), serial++);
    X509_gmtime_adj(X509_getm_notBefore(certificate.get()), wish.from.count());
    X509_gmtime_adj(X509_getm_notAfter(certificate.get()), wish.until.count());
    X509_set_pubkey(certificate.get(), key);
    // The bytes of a C string are what OpenSSL takes for text.
    const std::basic_string<unsigned char> name(wish.common_name.begin(), wish.common_name.end());
    X509_NAME_add_entry_by_txt(X509_get_subject_name(certificate.get()), "CN", MBSTRING_UTF8,
                               name.c_str(), -1, -1, 0);
    return certificate;
  }

  static void add(X509* certificate, int what, const std::string& value) {
    X509V3_CTX context;
    X509V3_set_ctx(&context, certificate, certificate, nullptr, nullptr, 0);
    const std::unique_ptr<X509_EXTENSION, Free> extension(
        X509V3_EXT_conf_nid(nullptr, &context, what, value.c_str()));
    if (extension == nullptr || X509_add_ext(certificate, extension.get(), -1) != 1) {
      throw std::runtime_error("certificate extension " + value);
    }
  }

  void sign(X509* certificate, X509* issuer) const {
    X509_set_issuer_name(certificate, X509_get_subject_name(issuer));
    if (X509_sign(certificate, key_.get(), EVP_sha256()) == 0) {
      throw std::runtime_error("certificate signature");
    }
  }

  static std::string text_of(BIO* bio) {
    std::string text(static_cast<std::size_t>(BIO_pending(bio)), '\0');
    BIO_read(bio, text.data(), static_cast<int>(text.size()));
    return text;
  }
  static std::string pem_of(X509* certificate) {
    const Bio bio(BIO_new(BIO_s_mem()));
    PEM_write_bio_X509(bio.get(), certificate);
    return text_of(bio.get());
  }
  static std::string pem_of(EVP_PKEY* key) {
    const Bio bio(BIO_new(BIO_s_mem()));
    PEM_write_bio_PrivateKey(bio.get(), key, nullptr, nullptr, 0, nullptr, nullptr);
    return text_of(bio.get());
  }

  Key key_;
  Certificate certificate_;
};

}  // namespace moonfence::test
