#include "cluster/detection/silences.h"

#include <iterator>

namespace moonfence::cluster {

void Silences::ended(const NodeName& node, const std::string& boot_id, Duration lasted,
                     Moment now) {
  if (lasted >= kAges.front()) {
    pending_[node].push_back({.boot_id = boot_id, .lasted = lasted, .ended = now});
  }
}

void Silences::saw(const NodeName& node, const std::string& boot_id) {
  const auto found = pending_.find(node);
  if (found != pending_.end()) {
    std::erase_if(found->second,
                  [&](const Pending& silence) { return silence.boot_id != boot_id; });
  }
}

const Silences::Lasted& Silences::lasted(Moment now) {
  const auto take = [&](const Pending& silence) {
    if (now - silence.ended < kUntilItCounts) {
      return false;
    }
    for (std::size_t i = 0; i < kAges.size(); ++i) {
      lasted_.at(i) += silence.lasted >= kAges.at(i) ? 1U : 0U;
    }
    return true;
  };
  for (auto node = pending_.begin(); node != pending_.end();) {
    std::erase_if(node->second, take);
    node = node->second.empty() ? pending_.erase(node) : std::next(node);
  }
  return lasted_;
}

}  // namespace moonfence::cluster
