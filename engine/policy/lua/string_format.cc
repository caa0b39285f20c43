#include "policy/lua/string_format.h"

#include <array>
#include <charconv>
#include <cmath>
#include <string>
#include <string_view>

#include "policy/lua/library.h"
#include "policy/lua/sandbox.h"

namespace moonfence::policy {
namespace {

struct Directive {
  bool left = false;
  bool zeros = false;
  bool plus = false;
  std::size_t width = 0;
  int precision = -1;  // none
  char conversion = '\0';
};

// At most two digits.
bool take_small_number(std::string_view& rest, std::size_t& value) {
  value = 0;
  for (int digits = 0; !rest.empty() && rest.front() >= '0' && rest.front() <= '9'; ++digits) {
    if (digits == 2) {
      return false;
    }
    value = value * 10 + static_cast<std::size_t>(rest.front() - '0');
    rest.remove_prefix(1);
  }
  return true;
}

// What follows a '%', up to and with its conversion letter.
Directive take_directive(lua_State* lua, std::string_view& rest) {
  Directive directive;
  for (; !rest.empty(); rest.remove_prefix(1)) {
    if (rest.front() == '-') {
      directive.left = true;
    } else if (rest.front() == '0') {
      directive.zeros = true;
    } else if (rest.front() == '+') {
      directive.plus = true;
    } else {
      break;
    }
  }
  bool short_enough = take_small_number(rest, directive.width);
  if (short_enough && rest.starts_with('.')) {
    rest.remove_prefix(1);
    std::size_t precision = 0;
    short_enough = take_small_number(rest, precision);
    directive.precision = static_cast<int>(precision);
  }
  if (!short_enough) {
    raise(lua, "string.format: argument 1 has a width or precision of more than two digits");
  }
  if (rest.empty()) {
    raise(lua, "string.format: argument 1 ends inside of a % directive");
  }
  directive.conversion = rest.front();
  rest.remove_prefix(1);
  return directive;
}

std::string with_sign(bool negative, bool plus, const std::string& digits) {
  return (negative ? "-" : plus ? "+" : "") + digits;
}

std::string format_integer(const Directive& directive, lua_Integer value) {
  std::array<char, 72> buffer{};
  const bool decimal = directive.conversion == 'd' || directive.conversion == 'i';
  // Hexadecimal shows the two's complement, as C does.
  const auto bits = static_cast<std::uint64_t>(value);
  const bool negative = decimal && value < 0;
  const auto [end, fault] = std::to_chars(buffer.data(), buffer.data() + buffer.size(),
                                          negative ? 0 - bits : bits, decimal ? 10 : 16);
  (void)fault;
  std::string digits(buffer.data(), end);
  if (directive.conversion == 'X') {
    for (char& c : digits) {
      c = c >= 'a' ? static_cast<char>(c - 'a' + 'A') : c;
    }
  }
  const auto wanted = static_cast<std::size_t>(std::max(directive.precision, 0));
  if (digits.size() < wanted) {
    digits.insert(0, wanted - digits.size(), '0');
  }
  return with_sign(negative, decimal && directive.plus, digits);
}

std::string format_number(const Directive& directive, lua_Number value) {
  std::array<char, 512> buffer{};  // 1e308 has 309 digits before the point, at most 99 follow
  const auto shape = directive.conversion == 'f'   ? std::chars_format::fixed
                     : directive.conversion == 'e' ? std::chars_format::scientific
                                                   : std::chars_format::general;
  const int precision = directive.precision < 0 ? 6 : directive.precision;
  const auto [end, fault] = std::to_chars(buffer.data(), buffer.data() + buffer.size(),
                                          std::fabs(value), shape, precision);
  (void)fault;
  return with_sign(std::signbit(value), directive.plus, std::string(buffer.data(), end));
}

std::string format_value(lua_State* lua, const Directive& directive, int argument) {
  switch (directive.conversion) {
    case 'd':
    case 'i':
    case 'x':
    case 'X':
      return format_integer(directive, integer_argument(lua, argument));
    case 'c':
      return std::string(1, static_cast<char>(integer_argument(lua, argument) & 0xFF));
    case 'f':
    case 'e':
    case 'g':
      return format_number(directive, number_argument(lua, argument));
    case 's': {
      if (lua_type(lua, argument) == LUA_TSTRING) {
        Sandbox::of(lua).require_room(lua, text_at(lua, argument).size());
      }
      std::string text = shown(lua, argument);
      if (directive.precision >= 0) {
        text.resize(std::min(text.size(), static_cast<std::size_t>(directive.precision)));
      }
      return text;
    }
    default:
      raise(lua, std::string("string.format: argument 1 has the unknown directive '%") +
                     directive.conversion + "'; known are %s %d %x %X %c %f %e %g %%");
  }
}

void append_padded(std::string& out, const Directive& directive, std::string text) {
  const std::size_t gap = directive.width > text.size() ? directive.width - text.size() : 0;
  const bool number = directive.conversion != 's' && directive.conversion != 'c';
  if (directive.left) {
    text.append(gap, ' ');
  } else if (directive.zeros && number && directive.precision < 0) {
    const bool sign = !text.empty() && (text[0] == '-' || text[0] == '+');
    text.insert(sign ? 1 : 0, gap, '0');
  } else {
    text.insert(0, gap, ' ');
  }
  out += text;
}

}  // namespace

int push_formatted(lua_State* lua) {
  std::string_view rest = text_argument(lua, 1);
  Sandbox& sandbox = Sandbox::of(lua);
  sandbox.charge(lua, rest.size() / 2);
  std::string out;
  int argument = 1;
  while (!rest.empty()) {
    const std::size_t percent = rest.find('%');
    out += rest.substr(0, percent);
    if (percent == std::string_view::npos) {
      break;
    }
    rest.remove_prefix(percent + 1);
    if (rest.starts_with('%')) {
      out += '%';
      rest.remove_prefix(1);
      continue;
    }
    const Directive directive = take_directive(lua, rest);
    ++argument;
    if (argument > lua_gettop(lua)) {
      raise_argument(lua, argument, "given");
    }
    std::string text = format_value(lua, directive, argument);
    sandbox.charge(lua, 16 + text.size() / Sandbox::kBytesPerUnit);
    // Twice: the growing text and the one that Lua will hold.
    sandbox.require_room(lua, 2 * (out.size() + text.size()));
    append_padded(out, directive, std::move(text));
  }
  push_text(lua, out);
  return 1;
}

}  // namespace moonfence::policy
