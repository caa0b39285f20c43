#pragma once

// One HTTP exchange as libcurl sees it: the request, what has arrived of the answer, and the
// callbacks that libcurl calls, which only record. Private to the curl sources of this folder.

#include <array>
#include <cstdint>
#include <optional>
#include <string>

#include <curl/curl.h>

#include "os/net/curl_http.h"
#include "os/net/open_sockets.h"
#include "port/http.h"

namespace moonfence::os {

struct Exchange {
  enum class State { Queued, Running, Over };

  std::uint64_t id = 0;
  port::HttpRequest request;
  port::HttpSink* sink = nullptr;
  State state = State::Queued;
  std::optional<Moment> deadline;

  CURL* easy = nullptr;     // while running
  std::string place;        // "host:port", for messages
  std::string connect_url;  // the request's, or with the name that TLS verifies
  curl_slist* header_list = nullptr;
  curl_slist* connect_to = nullptr;
  std::array<char, CURL_ERROR_SIZE> error_text{};
  std::size_t head_limit = 0;

  port::HttpHead head;
  std::size_t head_bytes = 0;
  bool head_complete = false;
  bool head_delivered = false;
  std::string inbox;

  bool attempted = false;      // it has, or had, a connection
  bool refused = false;        // may_send said no
  bool head_too_long = false;  // the answer's head broke the limit
  bool abandoned = false;      // cancelled inside a libcurl callback
  port::HttpEnd end;

  Exchange() = default;
  Exchange(const Exchange&) = delete;
  Exchange& operator=(const Exchange&) = delete;
  ~Exchange();

  [[nodiscard]] bool has_input() const {
    return (head_complete && !head_delivered) || !inbox.empty();
  }
  // Called when the easy handle no longer points here.
  void free_lists();
};

// Sets every option of a fresh (or reset) exchange.easy. The error says what in the request or the
// settings cannot be used.
[[nodiscard]] std::optional<Error> configure(Exchange& exchange, const port::TlsSettings& tls,
                                             const HttpLimits& limits, OpenSockets& sockets);

// "host:port" of a URL, for messages.
[[nodiscard]] std::string place_of(const std::string& url);

// Why libcurl ended an exchange; nullopt for success. To be called before the handle is reset.
[[nodiscard]] std::optional<Error> outcome_of(Exchange& exchange, CURLcode code,
                                              const HttpLimits& limits);
// The request's own time ran out.
[[nodiscard]] Error timeout_of(const Exchange& exchange);

}  // namespace moonfence::os
