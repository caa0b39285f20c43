#include "base/json_text.h"

#include <algorithm>
#include <cstddef>
#include <utility>

#include <nlohmann/json.hpp>

namespace moonfence {
namespace {

bool is_plain(char c) {
  return c >= ' ' && c < '\x7F' && c != '"' && c != '\\';
}

// The letter of its short escape; 0 when it has none.
char escape_of(char c) {
  switch (c) {
    case '"':
    case '\\':
      return c;
    case '\n':
      return 'n';
    case '\t':
      return 't';
    case '\r':
      return 'r';
    default:
      return '\0';
  }
}

}  // namespace

void append_quoted(std::string& out, std::string_view text) {
  const std::size_t begin = out.size();
  out += '"';
  for (std::string_view rest = text; !rest.empty();) {
    const auto* const end = std::find_if_not(rest.begin(), rest.end(), is_plain);
    const auto plain = static_cast<std::size_t>(end - rest.begin());
    out += rest.substr(0, plain);
    rest.remove_prefix(plain);
    if (rest.empty()) {
      break;
    }
    const char escape = escape_of(rest.front());
    if (escape == '\0') {  // beyond ASCII, or a control character: rare, and the library knows how
      out.resize(begin);
      out += nlohmann::json(text).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
      return;
    }
    out += '\\';
    out += escape;
    rest.remove_prefix(1);
  }
  out += '"';
}

std::string& JsonObject::value_of(std::string_view key) {
  if (!std::exchange(empty_, false)) {
    out_ += ',';
  }
  append_quoted(out_, key);
  out_ += ':';
  return out_;
}

}  // namespace moonfence
