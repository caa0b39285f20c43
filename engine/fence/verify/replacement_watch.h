#pragma once

// ReplacementWatch looks after what an incident deleted: it reads what Replacements wants to know,
// with growing pauses, and tells what is news in the audit and in the incident's record. It changes
// nothing in the cluster.
//
// One incident looks at a time, and makes one list at a time: of the connections for lists all of
// them together take one. Of a list only what matters is kept, item by item, until the look ends.

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "fence/read/lookups.h"
#include "fence/read/surroundings.h"
#include "fence/rules/guard.h"
#include "fence/verify/replacements.h"
#include "kube/objects/decode.h"
#include "loop/turn_queue.h"

namespace moonfence::fence {

class ReplacementWatch {
 public:
  // From the end of a look to the next: half of what it has lasted since the last deletion.
  static constexpr Duration kFirstPause = std::chrono::seconds(1);
  static constexpr Duration kLongestPause = std::chrono::seconds(30);

  // All must outlive it. `over`: no replacement is awaited any more; it may end it.
  ReplacementWatch(Surroundings& surroundings, IncidentId incident,
                   std::shared_ptr<const Authority> authority, Replacements& replacements,
                   std::function<void()> over);

  // To be called after whatever may have deleted something.
  void keep();
  void rest();

 private:
  void plan();
  void await_turn();
  void begin();
  void list_next();
  void read_further();
  void read_owner(const Namespace& space, const kube::OwnerReference& owner);
  void read_next_events();
  void has_read();
  void conclude();
  void end_look();
  void tell(const Replacements::Finding& finding);

  Surroundings& around_;
  const IncidentId incident_;
  std::shared_ptr<const Authority> authority_;
  Replacements& replacements_;
  const std::function<void()> over_;

  std::size_t deletions_ = 0;  // that were known when the pauses began
  Moment since_{};
  loop::Timer next_;
  // Of the look under way, or about to be.
  bool looking_ = false;
  std::unique_ptr<loop::TurnQueue::Ticket> turn_;
  std::vector<Replacements::Question> questions_;  // that are still to be asked
  std::vector<NamespacePod> unattached_;           // whose events are still to be read
  Sighting seen_;
  kube::PodDecoder pods_;
  std::size_t pending_ = 0;
  kube::CallHandle list_;
  std::unique_ptr<Lookups> lookups_;
  loop::Timer conclude_;
};

}  // namespace moonfence::fence
