#pragma once

// EndpointSender tells one endpoint something: a POST to its URL, recognised and authenticated as
// the endpoints are that policies ask (endpoint.h), on their lane. One at a time. Redirects are not
// followed, and nothing that the endpoint says is quoted; nor is the path of its URL, which may be
// all the secret that a receiver has.
//
// A 2xx is a success from its head on, whatever becomes of its body: nobody is told again what they
// took. The rest of the answer is read for a second, so that the connection can be used again.

#include <cstddef>
#include <functional>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "base/result.h"
#include "base/time.h"
#include "cluster/endpoints/endpoint.h"
#include "cluster/endpoints/endpoint_access.h"
#include "kube/auth/credentials.h"
#include "kube/wire/caller.h"
#include "loop/loop.h"
#include "port/http.h"
#include "port/log.h"

namespace moonfence::cluster {

class EndpointSender final : private kube::Credentials {
 public:
  // Of the body of a 2xx. One that is longer is not heard.
  static constexpr std::size_t kLongestAnswer = std::size_t{16} << 10U;
  // From the head of a 2xx to its end.
  static constexpr Duration kPatience = std::chrono::seconds(1);

  struct Letter {
    std::string body;
    std::string content_type;
    std::vector<port::Header> headers;  // beside those of the endpoint
    std::function<bool()> may_send;     // see port::HttpRequest
    // Hears what a 2xx says: null where that is no JSON, too long, or has not come to its end.
    std::function<void(const nlohmann::json& answer)> heard = {};
  };
  // Nothing: it was answered 2xx. Else http_status is the answer's, 0 where none came, and
  // retry_after what it asked for in seconds, at most five minutes.
  using Done = std::function<void(const Result<void>&)>;

  // What `around` refers to must outlive it. `name`: in messages.
  EndpointSender(const Endpoints::Surroundings& around, std::string name, EndpointRules rules);
  EndpointSender(const EndpointSender&) = delete;
  EndpointSender& operator=(const EndpointSender&) = delete;
  ~EndpointSender() override = default;

  // Not before the last one has ended or its handle has died. `done` is called once, in a later
  // turn, and never after the handle has died; the handle may die in it.
  [[nodiscard]] kube::CallHandle send(Letter letter, const Done& done);

 private:
  // What a caller says beside its results repeats paths.
  class Silence final : public port::Log {
   public:
    void write(Level, std::string_view, const std::vector<port::LogField>&) override {}
  };

  void headers(Ready ready) override;
  bool refused(Moment asked) override { return access_.refused(asked); }
  [[nodiscard]] Error told(Error error) const;

  loop::Loop& loop_;
  const std::string name_;
  const EndpointRules rules_;
  std::string path_;                   // of the URL, at least "/"
  std::vector<port::Header> headers_;  // of the one under way
  Silence silence_;
  EndpointAccess access_;
  kube::Caller caller_;
};

}  // namespace moonfence::cluster
