#pragma once

// ListPlan knows which requests make up one list and when what was read so far must be thrown away.
// Pure; shared by WatchMachine and Reader. Two beginnings: `consistent` (resourceVersion unset:
// most recent, paged) and `not_older_than` (served from the watch cache and only there, hence
// unpaged). Source: client-go tools/pager/pager.go.

#include <string>

#include "base/names.h"
#include "base/result.h"
#include "kube/text/items.h"
#include "kube/wire/caller.h"

namespace moonfence::kube {

class ListPlan {
 public:
  static constexpr int kPageLimit = 500;

  enum class Step {
    Done,     // the list is complete
    Page,     // ask for the next page
    Restart,  // discard everything read and ask again
    Failed,   // this list will not succeed; the error is the caller's
  };

  [[nodiscard]] static ListPlan consistent();
  [[nodiscard]] static ListPlan not_older_than(ResourceVersion version);

  // How many items its first page has at most. A restart knows no small page.
  void begin_with(int items) { first_limit_ = items; }

  // The parameters of the request to be made now, without the selectors.
  [[nodiscard]] Query query() const;
  // What follows a whole page; a page may be empty, only the token counts.
  [[nodiscard]] Result<Step> on_page(const ListMeta& meta);
  [[nodiscard]] Step on_error(const Error& error);

  // No resource version is asked for: the answer is the most recent state.
  [[nodiscard]] bool is_consistent() const { return version_.empty(); }
  // "rv=120", "page 3", "unpaged", for logs and printing.
  [[nodiscard]] std::string text() const;

 private:
  ResourceVersion version_;
  bool paged_ = true;
  int first_limit_ = kPageLimit;
  int pages_ = 0;  // read so far
  std::string token_;
};

// How two versions of one resource order: decimal numbers of any length (KEP-5504). Nothing when
// one of them is no such number.
[[nodiscard]] std::optional<std::strong_ordering> compare_versions(const ResourceVersion& a,
                                                                   const ResourceVersion& b);

}  // namespace moonfence::kube
