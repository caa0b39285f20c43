#include "policy/lua/views.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdint>
#include <new>
#include <optional>

#include "base/text.h"
#include "policy/lua/library.h"
#include "policy/lua/sandbox.h"
#include "policy/lua/trace.h"

namespace moonfence::policy {
namespace {

using nlohmann::json;

// Its address is the registry key of the views' metatable.
constexpr char kMetatable = 'v';
constexpr std::uint64_t kReadUnits = 4;

// Views have no destructor that a state would have to run.
static_assert(std::is_trivially_destructible_v<View>);

const json::object_t* object_of(const json* value) {
  return value == nullptr ? nullptr : value->get_ptr<const json::object_t*>();
}

const json::array_t* array_of(const json* value) {
  return value == nullptr ? nullptr : value->get_ptr<const json::array_t*>();
}

// The first two of every reply, the others of one to fence.try.
constexpr std::array<std::string_view, 6> kReplyFields = {"status",  "body",  "error",
                                                          "message", "since", "code"};
constexpr std::size_t kPlainReplyFields = 2;

// It says whether the request failed (policy/values/failed_answer.h).
bool is_tried(const View& reply) {
  const auto* object = object_of(reply.json);
  return object != nullptr && object->contains("error");
}

std::vector<std::string_view> known_names(const View& view) {
  std::vector<std::string_view> names;
  if (view.kind == View::Kind::Object) {
    for (const Field& field : view.shape->fields) {
      names.push_back(field.name);
    }
  } else if (view.kind == View::Kind::Reply) {
    names.assign(kReplyFields.begin(),
                 is_tried(view) ? kReplyFields.end() : kReplyFields.begin() + kPlainReplyFields);
  } else if (const auto* object = object_of(view.json)) {
    for (const auto& [key, value] : *object) {
      names.emplace_back(key);
    }
  }
  return names;
}

[[noreturn]] void raise_unknown(lua_State* lua, const View& view, std::string_view key) {
  const std::string_view what = view.kind == View::Kind::Settings ? "setting" : "field";
  raise(lua, "unknown " + std::string(what) + " '" + escaped(key, 64) + "' of " + view.name +
                 did_you_mean(key, known_names(view)));
}

bool is_declared(const Session& session, Need need) {
  switch (need) {
    case Need::None:
      return true;
    case Need::Volumes:
      return session.needs.volumes;
    case Need::Placement:
      return session.needs.placement;
    case Need::RootOwner:
      return session.needs.root_owner;
    case Need::Siblings:
      return session.needs.siblings;
    case Need::Fetch:
      return session.fetches;
    case Need::NodeFetch:
      return session.node_fetches;
  }
  return false;
}

void push_field(lua_State* lua, const View& view, std::string_view key) {
  for (const Field& field : view.shape->fields) {
    if (field.name == key) {
      if (!is_declared(Sandbox::of(lua).session, field.need)) {
        raise(lua,
              std::string(view.name) + "." + std::string(key) + ": " + how_to_declare(field.need));
      }
      field.push(lua, view);
      return;
    }
  }
  raise_unknown(lua, view, key);
}

const json* step(const json* value, std::string_view key) {
  if (const auto* array = array_of(value)) {
    std::size_t position = 0;
    const auto [end, fault] = std::from_chars(key.data(), key.data() + key.size(), position);
    const bool valid = fault == std::errc() && end == key.data() + key.size() && position >= 1;
    return valid && position <= array->size() ? &(*array)[position - 1] : nullptr;
  }
  return member(value, key);
}

// raw:get("spec.nodeName"), raw:get("metadata", "annotations", "a.b/c"): one path is split at its
// dots, several keys are taken as they stand. Positions in lists count from 1.
int raw_get(lua_State* lua) {
  const View* view = to_view(lua, 1);
  if (view == nullptr || view->kind != View::Kind::Raw) {
    raise(lua, "get: call it with a colon, as in pod.raw:get('spec.nodeName')");
  }
  const int count = lua_gettop(lua);
  const json* value = view->json;
  if (count == 2) {
    const std::string_view path = text_argument(lua, 2);
    Sandbox::of(lua).charge(lua, path.size());
    for (const std::string_view key : split(path, '.')) {
      value = step(value, key);
    }
    push_json(lua, value, view->name);
    trace_read(lua, *view, path);
    return 1;
  }
  Sandbox::of(lua).charge(lua, static_cast<std::uint64_t>(count) * kReadUnits);
  std::string path;
  for (int i = 2; i <= count; ++i) {
    value = step(value, text_argument(lua, i));
    path += (path.empty() ? "" : ".") + std::string(text_at(lua, i));
  }
  push_json(lua, value, view->name);
  trace_read(lua, *view, path);
  return 1;
}

// What the containers in a view are.
View::Kind contained(const View& view) {
  switch (view.kind) {
    case View::Kind::Answers:
      return View::Kind::Reply;
    case View::Kind::Reply:
    case View::Kind::Answer:
      return View::Kind::Answer;
    case View::Kind::Object:
    case View::Kind::Map:
    case View::Kind::List:
    case View::Kind::Raw:
    case View::Kind::Settings:
      return View::Kind::Raw;
  }
  return View::Kind::Raw;
}

// Nobody reads past a failure: what came in place of a body is not nil, it is not there.
void push_reply_field(lua_State* lua, const View& view, std::string_view key) {
  const auto known = std::find(kReplyFields.begin(), kReplyFields.end(), key);
  if (known == kReplyFields.end()) {
    raise_unknown(lua, view, key);
  }
  if (known >= kReplyFields.begin() + kPlainReplyFields && !is_tried(view)) {
    raise(lua, std::string(view.name) + ": no field '" + std::string(key) +
                   "': nothing is judged while this request fails; make it by "
                   "fence.try(fence.http(...)) to be told");
  }
  if (const json* error = member(view.json, "error"); key == "body" && error != nullptr) {
    raise(lua, std::string(view.name) + ": no field 'body': the request failed (" +
                   std::string(text_of(error)) + "); look at 'error' before 'body'");
  }
  push_json(lua, member(view.json, key), view.name, contained(view));
}

constexpr HostFunction kRawGet = {"get", raw_get, "(path: string, ...: string): any", ""};

int index_view(lua_State* lua, const View* view) {
  Sandbox::of(lua).charge(lua, kReadUnits);
  if (lua_isinteger(lua, 2) != 0 && is_list(*view)) {
    push_element(lua, *view, lua_tointeger(lua, 2));
    return 1;
  }
  if (lua_type(lua, 2) != LUA_TSTRING) {
    raise(lua, std::string(view->name) + " has no entry for " + described(lua, 2));
  }
  const std::string_view key = text_at(lua, 2);
  switch (view->kind) {
    case View::Kind::Object:
      push_field(lua, *view, key);
      return 1;
    case View::Kind::Map: {
      const json* value = member(view->json, key);
      if (value != nullptr && value->is_string()) {
        push_text(lua, text_of(value));
      } else {
        lua_pushnil(lua);
      }
      return 1;
    }
    case View::Kind::List:
      raise(lua,
            std::string(view->name) + " is a list; it has no field '" + escaped(key, 64) + "'");
    case View::Kind::Raw:
      if (key == "get") {
        push_function(lua, kRawGet, base_library());
        return 1;
      }
      raise(lua, std::string(view->name) + " has no field '" + escaped(key, 64) +
                     "'; read it with :get('" + escaped(key, 64) + "')");
    case View::Kind::Settings: {
      const json* value = member(view->json, key);
      if (value == nullptr) {
        raise_unknown(lua, *view, key);
      }
      if (value->is_array()) {
        push_view(lua, {.kind = View::Kind::List, .name = "a list of settings", .json = value});
      } else {
        push_json(lua, value, view->name);
      }
      return 1;
    }
    case View::Kind::Reply:
      push_reply_field(lua, *view, key);
      return 1;
    case View::Kind::Answers:
    case View::Kind::Answer:
      if (is_list(*view)) {
        raise(lua,
              std::string(view->name) + " is a list; it has no field '" + escaped(key, 64) + "'");
      }
      push_json(lua, member(view->json, key), view->name, contained(*view));
      return 1;
  }
  return 0;
}

int view_index(lua_State* lua) {
  const View* view = to_view(lua, 1);
  if (view == nullptr) {
    raise(lua, "not an input object");
  }
  const int results = index_view(lua, view);
  if (lua_isinteger(lua, 2) != 0) {
    trace_read(lua, *view, lua_tointeger(lua, 2));
  } else {
    trace_read(lua, *view, text_at(lua, 2));
  }
  return results;
}

int view_newindex(lua_State* lua) {
  const View* view = to_view(lua, 1);
  raise(lua, "cannot set " +
                 (lua_type(lua, 2) == LUA_TSTRING ? "'" + escaped(text_at(lua, 2), 64) + "'"
                                                  : described(lua, 2)) +
                 " of " + (view == nullptr ? "" : view->name) + ": inputs are read-only");
}

int view_len(lua_State* lua) {
  const View* view = to_view(lua, 1);
  if (view == nullptr || !is_list(*view)) {
    raise(lua, std::string(view == nullptr ? "" : view->name) + " is no list and has no length");
  }
  lua_pushinteger(lua, static_cast<lua_Integer>(view_length(*view)));
  return 1;
}

constexpr HostFunction kIndex = {"index", view_index, "", ""};
constexpr HostFunction kNewIndex = {"newindex", view_newindex, "", ""};
constexpr HostFunction kLen = {"len", view_len, "", ""};

void push_map_value(lua_State* lua, const View& view, const json& value) {
  if (view.kind == View::Kind::Map) {
    push_text(lua, text_of(&value));
  } else {
    push_json(lua, &value, view.name, contained(view));
  }
}

// Finds the entry after the key at index 2 by search, so that it needs no state of its own.
int step_pairs(lua_State* lua) {
  const View* view = to_view(lua, 1);
  if (view == nullptr) {
    raise_argument(lua, 1, "an input");
  }
  Sandbox::of(lua).charge(lua, kReadUnits);
  lua_settop(lua, 2);
  if (is_list(*view)) {
    const lua_Integer last = lua_isnil(lua, 2) ? 0 : integer_argument(lua, 2);
    if (last < 0 || static_cast<lua_Unsigned>(last) >= view_length(*view)) {
      lua_pushnil(lua);
      return 1;
    }
    lua_pushinteger(lua, last + 1);
    push_element(lua, *view, last + 1);
    trace_read(lua, *view, last + 1);
    return 2;
  }
  const auto* object = object_of(view->json);
  if (object == nullptr || view->kind == View::Kind::Object) {
    lua_pushnil(lua);
    return 1;
  }
  const auto entry =
      lua_isnil(lua, 2) ? object->begin() : object->upper_bound(std::string(text_argument(lua, 2)));
  if (entry == object->end()) {
    lua_pushnil(lua);
    return 1;
  }
  push_text(lua, entry->first);
  push_map_value(lua, *view, entry->second);
  trace_read(lua, *view, entry->first);
  return 2;
}

constexpr HostFunction kPairsStep = {"pairs", step_pairs, "", ""};

void push_metatable(lua_State* lua) {
  if (lua_rawgetp(lua, LUA_REGISTRYINDEX, &kMetatable) == LUA_TTABLE) {
    return;
  }
  lua_pop(lua, 1);
  lua_createtable(lua, 0, 4);
  push_function(lua, kIndex, base_library());
  lua_setfield(lua, -2, "__index");
  push_function(lua, kNewIndex, base_library());
  lua_setfield(lua, -2, "__newindex");
  push_function(lua, kLen, base_library());
  lua_setfield(lua, -2, "__len");
  lua_pushboolean(lua, 0);
  lua_setfield(lua, -2, "__metatable");
  lua_pushvalue(lua, -1);
  lua_rawsetp(lua, LUA_REGISTRYINDEX, &kMetatable);
}

}  // namespace

std::string_view to_string(Need need) {
  switch (need) {
    case Need::None:
      return "";
    case Need::Volumes:
      return "volumes";
    case Need::Placement:
      return "placement";
    case Need::RootOwner:
      return "root_owner";
    case Need::Siblings:
      return "siblings";
    case Need::Fetch:
      return "fetch";
    case Need::NodeFetch:
      return "node_fetch";
  }
  return "";
}

std::string how_to_declare(Need need) {
  if (need == Need::Fetch) {
    return "declare fetch = function(pod, s, got) ... end";
  }
  if (need == Need::NodeFetch) {
    return "declare node_fetch = function(node, s, got) ... end";
  }
  return "declare needs = { '" + std::string(to_string(need)) + "' }";
}

const View* to_view(lua_State* lua, int index) {
  if (lua_type(lua, index) != LUA_TUSERDATA || lua_getmetatable(lua, index) == 0) {
    return nullptr;
  }
  lua_rawgetp(lua, LUA_REGISTRYINDEX, &kMetatable);
  const bool ours = lua_rawequal(lua, -1, -2) != 0;
  lua_pop(lua, 2);
  return ours ? static_cast<const View*>(lua_touserdata(lua, index)) : nullptr;
}

void push_view(lua_State* lua, const View& view) {
  new (lua_newuserdatauv(lua, sizeof(View), 0)) View(view);
  push_metatable(lua);
  lua_setmetatable(lua, -2);
}

bool is_list(const View& view) {
  return view.kind == View::Kind::List ||
         ((view.kind == View::Kind::Raw || view.kind == View::Kind::Answer) &&
          array_of(view.json) != nullptr);
}

std::size_t view_length(const View& view) {
  const auto* array = array_of(view.json);
  return array == nullptr ? 0 : array->size();
}

void push_element(lua_State* lua, const View& view, lua_Integer i) {
  const auto* array = array_of(view.json);
  if (array == nullptr || i < 1 || static_cast<std::size_t>(i) > array->size()) {
    lua_pushnil(lua);
    return;
  }
  const json& element = (*array)[static_cast<std::size_t>(i - 1)];
  if (view.shape != nullptr) {
    push_view(lua, {.kind = View::Kind::Object,
                    .name = view.shape->name.data(),
                    .json = &element,
                    .shape = view.shape});
  } else {
    push_json(lua, &element, view.name, contained(view));
  }
}

void push_view_keys(lua_State* lua, const View& view) {
  if (view.kind == View::Kind::Object || is_list(view)) {
    raise(lua, "table.keys: " + std::string(view.name) + " has no keys to list");
  }
  lua_createtable(lua, 0, 0);
  if (const auto* object = object_of(view.json)) {
    lua_Integer i = 0;
    for (const auto& [key, value] : *object) {
      Sandbox::of(lua).charge(lua, kReadUnits);
      push_text(lua, key);
      lua_rawseti(lua, -2, ++i);
    }
  }
}

void push_view_iterator(lua_State* lua) {
  const View* view = to_view(lua, 1);
  if (view->kind == View::Kind::Object) {
    raise(lua, "pairs: " + std::string(view->name) + " cannot be walked; name its fields");
  }
  push_function(lua, kPairsStep, base_library());
}

void push_json(lua_State* lua, const json* value, const char* name, View::Kind container) {
  if (value == nullptr) {
    lua_pushnil(lua);
    return;
  }
  switch (value->type()) {
    case json::value_t::null:
    case json::value_t::binary:
    case json::value_t::discarded:
      lua_pushnil(lua);
      return;
    case json::value_t::boolean:
      lua_pushboolean(lua, value->get<bool>() ? 1 : 0);
      return;
    case json::value_t::number_integer:
      lua_pushinteger(lua, value->get<lua_Integer>());
      return;
    case json::value_t::number_unsigned:
      if (value->get<std::uint64_t>() > static_cast<std::uint64_t>(LUA_MAXINTEGER)) {
        lua_pushnumber(lua, value->get<lua_Number>());
      } else {
        lua_pushinteger(lua, value->get<lua_Integer>());
      }
      return;
    case json::value_t::number_float:
      lua_pushnumber(lua, value->get<lua_Number>());
      return;
    case json::value_t::string:
      push_text(lua, value->get_ref<const std::string&>());
      return;
    case json::value_t::object:
    case json::value_t::array:
      push_view(lua, {.kind = container, .name = name, .json = value});
      return;
  }
}

const json* member(const json* value, std::string_view key) {
  const auto* object = object_of(value);
  if (object == nullptr) {
    return nullptr;
  }
  const auto entry = object->find(key);
  return entry == object->end() || entry->second.is_null() ? nullptr : &entry->second;
}

const json* member(const json* value, std::string_view key, std::string_view below) {
  return member(member(value, key), below);
}

std::string_view text_of(const json* value) {
  const auto* text = value == nullptr ? nullptr : value->get_ptr<const std::string*>();
  return text == nullptr ? std::string_view() : std::string_view(*text);
}

}  // namespace moonfence::policy
