#pragma once

// Files that the status page needs, compiled in.

#include <string_view>

namespace moonfence::app {

// engine/app/status/style.css and icon.svg.
[[nodiscard]] std::string_view style_sheet();
[[nodiscard]] std::string_view icon();

}  // namespace moonfence::app
