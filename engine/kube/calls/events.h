#pragma once

// EventRecorder tells the story of an incident where operators look first: kubectl describe. Best
// effort by design: a bounded queue, one request at a time, drops counted; nothing waits for it and
// it fails nothing. Events expire after an hour and are not the audit trail. Source: client-go
// tools/events/event_broadcaster.go, k/k pkg/apis/core/validation/events.go for the limits.
//
// Limits: repeats of one event become a series, told when it begins, every half hour and when it
// ends; of one object no more than client-go tells (25, then one in 5 minutes); of all objects 200,
// then ten a second. Warnings and deeds never give way to the rest: they have limits of their own
// for each object, and where the queue is full the newest of the rest leaves it for them.

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <string>
#include <tuple>
#include <utility>

#include <nlohmann/json_fwd.hpp>

#include "base/names.h"
#include "kube/wire/backoff.h"
#include "kube/wire/caller.h"
#include "kube/wire/token_bucket.h"
#include "loop/loop.h"
#include "port/log.h"
#include "port/random.h"
#include "port/wall_clock.h"

namespace moonfence::kube {

// The object an event is about. A node's real UID, not its name: `kubectl describe node` asks for
// both.
struct EventObject {
  std::string api_version;
  std::string kind;
  Namespace space;  // empty for cluster-scoped objects; their events live in "default"
  std::string name;
  Uid uid;

  friend auto operator<=>(const EventObject&, const EventObject&) = default;
};

struct EventNews {
  enum class Type { Normal, Warning };
  Type type = Type::Normal;
  EventObject regarding;
  std::string action;  // UpperCamelCase: "FencePod"
  std::string reason;  // UpperCamelCase: "PodDeleted"
  std::string note;    // cut at 1 kB
  // Sets events of one reason about one object apart that are no repeats of each other. Not sent.
  std::string subject = {};
  bool is_deed = false;  // something was done to the object, or a guard refused to

  [[nodiscard]] bool is_weighty() const { return is_deed || type == Type::Warning; }
};

// Creates the event, once: for whoever waits for the answer. Its name is that of this time.
[[nodiscard]] ApiRequest event_request(const EventNews& news, WallTime time,
                                       const std::string& instance);

class EventRecorder {
 public:
  static constexpr std::size_t kQueueLimit = 1000;
  // Before the first of a burst is sent, and between looks at whether we may send.
  static constexpr Duration kPause = std::chrono::milliseconds(100);
  static constexpr int kBurst = 200;  // of all objects
  static constexpr Duration kPace = std::chrono::milliseconds(100);
  static constexpr int kObjectBurst = 25;
  static constexpr Duration kObjectPace = std::chrono::minutes(5);
  static constexpr Duration kHeartbeat = std::chrono::minutes(30);  // of a series

  // `instance` is who we are among our replicas: the pod's name.
  EventRecorder(loop::Loop& loop, Caller& caller, port::WallClock& clock, port::Random& random,
                port::Log& log, const std::string& instance);
  EventRecorder(const EventRecorder&) = delete;
  EventRecorder& operator=(const EventRecorder&) = delete;

  // Returns at once. The second of a kind (type, action, reason, object) within six minutes makes
  // the first one a series; further ones are counted here and told now and then.
  void record(const EventNews& news);

  // Nothing is sent while this answers true: telling must not compete with doing.
  void hold_while(std::function<bool()> busy) { busy_ = std::move(busy); }

  [[nodiscard]] std::uint64_t dropped() const { return dropped_; }
  [[nodiscard]] std::size_t queued() const { return queue_.size(); }

 private:
  using Key = std::tuple<EventNews::Type, std::string, std::string, EventObject, std::string>;
  struct Series {
    std::string name;  // of the event object
    int count = 1;
    int told = 1;
    Moment last{};
    Moment told_at{};
  };
  struct Pending {
    EventNews news;
    std::string name;
    WallTime time;
    int count = 1;  // above 1: make the event of that name a series
    int tries = 0;
    bool only_count = false;  // of a series: of no use when the event has expired

    [[nodiscard]] bool is_weighty() const { return news.is_weighty() && !only_count; }
  };

  void enqueue(Pending pending);
  bool make_room_for(const Pending& pending);
  void send_next();
  void on_outcome(const Result<ApiReply>& reply);
  [[nodiscard]] ApiRequest request_for(const Pending& pending) const;
  [[nodiscard]] bool may_tell(const EventNews& news);
  void tell_count(const Key& key, Series& series, WallTime time);
  void sweep();
  [[nodiscard]] WallTime stamp();

  loop::Loop& loop_;
  Caller& caller_;
  port::WallClock& clock_;
  port::Random& random_;
  port::Log& log_;
  const std::string instance_;
  std::deque<Pending> queue_;
  std::map<Key, Series> series_;
  // Of objects that were told of lately; true: of what is weighty.
  std::map<std::pair<EventObject, bool>, TokenBucket> told_of_;
  TokenBucket all_{kBurst, kPace};
  std::uint64_t dropped_ = 0;
  WallTime last_stamp_{};
  bool sending_ = false;
  loop::Timer retry_timer_;
  loop::Timer sweep_timer_;
  std::function<bool()> busy_;
  CallHandle call_;
};

}  // namespace moonfence::kube
