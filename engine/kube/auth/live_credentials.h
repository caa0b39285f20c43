#pragma once

// The Credentials of a Connection, whatever it uses: nothing, a fixed token, a token file, a user
// and password, an exec plugin; with or without a client certificate. Hands TLS settings to the
// network at construction and whenever they change.

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "kube/auth/connection.h"
#include "kube/auth/credentials.h"
#include "kube/auth/exec_login.h"
#include "kube/auth/reloads.h"
#include "kube/auth/tls_files.h"
#include "kube/auth/token_file.h"
#include "loop/loop.h"
#include "port/files.h"
#include "port/http.h"
#include "port/log.h"
#include "port/processes.h"
#include "port/wall_clock.h"

namespace moonfence::kube {

// For metrics and the status page.
struct CredentialHealth {
  Reloads token;
  Reloads authority;
  Reloads certificate;
  Reloads plugin;
};

class LiveCredentials final : public Credentials, private ExecLogin::Host {
 public:
  // What credentials are kept fresh with. All outlive the credentials.
  struct Surroundings {
    loop::Loop& loop;
    port::Http& http;
    port::Files& files;
    port::Processes& processes;
    port::WallClock& wall_clock;
    port::Log& log;
  };

  LiveCredentials(const Surroundings& surroundings, Connection connection);
  LiveCredentials(const LiveCredentials&) = delete;
  LiveCredentials& operator=(const LiveCredentials&) = delete;

  void headers(Ready ready) override;
  bool refused(Moment asked) override;

  // Reads every file now, as a signal or a failed TLS handshake may ask for.
  void reload();
  [[nodiscard]] CredentialHealth health() const;

 private:
  [[nodiscard]] std::string exec_environment() override;
  void on_credential(const ExecCredential& credential) override;
  [[nodiscard]] std::vector<port::Header> with(const std::string& authorization) const;

  loop::Loop& loop_;
  Connection connection_;
  std::string basic_;  // the header's value; "" when there is no user
  TlsFiles tls_;
  Moment next_look_;  // at the certificate, because of a 401
  std::unique_ptr<TokenFile> token_file_;
  std::unique_ptr<ExecLogin> login_;
};

}  // namespace moonfence::kube
