#pragma once

// One list over all its pages, complete, one JSON text an item in the server's order. When the
// server cannot serve the asked version (410, 504 too large) it is read again without it.

#include <functional>
#include <string>
#include <vector>

#include "kube/caller.h"
#include "kube/list_plan.h"

namespace moonfence::kube {

// `what` names the list in messages.
[[nodiscard]] CallHandle list_items(Caller& caller, std::string path, Query selectors,
                                    ListPlan plan, std::string what,
                                    std::function<void(Result<std::vector<std::string>>)> done);

}  // namespace moonfence::kube
