#pragma once

// ReaderGate stands before a server with Security: it takes the token out of a request, has it
// reviewed on the loop's thread, and says what the client is told. Called on the connections'
// threads, which wait for the answer.

#include <functional>
#include <optional>
#include <string>
#include <utility>

#include "app/serving/reader_reviews.h"
#include "app/web/admin_server.h"
#include "os/system/mailbox.h"

namespace moonfence::app {

// The token of `Authorization: Bearer TOKEN`, or of Basic, whose password it is (browsers ask for
// one); nullopt: there is none.
[[nodiscard]] std::optional<std::string> token_of(const std::string& authorization);

// What a client is told that is not let in; `path` is the right that it takes, and `role` has it.
[[nodiscard]] std::optional<HttpAnswer> refusal_for(const ReaderVerdict& verdict,
                                                    const std::string& path,
                                                    const std::string& role);

class ReaderGate {
 public:
  static constexpr std::size_t kLongestToken = std::size_t{16} << 10U;
  // Two calls and their turn; then the client is told to come again. Shorter than what the front
  // gives an answer (os/net/tls_front.h).
  static constexpr Duration kLongestWait = ReaderReviews::kLongestWait;

  // Told the status of each answer, 200 for who is let in; on the connections' threads.
  using Told = std::function<void(int status)>;

  // Both must outlive the gate.
  ReaderGate(os::Mailbox& mailbox, ReaderReviews& reviews, Told told)
      : mailbox_(mailbox), reviews_(reviews), told_(std::move(told)) {}

  // nullopt: the client may read. From any thread but the loop's.
  [[nodiscard]] std::optional<HttpAnswer> pass(const HttpRequest& request, const std::string& path,
                                               const std::string& role);

 private:
  [[nodiscard]] std::optional<HttpAnswer> judge(const HttpRequest& request, const std::string& path,
                                                const std::string& role);

  os::Mailbox& mailbox_;
  ReaderReviews& reviews_;
  const Told told_;
};

}  // namespace moonfence::app
