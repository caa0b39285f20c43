#include "fuzz/expressions.h"

#include <algorithm>
#include <array>
#include <string_view>
#include <utility>

namespace moonfence::fuzz {
namespace {

using Kind = Type::Kind;

constexpr std::size_t kMostNodes = 600;

constexpr std::array<std::string_view, 20> kIntegers = {"0",
                                                        "1",
                                                        "2",
                                                        "3",
                                                        "7",
                                                        "(-1)",
                                                        "(-3)",
                                                        "10",
                                                        "64",
                                                        "255",
                                                        "1000",
                                                        "65536",
                                                        "0x7fffffff",
                                                        "4294967296",
                                                        "9007199254740993",
                                                        "(1 << 62)",
                                                        "(-2147483648)",
                                                        "math.maxinteger",
                                                        "math.mininteger",
                                                        "(math.maxinteger - 1)"};
constexpr std::array<std::string_view, 14> kNumbers = {
    "0.5",      "1.0",    "(-0.0)", "3.25",      "1e15",         "2^53",      "1e308",
    "(-1e308)", "5e-324", "(0/0)",  "math.huge", "(-math.huge)", "0x1p-1074", "2^63"};
constexpr std::array<std::string_view, 30> kTexts = {
    "'a'",
    "''",
    "'web-0'",
    "'app'",
    "'a-b-c'",
    "'zone'",
    "'spec.nodeName'",
    "'metadata'",
    "'*-?'",
    "'w*b*'",
    "' x '",
    "'10'",
    "'0x1F'",
    "'-7'",
    "'1e3'",
    "'30s'",
    "'1h30m'",
    "','",
    "'-'",
    "'%d%s%%'",
    "'\\0'",
    "'a\\0b'",
    "'\\xff\\xc3'",
    "'\\27[31m'",
    "'\\n\\r\\t'",
    "'\\u{1F600}\\u{85}'",
    "'\\u{7fffffff}'",
    "[==[ ]] ]==]",
    "\"it's\"",
    "'skip \\z\n   rest'",
};
constexpr std::array<std::string_view, 6> kDurations = {"'30s'",  "'1h30m'", "'250ms'",
                                                        "'2.5s'", "'0'",     "'9999999h'"};
constexpr std::array<std::string_view, 8> kSeparators = {"'-'", "','",  "'.'",   "' '",
                                                         "'a'", "'::'", "'\\0'", "'--'"};
constexpr std::array<std::string_view, 8> kPaths = {"'spec.nodeName'",
                                                    "'metadata', 'labels', 'app'",
                                                    "'spec.containers'",
                                                    "'status.conditions.1'",
                                                    "'metadata.ownerReferences.2.name'",
                                                    "'spec.containers.99.x'",
                                                    "'..'",
                                                    "''"};
constexpr std::array<std::string_view, 16> kWildNames = {
    "fence",      "string",          "table",  "math",       "log", "policy", "_ENV",
    "fence.skip", "string.len",      "ipairs", "fence.wait", "nil", "type",   "table.sort",
    "math.huge",  "fence.delete_pod"};

std::string in_parentheses(const std::string& text) {
  return "(" + text + ")";
}

}  // namespace

Kind Expressions::any_kind() {
  constexpr std::array<Kind, 8> kKinds = {Kind::Integer, Kind::Text, Kind::Boolean, Kind::Number,
                                          Kind::List,    Kind::Map,  Kind::Text,    Kind::Integer};
  return choices_.of(kKinds);
}

const Variable* Expressions::variable(Kind kind, bool writable) {
  std::vector<const Variable*> fitting;
  for (const Variable& known : scope) {
    if (known.kind == kind && (known.writable || !writable)) {
      fitting.push_back(&known);
    }
  }
  // Of many the newest ones, so that a program uses what it has just made.
  const std::size_t few = std::min<std::size_t>(fitting.size(), 6);
  return few == 0 ? nullptr : fitting[fitting.size() - 1 - choices_.below(few)];
}

std::string Expressions::plain(Kind kind) {
  switch (kind) {
    case Kind::Boolean:
      return choices_.below(2) == 0 ? "true" : "false";
    case Kind::Integer:
      return std::string(choices_.of(kIntegers));
    case Kind::Number:
      return std::string(choices_.of(kNumbers));
    case Kind::Text:
      return std::string(choices_.of(kTexts));
    case Kind::List:
      return choices_.below(2) == 0 ? "{ 'b', 'a' }" : "{ 3, 1, 2 }";
    case Kind::Map:
      return "{ a = 1, b = 'x' }";
    case Kind::Function:
      return "function() end";
    case Kind::Object:
      return object("Pod").empty() ? "nil" : "pod";
    case Kind::Any:
      return "nil";
  }
  return "nil";
}

std::string Expressions::small_integer() {
  return std::to_string(choices_.below(12));
}

std::string Expressions::of(Kind kind, int depth) {
  ++nodes_;
  if (depth > 0 && choices_.once_in(48)) {
    return any(depth - 1);
  }
  if (choices_.once_in(3)) {
    if (const Variable* known = variable(kind)) {
      return known->name;
    }
  }
  if (depth <= 0 || nodes_ > kMostNodes || choices_.used_up()) {
    return plain(kind);
  }
  switch (kind) {
    case Kind::Boolean:
      return boolean(depth - 1);
    case Kind::Integer:
      return integer(depth - 1);
    case Kind::Number:
      return number(depth - 1);
    case Kind::Text:
      return text(depth - 1);
    case Kind::List: {
      const std::string found = choices_.below(3) == 2 ? field(kind) : "";
      return !found.empty()           ? found
             : choices_.below(2) == 0 ? own_list("", depth - 1)
                                      : call_yielding(kind, depth - 1);
    }
    case Kind::Map: {
      const std::string found = choices_.below(2) == 1 ? field(kind) : "";
      return found.empty() ? own_map(depth - 1) : found;
    }
    case Kind::Function:
      return function(depth - 1);
    case Kind::Object: {
      const Variable* known = variable(kind);
      return known == nullptr ? plain(kind) : known->name;
    }
    case Kind::Any:
      return any(depth - 1);
  }
  return "nil";
}

std::string Expressions::integer(int depth) {
  constexpr std::array<std::string_view, 8> kOperators = {" + ", " - ",  " * ",  " & ",
                                                          " | ", " << ", " >> ", " ~ "};
  switch (choices_.below(12)) {
    case 0:
    case 1:
      return in_parentheses(of(Kind::Integer, depth) + std::string(choices_.of(kOperators)) +
                            of(Kind::Integer, depth));
    case 2: {
      const std::string divisor = choices_.once_in(12)
                                      ? of(Kind::Integer, depth)
                                      : in_parentheses(of(Kind::Integer, depth) + " | 1");
      return in_parentheses(of(Kind::Integer, depth) + (choices_.below(2) == 0 ? " // " : " % ") +
                            divisor);
    }
    case 3:
      return in_parentheses((choices_.below(2) == 0 ? "-" : "~") + of(Kind::Integer, depth));
    case 4:
      return "#" + in_parentheses(of(Kind::Text, depth));
    case 5:
      return "#" + in_parentheses(of(Kind::List, depth));
    case 6:
    case 7: {
      const std::string found = field(Kind::Integer);
      return found.empty() ? plain(Kind::Integer) : found;
    }
    case 8:
      return in_parentheses(of(Kind::Boolean, depth) + " and " + of(Kind::Integer, depth) + " or " +
                            of(Kind::Integer, depth));
    case 9:
      return "select('#', " + of(Kind::Any, depth) + ", " + of(Kind::Any, depth) + ")";
    case 10:
      if (const Variable* known = variable(Kind::Function);
          known != nullptr && known->yields == Kind::Integer) {
        return known->name + "(" + of(Kind::Integer, depth) + ", " + small_integer() + ")";
      }
      return plain(Kind::Integer);
    default:
      return call_yielding(Kind::Integer, depth);
  }
}

std::string Expressions::number(int depth) {
  constexpr std::array<std::string_view, 6> kOperators = {" + ", " - ", " * ", " / ", " ^ ", " % "};
  switch (choices_.below(6)) {
    case 0:
      return in_parentheses(of(Kind::Number, depth) + std::string(choices_.of(kOperators)) +
                            of(Kind::Number, depth));
    case 1:
      return of(Kind::Integer, depth);
    case 2:
      return in_parentheses(of(Kind::Number, depth) + " // " + of(Kind::Number, depth));
    case 3:
      return in_parentheses("-" + of(Kind::Number, depth));
    default:
      return call_yielding(Kind::Number, depth);
  }
}

std::string Expressions::text(int depth) {
  switch (choices_.below(12)) {
    case 0:
    case 1:
      return in_parentheses(of(Kind::Text, depth) + " .. " + of(Kind::Text, depth));
    case 2:
    case 3: {
      const std::string found = field(Kind::Text);
      return found.empty() ? plain(Kind::Text) : found;
    }
    case 4:
      return "tostring" + in_parentheses(of(Kind::Any, depth));
    case 5:
      return "type" + in_parentheses(of(Kind::Any, depth));
    case 6:
      return "tostring(" + in_parentheses(of(Kind::List, depth)) + "[" + small_integer() + "])";
    case 7:
      return "tostring(" + in_parentheses(of(Kind::Map, depth)) + "[" + of(Kind::Text, depth) +
             "])";
    case 8:
      return formatted(depth);
    case 9:
      if (const std::string pod = object("Pod"); !pod.empty()) {
        return "tostring(" + pod + ".raw:get(" + std::string(choices_.of(kPaths)) + "))";
      }
      return in_parentheses(of(Kind::Integer, depth) + " .. " + of(Kind::Number, depth));
    case 10:
      return in_parentheses(of(Kind::Boolean, depth) + " and " + of(Kind::Text, depth) + " or " +
                            of(Kind::Text, depth));
    default:
      return call_yielding(Kind::Text, depth);
  }
}

std::string Expressions::boolean(int depth) {
  constexpr std::array<std::string_view, 4> kOrders = {" < ", " <= ", " > ", " >= "};
  switch (choices_.below(9)) {
    case 0: {
      constexpr std::array<Kind, 3> kOrdered = {Kind::Integer, Kind::Number, Kind::Text};
      const Kind kind = choices_.of(kOrdered);
      return in_parentheses(of(kind, depth) + std::string(choices_.of(kOrders)) + of(kind, depth));
    }
    case 1:
      return in_parentheses(of(Kind::Any, depth) + (choices_.below(2) == 0 ? " == " : " ~= ") +
                            of(Kind::Any, depth));
    case 2:
      return in_parentheses("not " + of(Kind::Boolean, depth));
    case 3:
      return in_parentheses(of(Kind::Boolean, depth) + " and " + of(Kind::Boolean, depth));
    case 4:
      return in_parentheses(of(Kind::Boolean, depth) + " or " + of(Kind::Boolean, depth));
    case 5:
    case 6: {
      const std::string found = field(Kind::Boolean);
      return found.empty() ? plain(Kind::Boolean) : found;
    }
    default:
      return call_yielding(Kind::Boolean, depth);
  }
}

std::string Expressions::any(int depth) {
  switch (choices_.below(8)) {
    case 0:
    case 1:
    case 2:
      return of(any_kind(), depth);
    case 3:
      return "nil";
    case 4:
      if (const Variable* known = scope.empty() ? nullptr : &scope[choices_.below(scope.size())]) {
        return known->name;
      }
      return "nil";
    case 5:
      return function(depth);
    case 6:
      return place == Place::Load || choices_.below(2) == 0 ? of(Kind::Object, depth)
             : place == Place::Fetch                        ? request(depth)
                                                            : verdict(depth);
    default:
      return std::string(choices_.of(kWildNames));
  }
}

std::string Expressions::function(int depth) {
  constexpr std::array<std::string_view, 10> kOrders = {"a < b",
                                                        "tostring(a) < tostring(b)",
                                                        "a > b",
                                                        "true",
                                                        "false",
                                                        "tostring(a):len() < tostring(b):len()",
                                                        "nil",
                                                        "a <= b",
                                                        "tostring(a) > 'm'",
                                                        "error('compared')"};
  if (choices_.below(4) < 3) {
    return "function(a, b) return " + std::string(choices_.of(kOrders)) + " end";
  }
  return "function(a, ...) return " + of(Kind::Any, depth) + ", ... end";
}

std::string Expressions::formatted(int depth) {
  constexpr std::array<std::pair<std::string_view, Kind>, 14> kDirectives = {{
      {"%s", Kind::Any},
      {"%d", Kind::Integer},
      {"%5d", Kind::Integer},
      {"%-8s|", Kind::Any},
      {"%.3s", Kind::Text},
      {"%x", Kind::Integer},
      {"%+08d", Kind::Integer},
      {"%.99f", Kind::Number},
      {"%g", Kind::Number},
      {"%e", Kind::Number},
      {"%c", Kind::Integer},
      {"%99X", Kind::Integer},
      {"%-.20i", Kind::Integer},
      {"%q", Kind::Any},
  }};
  std::string format;
  std::string arguments;
  const std::size_t count = 1 + choices_.below(4);
  for (std::size_t i = 0; i < count; ++i) {
    // The last one is unknown, and tried seldom.
    const auto& [directive, kind] = kDirectives[choices_.below(
        choices_.once_in(16) ? kDirectives.size() : kDirectives.size() - 1)];
    format += std::string(directive) + (choices_.below(3) == 2 ? "%% " : " ");
    arguments += ", " + of(kind, depth - 1);
  }
  return "string.format('" + format + "'" + arguments + ")";
}

std::string Expressions::some_text(int depth) {
  return choices_.once_in(20) ? of(Kind::Text, depth)
                              : in_parentheses("'r' .. " + of(Kind::Text, depth));
}

std::string Expressions::object(const std::string& class_name) const {
  const auto found = std::find_if(scope.begin(), scope.end(), [&](const Variable& known) {
    return known.kind == Kind::Object && known.item == class_name;
  });
  return found == scope.end() ? "" : found->name;
}

std::string Expressions::own_list(const std::string& item, int depth) {
  const bool texts = item.empty() ? choices_.below(2) == 1 : item == "string";
  std::string list = "{";
  for (std::size_t left = choices_.below(6); left > 0; --left) {
    list += " " + of(texts ? Kind::Text : Kind::Integer, depth - 1) + ",";
  }
  return list + " }";
}

std::string Expressions::own_map(int depth) {
  constexpr std::array<std::string_view, 7> kKeys = {"a",     "b",       "zone", "['x-y']",
                                                     "[1.5]", "[false]", "[7]"};
  std::string map = "{";
  std::size_t at = choices_.below(kKeys.size());
  for (std::size_t left = choices_.below(4); left > 0; --left) {
    // Each key once: one that is emptied again would change what the next ones cost.
    map += " " + std::string(kKeys[++at % kKeys.size()]) + " = " + of(any_kind(), depth - 1) + ",";
  }
  return map + " }";
}

std::string Expressions::with_default(std::string expression, const Type& type, Kind kind) {
  return type.optional && !choices_.once_in(12) ? in_parentheses(expression + " or " + plain(kind))
                                                : std::move(expression);
}

std::string Expressions::field(Kind kind) {
  for (int attempt = 0; attempt < 4; ++attempt) {
    const Variable* object = variable(Kind::Object);
    if (object == nullptr) {
      return "";
    }
    std::string path = object->name;
    const std::vector<Field>* fields = &fields_of(object->item);
    for (int hop = 0; hop < 3 && !fields->empty(); ++hop) {
      const Field& chosen = choices_.of(*fields);
      if (!chosen.need.empty() && !needs.contains(chosen.need) && !choices_.once_in(64)) {
        break;
      }
      path += "." + chosen.name;
      if (chosen.type.kind == kind) {
        return with_default(path, chosen.type, kind);
      }
      if (chosen.type.kind != Kind::Object || chosen.type.optional) {
        break;
      }
      fields = &fields_of(chosen.type.item);
    }
  }
  return "";
}

std::string Expressions::argument(const Function& function, const Parameter& parameter, int depth) {
  if (choices_.once_in(40)) {
    return any(depth);
  }
  if (parameter.name == "separator") {
    return std::string(choices_.of(kSeparators));
  }
  if (function.name == "duration") {
    return std::string(choices_.of(kDurations));
  }
  if (parameter.name == "base") {
    return std::to_string(2 + choices_.below(35));
  }
  if (function.name == "select" && parameter.name == "n") {
    return "1";
  }
  if (function.name == "table.keys" || function.name == "pairs" || function.name == "next") {
    note(function.name == "table.keys" ? Repeats::AtOtherCost : Repeats::Nothing);
    return of(Kind::Map, depth);
  }
  if (parameter.name == "i" || parameter.name == "j") {
    return choices_.below(4) == 3 ? of(Kind::Integer, depth) : small_integer();
  }
  return of(parameter.type.kind, depth);
}

std::string Expressions::call(const Function& function, int depth) {
  std::string name = function.name;
  std::string arguments;
  bool first = true;
  const bool as_method = name.starts_with("string.") && choices_.below(2) == 1;
  for (const Parameter& parameter : function.parameters) {
    if ((parameter.type.optional || parameter.name == "...") && choices_.below(2) == 0) {
      break;
    }
    // An optional base makes of any value a text.
    const bool digits = function.name == "tonumber" && function.parameters.size() > 1;
    std::string given =
        digits && first ? of(Kind::Text, depth - 1) : argument(function, parameter, depth - 1);
    if (as_method && first) {
      name = in_parentheses(given) + ":" + name.substr(name.find('.') + 1);
    } else {
      arguments += (arguments.empty() ? "" : ", ") + given;
    }
    first = false;
  }
  return name + "(" + arguments + ")";
}

std::string Expressions::call_yielding(Kind kind, int depth) {
  const auto& known = functions_yielding(kind);
  if (known.empty()) {
    return plain(kind);
  }
  const Function& function = *choices_.of(known);
  if (function.name == "string.format") {
    return formatted(depth);
  }
  return with_default(call(function, depth), function.returns, kind);
}

}  // namespace moonfence::fuzz
