#include "policy/lua/trace.h"

#include <algorithm>

#include <lua.hpp>

#include "base/text.h"
#include "policy/lua/library.h"
#include "policy/lua/sandbox.h"
#include "policy/lua/views.h"

namespace moonfence::policy {
namespace {

constexpr std::size_t kMostReads = 256;
constexpr std::size_t kLongestValue = 256;

Trace* trace_of(lua_State* lua) {
  return Sandbox::of(lua).session.trace;
}

bool is_plain_name(std::string_view key) {
  return !key.empty() && std::all_of(key.begin(), key.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
  });
}

std::string value_on_top(lua_State* lua) {
  if (lua_type(lua, -1) == LUA_TSTRING) {
    return '"' + escaped(text_at(lua, -1), kLongestValue) + '"';
  }
  return shown(lua, -1);
}

void note(lua_State* lua, const View& from, const std::string& step) {
  Trace& trace = *trace_of(lua);
  const auto known = trace.paths.find(&from);
  const std::string path =
      (known == trace.paths.end() ? std::string(from.name) : known->second) + step;
  if (const View* view = to_view(lua, -1)) {
    trace.paths[view] = path;
    return;
  }
  const bool is_new = std::none_of(trace.reads.begin(), trace.reads.end(),
                                   [&path](const FieldRead& read) { return read.path == path; });
  if (lua_type(lua, -1) != LUA_TFUNCTION && is_new && trace.reads.size() < kMostReads) {
    trace.reads.push_back({.path = path, .value = value_on_top(lua)});
  }
}

}  // namespace

void trace_read(lua_State* lua, const View& from, std::string_view key) {
  if (trace_of(lua) != nullptr) {
    note(lua, from,
         is_plain_name(key) || from.kind == View::Kind::Raw ? "." + std::string(key)
                                                            : "[\"" + escaped(key, 128) + "\"]");
  }
}

void trace_read(lua_State* lua, const View& from, long long position) {
  if (trace_of(lua) != nullptr) {
    note(lua, from, "[" + std::to_string(position) + "]");
  }
}

void trace_made(lua_State* lua, std::string_view name) {
  Trace* trace = trace_of(lua);
  lua_Debug caller{};
  if (trace != nullptr && lua_getstack(lua, 1, &caller) != 0) {
    lua_getinfo(lua, "l", &caller);
    trace->verdicts[lua_touserdata(lua, -1)] = {.line = caller.currentline,
                                                .name = std::string(name)};
  }
}

void trace_returned(lua_State* lua, const void* verdict) {
  Trace* trace = trace_of(lua);
  if (trace == nullptr) {
    return;
  }
  if (const auto made = trace->verdicts.find(verdict); made != trace->verdicts.end()) {
    trace->returned = made->second;
  }
}

}  // namespace moonfence::policy
