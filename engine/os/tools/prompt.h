#pragma once

// A question to whoever sits at the terminal.

#include <optional>
#include <string>
#include <string_view>

namespace moonfence::os {

// What was typed, without its line end; nullopt: nobody sits there, or the input has ended. The
// question is printed to standard error.
[[nodiscard]] std::optional<std::string> ask_at_terminal(std::string_view question);

}  // namespace moonfence::os
