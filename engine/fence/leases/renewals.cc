#include "fence/leases/renewals.h"

#include "kube/wire/list_plan.h"

namespace moonfence::fence {

Renewals::Seen Renewals::seen_after(const Seen& before, const ResourceVersion& version,
                                    Moment sent) {
  if (version == before.version) {
    return {.version = version, .sent = sent, .written_after = before.written_after};
  }
  const auto order = kube::compare_versions(version, before.version);
  if (order && *order < 0) {
    return before;
  }
  return {.version = version, .sent = sent, .written_after = before.sent};
}

std::string Renewals::silence(const std::string& path, const kube::Lease& lease,
                              const kube::Revisions::Written& written, Moment sent) {
  const auto before = seen_.find(path);
  const Seen now = before == seen_.end() ? Seen{.version = lease.version, .sent = sent}
                                         : seen_after(before->second, lease.version, sent);
  seen_.insert_or_assign(path, now);
  if (lease.record.holder.empty() || lease.record.duration <= Duration::zero()) {
    return "nobody holds its Lease";
  }
  const bool is_known = written.after || written.by;
  const std::optional<Moment> after = is_known ? written.after : now.written_after;
  if (!after) {
    return "its Lease was not seen to be renewed yet";
  }
  return sent - *after <= lease.record.duration ? "" : "its Lease is not renewed";
}

}  // namespace moonfence::fence
