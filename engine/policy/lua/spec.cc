#include "policy/lua/spec.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <set>
#include <utility>
#include <vector>

#include "base/text.h"
#include "policy/lua/library.h"

namespace moonfence::policy {
namespace {

constexpr double kLongestDuration = 1e9;  // seconds; 31 years

bool contains(std::span<const std::string_view> words, std::string_view word) {
  return std::find(words.begin(), words.end(), word) != words.end();
}

bool is_digit(char c) {
  return c >= '0' && c <= '9';
}

bool is_version_number(std::string_view text) {
  return !text.empty() && text.size() <= 9 && std::all_of(text.begin(), text.end(), is_digit) &&
         (text.size() == 1 || text.front() != '0');
}

bool is_version_suffix(std::string_view text) {
  const auto parts = split(text, '.');
  return std::all_of(parts.begin(), parts.end(), [](std::string_view part) {
    return !part.empty() && std::all_of(part.begin(), part.end(), [](char c) {
      return is_digit(c) || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '-';
    });
  });
}

}  // namespace

// The first offender in order of text: what is reported must not depend on the state's hash seed.
void SpecTable::check_keys(std::span<const std::string_view> known) const {
  std::set<std::string> unknown;
  lua_pushnil(lua);
  while (lua_next(lua, index) != 0) {
    lua_pop(lua, 1);
    if (lua_type(lua, -1) != LUA_TSTRING) {
      raise_spec(lua, name, "has " + described(lua, -1) + " as a key; its keys are names");
    }
    if (!contains(known, text_at(lua, -1))) {
      unknown.emplace(text_at(lua, -1).substr(0, 64));
    }
  }
  if (unknown.empty()) {
    return;
  }
  const std::string& first = *unknown.begin();
  raise_spec(lua, name,
             "has the unknown key '" + escaped(first, 64) + "'" + did_you_mean(first, known));
}

void SpecTable::check_keys(std::span<const Key> known) const {
  std::vector<std::string_view> names;
  for (const Key& key : known) {
    names.push_back(key.name);
  }
  check_keys(names);
}

std::string SpecTable::place(std::string_view key) const {
  return name + "." + std::string(key);
}

int SpecTable::push(std::string_view key) const {
  push_text(lua, key);
  return lua_rawget(lua, index);
}

bool SpecTable::has(std::string_view key) const {
  const bool found = push(key) != LUA_TNIL;
  lua_pop(lua, 1);
  return found;
}

std::string SpecTable::text(std::string_view key, std::size_t longest) const {
  if (push(key) != LUA_TSTRING) {
    raise_spec_type(lua, place(key), "a text", -1);
  }
  const std::string_view value = text_at(lua, -1);
  if (value.empty() || value.size() > longest) {
    raise_spec(lua, place(key),
               "must have 1 to " + std::to_string(longest) + " bytes, not " +
                   std::to_string(value.size()));
  }
  std::string copy(value);
  lua_pop(lua, 1);
  return copy;
}

std::string SpecTable::text_or(std::string_view key, std::size_t longest,
                               std::string otherwise) const {
  return has(key) ? text(key, longest) : std::move(otherwise);
}

bool SpecTable::boolean_or(std::string_view key, bool otherwise) const {
  const int type = push(key);
  if (type != LUA_TNIL && type != LUA_TBOOLEAN) {
    raise_spec_type(lua, place(key), "true or false", -1);
  }
  const bool value = type == LUA_TNIL ? otherwise : lua_toboolean(lua, -1) != 0;
  lua_pop(lua, 1);
  return value;
}

SpecTable table_on_top(lua_State* lua, const std::string& name) {
  if (lua_type(lua, -1) != LUA_TTABLE) {
    raise_spec_type(lua, name, "a table", -1);
  }
  return SpecTable{.lua = lua, .index = lua_gettop(lua), .name = name};
}

void raise_spec(lua_State* lua, const std::string& place, const std::string& rule) {
  raise(lua, place + " " + rule);
}

void raise_spec_type(lua_State* lua, const std::string& place, const std::string& wanted,
                     int index) {
  if (lua_type(lua, index) == LUA_TNIL) {
    raise_spec(lua, place, "is missing; it must be " + wanted);
  }
  raise_spec(lua, place, "must be " + wanted + ", not " + described(lua, index));
}

Duration duration_on_top(lua_State* lua, const std::string& place, bool number_allowed) {
  if (number_allowed && lua_type(lua, -1) == LUA_TNUMBER) {
    const double seconds = lua_tonumber(lua, -1);
    if (!(seconds >= 0 && seconds <= kLongestDuration)) {
      raise_spec(lua, place, "must be a number of seconds from 0 to 1000000000");
    }
    return std::chrono::round<Duration>(std::chrono::duration<double>(seconds));
  }
  if (lua_type(lua, -1) != LUA_TSTRING) {
    raise_spec_type(lua, place, "a duration, a text such as '30s'", -1);
  }
  const auto parsed = parse_duration(text_at(lua, -1).substr(0, 64));
  if (!parsed || text_at(lua, -1).size() > 64) {
    raise_spec(lua, place,
               "is '" + escaped(text_at(lua, -1), 64) +
                   "', which is no duration; write a number with a unit, such as 30s");
  }
  return *parsed;
}

nlohmann::json seconds_json(Duration duration) {
  const auto whole = std::chrono::floor<std::chrono::seconds>(duration);
  if (whole == duration) {
    return whole.count();
  }
  return std::chrono::duration<double>(duration).count();
}

bool is_identifier(std::string_view text, char separator) {
  return !text.empty() && text.size() <= 40 && text.front() >= 'a' && text.front() <= 'z' &&
         std::all_of(text.begin(), text.end(), [separator](char c) {
           return (c >= 'a' && c <= 'z') || is_digit(c) || c == separator;
         });
}

bool is_semantic_version(std::string_view text) {
  const auto plus = text.find('+');
  const bool build_fits =
      plus == std::string_view::npos || is_version_suffix(text.substr(plus + 1));
  const std::string_view release = text.substr(0, plus);
  const auto dash = release.find('-');
  const bool suffix_fits =
      dash == std::string_view::npos || is_version_suffix(release.substr(dash + 1));
  const auto numbers = split(release.substr(0, dash), '.');
  return build_fits && suffix_fits && numbers.size() == 3 &&
         std::all_of(numbers.begin(), numbers.end(), is_version_number);
}

}  // namespace moonfence::policy
