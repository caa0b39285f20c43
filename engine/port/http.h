#pragma once

// What we need from the network: one HTTP/1.1 exchange at a time, streamed. Implemented by
// os::CurlHttp and, in memory, by the simulation. All calls and callbacks happen on the loop's
// thread.

#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "base/time.h"

namespace moonfence::port {

enum class Method { Get, Post, Put, Patch, Delete };

[[nodiscard]] constexpr std::string_view to_string(Method method) {
  switch (method) {
    case Method::Get:
      return "GET";
    case Method::Post:
      return "POST";
    case Method::Put:
      return "PUT";
    case Method::Patch:
      return "PATCH";
    case Method::Delete:
      return "DELETE";
  }
  return "GET";
}

// Exchanges of different lanes never wait for one another, and each lane has its own idea of how
// soon a silent peer is dead.
enum class Lane {
  Writes,     // small and urgent: lease, deletes, live reads of one object, heartbeat
  Watches,    // open for minutes, mostly silent
  Bulk,       // lists
  Endpoints,  // services other than the API server, which may be slow or hostile
  Guests,     // what readers of metrics and the status page cause: nothing else ever waits for it
};
constexpr std::size_t kLanes = 5;

struct Header {
  std::string name;
  std::string value;
};

// How the server is recognised and how we show who we are. PEM texts, not paths: whoever reads the
// files checks them first.
struct TlsSettings {
  std::string ca_pem = {};           // empty: the system's trust store
  std::string certificate_pem = {};  // empty: no client certificate
  std::string key_pem = {};
  std::string server_name = {};  // empty: the URL's host
  bool insecure = false;         // skip verification; only by explicit configuration
  std::string proxy_url = {};    // empty: none

  friend bool operator==(const TlsSettings&, const TlsSettings&) = default;
};

// Whose key signs a request, and for what, by AWS Signature Version 4.
struct AwsSignature {
  std::string region = {};
  std::string service = {};
  std::string access_key = {};
  std::string secret_key = {};
};

struct HttpRequest {
  Method method = Method::Get;
  std::string url = {};  // absolute, already percent-encoded
  std::vector<Header> headers = {};
  std::string body = {};
  Lane lane = Lane::Writes;
  // The whole exchange from start() to its last byte; zero: no limit.
  Duration timeout = Duration::zero();
  // Asked immediately before the bytes of each attempt leave, also when the transport repeats a
  // request by itself on a fresh connection; where a connection is open that is inside start(),
  // whose caller has no Transfer yet. False ends the exchange unsent.
  std::function<bool()> may_send = nullptr;
  // Of a server other than the one that use_tls() is about; null: of that one.
  std::shared_ptr<const TlsSettings> tls = nullptr;
  // Signed as it leaves, with all of its headers. It has a body with a type, and no query: libcurl
  // before 8.3 signs a query as it stands, and the service sorts it first.
  std::shared_ptr<const AwsSignature> aws = nullptr;
};

struct HttpHead {
  int status = 0;
  std::vector<Header> headers;  // names in lower case, in the order received

  // The first header of that (lower-case) name, "" when there is none.
  [[nodiscard]] std::string_view find(std::string_view name) const {
    for (const Header& header : headers) {
      if (header.name == name) {
        return header.value;
      }
    }
    return {};
  }
};

struct HttpEnd {
  // Set when the exchange did not run to its end. Not set does not mean that the body is complete:
  // whoever reads it decides that by its grammar.
  std::optional<Error> error;
  // Bytes of the request may have reached the server. With an error on a write this means that the
  // outcome is unknown.
  bool sent = false;
};

// Receives one exchange: at most one head, then body pieces of any size, then exactly one end.
class HttpSink {
 public:
  virtual ~HttpSink() = default;
  virtual void on_head(const HttpHead& head) = 0;
  virtual void on_body(std::string_view bytes) = 0;
  // The last call. The transfer may be destroyed inside it.
  virtual void on_end(const HttpEnd& end) = 0;
};

// A running exchange. Destroying it cancels it; its sink hears nothing more.
class Transfer {
 public:
  virtual ~Transfer() = default;
};

class Http {
 public:
  virtual ~Http() = default;
  // Starts an exchange. The sink must outlive the transfer and is never called inside start().
  [[nodiscard]] virtual std::unique_ptr<Transfer> start(HttpRequest request, HttpSink& sink) = 0;
  // For every connection opened from now on. Existing ones live on, also with an older certificate;
  // drop_connections() ends those.
  virtual void use_tls(TlsSettings settings) = 0;
  // Ends every connection at once; running exchanges fail in this or the next turn. The cure for a
  // peer that is dead without having said so.
  virtual void drop_connections() = 0;
};

}  // namespace moonfence::port
