#pragma once

// What an operator can do about a reason, in a sentence that begins in lower case. Pure.

#include <string>
#include <string_view>

namespace moonfence::app {

// `code`: audit::code(). What docs/reasons.md says.
// `detail`: what was said beside it, which tells an endpoint that is down from a right that lacks.
[[nodiscard]] std::string next_step(std::string_view code, std::string_view detail = {});

}  // namespace moonfence::app
