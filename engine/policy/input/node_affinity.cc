#include "policy/input/node_affinity.h"

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "policy/lua/views.h"

namespace moonfence::policy {
namespace {

using nlohmann::json;

std::optional<std::int64_t> to_number(std::string_view text) {
  std::int64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  return error == std::errc() && end == text.data() + text.size() ? std::optional(number)
                                                                  : std::nullopt;
}

// `found`: the node's value, nullopt when it has none.
bool holds(const json& expression, const std::optional<std::string>& found) {
  const std::string_view with = text_of(member(&expression, "operator"));
  const json* values = member(&expression, "values");
  const bool listed = found && values != nullptr && values->is_array() &&
                      std::any_of(values->begin(), values->end(), [&found](const json& value) {
                        return value.is_string() && text_of(&value) == *found;
                      });
  if (with == "In") {
    return listed;
  }
  if (with == "NotIn") {
    return !listed;
  }
  if (with == "Exists") {
    return found.has_value();
  }
  if (with == "DoesNotExist") {
    return !found;
  }
  if ((with != "Gt" && with != "Lt") || !found || values == nullptr || !values->is_array() ||
      values->size() != 1) {
    return false;
  }
  const auto mine = to_number(*found);
  const auto bound = to_number(text_of(&values->front()));
  return mine && bound && (with == "Gt" ? *mine > *bound : *mine < *bound);
}

template <class ValueOf>
bool all_hold(const json* expressions, ValueOf value_of) {
  return expressions == nullptr ||
         (expressions->is_array() &&
          std::all_of(expressions->begin(), expressions->end(), [&](const json& expression) {
            return holds(expression, value_of(text_of(member(&expression, "key"))));
          }));
}

bool matches_term(const json& term, const json& node) {
  const json* expressions = member(&term, "matchExpressions");
  const json* fields = member(&term, "matchFields");
  const auto is_empty = [](const json* list) { return list == nullptr || list->empty(); };
  if (is_empty(expressions) && is_empty(fields)) {
    return false;
  }
  const json* labels = member(&node, "metadata", "labels");
  return all_hold(expressions,
                  [labels](std::string_view key) -> std::optional<std::string> {
                    const json* label = member(labels, std::string(key));
                    return label == nullptr ? std::nullopt
                                            : std::optional(std::string(text_of(label)));
                  }) &&
         all_hold(fields, [&node](std::string_view key) -> std::optional<std::string> {
           return key == "metadata.name"
                      ? std::optional(std::string(text_of(member(&node, "metadata", "name"))))
                      : std::nullopt;
         });
}

}  // namespace

bool matches_selector(const json* selector, const json& node) {
  const json* terms = member(selector, "nodeSelectorTerms");
  return selector == nullptr ||
         (terms != nullptr && terms->is_array() &&
          std::any_of(terms->begin(), terms->end(),
                      [&node](const json& term) { return matches_term(term, node); }));
}

}  // namespace moonfence::policy
