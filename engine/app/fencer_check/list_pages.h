#pragma once

// A list of the API server, page by page, for commands that come, ask and go: no more than one page
// of it is in memory, however long it is.

#include <cstddef>
#include <functional>
#include <string>

#include <nlohmann/json.hpp>

#include "base/result.h"
#include "kube/wire/caller.h"

namespace moonfence::app {

// One GET of the API server, which waits for its answer.
using GetJson =
    std::function<Result<nlohmann::json>(const std::string& path, const kube::Query& query)>;

// Of a node as JSON there are some 200 kilobytes in memory.
constexpr int kPageItems = 100;

// `take` gets each item, in the server's order; an error of it ends the list. Gone: the server has
// forgotten where we were, and what was taken so far is no whole list. `what` names it in messages:
// "nodes".
[[nodiscard]] Result<void> each_item(
    const GetJson& get, const std::string& path, const kube::Query& selectors,
    const std::string& what, const std::function<Result<void>(const nlohmann::json&)>& take);

// The same of a list that takes its time: it begins anew where the server has forgotten where we
// were, as long as there was anything new in it. `taken` counts what was new.
[[nodiscard]] Result<void> each_item_slowly(
    const GetJson& get, const std::string& path, const std::string& what,
    const std::function<Result<void>(const nlohmann::json&)>& take,
    const std::function<std::size_t()>& taken);

}  // namespace moonfence::app
