#pragma once

// ReaderReviews decides who may read metrics and the status page: it asks the API server whose
// token it is, and whether that account may get the path. Answers are remembered for a short time,
// so a right that was taken away ends within kAllowedFor. Nobody is let in by an error; only
// whoever was allowed is not sent away by one, for kAllowedBlind: metrics are wanted most when the
// API server is down.
//
// All of it is bounded: answers that are remembered, questions that wait, calls at once, and calls
// in a second, so that nobody can use us to press the API server. Strangers do not keep out whoever
// was allowed lately: he is asked about ahead of time, and before them. Tokens are remembered as
// SHA-256 alone, and stand in no log and no error. On the loop's thread.

#include <chrono>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "kube/calls/reviews.h"
#include "kube/wire/caller.h"
#include "kube/wire/token_bucket.h"
#include "loop/loop.h"
#include "port/log.h"

namespace moonfence::app {

struct ReaderVerdict {
  enum class Standing {
    Allowed,
    Stranger,     // nobody's token
    NotAllowed,   // known, without the right
    Undecidable,  // the API server could not be asked
  };
  Standing standing = Standing::Undecidable;
  std::string user = {};  // where known

  friend bool operator==(const ReaderVerdict&, const ReaderVerdict&) = default;
};

// Made where there is time to hash it: on the thread of the connection.
struct ReaderToken {
  explicit ReaderToken(std::string shown);

  std::string text;
  std::string sum;  // SHA-256
};

class ReaderReviews {
 public:
  static constexpr Duration kAllowedFor = std::chrono::seconds(60);
  static constexpr Duration kRefusedFor = std::chrono::seconds(10);
  // After kAllowedFor, as long as the API server says neither yes nor no.
  static constexpr Duration kAllowedBlind = std::chrono::minutes(5);
  // Before kAllowedFor is over: who asks then is let in from memory, and asked about.
  static constexpr Duration kAskedAhead = std::chrono::seconds(15);
  // Whoever asks waits so long at most; questions that wait longer are dropped.
  static constexpr Duration kLongestWait = std::chrono::seconds(15);
  // A failure is in the log again after so long without any.
  static constexpr Duration kQuiet = std::chrono::minutes(1);
  static constexpr std::size_t kRemembered = 256;
  static constexpr std::size_t kAtOnce = 4;
  static constexpr std::size_t kRenewalsAtOnce = 2;  // more, for whoever was allowed lately
  static constexpr std::size_t kQuestions = 64;      // that are asked or wait
  static constexpr int kBurst = 20;                  // questions, then one every kPace
  static constexpr Duration kPace = std::chrono::milliseconds(100);

  using Done = std::function<void(const ReaderVerdict&)>;

  // All must outlive it.
  ReaderReviews(loop::Loop& loop, kube::Caller& caller, port::Log& log)
      : loop_(loop), caller_(caller), log_(log) {}
  ReaderReviews(const ReaderReviews&) = delete;
  ReaderReviews& operator=(const ReaderReviews&) = delete;

  // `done` is called once, at once where the answer is known, and never when this is destroyed
  // before.
  void ask(const ReaderToken& token, const std::string& path, Done done);

  [[nodiscard]] std::size_t remembered() const { return remembered_.size(); }

 private:
  using Key = std::pair<std::string, std::string>;  // SHA-256 of the token, path
  struct Remembered {
    ReaderVerdict verdict;
    Moment fresh_until;  // then the API server is asked again
    Moment until;        // then it is forgotten
  };
  struct Question {
    std::string token;
    Moment asked;
    std::vector<Done> waiting;
    std::string user = {};
    kube::CallHandle call = nullptr;
  };

  [[nodiscard]] bool enqueue(const Key& key, const std::string& token, bool was_allowed);
  void drop_old();
  [[nodiscard]] std::deque<Key>* next_queue();
  void start_next();
  void start(const Key& key);
  void on_user(const Key& key, const Result<std::optional<kube::ReviewedUser>>& user);
  void on_access(const Key& key, const Result<bool>& allowed);
  void fail(const Key& key, const Error& error);
  void answer(const Key& key, const ReaderVerdict& verdict);
  void conclude(const Key& key, const ReaderVerdict& verdict);
  void remember(const Key& key, const ReaderVerdict& verdict);

  loop::Loop& loop_;
  kube::Caller& caller_;
  port::Log& log_;
  std::map<Key, Remembered> remembered_;
  std::map<Key, Question> questions_;
  std::deque<Key> queue_;     // of those that wait for their turn
  std::deque<Key> renewals_;  // of those who were allowed lately; their turn comes first
  kube::TokenBucket pace_{kBurst, kPace};
  loop::Timer next_;
  std::optional<Moment> failed_at_;
};

}  // namespace moonfence::app
