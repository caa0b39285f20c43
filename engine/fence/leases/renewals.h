#pragma once

// Renewals tells whether the holder of a leader election renews its Lease: kube-controller-manager,
// or the external-attacher of a CSI driver, without which nothing comes of a volume that is
// released. It is alive when the Lease was written within the duration that it names, by our own
// clock: after the store was last seen without that version (kube/leases/revisions.h), or after a
// reading of ours that showed an older one. The stamps in it are those of another machine, and
// count for nothing. Who was never seen to renew is not alive yet: a Lease that nobody holds any
// more looks the same at first. A reading that is older than one before, of an API server that
// lags, tells nothing new.

#include <map>
#include <optional>
#include <string>

#include "base/time.h"
#include "kube/leases/lease.h"
#include "kube/leases/revisions.h"

namespace moonfence::fence {

class Renewals {
 public:
  // Why nobody knows that the holder was alive when the reading was sent; "" when it was.
  // `written`: by kube::Revisions. Readings of ours count where it knows nothing.
  [[nodiscard]] std::string silence(const std::string& path, const kube::Lease& lease,
                                    const kube::Revisions::Written& written, Moment sent);

 private:
  struct Seen {
    ResourceVersion version;                             // the newest; also tells Leases apart
    Moment sent{};                                       // the newest reading that showed it
    std::optional<Moment> written_after = std::nullopt;  // by readings
  };
  // What is known once a reading of `sent` has shown `version`.
  [[nodiscard]] static Seen seen_after(const Seen& before, const ResourceVersion& version,
                                       Moment sent);
  std::map<std::string, Seen> seen_;
};

}  // namespace moonfence::fence
