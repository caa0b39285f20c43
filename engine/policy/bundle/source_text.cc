#include "policy/bundle/source_text.h"

#include <algorithm>
#include <charconv>
#include <cstdio>
#include <set>
#include <string>

#include "base/text.h"

namespace moonfence::policy {
namespace {

bool is_name_byte(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
}

bool is_digit(char c) {
  return c >= '0' && c <= '9';
}

// Names and symbols of a Lua text; comments are passed over, a string is one token with its quotes.
// In a text that does not compile a bracket or a quote may never be closed: then only what opens it
// is passed over, so that nothing behind it is missed. No text is searched twice for an end that it
// does not have: where a quote is open, the rest of its line is read byte by byte, comments too.
class Tokens {
 public:
  explicit Tokens(std::string_view source) : rest_(source) {}

  // "" at the end.
  std::string_view next() {
    while (!rest_.empty()) {
      const char first = rest_.front();
      if (is_name_byte(first)) {
        const auto end = std::find_if_not(rest_.begin(), rest_.end(), is_name_byte);
        return take(static_cast<std::size_t>(end - rest_.begin()));
      }
      if (std::string_view(" \t\r\n\v\f").find(first) != std::string_view::npos) {
        take(1);
      } else if (rest_.size() > open_until_) {
        return take(1);
      } else if (rest_.starts_with("--")) {
        skip_comment();
      } else if (first == '"' || first == '\'') {
        return take(quoted_size());
      } else if (first == '[' && long_size() > 0) {
        return take(long_size());
      } else {
        return take(rest_.starts_with("..") ? 2 : 1);
      }
    }
    return {};
  }

 private:
  std::string_view take(std::size_t size) {
    const std::string_view taken = rest_.substr(0, size);
    rest_.remove_prefix(taken.size());
    return taken;
  }

  void skip_comment() {
    take(2);
    const std::size_t size = long_size();
    take(size > 0 ? size : std::min(rest_.find('\n'), rest_.size()));
  }

  // Of a string that ends in its line; of the quote alone when it does not.
  [[nodiscard]] std::size_t quoted_size() {
    std::size_t i = 1;
    for (; i < rest_.size() && rest_[i] != '\n'; ++i) {
      if (rest_[i] == '\\') {
        ++i;
      } else if (rest_[i] == rest_.front()) {
        return i + 1;
      }
    }
    open_until_ = rest_.size() - std::min(i, rest_.size());
    return 1;
  }

  // Of [[...]], [=[...]=] and so on, when the text stands at one that is closed; else 0.
  [[nodiscard]] std::size_t long_size() {
    if (!rest_.starts_with('[')) {
      return 0;
    }
    const std::size_t level = std::min(rest_.find_first_not_of('=', 1), rest_.size()) - 1;
    if (!rest_.substr(1 + level).starts_with('[') || open_levels_.contains(level)) {
      return 0;
    }
    const std::string end = "]" + std::string(level, '=') + "]";
    const std::size_t found = rest_.find(end);
    if (found == std::string_view::npos) {
      open_levels_.insert(level);
      return 0;
    }
    return found + end.size();
  }

  std::string_view rest_;
  // Bytes left at the end of a line with an open quote; all of them: there is none.
  std::size_t open_until_ = std::string_view::npos;
  std::set<std::size_t> open_levels_;  // of long brackets that are not closed any more
};

// The number after the first ':' of "file:12: text".
std::size_t line_named(std::string_view error_text) {
  const auto colon = error_text.find(':');
  if (colon == std::string_view::npos) {
    return 0;
  }
  const std::string_view rest = error_text.substr(colon + 1);
  std::size_t line = 0;
  const auto [end, fault] = std::from_chars(rest.data(), rest.data() + rest.size(), line);
  const bool valid = fault == std::errc() && end != rest.data() + rest.size() && *end == ':';
  return valid && is_digit(rest.front()) ? line : 0;
}

}  // namespace

bool mentions_objection(std::string_view source) {
  Tokens tokens(source);
  std::string_view before;
  for (std::string_view token = tokens.next(); !token.empty(); token = tokens.next()) {
    // A quote alone is one that is not closed in its line, where strings are not told apart.
    const bool member = (token == "forbid" || token == "hold") &&
                        (before == "." || before == ":" || before == "'" || before == "\"");
    const bool indexed = before == "[" && (token == "'forbid'" || token == "\"forbid\"" ||
                                           token == "'hold'" || token == "\"hold\"");
    if (member || indexed) {
      return true;
    }
    before = token;
  }
  return false;
}

std::string quoted_line(std::string_view source, std::string_view error_text) {
  constexpr std::size_t kLongestLine = 160;
  const std::size_t line = line_named(error_text);
  const auto lines = split(source, '\n');
  if (line == 0 || line > lines.size()) {
    return {};
  }
  std::string_view text = lines[line - 1];
  const auto end = text.find_last_not_of(" \t\r");
  text = text.substr(0, end == std::string_view::npos ? 0 : end + 1);
  std::string number = std::to_string(line);
  number.insert(0, number.size() < 5 ? 5 - number.size() : 0, ' ');
  // Quotes are part of the language; only what could paint a terminal is escaped.
  std::string shown;
  for (const char c : text.substr(0, kLongestLine)) {
    const bool plain = static_cast<unsigned char>(c) >= ' ' && static_cast<unsigned char>(c) < 0x7f;
    shown += plain ? std::string(1, c) : c == '\t' ? "  " : escaped(std::string_view(&c, 1));
  }
  return number + " | " + shown + (text.size() > kLongestLine ? "..." : "");
}

}  // namespace moonfence::policy
