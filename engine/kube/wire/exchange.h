#pragma once

// Exchange is one API request under way inside Caller: credentials, the request, its repeat after a
// 401, and the refusal's body; what a successful answer means is its subclass's. Owned by the
// handle that Caller hands out; after its last call it is destroyed by whoever it called.

#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "kube/text/object_parser.h"
#include "kube/wire/caller.h"
#include "kube/wire/server_pace.h"

namespace moonfence::kube {

// What all exchanges of a Caller share.
struct CallContext {
  loop::Loop& loop;
  port::Http& http;
  Credentials& credentials;
  port::Log& log;
  std::string server;
  std::string user_agent;
  CallObserver* observer = nullptr;
  ServerPace* pace = nullptr;
  bool admitted_fairly = false;           // see Caller
  std::unique_ptr<ObjectParser> replies;  // its buffers stay from one to the next
  std::set<std::string> warnings;         // already logged
  // Exchanges cancelled inside their own head or body callback. A transport need not survive the
  // end of a transfer there (libcurl does not), so they stay, deaf, until a later turn.
  std::vector<std::unique_ptr<port::HttpSink>> limbo;
  loop::Timer limbo_timer;
};

class Exchange : public port::HttpSink {
 public:
  Exchange(CallContext& context, ApiRequest request);
  Exchange(const Exchange&) = delete;
  Exchange& operator=(const Exchange&) = delete;

  void begin();
  // Ends `exchange` whatever it is doing; nothing is called any more.
  static void retire(CallContext& context, std::unique_ptr<Exchange> exchange);

  void on_head(const port::HttpHead& head) final;
  void on_body(std::string_view bytes) final;
  void on_end(const port::HttpEnd& end) final;

 protected:
  // A 2xx answer. Each returns an error to give the exchange up.
  virtual Result<void> accept(const port::HttpHead& head) = 0;
  virtual Result<void> take(std::string_view bytes) = 0;
  // One of these is the last call; the exchange may be destroyed in it.
  virtual void succeed() = 0;
  virtual void fail(Error error) = 0;

  // The answer is another server's, which the API server hands through. Its status, its Date and
  // its warnings say nothing about the API server: the CallObserver is not told, a 401 asks for no
  // new credentials, a warning is not logged, and the body may be of any type.
  [[nodiscard]] bool is_relayed() const { return request_.lane == port::Lane::Endpoints; }
  [[nodiscard]] bool is_write() const {
    return request_.method != port::Method::Get && !request_.only_asks;
  }
  [[nodiscard]] const port::HttpHead& head() const { return *head_; }
  [[nodiscard]] std::size_t body_limit() const { return request_.body_limit; }
  [[nodiscard]] bool ignores_body() const { return request_.ignores_body; }
  [[nodiscard]] auto reads() const { return request_.reads; }
  // A success that cannot be understood: on a write nobody knows what has happened.
  [[nodiscard]] Error in_doubt(Error error) const;

 private:
  void authenticate();
  void send(std::vector<port::Header> identity);
  // Fails in a later turn; until then nothing is heard.
  void give_up(Error error);
  void note_head();
  void tell_observer(int status, std::optional<WallTime> server_date);
  void warn_once();
  [[nodiscard]] Error refusal() const;
  [[nodiscard]] Error lost(Error error, bool sent) const;
  [[nodiscard]] std::string place() const;

  CallContext& context_;
  ApiRequest request_;
  Moment started_;
  Moment asked_{};  // when the credentials in use were handed out
  Moment attempted_{};
  bool repeated_ = false;
  bool deaf_ = false;
  bool in_callback_ = false;
  std::optional<port::HttpHead> head_;
  std::string refusal_body_;
  loop::Timer timer_;
  // Credentials cannot be told to forget a request, so what they hold asks this first whether the
  // exchange still lives; that is what the shared pointer is for.
  std::shared_ptr<bool> life_ = std::make_shared<bool>(true);
  std::unique_ptr<port::Transfer> transfer_;
};

}  // namespace moonfence::kube
