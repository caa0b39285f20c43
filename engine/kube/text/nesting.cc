#include "kube/text/nesting.h"

#include <algorithm>
#include <array>
#include <cstdint>

namespace moonfence::kube {
namespace {

using Marked = std::array<bool, 256>;

constexpr Marked marked(std::string_view characters) {
  Marked table{};
  for (const char c : characters) {
    table[static_cast<std::uint8_t>(c)] = true;
  }
  return table;
}

constexpr Marked kInString = marked("\"\\");
constexpr Marked kOutside = marked("\"{}[]");

std::size_t skip_unmarked(std::string_view text, std::size_t at, const Marked& table) {
  while (at < text.size() && !table[static_cast<std::uint8_t>(text[at])]) {
    ++at;
  }
  return at;
}

}  // namespace

std::size_t Nesting::follow(std::string_view text, int floor) {
  std::size_t at = 0;
  while (at < text.size()) {
    if (escape) {
      escape = false;
      ++at;
      continue;
    }
    at = skip_unmarked(text, at, in_string ? kInString : kOutside);
    if (at == text.size()) {
      break;
    }
    const char c = text[at++];
    if (c == '\\') {
      escape = true;  // only marked inside strings
    } else if (c == '"') {
      in_string = !in_string;
    } else if (c == '{' || c == '[') {
      deepest = std::max(deepest, ++depth);
    } else if (--depth == floor) {
      break;
    }
  }
  return at;
}

}  // namespace moonfence::kube
