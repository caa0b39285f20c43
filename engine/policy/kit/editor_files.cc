#include "policy/kit/editor_files.h"

#include <set>

#include <nlohmann/json.hpp>

#include "policy/kit/reference.h"

namespace moonfence::policy {
namespace {

using nlohmann::json;

// Those of test files (test_file.h).
constexpr const char* kTestNames = R"(
---@class Fixture           what `fixture` returns
---@class Case              what `case` returns
---@class Tests             what `tests` returns and the file has to return

---One case of a test file; docs/policy-api.md lists its keys.
---@param case table
---@return Case
---@nodiscard
function case(case) end

---All cases of a test file. Settings, objects, responses and now hold for each of them.
---@param cases table
---@return Tests
---@nodiscard
function tests(cases) end

---Objects as `kubectl get -o json` prints them, from a file below the test's folder.
---@param file string
---@return Fixture
---@nodiscard
function fixture(file) end
)";

constexpr const char* kAnswerFields =
    "---@field status integer?\n---@field body any\n---@field error string?\n"
    "---@field message string?\n---@field since integer?\n---@field code string?\n";

std::string bare_type(std::string_view type) {
  return std::string(type.ends_with('?') ? type.substr(0, type.size() - 1) : type);
}

std::string field_line(std::string_view name, bool optional, std::string_view type,
                       const std::string& doc) {
  return "---@field " + std::string(name) + (optional ? "?" : "") + " " + std::string(type) +
         (doc.empty() ? "" : " " + doc) + "\n";
}

std::string object_text(const ObjectReference& object) {
  std::string text =
      "---" + std::string(object.doc) + "\n---@class " + std::string(object.class_name) + "\n";
  for (const FieldReference& field : object.fields) {
    std::string doc(field.doc);
    if (!field.need.empty()) {
      doc += (doc.empty() ? "needs \"" : "; needs \"") + std::string(field.need) + "\"";
    }
    text += field_line(field.name, field.type.ends_with('?'), bare_type(field.type), doc);
  }
  return text + "\n";
}

std::string table_text(const TableReference& table) {
  std::string text =
      "---" + std::string(table.doc) + "\n---@class " + std::string(table.class_name) + "\n";
  for (const KeyReference& key : table.keys) {
    text += field_line(key.name, !key.required, key.type, std::string(key.doc));
  }
  return text + "\n";
}

std::string function_text(const FunctionReference& function) {
  std::string text = "---" + std::string(function.doc) + "\n";
  std::string names;
  for (const ParameterReference& parameter : function.parameters) {
    text += "---@param " + std::string(parameter.name) + (parameter.optional ? "?" : "") + " " +
            std::string(parameter.type) + "\n";
    names += (names.empty() ? "" : ", ") + std::string(parameter.name);
  }
  if (!function.returns.empty()) {
    text += "---@return " + std::string(function.returns) + "\n";
  }
  if (function.library == "fence") {
    text += "---@nodiscard\n";
  }
  return text + "function " + function.full_name() + "(" + names + ") end\n\n";
}

std::set<std::string_view> libraries_of(const Reference& all) {
  std::set<std::string_view> names;
  for (const FunctionReference& function : all.functions) {
    if (!function.library.empty()) {
      names.insert(function.library);
    }
  }
  return names;
}

std::string constant_lines(const Reference& all, std::string_view library) {
  std::string text;
  for (const ConstantReference& constant : all.constants) {
    if (constant.library == library) {
      text += "---@field " + std::string(constant.name) + " number\n";
    }
  }
  return text;
}

// ---- the page --------------------------------------------------------------------------------

// Bars would end a cell.
std::string cell(std::string_view text) {
  std::string out;
  for (const char c : text) {
    out += c == '|' ? "\\|" : std::string(1, c);
  }
  return out;
}

std::string code(std::string_view text) {
  return text.empty() ? "" : "`" + cell(text) + "`";
}

std::string words_table(std::string_view head, const std::vector<WordReference>& words) {
  std::string text = "| " + std::string(head) + " | |\n| --- | --- |\n";
  for (const WordReference& word : words) {
    text += "| " + code(word.name) + " | " + cell(word.doc) + " |\n";
  }
  return text + "\n";
}

std::string object_section(const ObjectReference& object) {
  std::string text = "### " + std::string(object.class_name) + "\n\n" + std::string(object.doc) +
                     "\n\n| field | type | | needs |\n| --- | --- | --- | --- |\n";
  for (const FieldReference& field : object.fields) {
    text += "| " + code(field.name) + " | " + code(field.type) + " | " + cell(field.doc) + " | " +
            code(field.need) + " |\n";
  }
  return text + "\n";
}

std::string table_section(const TableReference& table) {
  std::string text = "### " + std::string(table.class_name) + "\n\n" + std::string(table.doc) +
                     "\n\n| key | type | |\n| --- | --- | --- |\n";
  for (const KeyReference& key : table.keys) {
    text += "| " + code(key.name) + (key.required ? " (required)" : "") + " | " + code(key.type) +
            " | " + cell(key.doc) + " |\n";
  }
  return text + "\n";
}

std::string functions_section(const Reference& all) {
  std::string text = "| function | |\n| --- | --- |\n";
  for (const FunctionReference& function : all.functions) {
    text += "| " + code(function.full_name() + std::string(function.signature)) + " | " +
            cell(function.doc) + " |\n";
  }
  text += "\nConstants:";
  for (const ConstantReference& constant : all.constants) {
    text += " `" + std::string(constant.library) + "." + std::string(constant.name) + "`";
  }
  return text + "\n\n";
}

constexpr const char* kPageHead = R"(# Policy API, version 1

Printed by `moonfence policy meta --markdown` from the tables that the sandbox is made of; a test compares them.

A policy is a Lua 5.4 file that returns one `policy{ ... }`. Each of its functions is pure: it is given data, returns a
value, and runs in a fresh state without Lua's own libraries, bounded in instructions, memory and CPU time. Inputs are
read-only; a misspelled field, a global that does not exist and a write to either is an error that names the nearest
name. Types are in the notation of LuaCATS; one that ends in `?` may be nil, everything else is always there.

)";

constexpr const char* kTestsSection = R"(## Tests

`my-db_test.lua` stands beside `my-db.lua` (`policy_test.lua` beside `policy.lua`) and is read in the same sandbox with
three more names. It returns one `tests{ ... }`, which holds cases and, for all of them, `settings`, `objects`,
`responses` and `now`.

```lua
local base = fixture "testdata/pod.json"   -- objects as kubectl prints them, Lists too
return tests {
  now = "2026-11-20T10:07:00Z",
  case { name = "past its deadline", objects = base, expect = { verdict = "delete_pod", reason = "~deadline" } },
  case { name = "a job is left alone", objects = base, patch = { ["pod.owner.kind"] = "Job" },
         expect = { verdict = "skip" } },
}
```

| key of a case | |
| --- | --- |
| `name` | unique in its file |
| `objects` | a fixture, an object as a table, or a list of both |
| `pod` | `NAME` or `NAMESPACE/NAME`, when there are several Pods |
| `patch` | values by input path: `pod.owner.kind`, `pod.labels["a/b"]`, `pod.claims[1].state`, `pod.placement.candidates`, `pod.siblings[1].ready`, `node.ready_status`, `node.planned.Drained`, `node.lease_age`, `cluster.nodes_ready`, `pod.raw.spec.priority`; `false` removes what is no truth value |
| `settings` | values as a binding sets them |
| `responses` | answers to `fetch`, `node_fetch` and `source`: `["http vendor /v2/nodes"] = { status = 200, body = ... }`, or a failure: `{ error = "timeout", since = 300 }`, `{ status = 503 }` |
| `fail` | needs that cannot be had, and `"fetch"`; the pod is then deferred without asking the policy |
| `now` | the cluster's time: RFC 3339 or Unix seconds. A case whose policy reads `cluster.now` fails without it |
| `expect` | required: `verdict` with `reason` (exact, or a part after `~`), `seconds`, `reads` (paths that must have been read), `volumes` (claims that the verdict names), `release`, `fail`, `on_timeout`, `proof`; or `outcome`: `not_selected`, `deferred`, `error` with `message`; or `nodes`: what `source.nodes` says |

A verdict `proceed` or `taint_out_of_service` is expected of `node`, `hold` of `node` where that says so and of `pod`
otherwise, every other of `pod`; `deferred` of `node` where what `node_fetch` asks for cannot be had.

Without the pod's Node among the objects the node is one of that name whose Ready is Unknown. `node.lease_age` is the age of the
stamp in the node's Lease (namespace `kube-node-lease`), or nil without one. Counts of the cluster are
of the Node objects given. Candidates of a placement are the other Nodes that are Ready, not cordoned, match the pod's
nodeSelector and have no NoSchedule or NoExecute taint it does not tolerate; affinity and resources are not looked at.
A need that the policy declares (with the settings of the case) and the objects cannot serve fails the case.

Each case runs in five fresh states and fails when they differ. `--auto` makes further cases of each: a minimal pod,
every optional field removed, lists reversed, unresolved volumes, every value of enum settings, the clock at the
deletion deadline. They may not fail the policy, nor turn a skip into a deletion that no written case expects.
)";

}  // namespace

std::string lua_annotations() {
  const Reference all = reference();
  std::string text = "---@meta\n-- Printed by `moonfence policy meta`; a test compares them.\n\n";
  for (const WordReference& word : all.opaque) {
    text += "---" + std::string(word.doc) + "\n---@class " + std::string(word.name) + "\n" +
            (word.name == "Answer" ? kAnswerFields : "") +
            (word.name == "Raw" ? "---@field get fun(self: Raw, ...: string): any\n" : "") +
            (word.name == "Settings" ? "---@field [string] any\n" : "") + "\n";
  }
  for (const ObjectReference& object : all.objects) {
    text += object_text(object);
  }
  for (const TableReference& table : all.tables) {
    text += table_text(table);
  }
  for (const std::string_view library : libraries_of(all)) {
    text += "---@class " + std::string(library) + "lib\n" + constant_lines(all, library) +
            std::string(library) + " = {}\n\n";
  }
  for (const FunctionReference& function : all.functions) {
    text += function_text(function);
  }
  return text.substr(0, text.size() - 1) + kTestNames;
}

std::string luarc() {
  json builtins = json::object();
  for (const char* name :
       {"basic", "bit", "bit32", "builtin", "coroutine", "debug", "ffi", "io", "jit", "math", "os",
        "package", "string", "string.buffer", "table", "table.clear", "table.new", "utf8"}) {
    builtins[name] = "disable";
  }
  const json file = {{"runtime", {{"version", "Lua 5.4"}, {"builtin", std::move(builtins)}}},
                     {"workspace", {{"library", {"lib"}}}}};
  return file.dump(2) + "\n";
}

std::string luacheckrc() {
  const Reference all = reference();
  const std::set<std::string_view> libraries = libraries_of(all);
  std::string text =
      "-- Printed by `moonfence policy meta`; a test compares them.\nstd = \"none\"\n"
      "read_globals = {\n";
  for (const WordReference& global : all.globals) {
    if (!libraries.contains(global.name)) {
      text += "  \"" + std::string(global.name) + "\",\n";
    }
  }
  for (const std::string_view library : libraries) {
    text += "  " + std::string(library) + " = { fields = {";
    std::string names;
    for (const FunctionReference& function : all.functions) {
      names += function.library == library
                   ? (names.empty() ? " \"" : ", \"") + std::string(function.name) + "\""
                   : "";
    }
    for (const ConstantReference& constant : all.constants) {
      names += constant.library == library
                   ? (names.empty() ? " \"" : ", \"") + std::string(constant.name) + "\""
                   : "";
    }
    text += names + " } },\n";
  }
  return text +
         "}\nmax_line_length = 120\nexclude_files = { \"lib\" }\n"
         "files[\"**/*_test.lua\"] = { read_globals = { \"tests\", \"case\", \"fixture\" } }\n";
}

std::string reference_page() {
  const Reference all = reference();
  std::string text = kPageHead + std::string("## What a policy declares\n\n");
  for (const TableReference& table : all.tables) {
    text += table_section(table);
  }
  text += words_table("need", all.needs) + words_table("type of a setting", all.setting_types);
  text += "## What its functions are given\n\n";
  for (const ObjectReference& object : all.objects) {
    text += object_section(object);
  }
  text += words_table("opaque value", all.opaque);
  return text + "## What it can call\n\n" + functions_section(all) + kTestsSection;
}

}  // namespace moonfence::policy
