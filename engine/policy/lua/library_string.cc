// string.*: no patterns, because matching backtracks inside C where nothing can stop it. Each
// function is linear in its input, or pays for the steps it takes.

#include <array>
#include <cstring>

#include "base/text.h"
#include "policy/lua/library.h"
#include "policy/lua/sandbox.h"
#include "policy/lua/string_format.h"

namespace moonfence::policy {
namespace {

constexpr std::size_t kSearchBytesPerUnit = 8;

int string_len(lua_State* lua) {
  lua_pushinteger(lua, static_cast<lua_Integer>(text_argument(lua, 1).size()));
  return 1;
}

// Position from the front, 1-based, of a possibly negative index; may lie outside of the text.
lua_Integer position(lua_Integer index, std::size_t size) {
  return index >= 0 ? index : index + static_cast<lua_Integer>(size) + 1;
}

int string_sub(lua_State* lua) {
  const std::string_view text = text_argument(lua, 1);
  const auto size = static_cast<lua_Integer>(text.size());
  const lua_Integer from =
      std::max<lua_Integer>(1, position(integer_argument(lua, 2), text.size()));
  const lua_Integer to = std::min(size, position(integer_argument(lua, 3, -1), text.size()));
  if (from > to) {
    lua_pushliteral(lua, "");
    return 1;
  }
  push_text(lua, text.substr(static_cast<std::size_t>(from - 1),
                             static_cast<std::size_t>(to - from + 1)));
  return 1;
}

// Into a block of Lua's own memory, so that it is accounted for.
template <class Change>
int push_changed(lua_State* lua, Change change) {
  const std::string_view text = text_argument(lua, 1);
  Sandbox::of(lua).charge(lua, text.size() / kSearchBytesPerUnit);
  char* const out = static_cast<char*>(lua_newuserdatauv(lua, text.size() + 1, 0));
  for (std::size_t i = 0; i < text.size(); ++i) {
    out[i] = change(text[i]);
  }
  push_text(lua, {out, text.size()});
  return 1;
}

int string_lower(lua_State* lua) {
  return push_changed(
      lua, [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; });
}

int string_upper(lua_State* lua) {
  return push_changed(
      lua, [](char c) { return c >= 'a' && c <= 'z' ? static_cast<char>(c - 'a' + 'A') : c; });
}

int string_format(lua_State* lua) {
  return push_formatted(lua);
}

int string_starts_with(lua_State* lua) {
  const std::string_view text = text_argument(lua, 1);
  const std::string_view prefix = text_argument(lua, 2);
  Sandbox::of(lua).charge_bytes(lua, prefix.size());
  lua_pushboolean(lua, text.starts_with(prefix) ? 1 : 0);
  return 1;
}

int string_ends_with(lua_State* lua) {
  const std::string_view text = text_argument(lua, 1);
  const std::string_view suffix = text_argument(lua, 2);
  Sandbox::of(lua).charge_bytes(lua, suffix.size());
  lua_pushboolean(lua, text.ends_with(suffix) ? 1 : 0);
  return 1;
}

// memmem is linear for every input (two-way search); string_view::find is not.
std::size_t find_plain(std::string_view text, std::string_view wanted) {
  if (wanted.empty()) {
    return 0;
  }
  const void* const found = memmem(text.data(), text.size(), wanted.data(), wanted.size());
  return found == nullptr ? std::string_view::npos
                          : static_cast<std::size_t>(static_cast<const char*>(found) - text.data());
}

int string_contains(lua_State* lua) {
  const std::string_view text = text_argument(lua, 1);
  const std::string_view wanted = text_argument(lua, 2);
  Sandbox::of(lua).charge(lua, (text.size() + wanted.size()) / kSearchBytesPerUnit);
  lua_pushboolean(lua, find_plain(text, wanted) == std::string_view::npos ? 0 : 1);
  return 1;
}

// `*` stands for any run of bytes, `?` for one. A mismatch goes back to the last `*` only, which is
// enough; each step is paid for.
int string_glob(lua_State* lua) {
  const std::string_view text = text_argument(lua, 1);
  const std::string_view pattern = text_argument(lua, 2);
  Sandbox& sandbox = Sandbox::of(lua);
  constexpr std::size_t kStepsPerCharge = 1024;
  std::size_t t = 0;
  std::size_t p = 0;
  std::size_t star = std::string_view::npos;
  std::size_t star_text = 0;
  std::size_t steps = 0;
  while (t < text.size()) {
    if (++steps % kStepsPerCharge == 0) {
      sandbox.charge(lua, kStepsPerCharge / 2);
    }
    if (p < pattern.size() && pattern[p] == '*') {
      star = p++;
      star_text = t;
    } else if (p < pattern.size() && (pattern[p] == '?' || pattern[p] == text[t])) {
      ++p;
      ++t;
    } else if (star != std::string_view::npos) {
      p = star + 1;
      t = ++star_text;
    } else {
      lua_pushboolean(lua, 0);
      return 1;
    }
  }
  while (p < pattern.size() && pattern[p] == '*') {
    ++p;
  }
  lua_pushboolean(lua, p == pattern.size() ? 1 : 0);
  return 1;
}

int string_split(lua_State* lua) {
  std::string_view rest = text_argument(lua, 1);
  const std::string_view separator = text_argument(lua, 2);
  if (separator.empty()) {
    raise(lua, "string.split: argument 2 must not be empty");
  }
  Sandbox& sandbox = Sandbox::of(lua);
  sandbox.charge(lua, rest.size() / kSearchBytesPerUnit);
  lua_createtable(lua, 0, 0);
  for (lua_Integer i = 1;; ++i) {
    sandbox.charge(lua, 1);
    const std::size_t end = find_plain(rest, separator);
    push_text(lua, rest.substr(0, end));
    lua_rawseti(lua, -2, i);
    if (end == std::string_view::npos) {
      return 1;
    }
    rest.remove_prefix(end + separator.size());
  }
}

int string_trim(lua_State* lua) {
  const std::string_view text = text_argument(lua, 1);
  Sandbox::of(lua).charge(lua, text.size() / kSearchBytesPerUnit);
  push_text(lua, trimmed(text));
  return 1;
}

int string_byte(lua_State* lua) {
  const std::string_view text = text_argument(lua, 1);
  const lua_Integer at = position(integer_argument(lua, 2, 1), text.size());
  if (at < 1 || at > static_cast<lua_Integer>(text.size())) {
    lua_pushnil(lua);
  } else {
    lua_pushinteger(lua, static_cast<std::uint8_t>(text[static_cast<std::size_t>(at - 1)]));
  }
  return 1;
}

constexpr std::array<HostFunction, 12> kString = {{
    {"len", string_len, "(s: string): integer", "The number of bytes of s."},
    {"sub", string_sub, "(s: string, i: integer, j?: integer): string",
     "Bytes i to j; negative counts from the end."},
    {"lower", string_lower, "(s: string): string", "s with ASCII letters in lower case."},
    {"upper", string_upper, "(s: string): string", "s with ASCII letters in upper case."},
    {"format", string_format, "(f: string, ...: any): string", "%s %d %x %X %c %f %e %g and %%."},
    {"starts_with", string_starts_with, "(s: string, prefix: string): boolean",
     "Whether s begins so."},
    {"ends_with", string_ends_with, "(s: string, suffix: string): boolean", "Whether s ends so."},
    {"contains", string_contains, "(s: string, part: string): boolean",
     "Whether part stands in s."},
    {"glob", string_glob, "(s: string, pattern: string): boolean",
     "* is any run of bytes, ? is one byte."},
    {"split", string_split, "(s: string, separator: string): string[]", "The list of parts of s."},
    {"trim", string_trim, "(s: string): string", "s without white space around it."},
    {"byte", string_byte, "(s: string, i?: integer): integer?",
     "The i-th byte as a number, or nil."},
}};

}  // namespace

const Library& string_library() {
  static constexpr Library kLibrary{.name = "string", .functions = kString};
  return kLibrary;
}

}  // namespace moonfence::policy
