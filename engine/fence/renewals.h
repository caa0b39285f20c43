#pragma once

// Renewals tells whether the holder of a leader election renews its Lease: kube-controller-manager,
// or the external-attacher of a CSI driver, without which nothing comes of a volume that is
// released. It is alive when the Lease was written within the duration that it names, by our own
// clock: after the store was last seen without that version (kube/revisions.h), or after a reading
// of ours that showed another one. The stamps in it are those of another machine, and count for
// nothing. Who was never seen to renew is not alive yet: a Lease that nobody holds any more looks
// the same at first.

#include <map>
#include <optional>
#include <string>

#include "base/time.h"
#include "kube/lease.h"

namespace moonfence::fence {

class Renewals {
 public:
  // Why nobody knows that the holder was alive when the reading was sent; "" when it was.
  // `written_after`: by kube::Revisions.
  [[nodiscard]] std::string silence(const std::string& path, const kube::Lease& lease,
                                    std::optional<Moment> written_after, Moment sent);

 private:
  struct Seen {
    Uid lease;
    ResourceVersion version;
    Moment sent{};                                       // the newest reading that showed it
    std::optional<Moment> written_after = std::nullopt;  // by readings
  };
  std::map<std::string, Seen> seen_;
};

}  // namespace moonfence::fence
