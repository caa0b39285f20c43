#pragma once

// What each reason means and what to do, as docs/reasons.md has it, as a page: an operator who
// reads a reason at night should not have to look for the documentation.

#include <string>
#include <string_view>
#include <vector>

#include "app/status/html.h"

namespace moonfence::app {

struct ReasonText {
  std::string code;
  std::string when;  // Markdown
  std::string what_to_do;
};

// The rows of the document's table.
[[nodiscard]] std::vector<ReasonText> read_reasons(std::string_view document);
// Inline Markdown as far as that document uses it: code, and links, of which the text remains.
[[nodiscard]] Html from_markdown(std::string_view text);
[[nodiscard]] std::string reasons_page();

}  // namespace moonfence::app
