#include "fuzz/finding.h"

#include <cstdint>
#include <cstdio>
#include <cstdlib>

#include "base/text.h"

namespace moonfence::fuzz {

void report(const std::string& what) {
  std::fprintf(stderr, "---- finding: %s\n", what.c_str());
  std::abort();
}

bool is_plain(std::string_view text) {
  for (std::size_t i = 0; i < text.size(); ++i) {
    const auto byte = static_cast<std::uint8_t>(text[i]);
    const bool c1 =
        byte == 0xC2 && i + 1 < text.size() && static_cast<std::uint8_t>(text[i + 1]) < 0xA0;
    if (byte < 0x20 || byte == 0x7F || c1) {
      return false;
    }
  }
  return true;
}

void check_line(const char* what, std::string_view text) {
  if (!is_plain(text)) {
    report(std::string(what) + " has control bytes: " + escaped(text, 4096));
  }
}

void check_error(const Error& error, std::string_view place) {
  check_line("the error", error.text);
  check_line("the hint", error.hint);
  if (error.text.empty() || error.text.find(place) == std::string::npos) {
    report("the error does not name " + std::string(place) + ": " + error.text);
  }
}

}  // namespace moonfence::fuzz
