#pragma once

// Replacements follows the pods that an incident deleted until each has a replacement that is
// Ready somewhere else: a pure machine. It is told what was deleted and what a look saw, and says
// what is to be looked at next and what is news. It never asks for anything but reads.
//
//   the replacement of a pod   another pod of its name (of a StatefulSet there is never more than
//                              one), else one of its controller that was made since the deletion
//                              was sent and replaces no other.
//   no replacement comes       the pod had no controller; the controller is gone or has all the
//                              pods that it wants.
//
// What keeps a replacement from being Ready is told when it has lasted, and when it changes.

#include <cstddef>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "fence/verify/replacement.h"

namespace moonfence::fence {

class Replacements {
 public:
  // From the deletion until an obstacle is worth being told.
  static constexpr Duration kPatience = std::chrono::seconds(5);
  // A replacement may be made as soon as the deletion was sent, long before a slow server answers;
  // when, is told by the server's clock in whole seconds.
  static constexpr Duration kSlack = std::chrono::seconds(6);
  // Pods that are kept of a namespace: so many that are Ready, and so many that are not. A node had
  // a few hundred.
  static constexpr std::size_t kMostKept = 512;
  // What is read beside the pods in one look; the next one goes on with others.
  static constexpr std::size_t kMostOwners = 8;
  static constexpr std::size_t kMostUnattached = 8;

  struct Deleted {
    PodRef pod;
    Uid uid;
    kube::OwnerReference owner;  // without a UID: nobody replaces it
    WallTime at{};
    Duration call{};  // how long it had been under way then
    // Whether that was answered. One that was not may be there still, and is no matter of ours.
    bool answered = true;
    // What was told of its replacement, by whoever awaited it before us.
    std::optional<audit::Reason> told = std::nullopt;
  };
  // Where replacements are looked for: a whole namespace, or the one pod of a name.
  struct Question {
    Namespace space;
    std::string name;
  };
  // What has to be known beside the pods.
  struct Further {
    std::vector<std::pair<Namespace, kube::OwnerReference>> owners;
    std::vector<NamespacePod> unattached;
  };
  struct Finding {
    enum class Kind { Ready, NotNeeded, Blocked };
    Kind kind = Kind::Blocked;
    PodRef pod;  // that was deleted
    Uid uid;
    Obstacle obstacle;  // of a pod that is blocked; of others the text
    NodeName node;      // of a replacement
    Uid replacement;
    Duration took{};  // since the deletion
  };

  // The same pod once only, however often it is told.
  void deleted(Deleted pod);

  [[nodiscard]] bool awaits() const { return !open_.empty(); }
  // How many were deleted so far, and when the last one was.
  [[nodiscard]] std::size_t deletions() const { return deletions_; }
  [[nodiscard]] WallTime last_deletion() const { return last_deletion_; }
  // Nobody has looked yet.
  [[nodiscard]] bool is_blind() const { return !looked_; }
  [[nodiscard]] std::vector<Question> questions() const;
  // Keeps and counts what matters of a pod that was listed.
  void see(NamespacePod pod, PodSights& seen) const;
  [[nodiscard]] Further further(const Sighting& seen, const NodeName& failed);
  // What is news since the last look.
  [[nodiscard]] std::vector<Finding> look(const Sighting& seen, const NodeName& failed,
                                          WallTime now);
  // Why pods are still without a replacement, by the last look: how many for which reason.
  [[nodiscard]] std::map<audit::Reason, std::size_t> obstacles() const;
  // "ns/pod (reason)", of all that are.
  [[nodiscard]] std::string summary() const;

 private:
  struct Entry {
    Deleted what;
    Obstacle obstacle = {};
    Uid candidate = {};                        // by the last look
    std::optional<StorageSight> storage = {};  // of the candidate, by the last look that read it
  };
  // Which pod replaces which, as far as one is there.
  using Matches = std::map<Uid, const NamespacePod*>;
  [[nodiscard]] Matches match(const Sighting& seen) const;
  [[nodiscard]] bool is_candidate(const Entry& entry, const NamespacePod& pod) const;
  [[nodiscard]] static Obstacle obstacle_with(Entry& entry, const NamespacePod& replacement,
                                              const Sighting& seen, const NodeName& failed);
  [[nodiscard]] static Obstacle obstacle_without(const Entry& entry,
                                                 const std::vector<NamespacePod>& pods);
  [[nodiscard]] static bool is_unwanted(const Entry& entry, const PodSights& pods,
                                        const OwnerSight& owner);
  enum class Verdict { Keeps, Ends };
  Verdict judge(Entry& entry, const NamespacePod* replacement, const Sighting& seen,
                const NodeName& failed, WallTime now, std::vector<Finding>& news);

  std::vector<Entry> open_;          // in the order of their deletion
  std::set<Uid> ours_;               // everything that was deleted
  std::map<Uid, WallTime> refuted_;  // was there after that call, which nobody answered
  std::set<Uid> taken_;              // replacements that are Ready
  std::size_t deletions_ = 0;
  WallTime last_deletion_{};
  bool looked_ = false;
  // Where the next look goes on.
  std::size_t next_owner_ = 0;
  std::size_t next_unattached_ = 0;
};

}  // namespace moonfence::fence
