#include "kube/auth/live_credentials.h"

#include <utility>

#include "kube/text/base64.h"

namespace moonfence::kube {

LiveCredentials::LiveCredentials(const Surroundings& surroundings, Connection connection)
    : loop_(surroundings.loop),
      connection_(std::move(connection)),
      tls_(surroundings.loop, surroundings.http, surroundings.files, surroundings.log, connection_),
      next_look_(surroundings.loop.now()) {
  const Identity& identity = connection_.identity;
  if (identity.exec) {
    Host& host = *this;
    login_ = std::make_unique<ExecLogin>(surroundings.loop, surroundings.processes,
                                         surroundings.wall_clock, surroundings.log, *identity.exec,
                                         host);
  } else if (!identity.token_file.empty()) {
    token_file_ =
        std::make_unique<TokenFile>(surroundings.loop, surroundings.files, surroundings.log,
                                    identity.token_file, identity.token);
  } else if (!identity.username.empty()) {
    basic_ = "Basic " + base64_encoded(identity.username + ":" + identity.password);
  }
}

void LiveCredentials::headers(Ready ready) {
  if (login_) {
    login_->get([this, ready = std::move(ready)](const Result<ExecCredential>& credential) {
      if (!credential) {
        ready(failure(credential.error()));
      } else {
        ready(with(credential->token.empty() ? "" : "Bearer " + credential->token));
      }
    });
    return;
  }
  const std::string& token = token_file_ ? token_file_->token() : connection_.identity.token;
  ready(with(token.empty() ? basic_ : "Bearer " + token));
}

bool LiveCredentials::refused(Moment asked) {
  // The client certificate may have run out; look whether there is a new one.
  if (loop_.now() >= next_look_) {
    next_look_ = loop_.now() + std::chrono::seconds(10);
    tls_.reload();
  }
  if (login_) {
    return login_->refused(asked);
  }
  return token_file_ && token_file_->refused(asked);
}

void LiveCredentials::reload() {
  tls_.reload();
  if (token_file_) {
    token_file_->reload();
  }
}

CredentialHealth LiveCredentials::health() const {
  return {.token = token_file_ ? token_file_->reloads() : Reloads{},
          .authority = tls_.authority_reloads(),
          .certificate = tls_.certificate_reloads(),
          .plugin = login_ ? login_->reloads() : Reloads{}};
}

std::string LiveCredentials::exec_environment() {
  connection_.ca_pem = tls_.authority();
  return exec_info(*connection_.identity.exec, connection_);
}

void LiveCredentials::on_credential(const ExecCredential& credential) {
  if (!credential.certificate_pem.empty()) {
    tls_.use_certificate(credential.certificate_pem, credential.key_pem);
  }
}

std::vector<port::Header> LiveCredentials::with(const std::string& authorization) const {
  std::vector<port::Header> headers = connection_.identity.impersonation;
  if (!authorization.empty()) {
    headers.push_back({"Authorization", authorization});
  }
  return headers;
}

}  // namespace moonfence::kube
