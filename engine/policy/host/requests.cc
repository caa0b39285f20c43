#include <algorithm>
#include <cstdint>
#include <new>
#include <string_view>

#include "base/text.h"
#include "kube/wire/url.h"
#include "policy/host/keys.h"
#include "policy/host/request_values.h"
#include "policy/host/selector.h"
#include "policy/input/inputs.h"
#include "policy/lua/library.h"
#include "policy/lua/sandbox.h"
#include "policy/lua/spec.h"
#include "policy/values/request.h"

namespace moonfence::policy {

namespace {

constexpr std::size_t kLongestPath = 1024;
constexpr std::size_t kLongestName = 253;
constexpr std::size_t kMostMade = 64;  // in one call
constexpr std::size_t kMostReturned = 8;

bool is_lower_or_digit(char c) {
  return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9');
}

// Parts of [a-z0-9-] joined by dots, as the API server wants names to be.
bool is_dns_name(std::string_view text) {
  if (text.empty() || text.size() > kLongestName) {
    return false;
  }
  const auto parts = split(text, '.');
  return std::all_of(parts.begin(), parts.end(), [](std::string_view part) {
    return !part.empty() && is_lower_or_digit(part.front()) && is_lower_or_digit(part.back()) &&
           std::all_of(part.begin(), part.end(),
                       [](char c) { return is_lower_or_digit(c) || c == '-'; });
  });
}

bool is_api_version(std::string_view text) {
  const auto slash = text.find('/');
  const std::string_view version = slash == std::string_view::npos ? text : text.substr(slash + 1);
  return (slash == std::string_view::npos || is_dns_name(text.substr(0, slash))) &&
         version.starts_with('v') && is_dns_label(version);
}

bool stands_for_itself(char c) {
  return is_lower_or_digit(c) || (c >= 'A' && c <= 'Z') ||
         std::string_view("-._~").find(c) != std::string_view::npos;
}

constexpr std::string_view kPartsBuild =
    "; give what comes from elsewhere as parts, which are escaped: "
    "fence.http(\"array\", \"/v1/volumes\", volume.handle, { full = true })";

// "" or what is wrong with the beginning of a path. It is taken as it is written, so nothing may
// stand in it that means something to a server: what a handle or an answer brings along would
// otherwise read another object than the one that was meant.
std::string fault_of_path(std::string_view path) {
  if (!path.starts_with('/')) {
    return "must begin with '/'";
  }
  if (path.size() > kLongestPath) {
    return "must have at most " + std::to_string(kLongestPath) + " bytes";
  }
  for (const char c : path) {
    if (c != '/' && !stands_for_itself(c)) {
      return "has the reserved character '" + escaped(std::string_view(&c, 1), 8) + "'" +
             std::string(kPartsBuild);
    }
  }
  const auto segments = split(path.substr(1), '/');
  for (std::size_t i = 0; i < segments.size(); ++i) {
    if (segments[i] == "." || segments[i] == "..") {
      return "must not have '.' or '..' in it";
    }
    if (segments[i].empty() && i + 1 < segments.size()) {
      return "must not have '//' in it";
    }
  }
  return {};
}

// A handle with a '/' in it is the one case that the text of a path cannot show by itself.
std::string fault_of_handles(std::string_view path, const std::vector<VolumeFacts>& volumes) {
  for (const VolumeFacts& volume : volumes) {
    if (volume.handle.find('/') != std::string::npos &&
        path.find(volume.handle) != std::string_view::npos) {
      return "has the handle '" + escaped(volume.handle, 64) +
             "' in it, which has the reserved character '/'" + std::string(kPartsBuild);
    }
  }
  return {};
}

// "" or what is wrong with one part, which is to be one segment of a path.
std::string fault_of_part(std::string_view part) {
  if (part.empty() || part == "." || part == "..") {
    return "cannot be a part of a path";
  }
  const bool has_control = std::any_of(part.begin(), part.end(), [](char c) {
    return static_cast<unsigned char>(c) < ' ' || c == 0x7f;
  });
  return has_control ? "has a control character" : "";
}

[[noreturn]] void refuse(lua_State* lua, int index, std::string_view value,
                         const std::string& rule) {
  raise(lua, function_name(lua) + ": argument " + std::to_string(index) + " '" +
                 escaped(value, 64) + "' " + rule);
}

// A part or a value of a query as text: texts, whole numbers and, of a query, booleans.
std::string plain_text(lua_State* lua, int index, const std::string& place, bool of_query) {
  if (lua_type(lua, index) == LUA_TSTRING) {
    return std::string(text_at(lua, index));
  }
  if (lua_isinteger(lua, index) != 0) {
    return std::to_string(lua_tointeger(lua, index));
  }
  if (of_query && lua_isboolean(lua, index)) {
    return lua_toboolean(lua, index) != 0 ? "true" : "false";
  }
  raise(lua, function_name(lua) + ": " + place + " must be a text or a whole number, not " +
                 described(lua, index));
}

// "?a=1&b=x%2Fy", in the order of the names.
std::string query_of(lua_State* lua, int index) {
  const int table = lua_absindex(lua, index);
  std::map<std::string, std::string> pairs;
  lua_pushnil(lua);
  for (; lua_next(lua, table) != 0; lua_pop(lua, 1)) {
    if (lua_type(lua, -2) != LUA_TSTRING) {
      raise(lua, function_name(lua) + ": a query is { name = value }, not a list");
    }
    const std::string name(text_at(lua, -2));
    pairs.emplace(name, plain_text(lua, -1, "'" + escaped(name, 64) + "' of the query", true));
  }
  std::string text;
  for (const auto& [name, value] : pairs) {
    text += (text.empty() ? "?" : "&") + kube::percent_encoded(name) + "=" +
            kube::percent_encoded(value);
  }
  return text;
}

// The path with all that follows it from `index` on, each escaped: segments, then at most one
// query.
std::string built_path(lua_State* lua, std::string path, int index) {
  for (const int last = lua_gettop(lua); index <= last; ++index) {
    if (index == last && lua_istable(lua, index)) {
      path += query_of(lua, index);
      break;
    }
    const std::string part = plain_text(lua, index, "argument " + std::to_string(index), false);
    if (const std::string fault = fault_of_part(part); !fault.empty()) {
      refuse(lua, index, part, fault);
    }
    path += (path.ends_with('/') ? "" : "/") + kube::percent_encoded(part);
  }
  Sandbox::of(lua).charge(lua, path.size());
  if (path.size() > kLongestPath) {
    raise(lua, function_name(lua) + ": the path must have at most " + std::to_string(kLongestPath) +
                   " bytes");
  }
  return path;
}

// Before anything else of an order is looked at: a policy makes none.
void check_order(lua_State* lua) {
  if (Sandbox::of(lua).session.hook != Hook::Off) {
    raise(lua, function_name(lua) + ": is for off() and isolate() of a fencer");
  }
}

int push_request(lua_State* lua, Request request) {
  Session& session = Sandbox::of(lua).session;
  const bool is_order = request.is_order();
  if (is_order) {
    check_order(lua);
  }
  if (!is_order && session.hook != Hook::Fetch && session.hook != Hook::NodeFetch &&
      session.hook != Hook::Plan && session.hook != Hook::Power) {
    raise(lua, function_name(lua) +
                   ": requests are made inside of fetch(), node_fetch() and source.plan()");
  }
  if (session.requests.size() >= kMostMade) {
    raise(lua, function_name(lua) + ": more than " + std::to_string(kMostMade) +
                   " requests made in one call; at most " + std::to_string(kMostReturned) +
                   " may be returned");
  }
  void* const bytes = push_opaque(lua, kRequestType, sizeof(std::size_t));
  new (bytes) std::size_t(session.requests.size());
  session.requests.push_back(std::move(request));
  return 1;
}

// "" or why the value on top, given under a text that stands below it, is not taken.
std::string fault_of_entry(lua_State* lua, const nlohmann::json& answers) {
  const std::string_view name = text_at(lua, -2);
  const std::string given = "returned '" + escaped(name, 64) + "'";
  if (name.empty() || name.size() > kLongestName || escaped(name, 2 * kLongestName) != name) {
    return given + " as a name; a name has 1 to 253 bytes of plain text";
  }
  if (to_opaque(lua, -1, kRequestType) == nullptr) {
    return given + ", which is " + described(lua, -1) +
           "; it must be a request made by fence.http, fence.get or fence.list";
  }
  if (answers.is_object() && answers.contains(name)) {
    return given + " again, which has its answer in got already";
  }
  return {};
}

}  // namespace

std::string Request::text() const {
  if (kind == Kind::Post) {
    return "post " + endpoint + " " + path + " " + body;
  }
  if (kind == Kind::Http) {
    return "http " + endpoint + " " + path;
  }
  if (kind == Kind::Create || kind == Kind::Annotate) {
    return (kind == Kind::Create ? "create " : "annotate ") + api_version + " " + resource + " " +
           (space.empty() ? "" : space + "/") + name + " " + body;
  }
  if (kind == Kind::List) {
    return (metadata_only ? "list-metadata " : "list ") + api_version + " " + resource +
           (space.empty() ? "" : " " + space) + (labels.empty() ? "" : " labels: " + labels);
  }
  return "get " + api_version + " " + resource + " " + (space.empty() ? "" : space + "/") + name;
}

namespace {

// Of the endpoint and the beginning of the path.
void check_address(lua_State* lua, std::string_view endpoint, std::string_view path) {
  Sandbox::of(lua).charge(lua, path.size());
  if (!is_identifier(endpoint, '-')) {
    refuse(lua, 1, endpoint, "cannot name an endpoint; a name is [a-z][a-z0-9-]* of 40 letters");
  }
  if (const std::string fault = fault_of_path(path); !fault.empty()) {
    refuse(lua, 2, path, fault);
  }
  if (const auto& inputs = Sandbox::of(lua).session.inputs; inputs != nullptr) {
    if (const std::string fault = fault_of_handles(path, inputs->volumes); !fault.empty()) {
      refuse(lua, 2, path, fault);
    }
  }
}

// Of a table { name = text, whole number or boolean }.
std::string body_of(lua_State* lua, int index) {
  constexpr std::size_t kLongestBody = 4096;
  const int table = lua_absindex(lua, index);
  nlohmann::json body = nlohmann::json::object();
  lua_pushnil(lua);
  for (; lua_next(lua, table) != 0; lua_pop(lua, 1)) {
    if (lua_type(lua, -2) != LUA_TSTRING) {
      raise(lua, function_name(lua) + ": a body is { name = value }, not a list");
    }
    const std::string name(text_at(lua, -2));
    const std::string text = plain_text(lua, -1, "'" + escaped(name, 64) + "' of the body", true);
    if (lua_isboolean(lua, -1)) {
      body[name] = lua_toboolean(lua, -1) != 0;
    } else if (lua_isinteger(lua, -1) != 0) {
      body[name] = lua_tointeger(lua, -1);
    } else {
      body[name] = text;
    }
  }
  std::string written = body.dump(-1, ' ', true, nlohmann::json::error_handler_t::replace);
  Sandbox::of(lua).charge(lua, written.size());
  if (written.size() > kLongestBody) {
    raise(lua, function_name(lua) + ": the body must have at most " + std::to_string(kLongestBody) +
                   " bytes");
  }
  return written;
}

}  // namespace

int fence_http(lua_State* lua) {
  const std::string_view endpoint = text_argument(lua, 1);
  const std::string_view path = text_argument(lua, 2);
  check_address(lua, endpoint, path);
  return push_request(lua, {.kind = Request::Kind::Http,
                            .endpoint = std::string(endpoint),
                            .path = built_path(lua, std::string(path), 3)});
}

int fence_post(lua_State* lua) {
  const std::string_view endpoint = text_argument(lua, 1);
  const std::string_view path = text_argument(lua, 2);
  table_argument(lua, 3);
  check_address(lua, endpoint, path);
  return push_request(lua, {.kind = Request::Kind::Post,
                            .endpoint = std::string(endpoint),
                            .path = built_path(lua, std::string(path), 4),
                            .body = body_of(lua, 3)});
}

namespace {

// Of fence.get and fence.list: which kind, and where.
void check_kind(lua_State* lua, std::string_view api_version, std::string_view resource,
                std::string_view space) {
  if (!is_api_version(api_version)) {
    refuse(lua, 1, api_version, "is no apiVersion such as v1 or apps/v1");
  }
  if (!is_dns_label(resource)) {
    refuse(lua, 2, resource, "is no resource such as persistentvolumes");
  }
  if (resource == "secrets") {
    refuse(lua, 2, resource, "is never read for a policy");
  }
  if (!space.empty() && !is_dns_label(space)) {
    refuse(lua, 3, space, "is no namespace; leave it empty for an object that has none");
  }
}

}  // namespace

namespace {

// An empty selector would list everything, which nobody means who gives one.
std::string labels_option(const SpecTable& options) {
  constexpr std::size_t kLongestLabels = 1024;
  if (!options.has("labels")) {
    return {};
  }
  std::string labels(trimmed(options.text("labels", kLongestLabels)));
  Sandbox::of(options.lua).charge(options.lua, labels.size());
  if (labels.empty()) {
    raise_spec(options.lua, options.place("labels"), "is empty; leave it out for all objects");
  }
  if (const auto selector = LabelSelector::parse(labels); !selector) {
    raise_spec(options.lua, options.place("labels"), selector.error().text);
  }
  return labels;
}

}  // namespace

int fence_list(lua_State* lua) {
  const std::string_view api_version = text_argument(lua, 1);
  const std::string_view resource = text_argument(lua, 2);
  const std::string_view space = text_argument(lua, 3, "");
  check_kind(lua, api_version, resource, space);
  Request request = {.kind = Request::Kind::List,
                     .api_version = std::string(api_version),
                     .resource = std::string(resource),
                     .space = std::string(space)};
  if (!lua_isnoneornil(lua, 4)) {
    table_argument(lua, 4);
    const SpecTable options{.lua = lua, .index = 4, .name = function_name(lua)};
    options.check_keys(kListOptionKeys);
    request.labels = labels_option(options);
    request.metadata_only = options.boolean_or("metadata", false);
  }
  return push_request(lua, std::move(request));
}

int fence_get(lua_State* lua) {
  const std::string_view api_version = text_argument(lua, 1);
  const std::string_view resource = text_argument(lua, 2);
  const std::string_view space = text_argument(lua, 3, "");
  if (lua_isnoneornil(lua, 4) || (lua_type(lua, 4) == LUA_TSTRING && text_at(lua, 4).empty())) {
    raise(lua,
          "fence.get: argument 4 must be the name of one object; fence.list reads all of a kind");
  }
  const std::string_view name = text_argument(lua, 4);
  check_kind(lua, api_version, resource, space);
  if (!is_dns_name(name)) {
    refuse(lua, 4, name, "is no name of an object");
  }
  return push_request(lua, {.kind = Request::Kind::Object,
                            .api_version = std::string(api_version),
                            .resource = std::string(resource),
                            .space = std::string(space),
                            .name = std::string(name)});
}

namespace {

constexpr std::size_t kLongestObject = 8192;
constexpr int kDeepestObject = 8;

// A value of an object: texts, whole numbers, booleans, lists, and tables by name.
nlohmann::json value_of(lua_State* lua, int index, int depth) {
  if (lua_isboolean(lua, index)) {
    return lua_toboolean(lua, index) != 0;
  }
  if (lua_isinteger(lua, index) != 0) {
    return lua_tointeger(lua, index);
  }
  if (lua_type(lua, index) == LUA_TSTRING) {
    const std::string text(text_at(lua, index));
    Sandbox::of(lua).charge(lua, text.size());
    return text;
  }
  if (!lua_istable(lua, index) || depth == kDeepestObject) {
    raise(lua,
          function_name(lua) + ": the object has " + described(lua, index) +
              "; its values are texts, whole numbers, booleans, and tables of these, at most " +
              std::to_string(kDeepestObject) + " deep");
  }
  const int table = lua_absindex(lua, index);
  // The length of a list with gaps may be far beyond what is in it.
  const auto length = static_cast<lua_Integer>(lua_rawlen(lua, table));
  Sandbox::of(lua).charge(lua, static_cast<std::uint64_t>(length));
  nlohmann::json value = length > 0 ? nlohmann::json::array() : nlohmann::json::object();
  luaL_checkstack(lua, 4, "fence.create");
  lua_Integer count = 0;
  lua_pushnil(lua);
  for (; lua_next(lua, table) != 0; lua_pop(lua, 1)) {
    Sandbox::of(lua).charge(lua, 1);
    const bool is_name = lua_type(lua, -2) == LUA_TSTRING;
    const lua_Integer at = lua_isinteger(lua, -2) != 0 ? lua_tointeger(lua, -2) : 0;
    if (is_name != (length == 0) || (!is_name && (at < 1 || at > length))) {
      raise(lua, function_name(lua) +
                     ": the object has a table that is neither a list nor "
                     "{ name = value }");
    }
    nlohmann::json each = value_of(lua, -1, depth + 1);
    if (is_name) {
      Sandbox::of(lua).charge(lua, text_at(lua, -2).size());
      value[std::string(text_at(lua, -2))] = std::move(each);
    } else {
      value[static_cast<std::size_t>(at - 1)] = std::move(each);  // lua_next gives no order
    }
    ++count;
  }
  if (count < length) {
    raise(lua, function_name(lua) + ": the object has a list with a gap");
  }
  return value;
}

// Only what somebody has added to Kubernetes: its own kinds have other ways, or none.
bool is_custom(std::string_view api_version) {
  const auto slash = api_version.find('/');
  const std::string_view group =
      slash == std::string_view::npos ? std::string_view() : api_version.substr(0, slash);
  return group.find('.') != std::string_view::npos && group != "k8s.io" &&
         !group.ends_with(".k8s.io");
}

}  // namespace

namespace {

void check_custom(lua_State* lua, std::string_view api_version) {
  if (!is_custom(api_version)) {
    refuse(lua, 1, api_version, "is Kubernetes' own; only custom resources are written");
  }
}

}  // namespace

int fence_annotate(lua_State* lua) {
  check_order(lua);
  const std::string_view api_version = text_argument(lua, 1);
  const std::string_view resource = text_argument(lua, 2);
  const std::string_view space = text_argument(lua, 3);
  const std::string_view name = text_argument(lua, 4);
  const std::string_view uid = text_argument(lua, 5);
  table_argument(lua, 6);
  check_kind(lua, api_version, resource, space);
  check_custom(lua, api_version);
  if (!is_dns_name(name)) {
    refuse(lua, 4, name, "is no name of an object");
  }
  if (uid.empty()) {
    refuse(lua, 5, uid, "is no UID; without one another object of that name would be annotated");
  }
  const nlohmann::json annotations = value_of(lua, 6, kDeepestObject - 1);
  const bool is_flat = annotations.is_object() && !annotations.empty() &&
                       std::all_of(annotations.begin(), annotations.end(),
                                   [](const nlohmann::json& value) { return value.is_string(); });
  if (!is_flat) {
    raise(lua, function_name(lua) + ": annotations are { name = text }");
  }
  std::string body = annotations.dump(-1, ' ', true, nlohmann::json::error_handler_t::replace);
  if (body.size() > kLongestObject) {
    raise(lua, function_name(lua) + ": the annotations must have at most " +
                   std::to_string(kLongestObject) + " bytes");
  }
  return push_request(lua, {.kind = Request::Kind::Annotate,
                            .body = std::move(body),
                            .api_version = std::string(api_version),
                            .resource = std::string(resource),
                            .space = std::string(space),
                            .name = std::string(name),
                            .uid = std::string(uid)});
}

int fence_create(lua_State* lua) {
  check_order(lua);
  const std::string_view api_version = text_argument(lua, 1);
  const std::string_view resource = text_argument(lua, 2);
  const std::string_view space = text_argument(lua, 3);
  table_argument(lua, 4);
  check_kind(lua, api_version, resource, space);
  check_custom(lua, api_version);
  nlohmann::json object = value_of(lua, 4, 0);
  const auto metadata = object.is_object() ? object.find("metadata") : object.end();
  const bool has_name = object.is_object() && metadata != object.end() && metadata->is_object() &&
                        metadata->contains("name") && (*metadata)["name"].is_string();
  const std::string name = has_name ? (*metadata)["name"].get<std::string>() : std::string();
  if (!is_dns_name(name)) {
    raise(lua, function_name(lua) + ": metadata.name '" + escaped(name, 64) +
                   "' is no name of an object");
  }
  if (!object.contains("kind") || !object["kind"].is_string()) {
    raise(lua, function_name(lua) + ": the object has no kind");
  }
  object["apiVersion"] = std::string(api_version);
  if (!space.empty()) {
    object["metadata"]["namespace"] = std::string(space);
  }
  std::string body = object.dump(-1, ' ', true, nlohmann::json::error_handler_t::replace);
  Sandbox::of(lua).charge(lua, body.size());
  if (body.size() > kLongestObject) {
    raise(lua, function_name(lua) + ": the object must have at most " +
                   std::to_string(kLongestObject) + " bytes");
  }
  return push_request(lua, {.kind = Request::Kind::Create,
                            .body = std::move(body),
                            .api_version = std::string(api_version),
                            .resource = std::string(resource),
                            .space = std::string(space),
                            .name = name});
}

int fence_try(lua_State* lua) {
  Session& session = Sandbox::of(lua).session;
  const auto* made = static_cast<const std::size_t*>(to_opaque(lua, 1, kRequestType));
  if (made == nullptr) {
    raise_argument(lua, 1, "a request made by fence.http");
  }
  Request request = session.requests.at(*made);
  if (request.kind != Request::Kind::Http) {
    raise(lua,
          "fence.try: argument 1 must be a request made by fence.http; while the API server "
          "does not answer nothing is judged");
  }
  request.tries = true;
  return push_request(lua, std::move(request));
}

Requests take_requests(lua_State* lua, int index, const std::string& place,
                       const nlohmann::json& answers) {
  Requests requests;
  if (lua_isnoneornil(lua, index)) {
    return requests;
  }
  if (lua_type(lua, index) != LUA_TTABLE) {
    raise(lua, place + " returned " + described(lua, index) +
                   "; it must return { name = request }, or nil when it has enough");
  }
  const int table = lua_absindex(lua, index);
  // The fault of the first name in order: which one is reported must not depend on the hash seed.
  std::map<std::string, std::string> faults;
  std::size_t count = 0;
  lua_pushnil(lua);
  for (; lua_next(lua, table) != 0; lua_pop(lua, 1)) {
    if (++count > kMostReturned) {
      raise(lua, place + " returned more than " + std::to_string(kMostReturned) +
                     " requests in one round");
    }
    if (lua_type(lua, -2) != LUA_TSTRING) {
      raise(lua, place + " returned a table with " + described(lua, -2) +
                     " as a key; write { name = request }");
    }
    const std::string name(text_at(lua, -2));
    if (const std::string fault = fault_of_entry(lua, answers); !fault.empty()) {
      faults.emplace(name, fault);
      continue;
    }
    const auto* made = static_cast<const std::size_t*>(to_opaque(lua, -1, kRequestType));
    requests.emplace(name, Sandbox::of(lua).session.requests[*made]);
  }
  if (!faults.empty()) {
    raise(lua, place + " " + faults.begin()->second);
  }
  return requests;
}

FencerOrder take_order(lua_State* lua, const std::string& place) {
  constexpr std::size_t kLongestWhy = 512;
  const auto* made = static_cast<const std::size_t*>(to_opaque(lua, -2, kRequestType));
  if (made != nullptr && Sandbox::of(lua).session.requests.at(*made).is_order()) {
    return {.request = Sandbox::of(lua).session.requests.at(*made)};
  }
  const std::string why = lua_type(lua, -1) == LUA_TSTRING
                              ? escaped(trimmed(text_at(lua, -1)), kLongestWhy)
                              : std::string();
  if (!lua_isnil(lua, -2) || why.empty()) {
    raise(lua, place + " returned " + described(lua, -2) + " and " + described(lua, -1) +
                   "; it must return a request made by fence.post, fence.create or "
                   "fence.annotate, or nil and a text that says why not");
  }
  return {.why_not = why};
}

}  // namespace moonfence::policy
