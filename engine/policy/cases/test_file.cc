#include "policy/cases/test_file.h"

#include <algorithm>
#include <array>
#include <map>
#include <set>
#include <span>

#include <lua.hpp>

#include "base/text.h"
#include "kube/text/json.h"
#include "policy/cases/test_expect.h"
#include "policy/cases/test_value.h"
#include "policy/lua/library.h"
#include "policy/lua/opaque.h"
#include "policy/lua/sandbox.h"
#include "policy/lua/spec.h"

namespace moonfence::policy {

// What the three functions share while a file is read.
struct TestSession {
  port::Files* files = nullptr;
  std::string folder;
  std::map<std::string, std::size_t> fixture_names;
  std::vector<Objects> fixtures;
  std::vector<std::size_t> fixture_sizes;  // of their texts
  std::size_t fixture_bytes_left = 0;
  std::size_t object_bytes_left = 0;
  std::vector<TestCase> cases;
  std::vector<TestCase> chosen;  // in the order of tests{}
  bool done = false;
};

namespace {

using nlohmann::json;

constexpr std::size_t kMostCases = 2000;
constexpr std::size_t kLongestName = 200;
constexpr std::size_t kLargestFixture = 16U << 20U;
// A file of cases is larger than a policy and runs once.
constexpr std::size_t kLargestFile = 1U << 20U;

Limits limits_of(const TestLimits& limits) {
  return {.source_bytes = kLargestFile,
          .instructions = 20'000'000,
          .memory_bytes = limits.memory_bytes,
          .cpu = limits.cpu,
          .compile_cpu = limits.cpu / 2};
}

constexpr OpaqueType kFixture = {"fixture", "give it to a case as its objects"};
constexpr OpaqueType kCase = {"case", "put it into tests{ ... }"};
constexpr OpaqueType kTests = {"set of tests", "return it from the file"};

TestSession& session_of(lua_State* lua) {
  return *Sandbox::of(lua).session.tests;
}

// Fixtures and cases are held as their positions in the session's lists.
void push_position(lua_State* lua, const OpaqueType& type, std::size_t position) {
  *static_cast<std::size_t*>(push_opaque(lua, type, sizeof(std::size_t))) = position;
}

const std::size_t* to_position(lua_State* lua, int index, const OpaqueType& type) {
  return static_cast<const std::size_t*>(to_opaque(lua, index, type));
}

[[noreturn]] void raise_error(lua_State* lua, const Error& error) {
  raise(lua, error.message());
}

// ---- fixture "file.json" ---------------------------------------------------------------------

bool stays_below(std::string_view path) {
  const auto parts = split(path, '/');
  return !path.empty() && std::none_of(parts.begin(), parts.end(), [](std::string_view part) {
    return part.empty() || part == "." || part == "..";
  });
}

int read_fixture(lua_State* lua) {
  TestSession& session = session_of(lua);
  const std::string name(text_argument(lua, 1));
  if (!stays_below(name)) {
    raise(lua, "fixture: '" + escaped(name, 128) +
                   "' is no file below the test's folder; name it as in 'testdata/pod.json'");
  }
  if (const auto known = session.fixture_names.find(name); known != session.fixture_names.end()) {
    push_position(lua, kFixture, known->second);
    return 1;
  }
  const auto text = session.files->read(session.folder + name, kLargestFixture);
  if (!text) {
    raise_error(lua, Error(text.error()).within("fixture"));
  }
  if (text->size() > session.fixture_bytes_left) {
    raise(lua, "fixture " + escaped(name, 128) + ": the fixtures are too large together by " +
                   std::to_string(text->size() - session.fixture_bytes_left) +
                   " bytes; cut them down to what the cases need");
  }
  session.fixture_bytes_left -= text->size();
  session.fixture_sizes.push_back(text->size());
  const auto value = kube::parse_json(*text);
  if (!value) {
    Error error = Error(value.error()).within("fixture " + escaped(name, 128));
    error.hint = "print it anew with kubectl get KIND NAME -o json";
    raise_error(lua, error);
  }
  Objects objects;
  if (auto added = add_objects(*value, "fixture " + escaped(name, 128), objects); !added) {
    raise_error(lua, added.error());
  }
  session.fixtures.push_back(std::move(objects));
  session.fixture_names[name] = session.fixtures.size() - 1;
  push_position(lua, kFixture, session.fixtures.size() - 1);
  return 1;
}

// ---- what cases and tests{} have in common ---------------------------------------------------

// Each case has objects of its own, so what it takes from fixtures is counted for each.
void charge_objects(lua_State* lua, const std::string& place, std::size_t bytes) {
  TestSession& session = session_of(lua);
  if (bytes > session.object_bytes_left) {
    raise(lua, place +
                   ": the cases use too much of their fixtures together; cut the fixtures down "
                   "to what the cases need");
  }
  session.object_bytes_left -= bytes;
}

void take_fixture(lua_State* lua, std::size_t position, const std::string& place, Objects& into) {
  const TestSession& session = session_of(lua);
  charge_objects(lua, place, session.fixture_sizes[position]);
  const Objects& objects = session.fixtures[position];
  into.insert(into.end(), objects.begin(), objects.end());
}

// `place` is "case 'x': objects".
void read_objects(lua_State* lua, int index, const std::string& place, Objects& into) {
  index = lua_absindex(lua, index);
  if (const std::size_t* fixture = to_position(lua, index, kFixture)) {
    take_fixture(lua, *fixture, place, into);
    return;
  }
  if (lua_type(lua, index) != LUA_TTABLE) {
    raise_spec_type(lua, place, "a fixture, an object, or a list of both", index);
  }
  const auto length = static_cast<lua_Integer>(lua_rawlen(lua, index));
  for (lua_Integer i = 1; i <= length; ++i) {
    const std::string name = place + "[" + std::to_string(i) + "]";
    lua_rawgeti(lua, index, i);
    if (const std::size_t* fixture = to_position(lua, -1, kFixture)) {
      take_fixture(lua, *fixture, name, into);
    } else if (auto added = add_objects(json_at(lua, -1, name), name, into); !added) {
      raise_error(lua, added.error());
    }
    lua_pop(lua, 1);
  }
  if (length == 0) {
    if (auto added = add_objects(json_at(lua, index, place), place, into); !added) {
      raise_error(lua, added.error());
    }
  }
}

json read_object(lua_State* lua, const SpecTable& table, std::string_view key) {
  const int type = table.push(key);
  json value = json::object();
  if (type != LUA_TNIL) {
    if (type != LUA_TTABLE) {
      raise_spec_type(lua, table.place(key), "a table", -1);
    }
    value = json_at(lua, -1, table.place(key));
    if (!value.is_object()) {
      raise_spec(lua, table.place(key), "is a list; its keys are names");
    }
  }
  lua_pop(lua, 1);
  return value;
}

std::optional<WallTime> read_now(lua_State* lua, const SpecTable& table) {
  std::optional<WallTime> now;
  if (table.push("now") != LUA_TNIL) {
    const json value = json_at(lua, -1, table.place("now"));
    now = time_of(value);
    if (!now) {
      raise_spec(lua, table.place("now"),
                 "is " + escaped(kube::to_text(value), 64) +
                     "; write RFC 3339 such as '2026-11-20T10:07:00Z', or Unix seconds");
    }
  }
  lua_pop(lua, 1);
  return now;
}

// ---- case{} and tests{} ----------------------------------------------------------------------

constexpr std::array<std::string_view, 9> kCaseKeys = {
    "name", "objects", "pod", "patch", "settings", "responses", "fail", "now", "expect"};

int calling_line(lua_State* lua) {
  lua_Debug caller{};
  if (lua_getstack(lua, 1, &caller) == 0) {
    return 0;
  }
  lua_getinfo(lua, "l", &caller);
  return caller.currentline;
}

int read_case(lua_State* lua) {
  TestSession& session = session_of(lua);
  table_argument(lua, 1);
  lua_settop(lua, 1);
  if (session.cases.size() >= kMostCases) {
    raise(lua, "case: more than " + std::to_string(kMostCases) + " cases in one file");
  }
  SpecTable table{.lua = lua, .index = 1, .name = "case"};
  TestCase read;
  read.line = calling_line(lua);
  read.name = escaped(table.text("name", kLongestName), 2 * kLongestName);
  table.name = "case '" + read.name + "'";
  table.check_keys(kCaseKeys);
  if (table.push("objects") != LUA_TNIL) {
    read_objects(lua, -1, table.place("objects"), read.objects);
  }
  lua_pop(lua, 1);
  read.pod = table.text_or("pod", 512, "");
  read.patch = read_object(lua, table, "patch");
  read.settings = read_object(lua, table, "settings");
  read.responses = read_object(lua, table, "responses");
  read.fail = read_texts(lua, table, "fail");
  read.now = read_now(lua, table);
  if (table.push("expect") != LUA_TTABLE) {
    raise_spec_type(lua, table.place("expect"),
                    "a table; a case that expects nothing proves nothing", -1);
  }
  read.expect = read_expectation(lua, table.place("expect"));
  session.cases.push_back(std::move(read));
  push_position(lua, kCase, session.cases.size() - 1);
  return 1;
}

// What tests{} says for all of its cases.
struct Shared {
  Objects objects;
  json settings;
  json responses;
  std::optional<WallTime> now;
};

void take_shared(const Shared& shared, TestCase& into) {
  if (into.objects.empty()) {
    into.objects = shared.objects;
  }
  json settings = shared.settings;
  settings.update(into.settings);
  into.settings = std::move(settings);
  json responses = shared.responses;
  responses.update(into.responses);
  into.responses = std::move(responses);
  if (!into.now) {
    into.now = shared.now;
  }
}

// The names beside the list; list positions are the cases.
void check_tests_keys(lua_State* lua) {
  constexpr std::array<std::string_view, 4> kKeys = {"objects", "settings", "responses", "now"};
  std::set<std::string> unknown;
  lua_pushnil(lua);
  while (lua_next(lua, 1) != 0) {
    lua_pop(lua, 1);
    if (lua_type(lua, -1) == LUA_TSTRING) {
      const std::string key(text_at(lua, -1));
      if (std::find(kKeys.begin(), kKeys.end(), key) == kKeys.end()) {
        unknown.insert(key);
      }
    } else if (lua_isinteger(lua, -1) == 0) {
      raise(lua, "tests has " + described(lua, -1) + " as a key; it holds cases and names");
    }
  }
  if (!unknown.empty()) {
    raise(lua, "tests has the unknown key '" + escaped(*unknown.begin(), 64) + "'" +
                   did_you_mean(*unknown.begin(), kKeys) +
                   "; known are objects, settings, responses, now");
  }
}

void check_names(lua_State* lua, const std::vector<TestCase>& cases) {
  std::map<std::string, int> lines;
  for (const TestCase& one : cases) {
    const auto [known, is_new] = lines.emplace(one.name, one.line);
    if (!is_new) {
      raise(lua, "case '" + one.name + "' of line " + std::to_string(one.line) +
                     " has the name of the one of line " + std::to_string(known->second) +
                     "; give each its own");
    }
  }
}

int read_tests(lua_State* lua) {
  TestSession& session = session_of(lua);
  table_argument(lua, 1);
  lua_settop(lua, 1);
  if (session.done) {
    raise(lua, "tests: called twice; a file returns one tests{ ... }");
  }
  check_tests_keys(lua);
  const SpecTable table{.lua = lua, .index = 1, .name = "tests"};
  Shared shared;
  const std::size_t left_before = session.object_bytes_left;
  if (table.push("objects") != LUA_TNIL) {
    read_objects(lua, -1, "tests.objects", shared.objects);
  }
  const std::size_t shared_bytes = left_before - session.object_bytes_left;
  lua_settop(lua, 1);
  shared.settings = read_object(lua, table, "settings");
  shared.responses = read_object(lua, table, "responses");
  shared.now = read_now(lua, table);
  const auto length = static_cast<lua_Integer>(lua_rawlen(lua, 1));
  for (lua_Integer i = 1; i <= length; ++i) {
    lua_rawgeti(lua, 1, i);
    const std::size_t* position = to_position(lua, -1, kCase);
    if (position == nullptr) {
      raise(lua, "tests[" + std::to_string(i) + "] is " + described(lua, -1) +
                     "; it must be a case{ ... }");
    }
    if (session.cases[*position].objects.empty()) {
      charge_objects(lua, "tests.objects", shared_bytes);
    }
    session.chosen.push_back(session.cases[*position]);
    take_shared(shared, session.chosen.back());
    lua_pop(lua, 1);
  }
  check_names(lua, session.chosen);
  for (const TestCase& one : session.cases) {
    if (std::none_of(session.chosen.begin(), session.chosen.end(), [&one](const TestCase& other) {
          return other.name == one.name && other.line == one.line;
        })) {
      raise(lua, "case '" + one.name + "' of line " + std::to_string(one.line) +
                     " is not among those of tests{}, so it would never run");
    }
  }
  session.done = true;
  push_opaque(lua, kTests, 1);
  return 1;
}

constexpr std::array<HostFunction, 3> kTestFunctions = {{
    {"tests", read_tests, "tests{ case{ ... }, ... }", "All cases of the file, which returns it."},
    {"case", read_case, "case{ name = ..., objects = ..., expect = { ... } }", "One case."},
    {"fixture", read_fixture, "fixture \"file.json\"", "Objects as kubectl prints them."},
}};
constexpr Library kTestLibrary{.name = "", .functions = kTestFunctions};

struct Job {
  const std::string& source;
  const std::string& display;
};

void run_test_file(lua_State* lua, void* context) {
  const Job& job = *static_cast<const Job*>(context);
  const std::string chunk_name = "@" + job.display;
  if (luaL_loadbufferx(lua, job.source.data(), job.source.size(), chunk_name.c_str(), "t") !=
      LUA_OK) {
    lua_error(lua);
  }
  push_environment(lua, &kTestLibrary);
  lua_setupvalue(lua, -2, 1);
  lua_call(lua, 0, LUA_MULTRET);
  if (lua_gettop(lua) == 0 || to_opaque(lua, 1, kTests) == nullptr) {
    raise(lua, job.display + ": the file returned " + described(lua, 1) +
                   "; it must end with return tests{ case{ ... }, ... }");
  }
}

}  // namespace

Result<TestFile> read_test_file(const std::string& source, const std::string& path,
                                port::Files& files, port::CpuClock& clock,
                                const TestLimits& limits) {
  const std::string display = display_of(path);
  if (source.size() > kLargestFile) {
    return failure(Error::Kind::Limit, display + ": the file has " + std::to_string(source.size()) +
                                           " of " + std::to_string(kLargestFile) + " bytes");
  }
  Sandbox sandbox(clock, limits_of(limits), display);
  TestSession session;
  session.files = &files;
  session.fixture_bytes_left = limits.fixture_bytes;
  session.object_bytes_left = limits.object_bytes;
  session.folder = folder_of(path);
  sandbox.session.tests = &session;
  Job job{.source = source, .display = display};
  if (auto ran = sandbox.run(run_test_file, &job); !ran) {
    return failure(std::move(ran.error()));
  }
  return TestFile{.file = display, .cases = std::move(session.chosen)};
}

}  // namespace moonfence::policy
