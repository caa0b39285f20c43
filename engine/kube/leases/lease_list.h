#pragma once

// All Leases of a namespace, of each its name and its last renewal and nothing else: item by item
// as the bytes arrive, so that 5,000 of them cost a few hundred kilobytes. From the server's watch
// cache (resourceVersion=0) it costs the server little; a cache that lags shows older renewals than
// there are, and of two servers one may lag: how old such a list is tells its version
// (kube/leases/revisions.h).

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/names.h"
#include "base/result.h"
#include "base/time.h"
#include "kube/wire/caller.h"

namespace moonfence::kube {

struct LeaseSign {
  std::string name;
  std::optional<WallTime> renewed;
  ResourceVersion version = {};
  Duration duration{};  // zero: it names none
};
struct LeaseSigns {
  std::vector<LeaseSign> leases;
  ResourceVersion version = {};  // of the list
};

enum class ListFrom { Cache, Store };

// Complete, or an error. An answer that takes longer than `limit` is of no use.
[[nodiscard]] CallHandle list_leases(Caller& caller, const Namespace& space, ListFrom from,
                                     Duration limit, std::function<void(Result<LeaseSigns>)> done);

}  // namespace moonfence::kube
