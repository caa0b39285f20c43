#include "audit/explanation.h"

namespace moonfence::audit {
namespace {

// "[text](address)" becomes "text".
std::string without_links(std::string_view text) {
  std::string plain;
  while (!text.empty()) {
    const auto open = text.find('[');
    const auto middle = text.find("](", open);
    const auto close = text.find(')', middle);
    if (close == std::string_view::npos) {
      break;
    }
    plain += text.substr(0, open);
    plain += text.substr(open + 1, middle - open - 1);
    text.remove_prefix(close + 1);
  }
  plain += text;
  return plain;
}

// The text up to the next cell of the row, which is cut off with its border.
std::string take_cell(std::string_view& row) {
  constexpr std::string_view kBorder = " |";
  const auto end = row.find(kBorder);
  std::string cell = without_links(row.substr(0, end));
  row.remove_prefix(end == std::string_view::npos ? row.size() : end + kBorder.size());
  if (row.starts_with(' ')) {
    row.remove_prefix(1);
  }
  return cell;
}

}  // namespace

Explanation explain(Reason reason) {
  const std::string begins = "\n| `" + std::string(code(reason)) + "` | ";
  std::string_view row = reasons_page();
  const auto found = row.find(begins);
  if (found == std::string_view::npos) {
    return {};
  }
  row = row.substr(found + begins.size());
  row = row.substr(0, row.find('\n'));
  std::string when = take_cell(row);
  return {.when = std::move(when), .what_to_do = take_cell(row)};
}

}  // namespace moonfence::audit
