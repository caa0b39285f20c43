#pragma once

// Finds many named objects of one collection by listing it, page by page as the bytes arrive: only
// those that are looked for are kept, whatever the size of the collection. It ends early when the
// first page shows that the collection is too large for what is looked for.

#include <cstddef>
#include <functional>
#include <map>
#include <set>
#include <string>

#include <nlohmann/json.hpp>

#include "kube/wire/caller.h"

namespace moonfence::kube {

struct FoundItems {
  std::map<std::string, nlohmann::json> items;  // by name
  bool complete = false;  // what is not among them does not exist; else nobody knows
};

// Items that may be listed for one that is looked for. Reading one object costs as much as sixteen
// items of a list or more (docs/performance.md); we also take each item apart.
constexpr std::size_t kItemsForOneRead = 8;

// `names`: what is looked for, asked when the answer begins. An error is told, and what was found
// before it.
[[nodiscard]] CallHandle find_items(Caller& caller, std::string path,
                                    std::function<std::set<std::string>()> names,
                                    std::function<void(FoundItems, const Result<void>&)> done);

}  // namespace moonfence::kube
