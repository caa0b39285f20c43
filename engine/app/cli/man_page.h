#pragma once

// The manual page moonfence(1), in the macros of man(7). Pure.

#include <string>

#include "app/cli/command_tree.h"

namespace moonfence::app {

[[nodiscard]] std::string man_page(const CommandTree& tree, const std::string& version);

}  // namespace moonfence::app
