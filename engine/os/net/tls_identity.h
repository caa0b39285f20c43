#pragma once

// TlsIdentity is what a TLS server of ours shows: a certificate with its chain and key, and the
// rules of the handshake (TLS 1.2 and 1.3, forward secrecy, no renegotiation, no compression, no
// resumption, HTTP/1.1 by ALPN). It never changes, so threads share it; a new certificate is a new
// identity.

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "base/time.h"

struct ssl_ctx_st;

namespace moonfence::os {

class TlsIdentity final {
 public:
  // PEM texts, the server's own certificate first. Invalid: what cannot be read, a key of another
  // certificate, one that is too weak. One that has expired is taken: whether it is shown is the
  // caller's decision. The key never stands in an error.
  [[nodiscard]] static Result<std::shared_ptr<const TlsIdentity>> from_pem(
      std::string_view certificates, std::string_view key);

  // A fresh key (ECDSA P-256) that signs its own certificate, which is good for `kLifetime`.
  // `names` are DNS names or IP addresses. Limit when OpenSSL fails.
  [[nodiscard]] static Result<std::shared_ptr<const TlsIdentity>> self_signed(
      const std::vector<std::string>& names, WallTime now);
  static constexpr Duration kLifetime = std::chrono::hours(24 * 365);
  // It is good from so long before it was made: clocks of clients that are behind take it too.
  static constexpr std::chrono::hours kBefore{1};

  ~TlsIdentity();
  TlsIdentity(const TlsIdentity&) = delete;
  TlsIdentity& operator=(const TlsIdentity&) = delete;

  [[nodiscard]] WallTime expires() const { return expires_; }
  // OpenSSL counts its users by itself, from any thread.
  [[nodiscard]] ssl_ctx_st* context() const { return context_; }

 private:
  TlsIdentity(ssl_ctx_st* context, WallTime expires) : context_(context), expires_(expires) {}
  struct Maker;

  ssl_ctx_st* const context_;
  const WallTime expires_;
};

}  // namespace moonfence::os
