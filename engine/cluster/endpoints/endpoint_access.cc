#include "cluster/endpoints/endpoint_access.h"

#include <utility>

namespace moonfence::cluster {
namespace {

kube::Connection connection_of(const EndpointRules& rules, port::Files& files) {
  constexpr std::size_t kPemLimit = 4U << 20U;
  kube::Connection connection;
  connection.server = rules.url;
  connection.ca_file = rules.ca_file;
  connection.identity.certificate_file = rules.certificate_file;
  connection.identity.key_file = rules.key_file;
  // A pair in force from the start; TlsFiles takes later ones when they have settled.
  if (!rules.certificate_file.empty()) {
    auto certificate = files.read(rules.certificate_file, kPemLimit);
    auto key = files.read(rules.key_file, kPemLimit);
    if (certificate && key) {
      connection.identity.certificate_pem = *std::move(certificate);
      connection.identity.key_pem = *std::move(key);
    }
  }
  return connection;
}

}  // namespace

std::unique_ptr<port::Transfer> OwnTls::start(port::HttpRequest request, port::HttpSink& sink) {
  request.tls = tls_;
  request.aws = signature_;
  request.lane = port::Lane::Endpoints;
  return http_.start(std::move(request), sink);
}

EndpointAccess::EndpointAccess(const Endpoints::Surroundings& around, const std::string& name,
                               const EndpointRules& rules)
    : files_(around.files),
      rules_(rules),
      http_(around.http),
      tls_(around.loop, http_, around.files, around.log, connection_of(rules_, around.files)),
      credentials_(around.loop, http_, around.files, around.log, name, rules_, around.user_agent) {
  tls_.reload();
}

void EndpointAccess::headers(Ready ready) {
  const bool no_authority = !rules_.ca_file.empty() && http_.tls().ca_pem.empty();
  const bool no_certificate =
      !rules_.certificate_file.empty() && http_.tls().certificate_pem.empty();
  if (no_authority || no_certificate) {
    tls_.reload();
  }
  if (no_authority && http_.tls().ca_pem.empty()) {
    ready(failure(Error::Kind::Unauthorized, "tls.ca: " + tls_.authority_reloads().fault));
  } else if (no_certificate && http_.tls().certificate_pem.empty()) {
    ready(failure(Error::Kind::Unauthorized,
                  "tls.clientCertificate: " + tls_.certificate_reloads().fault));
  } else if (is_aws()) {
    auto identity = aws_identity(files_, rules_.aws);
    http_.sign_with(identity ? identity->signature : nullptr);
    ready(identity ? with_ours(std::move(identity->headers))
                   : failure(std::move(identity.error())));
  } else {
    credentials_.headers([this, ready = std::move(ready)](auto headers) {
      ready(headers ? with_ours(*std::move(headers)) : std::move(headers));
    });
  }
}

Result<std::vector<port::Header>> EndpointAccess::with_ours(
    std::vector<port::Header> headers) const {
  headers.insert(headers.end(), rules_.headers.begin(), rules_.headers.end());
  return headers;
}

}  // namespace moonfence::cluster
