#include "policy/host/settings.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

#include "base/text.h"
#include "policy/host/keys.h"
#include "policy/lua/library.h"
#include "policy/lua/spec.h"

namespace moonfence::policy {
namespace {

using nlohmann::json;
using Type = Setting::Type;

constexpr std::size_t kMostSettings = 64;
constexpr std::size_t kLongestDoc = 1024;

constexpr std::array<std::pair<std::string_view, Type>, 7> kTypes = {{
    {"string", Type::String},
    {"integer", Type::Integer},
    {"number", Type::Number},
    {"boolean", Type::Boolean},
    {"duration", Type::Duration},
    {"enum", Type::Enum},
    {"list", Type::List},
}};

Type read_type(const SpecTable& table, std::string_view key) {
  const std::string name = table.text(key, 64);
  std::vector<std::string_view> known;
  for (const auto& [word, type] : kTypes) {
    if (word == name) {
      return type;
    }
    known.push_back(word);
  }
  raise_spec(table.lua, table.place(key),
             "is the unknown type '" + escaped(name, 32) + "'" + did_you_mean(name, known) +
                 "; known are string, integer, number, boolean, duration, enum, list");
}

bool has_bounds(Type type) {
  return type == Type::Integer || type == Type::Number || type == Type::Duration;
}

json text_on_top(lua_State* lua, const std::string& place) {
  if (lua_type(lua, -1) != LUA_TSTRING) {
    raise_spec_type(lua, place, "a text", -1);
  }
  if (text_at(lua, -1).size() > kLongestSettingText) {
    raise_spec(lua, place, "has more than " + std::to_string(kLongestSettingText) + " bytes");
  }
  return std::string(text_at(lua, -1));
}

json number_on_top(lua_State* lua, const std::string& place, bool integer) {
  if (lua_type(lua, -1) != LUA_TNUMBER || (integer && lua_isinteger(lua, -1) == 0)) {
    raise_spec_type(lua, place, integer ? "an integer" : "a number", -1);
  }
  if (lua_isinteger(lua, -1) != 0) {
    return lua_tointeger(lua, -1);
  }
  const double value = lua_tonumber(lua, -1);
  if (!std::isfinite(value)) {
    raise_spec(lua, place, "must be a finite number");
  }
  return value;
}

// A value of one of the types that need no further description.
json plain_on_top(lua_State* lua, const std::string& place, Type type) {
  switch (type) {
    case Type::String:
    case Type::Enum:
      return text_on_top(lua, place);
    case Type::Integer:
      return number_on_top(lua, place, true);
    case Type::Number:
      return number_on_top(lua, place, false);
    case Type::Boolean:
      if (lua_type(lua, -1) != LUA_TBOOLEAN) {
        raise_spec_type(lua, place, "true or false", -1);
      }
      return lua_toboolean(lua, -1) != 0;
    case Type::Duration:
      return seconds_json(duration_on_top(lua, place, false));
    case Type::List:
      break;
  }
  raise_spec(lua, place, "must not be a list");
}

// Only a plain sequence, read by position: a table that contains itself is one of a wrong item.
json list_on_top(lua_State* lua, const std::string& place, Type of) {
  const SpecTable table = table_on_top(lua, place);
  const lua_Unsigned count = lua_rawlen(lua, table.index);
  if (count > kMostSettingItems) {
    raise_spec(lua, place, "has more than " + std::to_string(kMostSettingItems) + " items");
  }
  json list = json::array();
  for (lua_Integer i = 1; i <= static_cast<lua_Integer>(count); ++i) {
    lua_rawgeti(lua, table.index, i);
    list.push_back(plain_on_top(lua, place + "[" + std::to_string(i) + "]", of));
    lua_pop(lua, 1);
  }
  lua_pushnil(lua);
  for (lua_Unsigned keys = 0; lua_next(lua, table.index) != 0; lua_pop(lua, 1)) {
    if (++keys > count) {
      raise_spec(lua, place, "must be a plain list without other keys or holes");
    }
  }
  return list;
}

void check_value(lua_State* lua, const Setting& setting, const std::string& place,
                 const json& value) {
  if (setting.type == Type::Enum && std::find(setting.values.begin(), setting.values.end(),
                                              value.get<std::string>()) == setting.values.end()) {
    raise_spec(lua, place,
               "is '" + escaped(value.get<std::string>(), 64) +
                   "', which is not one of: " + joined(setting.values, ", "));
  }
  const bool too_small = setting.min && value.get<double>() < *setting.min;
  const bool too_large = setting.max && value.get<double>() > *setting.max;
  if (too_small || too_large) {
    raise_spec(lua, place,
               std::string("is out of range: ") + (too_small ? "below its min" : "above its max"));
  }
}

std::optional<double> read_bound(const SpecTable& table, std::string_view key, Type type) {
  if (!table.has(key)) {
    return std::nullopt;
  }
  if (!has_bounds(type)) {
    raise_spec(table.lua, table.place(key), "is only for integer, number and duration");
  }
  table.push(key);
  const json value = plain_on_top(table.lua, table.place(key), type);
  lua_pop(table.lua, 1);
  return value.get<double>();
}

std::vector<std::string> read_values(const SpecTable& table, Type type) {
  if (type != Type::Enum) {
    if (table.has("values")) {
      raise_spec(table.lua, table.place("values"), "is only for enum");
    }
    return {};
  }
  table.push("values");
  auto values =
      list_on_top(table.lua, table.place("values"), Type::String).get<std::vector<std::string>>();
  lua_pop(table.lua, 1);
  if (values.empty()) {
    raise_spec(table.lua, table.place("values"), "must not be empty");
  }
  return values;
}

Type read_item_type(const SpecTable& table, Type type) {
  if (type != Type::List) {
    if (table.has("of")) {
      raise_spec(table.lua, table.place("of"), "is only for list");
    }
    return Type::String;
  }
  const Type of = read_type(table, "of");
  if (of != Type::String && of != Type::Integer && of != Type::Number) {
    raise_spec(table.lua, table.place("of"), "must be string, integer or number");
  }
  return of;
}

Setting read_setting(const SpecTable& table) {
  table.check_keys(kSettingKeys);
  Setting setting;
  setting.type = read_type(table, "type");
  setting.of = read_item_type(table, setting.type);
  setting.min = read_bound(table, "min", setting.type);
  setting.max = read_bound(table, "max", setting.type);
  if (setting.min && setting.max && *setting.min > *setting.max) {
    raise_spec(table.lua, table.name, "has a min above its max");
  }
  setting.values = read_values(table, setting.type);
  setting.clamp = table.boolean_or("clamp", false);
  if (setting.clamp && !has_bounds(setting.type)) {
    raise_spec(table.lua, table.place("clamp"), "is only for integer, number and duration");
  }
  setting.doc = table.text_or("doc", kLongestDoc, "");
  table.push("default");
  const std::string place = table.place("default");
  setting.otherwise = setting.type == Type::List ? list_on_top(table.lua, place, setting.of)
                                                 : plain_on_top(table.lua, place, setting.type);
  check_value(table.lua, setting, place, setting.otherwise);
  lua_pop(table.lua, 1);
  return setting;
}

}  // namespace

DeclaredSettings read_settings(lua_State* lua) {
  const SpecTable table = table_on_top(lua, "settings");
  std::vector<std::string> names;
  lua_pushnil(lua);
  while (lua_next(lua, table.index) != 0) {
    lua_pop(lua, 1);
    if (lua_type(lua, -1) != LUA_TSTRING || !is_identifier(text_at(lua, -1), '_')) {
      raise_spec(
          lua, "settings",
          "has " + described(lua, -1) + " as a name that is not [a-z][a-z0-9_]* of 40 letters");
    }
    names.emplace_back(text_at(lua, -1));
  }
  if (names.size() > kMostSettings) {
    raise_spec(lua, "settings", "has more than " + std::to_string(kMostSettings) + " entries");
  }
  std::sort(names.begin(), names.end());
  DeclaredSettings settings;
  for (const std::string& name : names) {
    table.push(name);
    settings.emplace(name, read_setting(table_on_top(lua, table.place(name))));
    lua_pop(lua, 1);
  }
  return settings;
}

std::string_view to_string(Type type) {
  for (const auto& [word, known] : kTypes) {
    if (known == type) {
      return word;
    }
  }
  return "";
}

}  // namespace moonfence::policy
