// table.*: a list ends where `#` says, which a script can make any border it likes up to 2^62; so
// every length is charged for, or refused, before anything is done with it.

#include <algorithm>
#include <array>
#include <utility>

#include "policy/lua/library.h"
#include "policy/lua/sandbox.h"
#include "policy/lua/views.h"

namespace moonfence::policy {
namespace {

// No list of more items fits into a policy's memory.
constexpr lua_Unsigned kLongestList = 1U << 18U;

lua_Unsigned length(lua_State* lua, int index) {
  const View* view = to_view(lua, index);
  return view != nullptr ? view_length(*view) : lua_rawlen(lua, index);
}

// A table or an input list; its length, if that is a list's.
lua_Integer list_argument(lua_State* lua, int index) {
  const View* view = to_view(lua, index);
  if (view != nullptr ? !is_list(*view) : lua_type(lua, index) != LUA_TTABLE) {
    raise_argument(lua, index, "a list");
  }
  const lua_Unsigned count = length(lua, index);
  if (count > kLongestList) {
    raise(lua, function_name(lua) + ": argument " + std::to_string(index) + " claims " +
                   std::to_string(count) + " items; a list has at most " +
                   std::to_string(kLongestList));
  }
  return static_cast<lua_Integer>(count);
}

void push_item(lua_State* lua, int index, lua_Integer i) {
  if (const View* view = to_view(lua, index)) {
    push_element(lua, *view, i);
  } else {
    lua_rawgeti(lua, index, i);
  }
}

int table_insert(lua_State* lua) {
  table_argument(lua, 1);
  const auto count = static_cast<lua_Integer>(lua_rawlen(lua, 1));
  if (lua_gettop(lua) == 2) {
    if (lua_isnil(lua, 2)) {
      raise_argument(lua, 2, "a value");
    }
    lua_rawseti(lua, 1, count + 1);
    return 0;
  }
  if (lua_gettop(lua) != 3) {
    raise(lua, "table.insert: write table.insert(list, value) or table.insert(list, at, value)");
  }
  const lua_Integer at = integer_argument(lua, 2);
  if (at < 1 || at > count + 1) {
    raise(lua, "table.insert: argument 2 is " + std::to_string(at) + ", outside of 1 to " +
                   std::to_string(count + 1));
  }
  Sandbox::of(lua).charge(lua, static_cast<std::uint64_t>(count - at + 1));
  for (lua_Integer i = count; i >= at; --i) {
    lua_rawgeti(lua, 1, i);
    lua_rawseti(lua, 1, i + 1);
  }
  lua_rawseti(lua, 1, at);
  return 0;
}

int table_remove(lua_State* lua) {
  table_argument(lua, 1);
  const auto count = static_cast<lua_Integer>(lua_rawlen(lua, 1));
  const lua_Integer at = integer_argument(lua, 2, count);
  if (count == 0 && (at == 0 || at == 1)) {
    lua_pushnil(lua);
    return 1;
  }
  if (at < 1 || at > count) {
    raise(lua, "table.remove: argument 2 is " + std::to_string(at) + ", outside of 1 to " +
                   std::to_string(count));
  }
  Sandbox::of(lua).charge(lua, static_cast<std::uint64_t>(count - at));
  lua_rawgeti(lua, 1, at);
  for (lua_Integer i = at; i < count; ++i) {
    lua_rawgeti(lua, 1, i + 1);
    lua_rawseti(lua, 1, i);
  }
  lua_pushnil(lua);
  lua_rawseti(lua, 1, count);
  return 1;
}

int table_concat(lua_State* lua) {
  const lua_Integer count = list_argument(lua, 1);
  const std::string separator(text_argument(lua, 2, ""));
  const lua_Integer from = std::max<lua_Integer>(1, integer_argument(lua, 3, 1));
  const lua_Integer to = std::min(count, integer_argument(lua, 4, count));
  Sandbox& sandbox = Sandbox::of(lua);
  std::string out;
  for (lua_Integer i = from; i <= to; ++i) {
    push_item(lua, 1, i);
    if (lua_type(lua, -1) != LUA_TSTRING && lua_type(lua, -1) != LUA_TNUMBER) {
      raise(lua, "table.concat: argument 1 has " + described(lua, -1) + " as item " +
                     std::to_string(i) + "; only texts and numbers can be joined");
    }
    const std::string_view text = text_at(lua, -1);  // converts the copy on the stack
    sandbox.charge(lua, 2 + (text.size() + separator.size()) / Sandbox::kBytesPerUnit);
    // Twice: the growing text and the one that Lua will hold.
    sandbox.require_room(lua, 2 * (out.size() + text.size() + separator.size()));
    out += text;
    if (i < to) {
      out += separator;
    }
    lua_pop(lua, 1);
  }
  push_text(lua, out);
  return 1;
}

constexpr int kNoComparator = 0;

// Whether the value at index a must stand before the one at index b.
bool stands_before(lua_State* lua, int comparator, int a, int b) {
  Sandbox& sandbox = Sandbox::of(lua);
  sandbox.charge(lua, 4);
  if (comparator != kNoComparator) {
    lua_pushvalue(lua, comparator);
    lua_pushvalue(lua, a);
    lua_pushvalue(lua, b);
    lua_call(lua, 2, 1);
    const bool result = lua_toboolean(lua, -1) != 0;
    lua_pop(lua, 1);
    return result;
  }
  const int type = lua_type(lua, a);
  if (type != lua_type(lua, b) || (type != LUA_TNUMBER && type != LUA_TSTRING)) {
    raise(lua, "table.sort: cannot compare " + described(lua, a) + " with " + described(lua, b));
  }
  if (type == LUA_TSTRING) {
    sandbox.charge_bytes(lua, std::min(text_at(lua, a).size(), text_at(lua, b).size()));
  }
  return lua_compare(lua, a, b, LUA_OPLT) != 0;
}

struct Runs {
  int from;  // stack index of the table that holds the sorted runs
  int into;
  int comparator;
};

// Merges the sorted runs [begin, middle) and [middle, end).
void merge_runs(lua_State* lua, const Runs& runs, lua_Integer begin, lua_Integer middle,
                lua_Integer end) {
  lua_Integer left = begin;
  lua_Integer right = middle;
  for (lua_Integer out = begin; out < end; ++out) {
    bool take_right = left >= middle;
    if (!take_right && right < end) {
      lua_rawgeti(lua, runs.from, right);
      lua_rawgeti(lua, runs.from, left);
      const int top = lua_gettop(lua);
      take_right = stands_before(lua, runs.comparator, top - 1, top);
      lua_pop(lua, 2);
    }
    lua_rawgeti(lua, runs.from, take_right ? right++ : left++);
    lua_rawseti(lua, runs.into, out);
  }
}

void copy_items(lua_State* lua, int from, int into, lua_Integer count) {
  for (lua_Integer i = 1; i <= count; ++i) {
    lua_rawgeti(lua, from, i);
    lua_rawseti(lua, into, i);
  }
}

// A stable merge sort on copies: the number of comparisons does not depend on what the comparator
// answers, and a comparator that changes the list changes nothing here.
void sort_list(lua_State* lua, int list, int comparator) {
  const auto count = static_cast<lua_Integer>(lua_rawlen(lua, list));
  Sandbox& sandbox = Sandbox::of(lua);
  sandbox.charge(lua, static_cast<std::uint64_t>(count) * 2);
  lua_createtable(lua, static_cast<int>(count), 0);
  lua_createtable(lua, static_cast<int>(count), 0);
  Runs runs{.from = lua_gettop(lua) - 1, .into = lua_gettop(lua), .comparator = comparator};
  copy_items(lua, list, runs.from, count);
  for (lua_Integer width = 1; width < count; width *= 2) {
    sandbox.charge(lua, static_cast<std::uint64_t>(count));
    for (lua_Integer begin = 1; begin <= count; begin += 2 * width) {
      const lua_Integer middle = std::min(begin + width, count + 1);
      merge_runs(lua, runs, begin, middle, std::min(middle + width, count + 1));
    }
    std::swap(runs.from, runs.into);
  }
  if (static_cast<lua_Integer>(lua_rawlen(lua, list)) != count) {
    raise(lua, "table.sort: the comparator changed the list");
  }
  copy_items(lua, runs.from, list, count);
  lua_pop(lua, 2);
}

int table_sort(lua_State* lua) {
  table_argument(lua, 1);
  (void)list_argument(lua, 1);
  lua_settop(lua, 2);
  if (lua_isnil(lua, 2)) {
    sort_list(lua, 1, kNoComparator);
    return 0;
  }
  function_argument(lua, 2);
  sort_list(lua, 1, 2);
  return 0;
}

int table_contains(lua_State* lua) {
  const lua_Integer count = list_argument(lua, 1);
  Sandbox& sandbox = Sandbox::of(lua);
  for (lua_Integer i = 1; i <= count; ++i) {
    sandbox.charge(lua, 2);
    push_item(lua, 1, i);
    if (lua_type(lua, -1) == LUA_TSTRING) {
      sandbox.charge_bytes(lua, text_at(lua, -1).size());
    }
    if (lua_rawequal(lua, -1, 2) != 0) {
      lua_pushboolean(lua, 1);
      return 1;
    }
    lua_pop(lua, 1);
  }
  lua_pushboolean(lua, 0);
  return 1;
}

// Copies the keys of the table at 1 that are of this type to the list on top. Walks the whole table
// before it refuses a key: what that costs, and which key is named, must not depend on the order.
void append_keys(lua_State* lua, int type) {
  const int list = lua_gettop(lua);
  auto count = static_cast<lua_Integer>(lua_rawlen(lua, list));
  std::string refused;
  lua_pushnil(lua);
  while (lua_next(lua, 1) != 0) {
    Sandbox::of(lua).charge(lua, 4);
    lua_pop(lua, 1);
    if (lua_type(lua, -1) == type) {
      lua_pushvalue(lua, -1);
      lua_rawseti(lua, list, ++count);
    } else if (lua_type(lua, -1) != LUA_TSTRING && lua_type(lua, -1) != LUA_TNUMBER) {
      refused = std::max(refused, described(lua, -1));
    }
  }
  if (!refused.empty()) {
    raise(lua, "table.keys: argument 1 has " + refused +
                   " as a key; only texts and numbers have an order");
  }
}

// Numbers stand before texts, each in order: what a state's hash seed does must not be seen.
int table_keys(lua_State* lua) {
  if (const View* view = to_view(lua, 1)) {
    push_view_keys(lua, *view);
    return 1;
  }
  table_argument(lua, 1);
  lua_settop(lua, 1);
  lua_createtable(lua, 0, 0);
  append_keys(lua, LUA_TNUMBER);
  lua_createtable(lua, 0, 0);
  append_keys(lua, LUA_TSTRING);
  for (const int list : {2, 3}) {
    sort_list(lua, list, kNoComparator);
  }
  auto count = static_cast<lua_Integer>(lua_rawlen(lua, 2));
  const auto texts = static_cast<lua_Integer>(lua_rawlen(lua, 3));
  for (lua_Integer i = 1; i <= texts; ++i) {
    lua_rawgeti(lua, 3, i);
    lua_rawseti(lua, 2, ++count);
  }
  lua_settop(lua, 2);
  return 1;
}

constexpr std::array<HostFunction, 6> kTable = {{
    {"insert", table_insert, "(list: any[], at_or_value: any, value?: any)",
     "Puts value at the end, or before the item at."},
    {"remove", table_remove, "(list: any[], at?: integer): any",
     "Takes the last item, or the one at."},
    {"concat", table_concat, "(list: any[], separator?: string): string",
     "The items joined to one text."},
    {"sort", table_sort, "(list: any[], before?: fun(a: any, b: any): boolean)",
     "Sorts in place; equal items stay."},
    {"contains", table_contains, "(list: any[], value: any): boolean", "Whether value is an item."},
    {"keys", table_keys, "(map: any): string[]", "The sorted list of keys."},
}};

}  // namespace

const Library& table_library() {
  static constexpr Library kLibrary{.name = "table", .functions = kTable};
  return kLibrary;
}

}  // namespace moonfence::policy
