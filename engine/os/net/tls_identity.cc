#include "os/net/tls_identity.h"

#include <array>
#include <chrono>
#include <climits>
#include <utility>

#include <arpa/inet.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/rand.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>

namespace moonfence::os {
namespace {

template <auto Free>
struct Freed {
  template <class T>
  void operator()(T* what) const {
    Free(what);
  }
};
using Bio = std::unique_ptr<BIO, Freed<BIO_free_all>>;
using Certificate = std::unique_ptr<X509, Freed<X509_free>>;
using Key = std::unique_ptr<EVP_PKEY, Freed<EVP_PKEY_free>>;
using Context = std::unique_ptr<SSL_CTX, Freed<SSL_CTX_free>>;
using Extension = std::unique_ptr<X509_EXTENSION, Freed<X509_EXTENSION_free>>;

// Before a key can stand in it.
std::string last_words() {
  const unsigned long code = ERR_get_error();
  const char* reason = code == 0 ? nullptr : ERR_reason_error_string(code);
  ERR_clear_error();
  return reason == nullptr ? "OpenSSL gives no reason" : reason;
}

Bio over(std::string_view text) {
  return Bio(text.size() > INT_MAX ? nullptr
                                   : BIO_new_mem_buf(text.data(), static_cast<int>(text.size())));
}

// An encrypted key is refused; the default asks a terminal.
int no_password(char* /*into*/, int /*size*/, int /*writing*/, void* /*data*/) {
  return -1;
}

int choose_http(SSL* /*ssl*/, const unsigned char** out, unsigned char* out_size,
                const unsigned char* offered, unsigned int offered_size, void* /*data*/) {
  static constexpr std::array<unsigned char, 9> kHttp = {8, 'h', 't', 't', 'p', '/', '1', '.', '1'};
  unsigned char* chosen = nullptr;
  const int found =
      SSL_select_next_proto(&chosen, out_size, kHttp.data(), kHttp.size(), offered, offered_size);
  *out = chosen;
  return found == OPENSSL_NPN_NEGOTIATED ? SSL_TLSEXT_ERR_OK : SSL_TLSEXT_ERR_ALERT_FATAL;
}

Context make_context() {
  Context context(SSL_CTX_new(TLS_server_method()));
  if (context == nullptr || SSL_CTX_set_min_proto_version(context.get(), TLS1_2_VERSION) != 1 ||
      // Of TLS 1.2 what has forward secrecy and authenticates what it encrypts; of 1.3 all does.
      SSL_CTX_set_cipher_list(context.get(), "ECDHE+AESGCM:ECDHE+CHACHA20") != 1 ||
      SSL_CTX_set1_groups_list(context.get(), "X25519:P-256:P-384") != 1) {
    return nullptr;
  }
  SSL_CTX_set_options(context.get(), SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_COMPRESSION |
                                         SSL_OP_NO_TICKET | SSL_OP_CIPHER_SERVER_PREFERENCE);
  SSL_CTX_set_session_cache_mode(context.get(), SSL_SESS_CACHE_OFF);
  SSL_CTX_set_num_tickets(context.get(), 0);
  // On by default: one SSL_read would go on as long as there are records without data, and nobody
  // else were served meanwhile.
  SSL_CTX_clear_mode(context.get(), SSL_MODE_AUTO_RETRY);
  // What could not be written is tried again from another place in memory.
  SSL_CTX_set_mode(context.get(), SSL_MODE_ENABLE_PARTIAL_WRITE |
                                      SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER |
                                      SSL_MODE_RELEASE_BUFFERS);
  SSL_CTX_set_alpn_select_cb(context.get(), choose_http, nullptr);
  return context;
}

Result<WallTime> time_of(const ASN1_TIME* when) {
  std::tm parts{};
  if (ASN1_TIME_to_tm(when, &parts) != 1) {
    return failure(Error::Kind::Invalid, "the certificate's time cannot be read");
  }
  return WallTime(std::chrono::seconds(timegm(&parts)));
}

Failure unusable(const std::string& why) {
  return failure(Error::Kind::Invalid, why,
                 "give PEM texts as cert-manager writes them: the certificate and its chain in "
                 "tls.crt, its unencrypted key in tls.key");
}

bool add_extension(X509* certificate, int what, const std::string& value) {
  X509V3_CTX context;
  X509V3_set_ctx_nodb(&context);
  X509V3_set_ctx(&context, certificate, certificate, nullptr, nullptr, 0);
  const Extension extension(X509V3_EXT_conf_nid(nullptr, &context, what, value.c_str()));
  return extension != nullptr && X509_add_ext(certificate, extension.get(), -1) == 1;
}

std::string alternative_names(const std::vector<std::string>& names) {
  std::string text;
  for (const std::string& name : names) {
    // Anything else would be another setting of OpenSSL's.
    if (name.empty() ||
        name.find_first_not_of("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
                               "0123456789.:-") != std::string::npos) {
      continue;
    }
    std::array<unsigned char, sizeof(in6_addr)> bytes{};
    const bool is_address = inet_pton(AF_INET, name.c_str(), bytes.data()) == 1 ||
                            inet_pton(AF_INET6, name.c_str(), bytes.data()) == 1;
    text += (text.empty() ? "" : ",") + std::string(is_address ? "IP:" : "DNS:") + name;
  }
  return text;
}

Certificate sign_itself(EVP_PKEY* key, const std::vector<std::string>& names, WallTime now) {
  Certificate made(X509_new());
  std::array<unsigned char, 16> serial{};
  if (made == nullptr || RAND_bytes(serial.data(), static_cast<int>(serial.size())) != 1) {
    return nullptr;
  }
  serial[0] = static_cast<unsigned char>((serial[0] & 0x7fU) | 0x40U);  // positive, never 0
  const std::unique_ptr<BIGNUM, Freed<BN_free>> number(
      BN_bin2bn(serial.data(), static_cast<int>(serial.size()), nullptr));
  const auto seconds = std::chrono::floor<std::chrono::seconds>(now.time_since_epoch()).count();
  X509_NAME* name = X509_get_subject_name(made.get());
  static constexpr const char* kName = "moonfence";
  const std::string alternatives = alternative_names(names);
  const bool filled =
      number != nullptr && X509_set_version(made.get(), X509_VERSION_3) == 1 &&
      BN_to_ASN1_INTEGER(number.get(), X509_get_serialNumber(made.get())) != nullptr &&
      ASN1_TIME_set(X509_getm_notBefore(made.get()),
                    seconds - std::chrono::seconds(TlsIdentity::kBefore).count()) != nullptr &&
      ASN1_TIME_set(
          X509_getm_notAfter(made.get()),
          seconds +
              std::chrono::duration_cast<std::chrono::seconds>(TlsIdentity::kLifetime).count()) !=
          nullptr &&
      X509_NAME_add_entry_by_txt(name, "CN", MBSTRING_ASC,
                                 reinterpret_cast<const unsigned char*>(kName), -1, -1, 0) == 1 &&
      X509_set_issuer_name(made.get(), name) == 1 && X509_set_pubkey(made.get(), key) == 1 &&
      add_extension(made.get(), NID_basic_constraints, "critical,CA:FALSE") &&
      add_extension(made.get(), NID_key_usage, "critical,digitalSignature") &&
      add_extension(made.get(), NID_ext_key_usage, "serverAuth") &&
      (alternatives.empty() || add_extension(made.get(), NID_subject_alt_name, alternatives)) &&
      X509_sign(made.get(), key, EVP_sha256()) > 0;
  return filled ? std::move(made) : nullptr;
}

}  // namespace

struct TlsIdentity::Maker {
  static std::shared_ptr<const TlsIdentity> make(Context context, WallTime expires) {
    return std::shared_ptr<const TlsIdentity>(new TlsIdentity(context.release(), expires));
  }
};

TlsIdentity::~TlsIdentity() {
  SSL_CTX_free(context_);
}

Result<std::shared_ptr<const TlsIdentity>> TlsIdentity::from_pem(std::string_view certificates,
                                                                 std::string_view key) {
  ERR_clear_error();
  Context context = make_context();
  if (context == nullptr) {
    return failure(Error::Kind::Limit, "TLS cannot be set up: " + last_words());
  }
  const Bio certificate_bio = over(certificates);
  const Certificate own(PEM_read_bio_X509(certificate_bio.get(), nullptr, no_password, nullptr));
  if (own == nullptr) {
    ERR_clear_error();
    return unusable("the certificate is no PEM text of one");
  }
  if (SSL_CTX_use_certificate(context.get(), own.get()) != 1) {
    return unusable("the certificate cannot be used: " + last_words());
  }
  while (
      Certificate next{PEM_read_bio_X509(certificate_bio.get(), nullptr, no_password, nullptr)}) {
    if (SSL_CTX_add0_chain_cert(context.get(), next.get()) != 1) {
      return unusable("the certificate's chain cannot be used: " + last_words());
    }
    (void)next.release();  // the context's now
  }
  if (ERR_GET_REASON(ERR_peek_last_error()) != PEM_R_NO_START_LINE) {
    ERR_clear_error();
    return unusable("the certificate's chain is no PEM text");
  }
  ERR_clear_error();
  const Bio key_bio = over(key);
  const Key own_key(PEM_read_bio_PrivateKey(key_bio.get(), nullptr, no_password, nullptr));
  if (own_key == nullptr) {
    ERR_clear_error();
    return unusable("the key is no PEM text of an unencrypted private key");
  }
  if (X509_check_private_key(own.get(), own_key.get()) != 1 ||
      SSL_CTX_use_PrivateKey(context.get(), own_key.get()) != 1) {
    ERR_clear_error();
    return unusable("the key is not that of the certificate");
  }
  const auto expires = time_of(X509_get0_notAfter(own.get()));
  if (!expires) {
    return failure(expires.error());
  }
  return Maker::make(std::move(context), *expires);
}

Result<std::shared_ptr<const TlsIdentity>> TlsIdentity::self_signed(
    const std::vector<std::string>& names, WallTime now) {
  ERR_clear_error();
  Context context = make_context();
  const Key key(EVP_EC_gen("P-256"));
  const Certificate certificate = key == nullptr ? nullptr : sign_itself(key.get(), names, now);
  if (context == nullptr || certificate == nullptr ||
      SSL_CTX_use_certificate(context.get(), certificate.get()) != 1 ||
      SSL_CTX_use_PrivateKey(context.get(), key.get()) != 1) {
    return failure(Error::Kind::Limit, "a certificate cannot be made: " + last_words());
  }
  return Maker::make(std::move(context), std::chrono::floor<std::chrono::seconds>(now) + kLifetime);
}

}  // namespace moonfence::os
