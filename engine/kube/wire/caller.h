#pragma once

// Caller performs single API requests: builds the URL, adds credentials and standard headers,
// collects a bounded body, turns HTTP answers into Results and repeats once after a 401 when new
// credentials are at hand. It knows no resource and takes no decision; retries beyond that belong
// to whoever knows whether repeating is safe. Rules: a reply is complete when its JSON
// is, whatever the transport says; errors are told apart by Status.reason, never by message.

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

#include "base/result.h"
#include "base/time.h"
#include "kube/auth/connection.h"
#include "kube/auth/credentials.h"
#include "loop/loop.h"
#include "port/http.h"
#include "port/log.h"

namespace moonfence::kube {

class ServerPace;

using Query = std::vector<std::pair<std::string, std::string>>;

struct ApiRequest {
  port::Method method = port::Method::Get;
  std::string path;            // "/api/v1/nodes/n1", segments already encoded (kube/wire/url.h)
  bool path_as_given = false;  // of a URL that somebody wrote; it was checked when it was read
  Query query;                 // encoded by the caller
  std::string body;
  std::string content_type;  // set exactly when there is a body
  // Of a read: of each object its metadata alone (PartialObjectMetadata), of whatever kind it is.
  bool metadata_only = false;
  port::Lane lane = port::Lane::Writes;
  Duration timeout = std::chrono::seconds(5);
  std::size_t body_limit = 4U << 20U;
  std::function<bool()> may_send;  // see port::HttpRequest
  // false: the CallObserver is not told. For calls that are made for their connection alone.
  bool observed = true;
  bool ignores_body = false;  // a 2xx is a success, whatever stands in it
  bool logs_warnings = true;  // those that the server's answer carries
  bool only_asks = false;     // it changes nothing, although it is no GET
  // Of a service that does not speak JSON: reads a success, and the service's word for a refusal,
  // which becomes Error::reason.
  Result<nlohmann::json> (*reads)(std::string_view body) = nullptr;
  std::string (*word_of_refusal)(std::string_view body) = nullptr;
};

struct ApiReply {
  int status = 0;
  nlohmann::json body;
  std::string audit_id;          // Audit-Id header: finds the request in the server's audit log
  std::optional<WallTime> date;  // the server's clock
};

// A running request. Destroying it cancels it, and its callback is never called.
class ApiCall {
 public:
  virtual ~ApiCall() = default;
};
using CallHandle = std::unique_ptr<ApiCall>;

// Gets the body of a successful (2xx) streamed reply piece by piece. The handle may be destroyed
// inside each of them.
class StreamSink {
 public:
  virtual ~StreamSink() = default;
  virtual void on_open() = 0;  // the server answered 2xx
  virtual void on_bytes(std::string_view bytes) = 0;
  // The last call: nothing when the stream ended, an Error when the server refused (its Status is
  // decoded) or the connection failed.
  virtual void on_close(const Result<void>& outcome) = 0;
};

// What happened to each observed request, for metrics and for the API server's clock. Every
// exchange is told, each attempt by itself, when its answer begins (a body may take minutes, and
// the Date would be old) or with status 0 when it fails without one.
class CallObserver {
 public:
  virtual ~CallObserver() = default;
  // `took`: from the start of the attempt until now.
  virtual void on_exchange(port::Method method, int status, Duration took,
                           std::optional<WallTime> server_date) = 0;
  // The versions of a whole collection went backwards: the server's store was restored from a
  // backup. Told by whoever compares versions, in the middle of a call of his.
  virtual void on_went_back() {}
};

// The handles must not outlive the caller.
class Caller {
 public:
  Caller(loop::Loop& loop, port::Http& http, Credentials& credentials, port::Log& log,
         std::string server, std::string user_agent);
  ~Caller();
  Caller(const Caller&) = delete;
  Caller& operator=(const Caller&) = delete;

  // `done` is called once, in a later turn.
  [[nodiscard]] CallHandle call(ApiRequest request, std::function<void(Result<ApiReply>)> done);
  // What breaks a rule before it is sent fails like everything else: in a later turn, cancellable.
  [[nodiscard]] CallHandle refuse(Error error, std::function<void(Error)> done);
  // The sink must outlive the handle.
  [[nodiscard]] CallHandle stream(ApiRequest request, StreamSink& sink);

  void observe(CallObserver* observer);  // null: nobody; must outlive the caller
  void went_back();                      // tells the observer
  // Is told of every call of a single object; must outlive the caller.
  void keep_pace(ServerPace* pace);
  [[nodiscard]] const ServerPace* pace() const;

  // The newest successful write was answered with the priority level that admitted it: the API
  // server has Priority and Fairness (KEP-1040), as it has by default since 1.20. Reads do not
  // count: what an aggregated API says of itself is handed through.
  [[nodiscard]] bool is_admitted_fairly() const;

 private:
  struct Shared;
  std::unique_ptr<Shared> shared_;
};

}  // namespace moonfence::kube
