#include "fuzz/statements.h"

#include <array>
#include <string_view>
#include <vector>

namespace moonfence::fuzz {
namespace {

using Kind = Type::Kind;

constexpr std::size_t kMostStatements = 120;
constexpr std::size_t kMostVariables = 100;
constexpr int kDepth = 3;  // of an expression

}  // namespace

std::string Statements::fresh(const char* stem) {
  return stem + std::to_string(++names_);
}

void Statements::run(std::size_t most, int depth) {
  for (std::size_t left = choices_.below(most + 1); left > 0; --left) {
    if (statements_ > kMostStatements || choices_.used_up()) {
      return;
    }
    statement(depth);
  }
}

void Statements::block(std::size_t most, int depth) {
  const std::size_t outside = expressions_.scope.size();
  run(most, depth);
  expressions_.scope.resize(outside);
}

void Statements::statement(int depth) {
  ++statements_;
  switch (choices_.below(16)) {
    case 0:
    case 1:
    case 2:
      return declare(kDepth);
    case 3:
      return assign(kDepth);
    case 4:
      return change_list(kDepth);
    case 5:
      return change_map(kDepth);
    case 6:
      return line(std::string(choices_.below(2) == 0 ? "log.info(" : "log.warn(") +
                  expressions_.of(Kind::Text, kDepth) + ")");
    case 7:
      return local_function(depth);
    case 8:
      return early_return(depth);
    case 9:
      switch (choices_.below(8)) {
        case 0:
          return border_table();
        case 1:
          return own_environment(kDepth);
        case 2:
          return closures(depth);
        case 3:
          return recursive_function(kDepth);
        case 4:
          return choices_.once_in(4) ? misuse(2) : long_text(2);
        default:
          return line("local " + fresh("many") + ", " + fresh("more") + " = " +
                      expressions_.of(Kind::Any, 2) + ", " + expressions_.of(Kind::Any, 2));
      }
    default:
      return depth > 0 ? branch_or_loop(depth - 1) : declare(kDepth);
  }
}

void Statements::branch_or_loop(int depth) {
  switch (choices_.below(6)) {
    case 0:
      return branch(depth);
    case 1:
      return numeric_loop(depth);
    case 2:
    case 3:
      return generic_loop(depth);
    case 4:
      return counted_loop(depth);
    default:
      return goto_loop(depth);
  }
}

void Statements::declare(int depth) {
  if (expressions_.scope.size() > kMostVariables) {
    return;
  }
  Variable made{.name = fresh("v"), .kind = expressions_.any_kind()};
  std::string value;
  if (made.kind == Kind::List) {
    made.item = choices_.below(2) == 1 ? "string" : "integer";
    value = expressions_.own_list(made.item, depth);
  } else if (made.kind == Kind::Map) {
    value = expressions_.own_map(depth);
  } else {
    value = expressions_.of(made.kind, depth);
  }
  made.writable = !choices_.once_in(8);
  line("local " + made.name + (made.writable ? "" : " <const>") + " = " + value);
  expressions_.scope.push_back(std::move(made));
}

void Statements::assign(int depth) {
  constexpr std::array<Kind, 4> kKinds = {Kind::Integer, Kind::Text, Kind::Boolean, Kind::Number};
  const Kind kind = choices_.of(kKinds);
  if (const Variable* known = expressions_.variable(kind, true)) {
    const std::string name = known->name;
    line(name + " = " + expressions_.of(kind, depth));
  } else {
    declare(depth);
  }
}

void Statements::branch(int depth) {
  line("if " + expressions_.of(Kind::Boolean, kDepth) + " then");
  block(3, depth);
  if (choices_.below(2) == 1) {
    line("elseif " + expressions_.of(Kind::Boolean, kDepth) + " then");
    block(2, depth);
  }
  if (choices_.below(2) == 1) {
    line("else");
    block(3, depth);
  }
  line("end");
}

void Statements::numeric_loop(int depth) {
  constexpr std::array<std::string_view, 6> kExtremes = {"math.maxinteger - 2, math.maxinteger",
                                                         "1, 2, 0.25",
                                                         "math.mininteger, math.mininteger + 1",
                                                         "3, 1, -1",
                                                         "1, 0/0",
                                                         "1, 1e18"};
  const std::string name = fresh("i");
  // The last one does not end in time.
  const std::string bounds =
      choices_.once_in(6) ? std::string(kExtremes[choices_.below(
                                choices_.once_in(8) ? kExtremes.size() : kExtremes.size() - 1)])
                          : "1, " + expressions_.small_integer();
  line("for " + name + " = " + bounds + " do");
  expressions_.scope.push_back({.name = name, .kind = Kind::Integer, .writable = false});
  block(3, depth);
  if (choices_.once_in(4)) {
    line("if " + expressions_.of(Kind::Boolean, 1) + " then break end");
  }
  expressions_.scope.pop_back();
  line("end");
}

// Over an object's list, whose items have a class, or its map, whose order is that of the keys; ""
// when it has none that may be read.
std::string Statements::walk_of_field(const Variable& object, Variable& key, Variable& value) {
  std::vector<const Field*> walkable;
  for (const Field& field : fields_of(object.item)) {
    const bool declared = field.need.empty() || expressions_.needs.contains(field.need);
    if (declared && (field.type.kind == Kind::List || field.type.kind == Kind::Map)) {
      walkable.push_back(&field);
    }
  }
  if (walkable.empty()) {
    return "";
  }
  const Field& field = *choices_.of(walkable);
  const std::string path = object.name + "." + field.name;
  if (field.type.kind == Kind::Map) {
    key.kind = value.kind = Kind::Text;
    return "pairs(" + path + ")";
  }
  key.kind = Kind::Integer;
  value.kind = field.type.item == "string" ? Kind::Text : Kind::Object;
  value.item = field.type.item;
  return "ipairs(" + path + ")";
}

void Statements::generic_loop(int depth) {
  const std::string key = fresh("k");
  const std::string value = fresh("e");
  Variable first{.name = key, .kind = Kind::Any, .writable = false};
  Variable second{.name = value, .kind = Kind::Any, .writable = false};
  std::string walk;
  const Variable* object = expressions_.variable(Kind::Object);
  switch (choices_.below(6)) {
    case 0:
      walk = "ipairs(" + expressions_.of(Kind::List, 2) + ")";
      first.kind = Kind::Integer;
      break;
    case 1:
    case 2:
      if (object != nullptr) {
        walk = walk_of_field(*object, first, second);
      }
      break;
    case 3:
      walk = "pairs(" + expressions_.of(Kind::Map, 2) + ")";
      expressions_.note(Repeats::Nothing);
      break;
    case 4:
      walk = choices_.below(2) == 0 ? "next, " + expressions_.of(Kind::Map, 2)
                                    : "pairs(" + expressions_.of(Kind::List, 2) + ")";
      expressions_.note(Repeats::Nothing);
      break;
    default:
      walk = "(function() local n = 0 return function() n = n + 1 if n <= " +
             expressions_.small_integer() + " then return n, 'step' .. n end end end)()";
      first.kind = Kind::Integer;
      second.kind = Kind::Text;
  }
  if (walk.empty()) {
    walk = "ipairs(table.keys(" + expressions_.own_map(1) + "))";
    expressions_.note(Repeats::AtOtherCost);
  }
  line("for " + key + ", " + value + " in " + walk + " do");
  const std::size_t outside = expressions_.scope.size();
  expressions_.scope.push_back(std::move(first));
  expressions_.scope.push_back(std::move(second));
  block(3, depth);
  expressions_.scope.resize(outside);
  line("end");
}

void Statements::counted_loop(int depth) {
  const std::string count = fresh("n");
  const std::string most = expressions_.small_integer();
  const bool endless = choices_.once_in(32);
  line("local " + count + " = 0");
  const bool repeated = choices_.below(2) == 1;
  line(repeated ? "repeat" : endless ? "while true do" : "while " + count + " < " + most + " do");
  line(count + " = " + count + " + 1");
  expressions_.scope.push_back({.name = count, .kind = Kind::Integer, .writable = false});
  block(3, depth);
  expressions_.scope.pop_back();
  line(!repeated ? "end" : endless ? "until false" : "until " + count + " >= " + most);
}

void Statements::goto_loop(int depth) {
  const std::string count = fresh("n");
  const std::string label = fresh("top");
  line("local " + count + " = 0");
  line("::" + label + "::");
  line("do");
  block(2, depth);
  line(count + " = " + count + " + 1");
  if (!choices_.once_in(40)) {
    line("if " + count + " < " + expressions_.small_integer() + " then goto " + label + " end");
  } else {
    line("goto " + label);
  }
  line("end");
}

void Statements::local_function(int depth) {
  if (functions_deep_ >= 4) {
    return declare(2);
  }
  const std::string name = fresh("f");
  line("local function " + name + "(a, b, ...)");
  const std::size_t outside = expressions_.scope.size();
  expressions_.scope.push_back({.name = "a", .kind = Kind::Integer});
  expressions_.scope.push_back({.name = "b", .kind = Kind::Integer});
  ++functions_deep_;
  run(3, depth - 1);
  --functions_deep_;
  line("return " + expressions_.of(Kind::Integer, 2) + ", select('#', ...)");
  line("end");
  expressions_.scope.resize(outside);
  expressions_.scope.push_back({.name = name,
                                .kind = Kind::Function,
                                .writable = false,
                                .yields = Kind::Integer,
                                .parameters = 2});
  line("local " + fresh("called") + " = " + name + "(" + expressions_.of(Kind::Integer, 2) + ", " +
       expressions_.small_integer() + ", " + expressions_.of(Kind::Any, 1) + ")");
}

void Statements::recursive_function(int depth) {
  const std::string name = fresh("deep");
  const bool endless = choices_.once_in(24);
  line("local function " + name + "(a)");
  if (!endless) {
    line("if a <= 0 then return " + expressions_.of(Kind::Integer, depth - 1) + " end");
  }
  // A call that is no tail call needs stack.
  line(choices_.below(2) == 0 ? "return " + name + "(a - 1)" : "return 1 + " + name + "(a - 1)");
  line("end");
  line("local " + fresh("reached") + " = " + name + "(" + std::to_string(choices_.below(150)) +
       ")");
}

void Statements::closures(int depth) {
  const std::string list = fresh("made");
  const std::string count = expressions_.small_integer();
  line("local " + list + " = {}");
  line("for j = 1, " + count + " do");
  line("local inner = j");
  const std::size_t outside = expressions_.scope.size();
  expressions_.scope.push_back({.name = "inner", .kind = Kind::Integer});
  line(list + "[j] = function()");
  ++functions_deep_;
  block(2, depth - 1);
  --functions_deep_;
  line("inner = inner + " + expressions_.of(Kind::Integer, 1));
  line("return inner end end");
  expressions_.scope.resize(outside);
  line("for _, each in ipairs(" + list + ") do each() each() end");
}

void Statements::change_list(int depth) {
  const Variable* known = expressions_.variable(Kind::List, true);
  if (known == nullptr) {
    return declare(depth);
  }
  const std::string list = known->name;
  const std::string item =
      expressions_.of(known->item == "string" ? Kind::Text : Kind::Integer, depth);
  switch (choices_.below(8)) {
    case 0:
      return line(list + "[#" + list + " + 1] = " + item);
    case 1:
      return line("table.insert(" + list + ", " + item + ")");
    case 2:
      return line("table.insert(" + list + ", 1, " + item + ")");
    case 3:
      return line("local " + fresh("gone") + " = table.remove(" + list + ")");
    case 4:
      return line("table.sort(" + list + ")");
    case 5:
      return line("table.sort(" + list + ", " + expressions_.of(Kind::Function, depth) + ")");
    case 6:
      // A hole.
      return line("if " + list + "[" + expressions_.small_integer() + "] then " + list +
                  "[1] = " + item + " end");
    default:
      return line(choices_.once_in(4) ? list + "[#" + list + " + 2] = " + item
                                      : "table.sort(" + list + ", function(a, b) table.remove(" +
                                            list + ") return tostring(a) < tostring(b) end)");
  }
}

void Statements::change_map(int depth) {
  const Variable* known = expressions_.variable(Kind::Map, true);
  if (known == nullptr) {
    return declare(depth);
  }
  const std::string map = known->name;
  expressions_.note(Repeats::AtOtherCost);
  switch (choices_.below(6)) {
    case 0:
      return line(map + "[" + expressions_.of(Kind::Text, depth) +
                  "] = " + expressions_.of(Kind::Any, depth));
    case 1:
      return line(map + "." + (choices_.below(2) == 0 ? "a" : "zone") + " = " +
                  expressions_.of(Kind::Any, depth));
    case 2:
      return line(map + ".self = " + map);
    case 3:
      return line(map + "[" + map + "] = " + map);
    case 4:
      return line(map + "[" + expressions_.of(Kind::Integer, depth) + "] = true");
    default:
      return line(map + ".a = nil");
  }
}

// A list whose length Lua takes for up to 2^62.
void Statements::border_table() {
  const std::string name = fresh("border");
  line("local " + name + " = { 1, 2, 3, 4, 5, [8] = 1, [9] = 1 }");
  line("for j = 4, " + std::to_string(choices_.below(63)) + " do " + name + "[1 << j] = j end");
  constexpr std::array<std::string_view, 7> kUses = {
      "local length = #border",   "table.insert(border, 1, 0)",
      "table.remove(border, 1)",  "local text = table.concat(border)",
      "table.sort(border)",       "local found = table.contains(border, 'x')",
      "for j = 1, #border do end"};
  // Most of these raise.
  std::string use(kUses[choices_.once_in(4) ? choices_.below(kUses.size()) : 0]);
  for (auto at = use.find("border"); at != std::string::npos;
       at = use.find("border", at + name.size())) {
    use.replace(at, 6, name);
  }
  line("do " + use + " end");
}

void Statements::long_text(int depth) {
  const std::string name = fresh("long");
  line("local " + name + " = " + expressions_.some_text(depth));
  line("for j = 1, " + std::to_string(choices_.below(choices_.once_in(8) ? 24 : 14)) + " do " +
       name + " = " + name + " .. " + name + " end");
  expressions_.scope.push_back({.name = name, .kind = Kind::Text});
}

void Statements::own_environment(int depth) {
  constexpr std::array<std::string_view, 7> kGames = {
      "do local _ENV <const> = _ENV; local n = type end",
      "do local e = _ENV; e = nil end",
      "do local _ENV = { fence = fence, tostring = tostring }; local n = tostring(1) end",
      "local f@ = (function(_ENV) return fence, string end)(_ENV)",
      "do local walked = next(_ENV, nil) or ipairs(_ENV) end",
      "do local a, b = _ENV['fence'], (_ENV).string.len('x') end",
      "local e@ = { _ENV, _ENV.string, _ENV['table'] }"};
  switch (choices_.below(3)) {
    case 0: {
      line("do local _ENV = { x = 1 }; x = (x or 0) + " + expressions_.small_integer() +
           "; y = x end");
      return;
    }
    case 1:
      if (expressions_.place == Place::Pod) {
        line("do local _ENV = pod; local n, l, r = name, labels.app, ready end");
        return;
      }
      [[fallthrough]];
    default: {
      std::string game(choices_.of(kGames));
      if (const auto at = game.find('@'); at != std::string::npos) {
        game.replace(at, 1, std::to_string(++names_));
      }
      line(game);
      (void)depth;
    }
  }
}

void Statements::early_return(int depth) {
  if (expressions_.place != Place::Pod || functions_deep_ > 0) {
    return declare(2);
  }
  // Seldom, or nothing behind it would be reached.
  const std::string condition = choices_.below(3) == 2 ? expressions_.of(Kind::Boolean, kDepth)
                                                       : "pod.name == '" + fresh("never") + "'";
  line("if " + condition + " then return " + expressions_.verdict(std::min(depth, 2)) + " end");
}

// What a script must not do; each of these raises, or is harmless.
void Statements::misuse(int depth) {
  const std::string x = expressions_.of(Kind::Any, depth);
  const std::string y = expressions_.of(Kind::Any, depth);
  constexpr std::array<std::string_view, 27> kMisuses = {
      "pod.name = X",
      "pod.labels.app = X",
      "pod.lables.app = X",
      "fence.skip = X",
      "string.len = X",
      "_ENV.x = X",
      "undefined = X",
      "local a@ = undefined",
      "local a@ = X + Y",
      "local a@ = X .. Y",
      "local a@ = X < Y",
      "local a@ = X.name",
      "local a@ = (X)[Y]",
      "local a@ = #X",
      "local a@ = (X)(Y)",
      "error(X)",
      "assert(X, Y)",
      "local step@, t@, k@ = pairs(X); step@(Y, X)",
      "local step@ = ipairs({ 1 }); step@(X, Y)",
      "local a@ <close> = X",
      "policy { api = X }",
      "local a@ = pod.raw.get(X, Y)",
      "local a@ = next({ 1, a = 2 }, X)",
      "for a@, b@ in X, Y do break end",
      "local o@ = X; o@.x = Y",
      "local e@ = _ENV; e@.x = X",
      "local e@ = _ENV; local a@ = e@[Y]",
  };
  const std::string number = std::to_string(++names_);
  std::string text;
  for (const char c : choices_.of(kMisuses)) {
    text += c == 'X'   ? "(" + x + ")"
            : c == 'Y' ? "(" + y + ")"
            : c == '@' ? number
                       : std::string(1, c);
  }
  if (text.find("pairs") != std::string::npos || text.find("next") != std::string::npos) {
    expressions_.note(Repeats::Nothing);
  }
  line(text);
}

}  // namespace moonfence::fuzz
