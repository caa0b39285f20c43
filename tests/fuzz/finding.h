#pragma once

// How a fuzzer says that a rule was broken, and the rules for texts: one line that forges no log
// entry and paints no terminal.

#include <string>
#include <string_view>

#include "base/error.h"

namespace moonfence::fuzz {

// Prints it and ends the program; libFuzzer keeps the input.
[[noreturn]] void report(const std::string& what);

// Whether no control byte stands in it, C1 controls included.
[[nodiscard]] bool is_plain(std::string_view text);
void check_line(const char* what, std::string_view text);
// A text that is neither empty nor has control bytes, and names the place, "" for any.
void check_error(const Error& error, std::string_view place);

}  // namespace moonfence::fuzz
