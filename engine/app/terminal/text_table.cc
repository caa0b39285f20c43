#include "app/terminal/text_table.h"

#include <algorithm>
#include <utility>

#include "base/text.h"

namespace moonfence::app {

void TextTable::add(std::vector<std::string> row) {
  for (std::string& cell : row) {
    cell = cell.empty() ? "-" : escaped(cell);
  }
  row.resize(rows_.front().size(), "-");
  rows_.push_back(std::move(row));
}

std::string TextTable::text(const std::string& indent) const {
  constexpr std::size_t kGap = 3;
  if (rows_.size() == 1) {
    return {};
  }
  std::vector<std::size_t> widths(rows_.front().size(), 0);
  for (const auto& row : rows_) {
    for (std::size_t column = 0; column < widths.size(); ++column) {
      widths[column] = std::max(widths[column], row[column].size());
    }
  }
  std::string text;
  for (const auto& row : rows_) {
    std::string line = indent;
    for (std::size_t column = 0; column < widths.size(); ++column) {
      line += row[column];
      line.append(widths[column] + kGap - row[column].size(), ' ');
    }
    line.erase(line.find_last_not_of(' ') + 1);
    text += line;
    text += '\n';
  }
  return text;
}

}  // namespace moonfence::app
