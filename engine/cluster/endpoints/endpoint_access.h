#pragma once

// How one endpoint is reached: on a lane of its own, under its own TLS settings, and with what we
// show it. Whoever asks it something or tells it something does so by this (endpoint.h,
// endpoint_sender.h).

#include <memory>
#include <string>
#include <vector>

#include "base/result.h"
#include "cluster/endpoints/endpoint.h"
#include "cluster/endpoints/endpoint_credentials.h"
#include "kube/auth/credentials.h"
#include "kube/auth/tls_files.h"
#include "port/files.h"
#include "port/http.h"

namespace moonfence::cluster {

// Exchanges with one endpoint: on a lane where they hold up nothing of the API server, under TLS
// settings of their own.
class OwnTls final : public port::Http {
 public:
  explicit OwnTls(port::Http& http) : http_(http) {}
  OwnTls(const OwnTls&) = delete;
  OwnTls& operator=(const OwnTls&) = delete;

  std::unique_ptr<port::Transfer> start(port::HttpRequest request, port::HttpSink& sink) override;
  void use_tls(port::TlsSettings settings) override {
    tls_ = std::make_shared<const port::TlsSettings>(std::move(settings));
  }
  // Connections are told apart by their settings: none is used on with an older certificate.
  void drop_connections() override {}

  [[nodiscard]] const port::TlsSettings& tls() const { return *tls_; }
  // All that is started from now on.
  void sign_with(std::shared_ptr<const port::AwsSignature> signature) {
    signature_ = std::move(signature);
  }

 private:
  port::Http& http_;
  std::shared_ptr<const port::AwsSignature> signature_;
  std::shared_ptr<const port::TlsSettings> tls_ = std::make_shared<const port::TlsSettings>();
};

class EndpointAccess final : public kube::Credentials {
 public:
  // All that is referred to must outlive it.
  EndpointAccess(const Endpoints::Surroundings& around, const std::string& name,
                 const EndpointRules& rules);
  EndpointAccess(const EndpointAccess&) = delete;
  EndpointAccess& operator=(const EndpointAccess&) = delete;

  [[nodiscard]] port::Http& http() { return http_; }
  [[nodiscard]] bool is_aws() const { return rules_.auth == EndpointRules::Auth::Aws; }

  // Nothing is sent, not even a password, before we can recognise the endpoint as configured.
  void headers(Ready ready) override;
  bool refused(Moment asked) override { return credentials_.refused(asked); }

 private:
  [[nodiscard]] Result<std::vector<port::Header>> with_ours(
      std::vector<port::Header> headers) const;

  port::Files& files_;
  const EndpointRules& rules_;
  OwnTls http_;
  kube::TlsFiles tls_;
  EndpointCredentials credentials_;
};

}  // namespace moonfence::cluster
