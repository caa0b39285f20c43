#include <cstring>
#include <string>
#include <string_view>

#include <openssl/x509_vfy.h>

#include "base/text.h"
#include "os/net/exchange.h"

namespace moonfence::os {
namespace {

// What a human does next. The API server's settings stand in a kubeconfig, an endpoint's in the
// engine's configuration.
struct Advice {
  std::string_view reach;
  std::string_view resolve;
  std::string_view authority;
  std::string_view name;
  std::string_view client_certificate;
  std::string_view expired;
  std::string_view weak;
  std::string_view purpose;
  std::string_view other_server;
  std::string_view url;
};

constexpr Advice kOfApiServer{
    .reach =
        "is the API server running, and may this machine reach that address? In a pod a "
        "NetworkPolicy has to allow its port: docs/install.md, Other ports",
    .resolve = "check server and proxy-url in the kubeconfig, and this machine's DNS",
    .authority = "check certificate-authority in the kubeconfig",
    .name = "check server and tls-server-name in the kubeconfig",
    .client_certificate = "check client-certificate and client-key in the kubeconfig",
    .expired = "renew the API server's certificate, or set this machine's clock",
    .weak =
        "OpenSSL wants RSA keys of 2048 bits and signatures by SHA-256 or better; kubectl may "
        "take it all the same. Renew it",
    .purpose =
        "a CA has to say so (basicConstraints CA:TRUE, keyUsage keyCertSign), a server "
        "extendedKeyUsage serverAuth; kubectl is not as strict about CAs of a file",
    .other_server = "is something other than an API server answering there?",
    .url = "check server and proxy-url in the kubeconfig"};

constexpr Advice kOfEndpoint{
    .reach =
        "does it run, and may this machine reach that address? In a pod a NetworkPolicy has "
        "to allow its port: docs/install.md, Other ports",
    .resolve =
        "check the host in the endpoint's url, and this machine's DNS. In a pod a "
        "NetworkPolicy has to allow the port of the name servers: docs/install.md, Other "
        "ports",
    .authority = "check tls.ca of the endpoint; without it the system's CAs are trusted",
    .name = "check the host in the endpoint's url",
    .client_certificate = "check tls.clientCertificate and tls.clientKey of the endpoint",
    .expired = "renew the server's certificate, or set this machine's clock",
    .weak = "OpenSSL wants RSA keys of 2048 bits and signatures by SHA-256 or better. Renew it",
    .purpose =
        "a CA has to say so (basicConstraints CA:TRUE, keyUsage keyCertSign), a server "
        "extendedKeyUsage serverAuth",
    .other_server = "is something other than the endpoint answering there?",
    .url = "check the endpoint's url, and HTTP_PROXY and HTTPS_PROXY"};

const Advice& advice_for(const Exchange& exchange) {
  return exchange.request.tls == nullptr ? kOfApiServer : kOfEndpoint;
}

Error make(Error::Kind kind, const Exchange& exchange, std::string_view what,
           std::string_view hint = {}) {
  return {
      .kind = kind, .text = exchange.place + ": " + std::string(what), .hint = std::string(hint)};
}

// libcurl's own words, else its standard text for the code.
std::string detail(const Exchange& exchange, CURLcode code) {
  const std::string_view own = trimmed(exchange.error_text.data());
  return own.empty() ? curl_easy_strerror(code) : escaped(own, 300);
}

std::string system_reason(const Exchange& exchange, CURLcode code) {
  long number = 0;
  curl_easy_getinfo(exchange.easy, CURLINFO_OS_ERRNO, &number);
  // The GNU and the POSIX strerror_r differ; this one is only called on the loop's thread.
  return number == 0 ? detail(exchange, code)
                     : lower_cased(std::strerror(
                           static_cast<int>(number)));  // NOLINT(concurrency-mt-unsafe): one thread
}

Error verification_error(const Exchange& exchange, CURLcode code) {
  long result = X509_V_OK;
  curl_easy_getinfo(exchange.easy, CURLINFO_SSL_VERIFYRESULT, &result);
  const std::string reason = " (" + detail(exchange, code) + ")";
  const Advice& advice = advice_for(exchange);
  switch (result) {
    case X509_V_OK:
    case X509_V_ERR_UNSPECIFIED:  // libcurl's initial value: verification itself found nothing
      return make(Error::Kind::Retryable, exchange,
                  "TLS: the server's certificate is for another name" + reason, advice.name);
    case X509_V_ERR_CERT_HAS_EXPIRED:
      return make(Error::Kind::Retryable, exchange,
                  "TLS: the server's certificate has expired" + reason, advice.expired);
    case X509_V_ERR_CERT_NOT_YET_VALID:
      return make(Error::Kind::Retryable, exchange,
                  "TLS: the server's certificate is not yet valid" + reason,
                  "set this machine's clock");
    case X509_V_ERR_EE_KEY_TOO_SMALL:
    case X509_V_ERR_CA_KEY_TOO_SMALL:
    case X509_V_ERR_CA_MD_TOO_WEAK:
      return make(Error::Kind::Retryable, exchange,
                  "TLS: the server's certificate, or one of a CA above it, is too weak" + reason,
                  advice.weak);
    case X509_V_ERR_INVALID_CA:
    case X509_V_ERR_INVALID_PURPOSE:
    case X509_V_ERR_KEYUSAGE_NO_CERTSIGN:
      return make(Error::Kind::Retryable, exchange,
                  "TLS: a certificate is used for what it was not made for" + reason,
                  advice.purpose);
    default:
      return make(Error::Kind::Retryable, exchange,
                  "TLS: the server's certificate is signed by an unknown CA" + reason,
                  advice.authority);
  }
}

Error connection_error(const Exchange& exchange, CURLcode code) {
  const std::string text = detail(exchange, code);
  // With TLS 1.3 the server's refusal of our certificate arrives after the handshake.
  const bool about_our_certificate =
      text.find("alert") != std::string::npos && (text.find("certificate") != std::string::npos ||
                                                  text.find("unknown ca") != std::string::npos);
  if (about_our_certificate) {
    return make(Error::Kind::Retryable, exchange,
                "TLS: the server refused our client certificate (" + text + ")",
                advice_for(exchange).client_certificate);
  }
  if (code == CURLE_SSL_CONNECT_ERROR) {
    return make(Error::Kind::Retryable, exchange, "TLS handshake failed (" + text + ")",
                "does that port speak TLS 1.2 or newer?");
  }
  // The peer was gone before libcurl could ask who it is: then the alert above is lost, and a
  // TLS 1.3 server that wants another client certificate looks just like one that died.
  if (text.find("getpeername()") != std::string::npos) {
    return make(Error::Kind::Retryable, exchange,
                "connection lost as soon as it was made; the server may have refused our client "
                "certificate (" +
                    text + ")",
                advice_for(exchange).client_certificate);
  }
  return make(Error::Kind::Retryable, exchange, "connection lost (" + text + ")");
}

Error write_error(const Exchange& exchange, CURLcode code) {
  if (exchange.head_too_long) {
    return make(
        Error::Kind::Limit, exchange,
        "the head of the answer is longer than " + std::to_string(exchange.head_limit) + " bytes",
        advice_for(exchange).other_server);
  }
  return make(Error::Kind::Malformed, exchange,
              "cannot take the answer (" + detail(exchange, code) + ")");
}

Error error_of(const Exchange& exchange, CURLcode code, const HttpLimits& limits) {
  const Advice& advice = advice_for(exchange);
  switch (code) {
    case CURLE_COULDNT_RESOLVE_HOST:
    case CURLE_COULDNT_RESOLVE_PROXY:
      return make(Error::Kind::Retryable, exchange,
                  "name not resolved (" + detail(exchange, code) + ")", advice.resolve);
    case CURLE_COULDNT_CONNECT:
      return make(Error::Kind::Retryable, exchange,
                  "cannot connect: " + system_reason(exchange, code), advice.reach);
    case CURLE_OPERATION_TIMEDOUT:
      return make(Error::Kind::Retryable, exchange,
                  "no connection within " + format_duration(limits.connect_timeout), advice.reach);
    case CURLE_PEER_FAILED_VERIFICATION:
      return verification_error(exchange, code);
    case CURLE_SSL_CERTPROBLEM:
      return make(Error::Kind::Retryable, exchange,
                  "TLS: our client certificate cannot be used (" + detail(exchange, code) + ")",
                  advice_for(exchange).client_certificate);
    case CURLE_SSL_CACERT_BADFILE:
      return make(Error::Kind::Retryable, exchange,
                  "TLS: the CA cannot be used (" + detail(exchange, code) + ")", advice.authority);
    case CURLE_GOT_NOTHING:
      return make(Error::Kind::Retryable, exchange,
                  "the server closed the connection without an answer");
    case CURLE_PARTIAL_FILE:
      return make(Error::Kind::Retryable, exchange,
                  "the answer was cut off (" + detail(exchange, code) + ")");
    case CURLE_ABORTED_BY_CALLBACK:
      return make(Error::Kind::Cancelled, exchange, "the request was not allowed to be sent");
    case CURLE_WRITE_ERROR:
      return write_error(exchange, code);
    case CURLE_UNSUPPORTED_PROTOCOL:
    case CURLE_WEIRD_SERVER_REPLY:
      return make(Error::Kind::Malformed, exchange,
                  "the answer is not HTTP/1.1 (" + detail(exchange, code) + ")",
                  advice.other_server);
    case CURLE_URL_MALFORMAT:
      return make(Error::Kind::Invalid, exchange, "not a URL (" + detail(exchange, code) + ")",
                  advice.url);
    case CURLE_OUT_OF_MEMORY:
      return make(Error::Kind::Limit, exchange, "out of memory");
    default:
      return connection_error(exchange, code);
  }
}

}  // namespace

std::optional<Error> outcome_of(Exchange& exchange, CURLcode code, const HttpLimits& limits) {
  if (code == CURLE_OK) {
    return std::nullopt;
  }
  return error_of(exchange, code, limits);
}

Error timeout_of(const Exchange& exchange) {
  const std::string limit = format_duration(exchange.request.timeout);
  if (exchange.state == Exchange::State::Queued) {
    return make(Error::Kind::Retryable, exchange, "still waiting for its turn after " + limit);
  }
  if (!exchange.end.sent) {
    return make(Error::Kind::Retryable, exchange, "no connection within " + limit,
                advice_for(exchange).reach);
  }
  return make(Error::Kind::Retryable, exchange,
              exchange.head_complete ? "the answer was not complete within " + limit
                                     : "no answer within " + limit);
}

}  // namespace moonfence::os
