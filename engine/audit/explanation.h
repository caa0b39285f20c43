#pragma once

// What a reason means and what to do about it: docs/reasons.md, compiled in, so that a terminal
// tells the same as the page.

#include <string>
#include <string_view>

#include "audit/reason.h"

namespace moonfence::audit {

struct Explanation {
  std::string when;
  std::string what_to_do;
};

// Plain text: the page's links are replaced by their words.
[[nodiscard]] Explanation explain(Reason reason);

// The page as it stands in docs/.
[[nodiscard]] std::string_view reasons_page();

}  // namespace moonfence::audit
