#pragma once

// A login to an endpoint: shows a user and a password, takes a token from the answer. Nothing of
// what is sent or of the answer's body is ever quoted: both may hold a secret.

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "base/result.h"
#include "base/time.h"
#include "port/http.h"

namespace moonfence::cluster {

// How it is done; from the engine's configuration.
struct LoginRules {
  enum class Send {
    Json,     // POST of `body`
    Form,     // POST of `body`, a flat object, as a form
    Basic,    // POST of nothing; user and password in the header Authorization
    Nothing,  // GET: whoever can ask gets a token, as from a cloud's metadata server
  };
  // Texts of `body` that the user and the password take the place of.
  static constexpr std::string_view kUsername = "{username}";
  static constexpr std::string_view kPassword = "{password}";

  std::string url;   // of the service that gives the token; empty: the endpoint's own
  std::string path;  // below it
  Send send = Send::Json;
  nlohmann::json body;  // null: the object of these two fields
  std::string username_field = "username";
  std::string password_field = "password";
  std::vector<port::Header> headers;
  // Where the token is found: one of the two. A field may lie deeper: "session.token"; "." is the
  // whole answer.
  std::string token_header;
  std::string token_field;
  // Where the seconds are found that it is good for; without either, or when they are not there,
  // it is good for `lifetime`.
  std::string expires_header;
  std::string expires_field;
  Duration lifetime = std::chrono::minutes(5);
};

struct Token {
  std::string text;
  Duration lifetime{};
};

// What a successful answer holds; Malformed when there is no token in it.
[[nodiscard]] Result<Token> token_of(const LoginRules& rules, const port::HttpHead& head,
                                     std::string_view body);

class LoginCall final : private port::HttpSink {
 public:
  struct Order {
    std::string url;  // of the login
    std::string username;
    std::string password;
    std::string user_agent;
    Duration timeout{};
  };

  // `done` is called once, in a later turn, and may destroy the call. The rest outlives it.
  LoginCall(port::Http& http, const LoginRules& rules, const Order& order,
            std::function<void(Result<Token>)> done);
  LoginCall(const LoginCall&) = delete;
  LoginCall& operator=(const LoginCall&) = delete;

 private:
  void on_head(const port::HttpHead& head) override;
  void on_body(std::string_view bytes) override;
  void on_end(const port::HttpEnd& end) override;
  [[nodiscard]] Result<Token> read(const port::HttpEnd& end) const;
  void finish(const Result<Token>& token);

  const LoginRules& rules_;
  std::function<void(Result<Token>)> done_;
  port::HttpHead head_;
  std::string body_;
  bool too_large_ = false;
  std::unique_ptr<port::Transfer> transfer_;
};

}  // namespace moonfence::cluster
