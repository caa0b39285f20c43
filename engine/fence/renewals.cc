#include "fence/renewals.h"

#include <algorithm>

namespace moonfence::fence {

std::string Renewals::silence(const std::string& path, const kube::Lease& lease,
                              std::optional<Moment> written_after, Moment sent) {
  Seen now = {.lease = lease.uid, .version = lease.version, .sent = sent};
  if (const auto before = seen_.find(path); before != seen_.end()) {
    const bool same = before->second.lease == now.lease && before->second.version == now.version;
    now.written_after = same ? before->second.written_after : std::optional(before->second.sent);
  }
  seen_.insert_or_assign(path, now);
  if (lease.record.holder.empty() || lease.record.duration <= Duration::zero()) {
    return "nobody holds its Lease";
  }
  const auto written = std::max(written_after, now.written_after);  // nullopt is the least
  if (!written) {
    return "its Lease was not seen to be renewed yet";
  }
  return sent - *written <= lease.record.duration ? "" : "its Lease is not renewed";
}

}  // namespace moonfence::fence
