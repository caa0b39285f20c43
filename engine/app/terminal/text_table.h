#pragma once

// Columns for terminals, as kubectl prints them: as wide as their widest cell, three spaces apart,
// no trailing blanks.

#include <string>
#include <vector>

namespace moonfence::app {

class TextTable {
 public:
  explicit TextTable(std::vector<std::string> header) : rows_{std::move(header)} {}

  // Control characters in a cell are escaped; an empty one is "-".
  void add(std::vector<std::string> row);
  // Each line begins with `indent`. The header alone prints nothing.
  [[nodiscard]] std::string text(const std::string& indent = "") const;

 private:
  std::vector<std::vector<std::string>> rows_;
};

}  // namespace moonfence::app
