#include "policy/host/program.h"

#include "policy/host/declaration.h"
#include "policy/lua/library.h"

namespace moonfence::policy {
namespace {

int append(lua_State*, const void* bytes, std::size_t size, void* text) {
  static_cast<std::string*>(text)->append(static_cast<const char*>(bytes), size);
  return 0;
}

}  // namespace

Compiled Compiled::of_top(lua_State* lua) {
  constexpr int kKeepLines = 0;
  Compiled compiled;
  if (lua_dump(lua, append, &compiled.bytes_, kKeepLines) != 0) {
    luaL_error(lua, "the compiled chunk cannot be dumped");
  }
  return compiled;
}

void Compiled::push(lua_State* lua, const std::string& file) const {
  // The name stands in messages about the bytes alone; the chunk's own came with the dump.
  if (luaL_loadbufferx(lua, bytes_.data(), bytes_.size(), file.c_str(), "b") != LUA_OK) {
    lua_error(lua);
  }
}

void compile(lua_State* lua, const Program& program) {
  const std::string chunk_name = "@" + program.file;
  if (luaL_loadbufferx(lua, program.source.data(), program.source.size(), chunk_name.c_str(),
                       "t") != LUA_OK) {
    lua_error(lua);
  }
}

void run_declaration(lua_State* lua, const Program& program) {
  push_environment(lua);
  lua_setupvalue(lua, -2, 1);
  lua_call(lua, 0, LUA_MULTRET);
  if (lua_gettop(lua) == 0 || !is_declaration(lua, 1)) {
    const std::string what = lua_gettop(lua) == 0 ? "nothing" : described(lua, 1);
    raise(lua,
          program.file + ": the file returned " + what + "; it must end with return policy{ ... }");
  }
  lua_settop(lua, 0);
}

}  // namespace moonfence::policy
