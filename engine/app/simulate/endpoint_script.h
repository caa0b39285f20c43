#pragma once

// What services beside the API server answer in a simulation, and the API server about kinds that
// the simulated cluster lacks: `responses` of a scenario or --responses of `moonfence simulate`, in
// the format of `moonfence policy eval`:
//
//   {"http vendor /v2/nodes": {"status": 200, "body": []},
//    "http vendor /v2/health": [{"status": 200, "body": {}}, {"from": "30s", "status": 503}],
//    "get example.com/v1 clusters shop/db": {"body": {"status": {"currentPrimary": "db-1"}}}}
//
// In a list each answer holds from its time on, counted from the start of the run. Status 0:
// nobody answers. `takes` says how long an answer takes, `text` what is answered in place of JSON.
// What is not in there is not answered either, and is remembered.

#include <map>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "base/time.h"
#include "loop/loop.h"
#include "port/http.h"

namespace moonfence::app {

class EndpointScript {
 public:
  struct Reply {
    Duration from{};
    int status = 200;
    std::string body;  // "" with status 0
    std::string type = "application/json";
    Duration takes{};
  };

  // "" answers nothing. `place` begins every message.
  [[nodiscard]] static Result<std::shared_ptr<EndpointScript>> parse(const std::string& text,
                                                                     const std::string& place);

  // The answer to "http vendor /v2/nodes" at that time of the run; null: there is none.
  [[nodiscard]] const Reply* reply_to(const std::string& request, Duration elapsed);
  // The request of the API server that this path stands for; null: the simulated one answers it.
  [[nodiscard]] const std::string* request_of(std::string_view path) const;
  // Requests without an answer.
  [[nodiscard]] const std::set<std::string>& unanswered() const { return unanswered_; }

 private:
  std::map<std::string, std::vector<Reply>> replies_;  // by request, in the order of their times
  std::map<std::string, std::string, std::less<>> by_path_;  // those of the API server
  std::set<std::string> unanswered_;
};

// Where the simulated engine finds an endpoint.
[[nodiscard]] std::string scripted_url(std::string_view endpoint);

// A replica's way to the network: what goes to endpoints, or asks the API server for what stands in
// the script, is answered from it.
class ScriptedEndpoints final : public port::Http {
 public:
  ScriptedEndpoints(port::Http& others, loop::Loop& loop, std::shared_ptr<EndpointScript> script);

  [[nodiscard]] std::unique_ptr<port::Transfer> start(port::HttpRequest request,
                                                      port::HttpSink& sink) override;
  void use_tls(port::TlsSettings settings) override { others_.use_tls(std::move(settings)); }
  void drop_connections() override { others_.drop_connections(); }

 private:
  class Answer;

  port::Http& others_;
  loop::Loop& loop_;
  std::shared_ptr<EndpointScript> script_;
};

}  // namespace moonfence::app
