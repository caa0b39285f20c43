#include "policy/host/lua_self_test.h"

#include <clocale>
#include <cstdlib>
#include <cstring>

#include <lua.hpp>

#include "policy/host/scan.h"

namespace moonfence::policy {
namespace {

void* plain_allocate(void*, void* block, std::size_t, std::size_t new_size) {
  if (new_size == 0) {
    std::free(block);
    return nullptr;
  }
  return std::realloc(block, new_size);
}

struct SetWhenDestroyed {
  explicit SetWhenDestroyed(bool& flag_given) : flag(flag_given) {}
  ~SetWhenDestroyed() { flag = true; }
  SetWhenDestroyed(const SetWhenDestroyed&) = delete;
  SetWhenDestroyed& operator=(const SetWhenDestroyed&) = delete;
  bool& flag;
};

int raise_over_a_destructor(lua_State* lua) {
  const SetWhenDestroyed witness(*static_cast<bool*>(lua_touserdata(lua, 1)));
  return lua_error(lua);
}

}  // namespace

Result<void> lua_self_test() {
  lua_State* lua = lua_newstate(plain_allocate, nullptr);
  if (lua == nullptr) {
    return failure(Error::Kind::Limit, "policy self-test: no memory for a Lua state");
  }
  bool destroyed = false;
  lua_pushcfunction(lua, raise_over_a_destructor);
  lua_pushlightuserdata(lua, &destroyed);
  const int status = lua_pcall(lua, 1, 0, 0);
  lua_close(lua);
  if (status != LUA_ERRRUN || !destroyed) {
    return failure(Error::Kind::Invalid, "policy self-test: a Lua error skipped a C++ destructor",
                   "the program is linked with Lua's C build; link lua5.4-c++ instead");
  }
  // Lua compares strings with strcoll, which reads out of bounds in other locales before 5.4.7.
  if (std::strcmp(std::setlocale(LC_COLLATE, nullptr), "C") != 0) {
    return failure(Error::Kind::Invalid, "policy self-test: LC_COLLATE is not \"C\"",
                   "do not set a locale in this process");
  }
  return test_scan();
}

}  // namespace moonfence::policy
