#include "app/status/html.h"

#include "base/text.h"

namespace moonfence::app {
namespace {

constexpr std::string_view kReplacement = "\xEF\xBF\xBD";

// U+202A to U+202E and U+2066 to U+2069: a name must not be read in another order than it is.
bool turns_direction(std::string_view text) {
  if (text.size() < 3 || text[0] != '\xE2') {
    return false;
  }
  const auto last = static_cast<unsigned char>(text[2]);
  return (text[1] == '\x80' && last >= 0xAA && last <= 0xAE) ||
         (text[1] == '\x81' && last >= 0xA6 && last <= 0xA9);
}

// What stands for the byte; "" for one that stands for itself.
std::string_view substitute(char byte, bool utf8) {
  switch (byte) {
    case '&':
      return "&amp;";
    case '<':
      return "&lt;";
    case '>':
      return "&gt;";
    case '"':
      return "&quot;";
    case '\'':
      return "&#39;";
    case '\n':
    case '\t':
      return "";
    default:
      break;
  }
  const auto code = static_cast<unsigned char>(byte);
  const bool control = code < 0x20 || code == 0x7F;
  return control || (code >= 0x80 && !utf8) ? kReplacement : "";
}

}  // namespace

void Html::escape(std::string_view text) {
  const bool utf8 = is_utf8(text);
  while (!text.empty()) {
    std::size_t taken = 1;
    if (utf8 && turns_direction(text)) {
      text_ += kReplacement;
      taken = 3;
    } else if (const auto instead = substitute(text[0], utf8); !instead.empty()) {
      text_ += instead;
    } else {
      text_ += text[0];
    }
    text.remove_prefix(taken);
  }
}

}  // namespace moonfence::app
