#pragma once

// Looks at a policy's text that need no Lua: also at one that does not compile.

#include <string>
#include <string_view>

namespace moonfence::policy {

// Whether the text uses fence.forbid outside of comments and strings: such a policy is a guard, and
// where it cannot be loaded the pods it selects are held.
[[nodiscard]] bool mentions_objection(std::string_view source);

// The line of the source that an error names ("my-db.lua:12: ..."), as it is shown below it:
// "   12 |   if pod.lables.tier then"; "" when it names none.
[[nodiscard]] std::string quoted_line(std::string_view source, std::string_view error_text);

}  // namespace moonfence::policy
