#include "policy/host/scan.h"

#include <algorithm>
#include <cstdlib>

#include "base/text.h"
#include "policy/input/inputs.h"
#include "policy/lua/bytecode.h"
#include "policy/lua/library.h"

namespace moonfence::policy {
namespace {

// From here on Lua 5.4.4 compiles bitwise operators wrongly.
constexpr std::size_t kManyConstants = 250;
constexpr int kNoUpvalue = -1;

std::vector<std::string_view> names_of(const Library& library) {
  std::vector<std::string_view> names(library.constants.begin(), library.constants.end());
  for (const HostFunction& function : library.functions) {
    names.emplace_back(function.name);
  }
  return names;
}

std::vector<std::string_view> global_names() {
  std::vector<std::string_view> names;
  for (const Library* library : libraries()) {
    if (*library->name == '\0') {
      const auto own = names_of(*library);
      names.insert(names.end(), own.begin(), own.end());
    } else {
      names.emplace_back(library->name);
    }
  }
  return names;
}

bool contains(const std::vector<std::string_view>& names, std::string_view name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

const Library* library_named(std::string_view name) {
  for (const Library* library : libraries()) {
    if (!name.empty() && library->name == name) {
      return library;
    }
  }
  return nullptr;
}

std::string quoted(std::string_view name) {
  return "'" + escaped(name, 64) + "'";
}

// What a parameter is, by the name that everybody gives it.
enum class Input { Other, Pod, Node, Cluster, Settings };

Input input_named(std::string_view name) {
  return name == "pod"                       ? Input::Pod
         : name == "node"                    ? Input::Node
         : name == "cluster"                 ? Input::Cluster
         : name == "s" || name == "settings" ? Input::Settings
                                             : Input::Other;
}

const Shape* shape_of(Input input) {
  switch (input) {
    case Input::Pod:
      return &pod_shape();
    case Input::Node:
      return &node_shape();
    case Input::Cluster:
      return &cluster_shape();
    case Input::Settings:
    case Input::Other:
      return nullptr;
  }
  return nullptr;
}

// What the upvalues of a function stand for.
struct Around {
  int environment = kNoUpvalue;  // the real _ENV, not a local of that name
  std::vector<Input> inputs;     // parameters of functions around it
};

bool names_action(std::string_view name) {
  return name.starts_with("delete_") || name == "taint_out_of_service";
}

class Scanner {
 public:
  explicit Scanner(Scan& scan) : scan_(scan), globals_(global_names()) {}

  void look_at(const Prototype& function, const Around& around) {
    for (const auto& constant : function.constants) {
      scan_.forbids = scan_.forbids || constant == "forbid";
      scan_.holds = scan_.holds || constant == "hold";
      scan_.demands_proof = scan_.demands_proof || constant == "proof";
      scan_.acts = scan_.acts || (constant && names_action(*constant));
    }
    if (function.constants.size() > kManyConstants) {
      warn(function.line == 0 ? 1 : function.line,
           (function.line == 0 ? std::string("the file") : std::string("this function")) + " has " +
               std::to_string(function.constants.size()) +
               " constants of its own; with more than 250, bitwise operators go wrong in this Lua "
               "and names are not all checked: split it");
    }
    const std::set<std::size_t> landings = landings_of(function);
    for (std::size_t i = 0; i < function.code.size(); ++i) {
      const bool follows = i + 1 < function.code.size() && !landings.contains(i + 1);
      const Instruction& next = follows ? function.code[i + 1] : kNone;
      look_at(function, around, function.code[i], next);
    }
    for (const Prototype& inner : function.inner) {
      look_at(inner, seen_from(inner, function, around));
    }
  }

 private:
  static constexpr Instruction kNone = {};

  // Instructions that are reached from elsewhere too: what stands in a register there may come from
  // another place than the instruction before.
  static std::set<std::size_t> landings_of(const Prototype& function) {
    std::set<std::size_t> landings;
    for (std::size_t i = 0; i < function.code.size(); ++i) {
      if (function.code[i].is(Opcode::Jump)) {
        landings.insert(
            static_cast<std::size_t>(static_cast<std::int64_t>(i) + 1 + function.code[i].jump()));
      }
    }
    return landings;
  }

  static std::string_view text(const Prototype& function, std::size_t constant) {
    const bool known = constant < function.constants.size() && function.constants[constant];
    return known ? std::string_view(*function.constants[constant]) : std::string_view();
  }

  static Input parameter(const Prototype& function, std::size_t local) {
    return local < function.parameter_count && local < function.locals.size()
               ? input_named(function.locals[local])
               : Input::Other;
  }

  static Around seen_from(const Prototype& inner, const Prototype& outer, const Around& around) {
    Around seen;
    for (std::size_t i = 0; i < inner.upvalues.size(); ++i) {
      const auto& upvalue = inner.upvalues[i];
      if (!upvalue.in_stack && upvalue.index == around.environment) {
        seen.environment = static_cast<int>(i);
      }
      seen.inputs.push_back(upvalue.in_stack                       ? parameter(outer, upvalue.index)
                            : upvalue.index < around.inputs.size() ? around.inputs[upvalue.index]
                                                                   : Input::Other);
    }
    return seen;
  }

  void look_at(const Prototype& function, const Around& around, const Instruction& instruction,
               const Instruction& next) {
    if (instruction.is(Opcode::GetTabUp)) {
      const std::string_view name = text(function, instruction.c());
      scan_.members.emplace(name);
      if (instruction.b() == around.environment) {
        read_global(function, name, instruction, next);
      } else if (instruction.b() < around.inputs.size()) {
        read_input(around.inputs[instruction.b()], name, instruction.line);
      }
    } else if (instruction.is(Opcode::SetTabUp)) {
      if (instruction.a() == around.environment) {
        error(instruction.line, "cannot set global " + quoted(text(function, instruction.b())) +
                                    ": the environment is read-only; use 'local' for a variable");
      }
    } else if (instruction.is(Opcode::GetField) ||
               (instruction.is(Opcode::Self) && instruction.k())) {
      const std::string_view name = text(function, instruction.c());
      scan_.members.emplace(name);
      if (instruction.is(Opcode::GetField)) {
        read_input(parameter(function, instruction.b()), name, instruction.line);
      }
    }
  }

  // A global, and its field when that is the next thing done with it.
  void read_global(const Prototype& function, std::string_view name, const Instruction& read,
                   const Instruction& next) {
    if (!contains(globals_, name)) {
      error(read.line, "unknown global " + quoted(name) + did_you_mean(name, globals_));
      return;
    }
    const Library* library = library_named(name);
    if (library == nullptr) {
      return;
    }
    if (next.is(Opcode::SetField) && next.a() == read.a()) {
      error(next.line, "cannot set " + quoted(text(function, next.b())) + " of '" +
                           std::string(name) + "': it is read-only");
    }
    const bool field = next.is(Opcode::GetField) || (next.is(Opcode::Self) && next.k());
    if (!field || next.b() != read.a()) {
      return;
    }
    const auto names = names_of(*library);
    const std::string_view member = text(function, next.c());
    if (!contains(names, member)) {
      error(next.line, "unknown function " + quoted(member) + " of '" + std::string(name) + "'" +
                           did_you_mean(member, names));
    }
  }

  void read_input(Input input, std::string_view name, int line) {
    if (input == Input::Settings) {
      scan_.settings.push_back({.line = line, .text = std::string(name)});
    }
    if (const Shape* shape = shape_of(input)) {
      read_field(*shape, name, line);
    }
  }

  void read_field(const Shape& shape, std::string_view name, int line) {
    std::vector<std::string_view> known;
    for (const Field& field : shape.fields) {
      if (field.name == name) {
        if (field.need != Need::None) {
          scan_.uses.push_back({.field = std::string(shape.name) + "." + std::string(name),
                                .need = field.need,
                                .line = line});
        }
        return;
      }
      known.push_back(field.name);
    }
    warn(line, "unknown field " + quoted(name) + " of " + std::string(shape.name) +
                   did_you_mean(name, known));
  }

  // A text that is nothing but mistakes is reported in part: each costs a search for the nearest.
  static constexpr std::size_t kMostFindings = 100;

  void error(int line, std::string text) {
    if (scan_.errors.size() < kMostFindings) {
      scan_.errors.push_back({.line = line, .text = std::move(text)});
    }
  }
  void warn(int line, std::string text) {
    if (scan_.warnings.size() < kMostFindings) {
      scan_.warnings.push_back({.line = line, .text = std::move(text)});
    }
  }

  Scan& scan_;
  const std::vector<std::string_view> globals_;
};

bool is_declared(const Declaration& declaration, Need need) {
  switch (need) {
    case Need::None:
      return true;
    case Need::Volumes:
      return declaration.needs.volumes;
    case Need::Placement:
      return declaration.needs.placement;
    case Need::RootOwner:
      return declaration.needs.root_owner;
    case Need::Siblings:
      return declaration.needs.siblings;
    case Need::Fetch:
      return declaration.fetches;
    case Need::NodeFetch:
      return declaration.node_fetches;
  }
  return true;
}

// Whether anything is read that a need is good for.
bool is_used(const Scan& scan, Need need) {
  if (need == Need::Volumes && (scan.members.contains("delete_pod_and_attachments") ||
                                scan.members.contains("delete_attachments"))) {
    return true;
  }
  const auto fields = pod_shape().fields;
  return std::any_of(fields.begin(), fields.end(), [&](const Field& field) {
    return field.need == need && scan.members.contains(std::string(field.name));
  });
}

}  // namespace

Scan scan_chunk(lua_State* lua) {
  Scan scan;
  const auto chunk = disassemble(lua);
  if (!chunk) {
    scan.warnings.push_back({.line = 1, .text = "the compiled text could not be looked at"});
    scan.forbids = true;  // it might
    scan.acts = true;
    return scan;
  }
  Scanner(scan).look_at(*chunk, {.environment = 0, .inputs = {}});
  return scan;
}

void compare_with(const Declaration& declaration, Scan& scan) {
  for (const Scan::Use& use : scan.uses) {
    // What depends on the settings is found out when it is read.
    const bool may_be_declared =
        declaration.needs_by_settings && use.need != Need::Fetch && use.need != Need::NodeFetch;
    if (!is_declared(declaration, use.need) && !may_be_declared) {
      scan.errors.push_back(
          {.line = use.line, .text = use.field + ": " + how_to_declare(use.need)});
    }
  }
  for (const Need need : {Need::Volumes, Need::Placement, Need::RootOwner, Need::Siblings}) {
    if (is_declared(declaration, need) && !is_used(scan, need)) {
      scan.warnings.push_back(
          {.line = 1, .text = "needs '" + std::string(to_string(need)) + "', which nothing reads"});
    }
  }
  for (const auto& [name, setting] : declaration.settings) {
    if (!scan.members.contains(name)) {
      scan.warnings.push_back({.line = 1, .text = "setting '" + name + "' is never read"});
    }
  }
  for (const Finding& read : scan.settings) {
    if (declaration.settings.contains(read.text)) {
      continue;
    }
    std::vector<std::string_view> known;
    for (const auto& [name, setting] : declaration.settings) {
      known.push_back(name);
    }
    scan.warnings.push_back({.line = read.line,
                             .text = "unknown setting " + quoted(std::string_view(read.text)) +
                                     did_you_mean(read.text, known)});
  }
}

std::vector<std::string> texts_of(std::vector<Finding> findings, const std::string& file) {
  std::stable_sort(findings.begin(), findings.end(),
                   [](const Finding& a, const Finding& b) { return a.line < b.line; });
  std::vector<std::string> texts;
  texts.reserve(findings.size());
  for (const Finding& finding : findings) {
    texts.push_back(file + ":" + std::to_string(finding.line) + ": " + finding.text);
  }
  return texts;
}

void raise_first(lua_State* lua, const Scan& scan, const std::string& file) {
  const auto errors = texts_of(scan.errors, file);
  if (!errors.empty()) {
    raise(lua, errors.front());
  }
}

Result<void> test_scan() {
  constexpr std::string_view kChunk =
      "local a = fnce\n"
      "local function f(pod) return function() return fence.forbid(pod.volumes) end end\n"
      "x = string.uper(a)\n"
      "local l = math if a then l = table end a = l.huge\n";
  lua_State* lua = luaL_newstate();
  if (lua == nullptr) {
    return failure(Error::Kind::Limit, "policy self-test: no memory for a Lua state");
  }
  Scan scan;
  if (luaL_loadbufferx(lua, kChunk.data(), kChunk.size(), "@t", "t") == LUA_OK) {
    scan = scan_chunk(lua);
  }
  lua_close(lua);
  const std::vector<std::string> expected = {
      "t:1: unknown global 'fnce' (did you mean 'fence'?)",
      "t:3: unknown function 'uper' of 'string' (did you mean 'upper'?)",
      "t:3: cannot set global 'x': the environment is read-only; use 'local' for a variable"};
  const bool used = scan.uses.size() == 1 && scan.uses.front().field == "pod.volumes" &&
                    scan.uses.front().line == 2;
  if (texts_of(scan.errors, "t") != expected || !scan.forbids || !used) {
    return failure(Error::Kind::Invalid,
                   "policy self-test: the scan of policies does not read this Lua's bytecode",
                   "the program was built for another release of Lua 5.4 than is linked");
  }
  return {};
}

}  // namespace moonfence::policy
