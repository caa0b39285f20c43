#include "app/terminal/output.h"

#include <algorithm>
#include <cctype>
#include <set>
#include <string_view>

namespace moonfence::app {

using nlohmann::ordered_json;

namespace {

// A word that every YAML parser reads as the text that it is. Numbers, dates, true, null, yes and
// what begins like syntax are not.
bool is_plain(std::string_view text) {
  static const std::set<std::string, std::less<>> other_types = {
      "true", "false", "null", "yes", "no", "on", "off", "y", "n"};
  std::string lower(text);
  std::transform(lower.begin(), lower.end(), lower.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  const auto is_letter = [](unsigned char c) { return std::isalpha(c) != 0; };
  const bool words = std::all_of(text.begin(), text.end(), [](unsigned char c) {
    return std::isalnum(c) != 0 || c == '-' || c == '_' || c == '.' || c == '/';
  });
  return !text.empty() && (is_letter(static_cast<unsigned char>(text.front())) || text[0] == '/') &&
         words && !other_types.contains(lower);
}

std::string quoted(const std::string& text) {
  return is_plain(text)
             ? text
             : ordered_json(text).dump(-1, ' ', false, ordered_json::error_handler_t::replace);
}

bool is_inline(const ordered_json& value) {
  return !value.is_structured() || value.empty();
}

std::string inline_text(const ordered_json& value) {
  return value.is_string() ? quoted(value.get<std::string>()) : value.dump();
}

// Appends the block, its first line where the caller stands, the others behind `indent` blanks.
void append(std::string& out, const ordered_json& value, std::size_t indent) {
  if (is_inline(value)) {
    out += inline_text(value) + "\n";
    return;
  }
  bool first = true;
  const auto begin_line = [&] {
    if (!first) {
      out.append(indent, ' ');
    }
    first = false;
  };
  if (value.is_array()) {
    for (const ordered_json& item : value) {
      begin_line();
      out += "- ";
      append(out, item, indent + 2);
    }
    return;
  }
  for (const auto& [key, item] : value.items()) {
    begin_line();
    out += quoted(key) + ":";
    if (is_inline(item)) {
      out += " " + inline_text(item) + "\n";
      continue;
    }
    const std::size_t inner = item.is_array() ? indent : indent + 2;
    out += "\n";
    out.append(inner, ' ');
    append(out, item, inner);
  }
}

}  // namespace

std::string to_json_text(const ordered_json& document) {
  return document.dump(2, ' ', false, ordered_json::error_handler_t::replace) + "\n";
}

std::string to_yaml_text(const ordered_json& document) {
  std::string text;
  append(text, document, 0);
  return text;
}

std::string document_text(const ordered_json& document, OutputForm form) {
  return form == OutputForm::Yaml ? to_yaml_text(document) : to_json_text(document);
}

}  // namespace moonfence::app
