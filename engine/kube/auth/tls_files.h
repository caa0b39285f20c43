#pragma once

// The trust store and the client certificate, kept as the files have them and handed to the
// network. Looked at every 5 min. A new CA counts for new connections; a new client certificate
// also ends the existing ones, because the server goes on to see the old one on them. The last good
// value stays when a file is gone, empty or no PEM. Certificate and key are two files: a change is
// taken when it looks the same twice, kSettle apart, so that no half-written pair comes into force.
// Sources: client-go transport/ca_rotation.go, cert_rotation.go.

#include <optional>
#include <string>

#include "base/time.h"
#include "kube/auth/connection.h"
#include "kube/auth/reloads.h"
#include "loop/loop.h"
#include "port/files.h"
#include "port/http.h"
#include "port/log.h"

namespace moonfence::kube {

class TlsFiles final {
 public:
  static constexpr Duration kPeriod = std::chrono::minutes(5);
  static constexpr Duration kSettle = std::chrono::seconds(5);

  // Calls use_tls() with what the connection holds.
  TlsFiles(loop::Loop& loop, port::Http& http, port::Files& files, port::Log& log,
           const Connection& connection);
  TlsFiles(const TlsFiles&) = delete;
  TlsFiles& operator=(const TlsFiles&) = delete;

  // A certificate from elsewhere (an exec plugin) takes the place of the configured one.
  void use_certificate(const std::string& certificate_pem, const std::string& key_pem);
  // Looks at the files now.
  void reload();

  [[nodiscard]] const std::string& authority() const { return settings_.ca_pem; }
  [[nodiscard]] const Reloads& authority_reloads() const { return authority_reloads_; }
  [[nodiscard]] const Reloads& certificate_reloads() const { return certificate_reloads_; }

 private:
  struct Pair {
    std::string certificate;
    std::string key;
    friend bool operator==(const Pair&, const Pair&) = default;
  };

  void tick();
  void reload_authority();
  // `settled`: kSettle has passed since the change was first seen.
  void reload_certificate(bool settled);
  std::optional<Pair> read_pair();
  void replace_certificate(const std::string& certificate_pem, const std::string& key_pem);

  loop::Loop& loop_;
  port::Http& http_;
  port::Files& files_;
  port::Log& log_;
  const std::string authority_file_;
  std::string certificate_file_;
  std::string key_file_;
  port::TlsSettings settings_;
  std::optional<Pair> seen_;  // differs from what is in force, not settled yet
  Reloads authority_reloads_;
  Reloads certificate_reloads_;
  loop::Timer timer_;
  loop::Timer settle_;
};

}  // namespace moonfence::kube
