#pragma once

// A scripted port::Http: rules by method and path give canned answers byte for byte, after a delay
// on the loop's virtual clock; every request is recorded in order. Nothing is called inside
// start(). A request that no rule matches gets the "404 page not found" of a server that lacks the
// path.

#include <algorithm>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/check.h"
#include "loop/loop.h"
#include "port/http.h"

namespace moonfence::test {

struct FakeAnswer {
  int status = 200;
  std::string body = {};
  std::vector<port::Header> headers = {{"content-type", "application/json"}};
  std::size_t chunk = 0;  // bytes per piece; 0: all at once
  Duration delay = Duration::zero();
  // After head and body the exchange stays open until close(), fail() or its timeout.
  bool hold = false;
  // The exchange ends with this, after the body; status 0: no head and no body.
  std::optional<Error> error = std::nullopt;
  bool sent = true;  // reported with the error

  static FakeAnswer refused() {
    return {.status = 0,
            .error = Error{.kind = Error::Kind::Retryable, .text = "connection refused"},
            .sent = false};
  }
  // The request arrived, and no answer ever comes back.
  static FakeAnswer lost() {
    return {.status = 0,
            .error = Error{.kind = Error::Kind::Retryable, .text = "connection reset"}};
  }
  static FakeAnswer silent() { return {.status = 0, .hold = true}; }
  static FakeAnswer watch(std::string frames = {}) {
    return {.body = std::move(frames), .hold = true};
  }
};

struct FakeRequest {
  Moment at{};
  port::Method method = port::Method::Get;
  std::string path;
  std::string query;
  std::vector<port::Header> headers;
  std::string body;
  port::Lane lane = port::Lane::Writes;
  Duration timeout{};

  [[nodiscard]] std::string header(std::string_view name) const {
    for (const port::Header& each : headers) {
      if (each.name == name) {
        return each.value;
      }
    }
    return {};
  }
  // "GET /path?query"
  [[nodiscard]] std::string line() const {
    return std::string(port::to_string(method)) + " " + path + (query.empty() ? "" : "?" + query);
  }
};

class FakeHttp final : public port::Http {
 public:
  using Responder = std::function<FakeAnswer(const FakeRequest&)>;

  explicit FakeHttp(loop::Loop& loop) : loop_(loop) {}
  FakeHttp(const FakeHttp&) = delete;
  FakeHttp& operator=(const FakeHttp&) = delete;

  // `target` is a path ("/api/v1/nodes/*" matches by its beginning), or a path and a part of the
  // query: "/api/v1/nodes?watch=1". The newest matching rule answers.
  void on(port::Method method, const std::string& target, FakeAnswer answer) {
    on(method, target, [answer](const FakeRequest&) { return answer; });
  }
  void on(port::Method method, const std::string& target, Responder responder) {
    rules_.push_back(Rule{.method = method, .target = target, .responder = std::move(responder)});
  }
  // One after the other; the last one stays in force.
  void sequence(port::Method method, const std::string& target, std::vector<FakeAnswer> answers) {
    on(method, target,
       [answers = std::move(answers), next = std::size_t{0}](const FakeRequest&) mutable {
         const std::size_t now = std::min(next++, answers.size() - 1);
         return answers[now];
       });
  }

  [[nodiscard]] std::unique_ptr<port::Transfer> start(port::HttpRequest request,
                                                      port::HttpSink& sink) override {
    begun.push_back(path_of(request.url));
    FakeRequest seen{.at = loop_.now(),
                     .method = request.method,
                     .path = path_of(request.url),
                     .query = query_of(request.url),
                     .headers = request.headers,
                     .body = request.body,
                     .lane = request.lane,
                     .timeout = request.timeout};
    return std::make_unique<Exchange>(*this, std::move(request), std::move(seen), sink);
  }
  void use_tls(port::TlsSettings settings) override { tls = std::move(settings); }
  void drop_connections() override {
    ++drops;
    fail("", Error{.kind = Error::Kind::Retryable, .text = "connection dropped"});
  }

  // For every held exchange whose path and query contain `part`: more bytes, a normal end, a
  // failure; they arrive in the next turn. How many there were.
  std::size_t push(const std::string& part, const std::string& bytes) {
    return for_open(part, [&bytes](Exchange& exchange) { exchange.push(bytes); });
  }
  std::size_t close(const std::string& part) {
    return for_open(part, [](Exchange& exchange) { exchange.end_later({}); });
  }
  std::size_t fail(const std::string& part, const Error& error) {
    return for_open(
        part, [&error](Exchange& exchange) { exchange.end_later({.error = error, .sent = true}); });
  }

  [[nodiscard]] std::size_t open_exchanges() const { return open_.size(); }
  // How many requests' lines contain `part`.
  [[nodiscard]] std::size_t count(const std::string& part) const {
    return static_cast<std::size_t>(
        std::count_if(requests.begin(), requests.end(), [&part](const FakeRequest& request) {
          return request.line().find(part) != std::string::npos;
        }));
  }

  std::vector<FakeRequest> requests;  // those that left, in order
  // Paths as they were handed over: a real one may have sent a request before start() returns.
  std::vector<std::string> begun;
  std::vector<port::Header> of_every_answer;        // beside its own
  std::map<std::string, Duration> connecting = {};  // by path: before the bytes leave
  port::TlsSettings tls;
  int drops = 0;

 private:
  struct Rule {
    port::Method method;
    std::string target;
    Responder responder;

    [[nodiscard]] bool matches(const FakeRequest& request) const {
      const auto mark = target.find('?');
      const std::string path = target.substr(0, mark);
      const bool same = path.ends_with('*')
                            ? request.path.starts_with(path.substr(0, path.size() - 1))
                            : request.path == path;
      return request.method == method && same &&
             (mark == std::string::npos ||
              ("&" + request.query + "&").find("&" + target.substr(mark + 1) + "&") !=
                  std::string::npos);
    }
  };

  class Exchange final : public port::Transfer {
   public:
    Exchange(FakeHttp& http, port::HttpRequest request, FakeRequest seen, port::HttpSink& sink)
        : http_(http), request_(std::move(request)), seen_(std::move(seen)), sink_(sink) {
      http_.open_.push_back(this);
      const auto slow = http_.connecting.find(seen_.path);
      begin_ = http_.loop_.after(slow == http_.connecting.end() ? Duration::zero() : slow->second,
                                 [this] { send(); });
      if (request_.timeout > Duration::zero()) {
        deadline_ = http_.loop_.after(request_.timeout, [this] {
          end({.error = Error{.kind = Error::Kind::Retryable, .text = "timed out"}, .sent = sent_});
        });
      }
    }
    ~Exchange() override {
      // libcurl forbids it too: a transfer must not end inside its own head or body callback.
      MOONFENCE_CHECK(!delivering_);
      std::erase(http_.open_, this);
    }
    Exchange(const Exchange&) = delete;
    Exchange& operator=(const Exchange&) = delete;

    [[nodiscard]] bool is_about(const std::string& part) const {
      return seen_.line().find(part) != std::string::npos;
    }

    void push(const std::string& bytes) {
      later_.push_back(http_.loop_.after(Duration::zero(), [this, bytes] { body(bytes, 0); }));
    }
    void end_later(const port::HttpEnd& how) {
      later_.push_back(http_.loop_.after(Duration::zero(), [this, how] { end(how); }));
    }

   private:
    void send() {
      if (request_.may_send && !request_.may_send()) {
        end({.error = Error{.kind = Error::Kind::Cancelled, .text = "not sent"}, .sent = false});
        return;
      }
      http_.requests.push_back(seen_);
      sent_ = true;
      const FakeAnswer answer = http_.answer_to(seen_);
      begin_ = http_.loop_.after(answer.delay, [this, answer] { deliver(answer); });
    }

    void deliver(const FakeAnswer& answer) {
      if (answer.status != 0) {
        delivering_ = true;
        port::HttpHead head{.status = answer.status, .headers = answer.headers};
        head.headers.insert(head.headers.end(), http_.of_every_answer.begin(),
                            http_.of_every_answer.end());
        sink_.on_head(head);
        delivering_ = false;
        body(answer.body, answer.chunk);
      }
      if (answer.error) {
        end({.error = answer.error, .sent = answer.sent});
      } else if (!answer.hold) {
        end({});
      }
    }

    void body(std::string_view bytes, std::size_t chunk) {
      delivering_ = true;
      while (!bytes.empty()) {
        const std::size_t size = chunk == 0 ? bytes.size() : std::min(chunk, bytes.size());
        sink_.on_body(bytes.substr(0, size));
        bytes.remove_prefix(size);
      }
      delivering_ = false;
    }

    void end(const port::HttpEnd& how) {
      if (ended_) {
        return;
      }
      ended_ = true;
      std::erase(http_.open_, this);
      const port::HttpEnd copy = how;
      sink_.on_end(copy);  // may destroy this
    }

    FakeHttp& http_;
    port::HttpRequest request_;
    FakeRequest seen_;
    port::HttpSink& sink_;
    bool sent_ = false;
    bool ended_ = false;
    bool delivering_ = false;
    loop::Timer begin_;
    loop::Timer deadline_;
    std::vector<loop::Timer> later_;
  };

  static std::string path_of(const std::string& url) {
    const auto host = url.find("://");
    const auto path = url.find('/', host == std::string::npos ? 0 : host + 3);
    const auto mark = url.find('?', path);
    return path == std::string::npos
               ? "/"
               : url.substr(path, mark == std::string::npos ? mark : mark - path);
  }
  static std::string query_of(const std::string& url) {
    const auto mark = url.find('?');
    return mark == std::string::npos ? "" : url.substr(mark + 1);
  }

  FakeAnswer answer_to(const FakeRequest& request) {
    for (auto rule = rules_.rbegin(); rule != rules_.rend(); ++rule) {
      if (rule->matches(request)) {
        return rule->responder(request);
      }
    }
    return {.status = 404,
            .body = "404 page not found\n",
            .headers = {{"content-type", "text/plain; charset=utf-8"}}};
  }

  template <class Action>
  std::size_t for_open(const std::string& part, Action action) {
    std::size_t count = 0;
    for (Exchange* exchange : std::vector<Exchange*>(open_)) {
      if (exchange->is_about(part)) {
        action(*exchange);
        ++count;
      }
    }
    return count;
  }

  loop::Loop& loop_;
  std::vector<Rule> rules_;
  std::vector<Exchange*> open_;
};

}  // namespace moonfence::test
