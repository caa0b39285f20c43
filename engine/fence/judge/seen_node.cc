#include "fence/judge/seen_node.h"

#include <algorithm>

namespace moonfence::fence {

std::optional<Duration> lease_age_of(const Reading& reading) {
  if (!reading.lease_stands_since) {
    return std::nullopt;
  }
  // The first reading of a Lease arrives after it was sent.
  return std::max(Duration::zero(), reading.sent - *reading.lease_stands_since);
}

policy::Machine machine_of(cluster::Kernel kernel) {
  switch (kernel) {
    case cluster::Kernel::NotObservable:
      return policy::Machine::NotObservable;
    case cluster::Kernel::Answers:
      return policy::Machine::Answers;
    case cluster::Kernel::Unsure:
      return policy::Machine::Unsure;
    case cluster::Kernel::Silent:
      return policy::Machine::Silent;
  }
  return policy::Machine::NotObservable;
}

}  // namespace moonfence::fence
