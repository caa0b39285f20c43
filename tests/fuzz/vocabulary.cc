#include "fuzz/vocabulary.h"

#include <array>
#include <map>
#include <utility>

#include "policy/kit/reference.h"

namespace moonfence::fuzz {
namespace {

const policy::Reference& reference() {
  static const policy::Reference all = policy::reference();
  return all;
}

Parameter parameter_of(const policy::ParameterReference& given) {
  Parameter parameter{.name = std::string(given.name), .type = parse_type(given.type)};
  parameter.type.optional = parameter.type.optional || given.optional;
  return parameter;
}

}  // namespace

Type parse_type(std::string_view text) {
  Type type;
  if (text.ends_with('?')) {
    type.optional = true;
    text.remove_suffix(1);
  }
  constexpr std::array<std::pair<std::string_view, Type::Kind>, 5> kWords = {{
      {"any", Type::Kind::Any},
      {"boolean", Type::Kind::Boolean},
      {"integer", Type::Kind::Integer},
      {"number", Type::Kind::Number},
      {"string", Type::Kind::Text},
  }};
  for (const auto& [word, kind] : kWords) {
    if (text == word) {
      type.kind = kind;
      return type;
    }
  }
  if (text.starts_with("fun(")) {
    type.kind = Type::Kind::Function;
  } else if (text.starts_with("table<")) {
    type.kind = Type::Kind::Map;
  } else if (text.starts_with('"')) {
    type.kind = Type::Kind::Text;
  } else if (text.ends_with("[]")) {
    type.kind = Type::Kind::List;
    type.item = text.substr(0, text.size() - 2);
  } else if (!text.empty() && text.find_first_of("|<(,") == std::string_view::npos) {
    type.kind = Type::Kind::Object;
    type.item = text;
  }
  return type;
}

const std::vector<Function>& functions() {
  static const std::vector<Function> all = [] {
    std::vector<Function> list;
    for (const policy::FunctionReference& known : reference().functions) {
      if (known.library == "fence" || known.name == "policy") {
        continue;
      }
      Function function{.name = known.full_name(), .parameters = {}, .returns = {}};
      for (const policy::ParameterReference& parameter : known.parameters) {
        function.parameters.push_back(parameter_of(parameter));
      }
      // The first of several results.
      function.returns = parse_type(known.returns.substr(0, known.returns.find(',')));
      list.push_back(std::move(function));
    }
    return list;
  }();
  return all;
}

const std::vector<const Function*>& functions_yielding(Type::Kind kind) {
  static const std::map<Type::Kind, std::vector<const Function*>> sorted = [] {
    std::map<Type::Kind, std::vector<const Function*>> lists;
    for (const Function& function : functions()) {
      // It ends the program; a grammar says when.
      if (function.name != "error" && function.name != "assert") {
        lists[function.returns.kind].push_back(&function);
      }
    }
    return lists;
  }();
  static const std::vector<const Function*> none;
  const auto found = sorted.find(kind);
  return found == sorted.end() ? none : found->second;
}

const std::vector<std::string>& needs() {
  static const std::vector<std::string> all = [] {
    std::vector<std::string> words;
    for (const policy::WordReference& need : reference().needs) {
      words.emplace_back(need.name);
    }
    return words;
  }();
  return all;
}

const std::vector<Field>& fields_of(std::string_view class_name) {
  static const std::map<std::string_view, std::vector<Field>> all = [] {
    std::map<std::string_view, std::vector<Field>> lists;
    for (const policy::ObjectReference& object : reference().objects) {
      for (const policy::FieldReference& field : object.fields) {
        lists[object.class_name].push_back({.name = std::string(field.name),
                                            .type = parse_type(field.type),
                                            .need = std::string(field.need)});
      }
    }
    return lists;
  }();
  static const std::vector<Field> none;
  const auto found = all.find(class_name);
  return found == all.end() ? none : found->second;
}

}  // namespace moonfence::fuzz
