#pragma once

// Delivery hands messages to one receiver outside the cluster: a bounded queue in memory, one
// message at a time in their order, tried again with growing pauses until it is taken or too old.
// It only tells: nothing waits for it, no decision reads it, and it gives way while calls act.
//
// Only the replica that acts delivers; step_down() forgets what waits. What a receiver must not see
// twice carries an id (app/webhook): a message whose answer was lost is sent again.
//
// What has no room pushes out the oldest that does not matter much, or else the oldest. The log is
// told when it begins to fail, when it works again, and when the first message is lost; everything
// else is counted.

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json.hpp>

#include "base/result.h"
#include "base/time.h"
#include "cluster/endpoints/endpoint_sender.h"
#include "loop/loop.h"
#include "port/http.h"
#include "port/log.h"
#include "port/random.h"

namespace moonfence::app {

class Delivery {
 public:
  struct Message {
    std::string id;
    std::string body;
    std::string content_type;
    bool matters = false;  // it is pushed out last
  };
  struct Limits {
    std::size_t messages = 4096;
    std::size_t bytes = std::size_t{4} << 20U;  // of all bodies
    Duration age = std::chrono::hours(24);      // what was not taken by then never is
  };
  // The pause after a failure doubles from the first to the longest, and up to half of it is added
  // by chance. What the receiver asks for (Retry-After) is a minimum; more than five minutes of it
  // are not believed.
  static constexpr Duration kFirstPause = std::chrono::seconds(1);
  static constexpr Duration kLongestPause = std::chrono::minutes(5);
  // While calls act, an attempt is put off for this long at most.
  static constexpr Duration kGiveWay = std::chrono::seconds(5);
  static constexpr Duration kLookAgain = std::chrono::milliseconds(250);
  // So often it is tried when the receiver refuses the message itself.
  static constexpr int kTriesOfRefused = 5;
  // A receiver that wants nothing any more is asked again after this, or by the next term.
  static constexpr Duration kUnwanted = std::chrono::hours(24);

  // What an answer that is not 2xx means.
  enum class Refusal {
    ForNow,     // it may be taken later
    StepOver,   // this message or any may be at fault: after some tries it goes behind the others
    OfMessage,  // this message will hardly ever be taken; the next one may be
    ForEver,    // the receiver wants nothing any more
  };
  // What differs between receivers.
  struct Manner {
    std::string name;  // "webhook": in log, metrics and messages
    Limits limits = {};
    Refusal (*refusal_of)(int http_status) = nullptr;
    int tries_of_refused = kTriesOfRefused;
    // The headers of one attempt, made as it begins; an error is a failed attempt.
    std::function<Result<std::vector<port::Header>>(const Message& message)> stamp = {};
    // Hears what the receiver says of a message that it took; see EndpointSender.
    std::function<void(const nlohmann::json& answer)> heard = {};
  };
  struct Surroundings {
    loop::Loop& loop;
    port::Random& random;
    port::Log& log;
    cluster::EndpointSender& sender;
    std::function<bool()> may_send;   // asked as the bytes leave
    std::function<bool()> is_acting;  // calls that act are under way
  };
  // Why messages were not delivered.
  enum class Loss { Full, TooOld, Refused, Unwanted, SteppedDown };
  struct Counts {
    std::uint64_t delivered = 0;
    std::uint64_t failed_attempts = 0;
    std::map<Loss, std::uint64_t> lost = {};
    std::size_t waiting = 0;
  };

  // All that is referred to must outlive it. Nothing is taken before lead().
  Delivery(Surroundings around, Manner manner);
  Delivery(const Delivery&) = delete;
  Delivery& operator=(const Delivery&) = delete;

  void lead();
  void step_down();
  void add(Message message);

  [[nodiscard]] Counts counts() const;
  [[nodiscard]] const std::string& name() const { return manner_.name; }
  // Why the last attempt failed, that nothing is wanted any more, or that messages were lost since
  // all that waited had last arrived; "" when all is well.
  [[nodiscard]] std::string problem() const;

 private:
  struct Waiting {
    Message message;
    Moment since{};
    int refusals = 0;  // of itself
  };

  void next_later(Duration pause);
  void next();
  void attempt();
  void attempted(const Result<void>& outcome);
  void taken();
  void failed(const Error& error);
  void refused(Refusal refusal);
  void drop_first(Loss why);
  void drop_all(Loss why);
  void lose(Loss why, std::size_t messages = 1);
  [[nodiscard]] bool is_unwanted() const;
  void make_room(std::size_t bytes);
  [[nodiscard]] Duration pause_after(const Error& error);

  const Surroundings around_;
  const Manner manner_;
  std::deque<Waiting> queue_;  // the first is the one that is tried
  std::size_t bytes_ = 0;
  Counts counts_;
  bool leads_ = false;
  std::optional<Moment> unwanted_until_;
  Duration pause_{};        // zero: the last attempt succeeded
  Moment put_off_until_{};  // for calls that act
  bool is_put_off_ = false;
  std::string problem_;
  std::string loss_;  // that messages were lost
  loop::Timer next_;
  kube::CallHandle call_;
};

[[nodiscard]] std::string_view to_string(Delivery::Loss why);  // "full"

}  // namespace moonfence::app
