#pragma once

// StoragePoll waits for the storage between two passes: it reads single objects every few
// milliseconds and says so as soon as one has moved on, so that the pass which acts on it begins at
// once. What it sees decides nothing; the pass reads everything anew.

#include <functional>
#include <set>
#include <string>
#include <vector>

#include "base/names.h"
#include "fence/judge/pod_evaluation.h"
#include "fence/read/surroundings.h"

namespace moonfence::fence {

// What is waited for, to be released or because it was.
struct StorageWait {
  std::set<std::string> attachments;  // to be absent
  std::set<std::string> volumes;      // to be off the node's volumesAttached

  friend bool operator==(const StorageWait&, const StorageWait&) = default;
};
[[nodiscard]] StorageWait waits_for_storage(const Memory& memory);

class StoragePoll {
 public:
  // Between two looks at first; then a tenth of what it has lasted, up to the longest.
  static constexpr Duration kFirstPause = std::chrono::milliseconds(25);
  static constexpr Duration kLongestPause = std::chrono::seconds(1);
  // For each object: at most 200 reads a second.
  static constexpr Duration kEach = std::chrono::milliseconds(5);
  // The first of more; the others come to their turn when these are gone, or by a pass.
  static constexpr std::size_t kMostAttachments = 32;

  // The surroundings must outlive it. `moved` may end it.
  StoragePoll(Surroundings& surroundings, NodeName node, std::function<void()> moved);

  void keep(StorageWait wait);
  void rest();

 private:
  void look();
  void saw(bool has_moved);

  Surroundings& around_;
  const NodeName node_;
  const std::function<void()> moved_;
  StorageWait wait_;
  Moment since_{};
  std::size_t pending_ = 0;
  bool has_moved_ = false;
  bool told_ = false;  // and the pass has not changed what is waited for: once is enough
  loop::Timer next_;
  std::vector<kube::CallHandle> reads_;
};

}  // namespace moonfence::fence
