#pragma once

// Rewind is what follows when the API server's store went back in time: an etcd was restored from a
// backup. Nobody says so. The versions of some collection are lower than before, and then every
// other is as old as that one, whether its versions tell or not.
//
//   heard     nothing destructive is done from that moment on (fence::SelfDoubt)
//   listing   nodes and policies are listed anew, what we had written ourselves is looked at. A
//             leader has dropped what it was doing: what it knows of it may not be so any more.
//   recording when the lists are through a leader begins as if it had just become one, by the
//             records that stand there; those of its own that are missing are written again
//   nothing   when all of that has succeeded
//
// As long as it lasts the replica is not ready and says what is awaited. It decides nothing else
// and performs what it decides: the engine owns it and calls it once a second.

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "app/policies/policy_feed.h"
#include "base/time.h"
#include "fence/record/journal.h"
#include "kube/watching/watcher.h"
#include "port/log.h"

namespace moonfence::app {

class Rewind {
 public:
  struct Subjects {
    kube::Watcher& nodes;
    PolicyFeed* policies;  // null: --policy
    const fence::Journal& journal;
    std::function<void()> drop;     // what a leader is doing
    std::function<void()> take_up;  // if we lead: as one that has just become the leader
  };

  explicit Rewind(port::Log& log) : log_(log) {}

  // In the middle of whatever call: changes nothing but this.
  void heard();
  void look(const Subjects& subjects, Moment now);

  [[nodiscard]] bool lasts() const { return stage_ != Stage::Nothing; }
  // Whoever becomes the leader meanwhile is taken up when the lists are through.
  [[nodiscard]] bool is_listing() const {
    return stage_ == Stage::Heard || stage_ == Stage::Listing;
  }
  // For readiness; "": nothing is awaited.
  [[nodiscard]] const std::string& problem() const { return problem_; }

 private:
  enum class Stage { Nothing, Heard, Listing, Recording };

  void begin(const Subjects& subjects, Moment now);
  // What of a stage is not done yet, "" when it is.
  [[nodiscard]] std::string unlisted(const Subjects& subjects) const;
  [[nodiscard]] static std::string unwritten(const Subjects& subjects);

  port::Log& log_;
  Stage stage_ = Stage::Nothing;
  Moment began_{};
  std::uint64_t node_lists_ = 0;
  std::uint64_t policy_lists_ = 0;
  std::string problem_;
};

}  // namespace moonfence::app
