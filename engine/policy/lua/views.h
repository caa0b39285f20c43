#pragma once

// A View is how a script sees an input: read-only userdata over JSON that the session's Inputs keep
// alive for as long as the state lives. Fields are made when they are read. A name that does not
// exist raises with the nearest one; what is walked, is walked in the order of its keys.

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <lua.hpp>
#include <nlohmann/json.hpp>

namespace moonfence::policy {

struct View;

// What a policy has to declare before it may read a field.
enum class Need { None, Volumes, Placement, RootOwner, Siblings, Fetch, NodeFetch };

// "volumes" as it stands in `needs`; "fetch" and "node_fetch" for the keys of these names, "" for
// none.
[[nodiscard]] std::string_view to_string(Need need);

// "declare needs = { 'volumes' }".
[[nodiscard]] std::string how_to_declare(Need need);

struct Field {
  std::string_view name;
  void (*push)(lua_State* lua, const View& view);
  std::string_view type;  // in the notation of LuaCATS; a class for an object: "Owner", "Volume[]"
  std::string_view doc;
  Need need = Need::None;
};

// What a kind of object offers.
struct Shape {
  std::string_view name;        // "pod", for messages
  std::string_view class_name;  // "Pod", for the documentation
  std::string_view doc;
  std::span<const Field> fields;
};

struct View {
  enum class Kind {
    Object,    // the fields of a shape
    Map,       // texts by key, nil for a key that is absent: labels
    List,      // of objects of the shape, or of plain values when there is none
    Raw,       // any JSON, through :get()
    Answers,   // replies by name, nil for one that is not there yet
    Reply,     // what was answered to one request: status and body, or how it failed
    Answer,    // any JSON as a table of the script's would be: nil for what is absent
    Settings,  // plain values by name; an unknown name raises
  };
  Kind kind = Kind::Object;
  const char* name = "";                 // "pod.labels", for messages; a literal
  const nlohmann::json* json = nullptr;  // null when absent
  const Shape* shape = nullptr;          // of an Object; of the elements of a List
};

// Null when the value is no view.
[[nodiscard]] const View* to_view(lua_State* lua, int index);
void push_view(lua_State* lua, const View& view);

[[nodiscard]] bool is_list(const View& view);
[[nodiscard]] std::size_t view_length(const View& view);
// The i-th element, 1-based; nil outside of the list and of what is no list.
void push_element(lua_State* lua, const View& view, lua_Integer i);
// The sorted list of keys of a map; raises for what has none.
void push_view_keys(lua_State* lua, const View& view);
// The function that pairs() returns for the view at index 1; raises when it cannot be walked.
void push_view_iterator(lua_State* lua);

// A scalar as itself, null as nil, objects and lists as views of kind Raw or Answer.
void push_json(lua_State* lua, const nlohmann::json* json, const char* name,
               View::Kind container = View::Kind::Raw);

// Members of JSON objects; null for whatever is not there.
[[nodiscard]] const nlohmann::json* member(const nlohmann::json* json, std::string_view key);
[[nodiscard]] const nlohmann::json* member(const nlohmann::json* json, std::string_view key,
                                           std::string_view below);
[[nodiscard]] std::string_view text_of(const nlohmann::json* json);  // "" for what is no text

}  // namespace moonfence::policy
