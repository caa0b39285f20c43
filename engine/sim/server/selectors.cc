#include "sim/server/selectors.h"

#include <algorithm>
#include <charconv>
#include <optional>
#include <string_view>
#include <utility>

#include "base/text.h"
#include "sim/store/fields.h"
#include "sim/store/refusals.h"

namespace moonfence::sim {
namespace {

using Requirement = LabelSelector::Requirement;
using Operator = Requirement::Operator;

// Words, and the symbols that separate them.
std::vector<std::string> tokens_of(std::string_view text) {
  constexpr std::string_view kSymbols = "=!(),<>";
  std::vector<std::string> tokens;
  for (std::size_t i = 0; i < text.size();) {
    const char c = text[i];
    if (c == ' ' || c == '\t') {
      ++i;
    } else if (c == '=' || c == '!') {
      const bool two = text.substr(i + 1).starts_with('=');
      tokens.emplace_back(text.substr(i, two ? 2 : 1));
      i += two ? 2 : 1;
    } else if (kSymbols.find(c) != std::string_view::npos) {
      tokens.emplace_back(1, c);
      ++i;
    } else {
      const auto end = std::min(text.find_first_of("=!(),<> \t", i), text.size());
      tokens.emplace_back(text.substr(i, end - i));
      i = end;
    }
  }
  return tokens;
}

bool is_word(const std::string& token) {
  return !token.empty() && std::string_view("=!(),<>").find(token[0]) == std::string_view::npos;
}

class LabelParser {
 public:
  explicit LabelParser(std::string_view text) : tokens_(tokens_of(text)) {}

  std::optional<std::vector<Requirement>> parse() {
    std::vector<Requirement> out;
    while (at_ < tokens_.size()) {
      auto requirement = next_requirement();
      if (!requirement || (at_ < tokens_.size() && !take(","))) {
        return std::nullopt;
      }
      out.push_back(*std::move(requirement));
    }
    return out;
  }
  // What stands where something else was expected.
  [[nodiscard]] std::string found() const { return at_ < tokens_.size() ? tokens_[at_] : ""; }

 private:
  bool take(std::string_view token) {
    if (at_ >= tokens_.size() || tokens_[at_] != token) {
      return false;
    }
    ++at_;
    return true;
  }

  bool take_word(std::string& word) {
    if (at_ >= tokens_.size() || !is_word(tokens_[at_])) {
      return false;
    }
    word = tokens_[at_++];
    return true;
  }

  std::optional<Requirement> next_requirement() {
    Requirement out;
    if (take("!")) {
      out.how = Operator::Absent;
      return take_word(out.key) ? std::optional(out) : std::nullopt;
    }
    if (!take_word(out.key)) {
      return std::nullopt;
    }
    if (at_ >= tokens_.size() || tokens_[at_] == ",") {
      return out;
    }
    if (take("in") || take("notin")) {
      out.how = tokens_[at_ - 1] == "in" ? Operator::In : Operator::NotIn;
      return take_set(out.values) ? std::optional(out) : std::nullopt;
    }
    if (take(">") || take("<")) {
      out.how = tokens_[at_ - 1] == ">" ? Operator::Greater : Operator::Less;
    } else if (take("=") || take("==")) {
      out.how = Operator::In;
    } else if (take("!=")) {
      out.how = Operator::NotIn;
    } else {
      return std::nullopt;
    }
    std::string value;
    const bool has_value = take_word(value);
    if (!has_value && at_ < tokens_.size() && tokens_[at_] != ",") {
      return std::nullopt;
    }
    out.values.insert(value);  // "a=" asks for the empty value
    return out;
  }

  bool take_set(std::set<std::string>& values) {
    if (!take("(")) {
      return false;
    }
    std::string value;
    do {
      value.clear();
      (void)take_word(value);  // "in (a,)" has the empty value too
      values.insert(value);
    } while (take(","));
    return take(")");
  }

  std::vector<std::string> tokens_;
  std::size_t at_ = 0;
};

std::optional<std::int64_t> number_of(const std::string& text) {
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc() && end == text.data() + text.size() ? std::optional(value)
                                                                  : std::nullopt;
}

bool is_ordered(const std::string& label, const Requirement& requirement) {
  const auto a = number_of(label);
  const auto b = number_of(*requirement.values.begin());
  return a && b && (requirement.how == Operator::Greater ? *a > *b : *a < *b);
}

bool holds(const Requirement& requirement, const std::string* label) {
  switch (requirement.how) {
    case Operator::Exists:
      return label != nullptr;
    case Operator::Absent:
      return label == nullptr;
    case Operator::In:
      return label != nullptr && requirement.values.contains(*label);
    case Operator::NotIn:
      return label == nullptr || !requirement.values.contains(*label);
    case Operator::Greater:
    case Operator::Less:
      return label != nullptr && is_ordered(*label, requirement);
  }
  return false;
}

const std::vector<std::string_view>& selectable_fields(const ResourceKind& kind) {
  static const std::vector<std::string_view> of_all = {"metadata.name", "metadata.namespace"};
  static const std::vector<std::string_view> of_pods = {
      "metadata.name",      "metadata.namespace", "spec.nodeName",
      "spec.restartPolicy", "spec.schedulerName", "spec.serviceAccountName",
      "status.phase",       "status.podIP",       "status.nominatedNodeName"};
  static const std::vector<std::string_view> of_nodes = {"metadata.name", "spec.unschedulable"};
  static const std::vector<std::string_view> of_events = {"metadata.name", "metadata.namespace",
                                                          "involvedObject.kind",
                                                          "involvedObject.name", "reason"};
  static const std::vector<std::string_view> of_spaces = {"metadata.name", "status.phase"};
  if (kind.resource == "pods") {
    return of_pods;
  }
  if (kind.resource == "nodes") {
    return of_nodes;
  }
  if (kind.resource == "events") {
    return of_events;
  }
  return kind.resource == "namespaces" ? of_spaces : of_all;
}

ApiFault unselectable(const ResourceKind& kind, const std::string& field) {
  if (selectable_fields(kind).size() != 2 || kind.resource == "nodes") {
    return bad_request("field label not supported: " + field);
  }
  return bad_request("\"" + field +
                     "\" is not a known field selector: only \"metadata.name\", "
                     "\"metadata.namespace\"");
}

// A field that is not there reads as "", a flag as "true" or "false".
std::string field_text(const Json& object, const std::vector<std::string>& path) {
  const Json* at = &object;
  for (const std::string& name : path) {
    const auto found = at->is_object() ? at->find(name) : at->end();
    if (!at->is_object() || found == at->end()) {
      return path.back() == "unschedulable" ? "false" : "";
    }
    at = &*found;
  }
  if (at->is_boolean()) {
    return at->get<bool>() ? "true" : "false";
  }
  const auto* text = at->get_ptr<const std::string*>();
  return text == nullptr ? "" : *text;
}

}  // namespace

Answer<LabelSelector> LabelSelector::parse(const std::string& text) {
  LabelParser parser(text);
  auto requirements = parser.parse();
  if (!requirements) {
    return fault(bad_request("unable to parse requirement: found '" + parser.found() +
                             "', expected: identifier"));
  }
  LabelSelector selector;
  selector.requirements_ = *std::move(requirements);
  return selector;
}

bool LabelSelector::matches(const Json& object) const {
  const Json* labels = find_field(object, {"metadata", "labels"});
  return std::all_of(
      requirements_.begin(), requirements_.end(), [labels](const Requirement& requirement) {
        const Json* label =
            labels == nullptr ? nullptr : find_field(*labels, {std::string_view(requirement.key)});
        return holds(requirement,
                     label == nullptr ? nullptr : label->get_ptr<const std::string*>());
      });
}

Answer<FieldSelector> FieldSelector::parse(const ResourceKind& kind, const std::string& text) {
  FieldSelector selector;
  if (text.empty()) {
    return selector;
  }
  for (const std::string_view part : split(text, ',')) {
    if (part.empty()) {
      continue;
    }
    const auto equals = part.find('=');
    if (equals == std::string_view::npos) {
      return fault(bad_request("invalid selector: '" + text + "'; can't understand '" +
                               std::string(part) + "'"));
    }
    Term term;
    std::string_view field = part.substr(0, equals);
    std::string_view value = part.substr(equals + 1);
    if (field.ends_with('!')) {
      term.equal = false;
      field.remove_suffix(1);
    } else if (value.starts_with('=')) {
      value.remove_prefix(1);
    }
    const auto& known = selectable_fields(kind);
    if (std::find(known.begin(), known.end(), field) == known.end()) {
      return fault(unselectable(kind, std::string(field)));
    }
    const auto names = split(field, '.');
    term.path.reserve(names.size());
    for (const std::string_view name : names) {
      term.path.emplace_back(name);
    }
    if (term.path.front() == "involvedObject") {
      term.path.front() = "regarding";  // as events are kept here (core_events.h)
    }
    term.value = std::string(value);
    selector.terms_.push_back(std::move(term));
  }
  return selector;
}

bool FieldSelector::matches(const Json& object) const {
  return std::all_of(terms_.begin(), terms_.end(), [&object](const Term& term) {
    return (field_text(object, term.path) == term.value) == term.equal;
  });
}

Answer<Selection> parse_selection(const ResourceKind& kind, const std::string& labels,
                                  const std::string& fields) {
  auto by_labels = LabelSelector::parse(labels);
  if (!by_labels) {
    return fault(std::move(by_labels.error()));
  }
  auto by_fields = FieldSelector::parse(kind, fields);
  if (!by_fields) {
    return fault(std::move(by_fields.error()));
  }
  return Selection{.labels = *std::move(by_labels),
                   .fields = *std::move(by_fields),
                   .everything = labels.empty() && fields.empty()};
}

}  // namespace moonfence::sim
