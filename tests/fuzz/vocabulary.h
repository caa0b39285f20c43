#pragma once

// What a policy can name, sorted by what it yields: made of the tables that the sandbox registers,
// so a new host function is tried without a word here.

#include <string>
#include <string_view>
#include <vector>

namespace moonfence::fuzz {

struct Type {
  enum class Kind { Any, Boolean, Integer, Number, Text, List, Map, Object, Function };
  Kind kind = Kind::Any;
  bool optional = false;  // may be nil
  std::string item = {};  // class of an Object, or of a List's items: "Owner", "string"
};

struct Parameter {
  std::string name;  // "..." for any number of them
  Type type;
};

struct Function {
  std::string name;  // "string.sub"
  std::vector<Parameter> parameters;
  Type returns;
};

struct Field {
  std::string name;
  Type type;
  std::string need = {};  // what a policy has to declare to read it, "" for nothing
};

// "string?", "Owner[]", "integer|string", "fun(a: any): boolean": the notation of LuaCATS.
[[nodiscard]] Type parse_type(std::string_view text);

// Of the globals and of every library but fence and policy{}, whose calls the grammar writes
// itself.
[[nodiscard]] const std::vector<Function>& functions();
// Those that yield a value of this kind, nil perhaps.
[[nodiscard]] const std::vector<const Function*>& functions_yielding(Type::Kind kind);
[[nodiscard]] const std::vector<std::string>& needs();
// Empty for an unknown class.
[[nodiscard]] const std::vector<Field>& fields_of(std::string_view class_name);

}  // namespace moonfence::fuzz
