#pragma once

// All Leases of a namespace, of each its name and its last renewal and nothing else: item by item
// as the bytes arrive, so that 5,000 of them cost a few hundred kilobytes. The answer may come from
// the server's watch cache (resourceVersion=0): a cache that lags shows older renewals than there
// are, and whoever asks takes an old renewal for a bad sign.

#include <functional>
#include <string>
#include <vector>

#include "base/names.h"
#include "base/result.h"
#include "base/time.h"
#include "kube/caller.h"

namespace moonfence::kube {

struct LeaseSign {
  std::string name;
  std::optional<WallTime> renewed;
};
using LeaseSigns = std::vector<LeaseSign>;

// Complete, or an error. An answer that takes longer than `limit` is of no use.
[[nodiscard]] CallHandle list_leases(Caller& caller, const Namespace& space, Duration limit,
                                     std::function<void(Result<LeaseSigns>)> done);

}  // namespace moonfence::kube
