#pragma once

// What a policy can name, as data: from here the reference page, the editor's annotations and the
// configuration of linters are printed. It is made of the very tables that the sandbox registers,
// so that none of them can drift.

#include <string>
#include <string_view>
#include <vector>

namespace moonfence::policy {

// Types are in the notation of LuaCATS ("string[]", "fun(s: Settings): PolicyTrigger"); a class is
// one of Reference::objects or Reference::tables, or one of the opaque values.

struct ParameterReference {
  std::string_view name;  // "..." for any number of them
  std::string_view type;
  bool optional = false;
};

struct FunctionReference {
  std::string_view library;  // "" for a global
  std::string_view name;
  std::string_view signature;  // "(s: string, i?: integer): string"
  std::string_view doc;
  std::vector<ParameterReference> parameters;
  std::string_view returns;  // "string", "any, any"; "" for nothing

  [[nodiscard]] std::string full_name() const;  // "string.sub"
};

struct ConstantReference {
  std::string_view library;
  std::string_view name;
};

struct FieldReference {
  std::string_view name;
  std::string_view type;  // ends with "?" when it may be nil
  std::string_view doc;
  std::string_view need;  // what `needs` has to list; "fetch" for that function; "" for nothing
};

struct ObjectReference {
  std::string_view class_name;  // "Pod"
  std::string_view doc;
  std::vector<FieldReference> fields;
};

struct KeyReference {
  std::string_view name;
  std::string_view type;
  std::string_view doc;
  bool required = false;
};

// A table that a policy file writes.
struct TableReference {
  std::string_view class_name;  // "PolicySpec": the argument of policy{}
  std::string_view doc;
  std::vector<KeyReference> keys;
};

struct WordReference {
  std::string_view name;
  std::string_view doc;
};

struct Reference {
  std::vector<FunctionReference> functions;  // globals, then each library
  std::vector<ConstantReference> constants;
  std::vector<ObjectReference> objects;  // what the functions of a policy are given
  std::vector<WordReference> opaque;     // classes of values that have no fields: Verdict, ...
  std::vector<TableReference> tables;    // PolicySpec and the tables in it
  std::vector<WordReference> needs;      // what `needs` may list
  std::vector<WordReference> setting_types;
  std::vector<WordReference> globals;  // of the environment, sorted: functions, libraries
};

[[nodiscard]] Reference reference();

}  // namespace moonfence::policy
