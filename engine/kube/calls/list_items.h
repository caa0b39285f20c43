#pragma once

// One list over all its pages, complete, one JSON text an item in the server's order, and the
// version from which a watch goes on: that of the first page, should they differ. When the server
// cannot serve the asked version (410, 504 too large) it is read again without it.
//
// Whoever needs little of each item takes them one by one as the bytes arrive: no more than one of
// them is in memory then, however long the list is.

#include <functional>
#include <string>
#include <vector>

#include "kube/wire/caller.h"
#include "kube/wire/list_plan.h"

namespace moonfence::kube {

struct ItemTexts {
  std::vector<std::string> texts;
  ResourceVersion version;
};

struct ItemFlow {
  std::function<void()> begin;  // the list begins, maybe anew: what was taken before is void
  // The next item. An error gives the list up. Must not destroy the handle.
  std::function<Result<void>(std::string text)> take;
  // A page is over and another one follows, which is asked for when `go_on` is called, at once or
  // later. May destroy the handle, after which `go_on` does nothing. Null: it is asked for at once.
  std::function<void(const ResourceVersion& version, std::function<void()> go_on)> page = nullptr;
};

// A list whose beginning is of use while the rest is still at the server.
struct ItemPages {
  int first = ListPlan::kPageLimit;  // items of the first page
  // See ItemFlow::page: what has come since the last call. When the list begins anew, what was told
  // before comes once more.
  std::function<void(ItemTexts texts, std::function<void()> go_on)> come;
};

// `what` names the list in messages.
[[nodiscard]] CallHandle stream_items(Caller& caller, std::string path, Query selectors,
                                      ListPlan plan, std::string what, ItemFlow flow,
                                      std::function<void(Result<ResourceVersion>)> done);

// All of them, 256 MiB at most; those of the last page where the others were told before.
[[nodiscard]] CallHandle list_items(Caller& caller, std::string path, Query selectors,
                                    ListPlan plan, std::string what,
                                    std::function<void(Result<ItemTexts>)> done,
                                    ItemPages pages = {});

}  // namespace moonfence::kube
