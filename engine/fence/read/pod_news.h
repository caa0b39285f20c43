#pragma once

// PodNews tells when something that happened to the pods of a node is worth another pass while
// policies wait: a pod became Terminating or got another deadline, its labels, annotations or
// finalizers changed, it is gone, or a new one was bound to the node. It is pure: what a pass has
// read and what a watch tells go in, the moment of the next bell comes out. Nothing is decided by
// it; the pass reads everything anew.
//
// The first news ring at once. Whoever changes a pod again and again rings with growing pauses,
// each twice as long as the one before, until nothing rang for a while: a pod that flaps costs at
// most a pass every kLongestPause.

#include <cstddef>
#include <map>
#include <optional>
#include <set>

#include <nlohmann/json_fwd.hpp>

#include "base/names.h"
#include "base/time.h"

namespace moonfence::fence {

// What of a pod is looked at.
struct PodSight {
  Uid uid;
  Namespace space;
  ResourceVersion version;
  std::size_t mark = 0;  // a digest of what matters: status, which changes all the time, does not

  friend bool operator==(const PodSight&, const PodSight&) = default;
};
[[nodiscard]] PodSight sight_of(const nlohmann::json& pod);

class PodNews {
 public:
  // Between two bells: an eviction of all pods, one by one, is a handful of passes.
  static constexpr Duration kFirstPause = std::chrono::milliseconds(100);
  static constexpr Duration kLongestPause = std::chrono::seconds(5);
  // Without a bell for so long, the next one rings at once and pauses begin anew.
  static constexpr Duration kQuiet = std::chrono::seconds(15);

  // A whole pass has read these. What it has seen is no news any more.
  void read(std::map<Uid, PodSight> pods);
  // A watch tells.
  void seen(const PodSight& pod);
  void gone(const Uid& uid);
  // A watch has listed the pods of this namespace ("" all) anew; `uids` are all of them.
  void listed(const Namespace& space, const std::set<Uid>& uids);

  // When to ring; nothing when there are no news.
  [[nodiscard]] std::optional<Moment> due() const;
  // A pass begins because of it, and will see whatever the news were about.
  void rang(Moment now);

 private:
  [[nodiscard]] bool is_known(const PodSight& pod) const;

  std::map<Uid, PodSight> read_;
  std::map<Uid, std::optional<PodSight>> news_;  // nothing: the pod is gone
  bool passing_ = false;                         // it rang, and nothing was read since
  Moment last_{};
  Moment next_{};  // no bell before this
  Duration pause_{};
};

}  // namespace moonfence::fence
