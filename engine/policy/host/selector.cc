#include "policy/host/selector.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "base/text.h"

namespace moonfence::policy {
namespace {

constexpr std::size_t kLongestSelector = 4096;
constexpr std::size_t kLongestName = 63;
constexpr std::size_t kLongestPrefix = 253;

bool is_alnum(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
}

// Letters, digits, '-', '_' and '.', with a letter or digit at both ends.
bool is_name(std::string_view text) {
  return !text.empty() && text.size() <= kLongestName && is_alnum(text.front()) &&
         is_alnum(text.back()) && std::all_of(text.begin(), text.end(), [](char c) {
           return is_alnum(c) || c == '-' || c == '_' || c == '.';
         });
}

bool is_dns_label(std::string_view text) {
  return is_name(text) && std::none_of(text.begin(), text.end(), [](char c) {
           return (c >= 'A' && c <= 'Z') || c == '_' || c == '.';
         });
}

bool is_prefix(std::string_view text) {
  const auto parts = split(text, '.');
  return text.size() <= kLongestPrefix && std::all_of(parts.begin(), parts.end(), is_dns_label);
}

bool is_key(std::string_view text) {
  const auto slash = text.find('/');
  if (slash == std::string_view::npos) {
    return is_name(text);
  }
  return is_prefix(text.substr(0, slash)) && is_name(text.substr(slash + 1));
}

bool is_value(std::string_view text) {
  return text.empty() || is_name(text);
}

bool is_word(char c) {
  return is_alnum(c) || c == '-' || c == '_' || c == '.' || c == '/';
}

}  // namespace

// Recursive descent without recursion: requirement ("," requirement)*.
class SelectorParser {
 public:
  explicit SelectorParser(std::string_view text) : rest_(text) {}

  // nullopt after filling `fault`.
  std::optional<LabelSelector> parse(std::string& fault) {
    LabelSelector selector;
    do {
      LabelSelector::Requirement requirement;
      if (!parse_requirement(requirement)) {
        fault = fault_;
        return std::nullopt;
      }
      selector.requirements_.push_back(std::move(requirement));
    } while (take(","));
    skip_space();
    if (!rest_.empty()) {
      fault = "unexpected '" + escaped(rest_, 32) + "'";
      return std::nullopt;
    }
    return selector;
  }

 private:
  using Operator = LabelSelector::Requirement::Operator;

  void skip_space() {
    while (!rest_.empty() && (rest_.front() == ' ' || rest_.front() == '\t')) {
      rest_.remove_prefix(1);
    }
  }

  bool take(std::string_view symbol) {
    skip_space();
    if (!rest_.starts_with(symbol)) {
      return false;
    }
    rest_.remove_prefix(symbol.size());
    return true;
  }

  std::string_view take_word() {
    skip_space();
    const auto end = std::find_if_not(rest_.begin(), rest_.end(), is_word);
    const auto size = static_cast<std::size_t>(end - rest_.begin());
    const std::string_view word = rest_.substr(0, size);
    rest_.remove_prefix(size);
    return word;
  }

  bool fail(std::string text) {
    fault_ = std::move(text);
    return false;
  }

  bool parse_requirement(LabelSelector::Requirement& requirement) {
    const bool absent = take("!");
    const std::string_view key = take_word();
    if (!is_key(key)) {
      return fail("'" + escaped(key, 80) + "' is no label key");
    }
    requirement.key = key;
    if (absent) {
      requirement.is = Operator::DoesNotExist;
      return true;
    }
    if (take("!=")) {
      requirement.is = Operator::NotIn;
      return parse_value(requirement);
    }
    if (take("==") || take("=")) {
      requirement.is = Operator::In;
      return parse_value(requirement);
    }
    const std::string_view word = take_word();
    if (word.empty()) {
      requirement.is = Operator::Exists;
      return true;
    }
    if (word != "in" && word != "notin") {
      return fail("'" + escaped(word, 32) + "' is no operator; known are = == != in notin");
    }
    requirement.is = word == "in" ? Operator::In : Operator::NotIn;
    return parse_set(requirement);
  }

  bool parse_value(LabelSelector::Requirement& requirement) {
    const std::string_view value = take_word();
    if (!is_value(value)) {
      return fail("'" + escaped(value, 80) + "' is no label value");
    }
    requirement.values.emplace_back(value);
    return true;
  }

  bool parse_set(LabelSelector::Requirement& requirement) {
    if (!take("(")) {
      return fail("a '(' must follow in and notin");
    }
    do {
      if (!parse_value(requirement)) {
        return false;
      }
    } while (take(","));
    return take(")") || fail("a ')' is missing");
  }

  std::string_view rest_;
  std::string fault_;
};

Result<LabelSelector> LabelSelector::parse(std::string_view text) {
  if (text.size() > kLongestSelector) {
    return failure(Error::Kind::Invalid, "a label selector has at most " +
                                             std::to_string(kLongestSelector) + " bytes, not " +
                                             std::to_string(text.size()));
  }
  if (trimmed(text).empty()) {
    return LabelSelector();
  }
  std::string fault;
  auto selector = SelectorParser(text).parse(fault);
  if (!selector) {
    return failure(Error::Kind::Invalid,
                   "'" + escaped(text, 128) + "' is no label selector: " + fault);
  }
  return std::move(*selector);
}

// As the API server decides: a label that is absent satisfies != and notin.
bool LabelSelector::Requirement::is_met_by(const kube::Labels& labels) const {
  const auto label = labels.find(key);
  const bool present = label != labels.end();
  const bool listed =
      present && std::find(values.begin(), values.end(), label->second) != values.end();
  switch (is) {
    case Operator::In:
      return listed;
    case Operator::NotIn:
      return !listed;
    case Operator::Exists:
      return present;
    case Operator::DoesNotExist:
      return !present;
  }
  return false;
}

bool LabelSelector::matches(const kube::Labels& labels) const {
  return std::all_of(
      requirements_.begin(), requirements_.end(),
      [&labels](const Requirement& requirement) { return requirement.is_met_by(labels); });
}

std::optional<kube::Labels> LabelSelector::made_to_match(kube::Labels labels) const {
  for (const Requirement& unmet : requirements_) {
    if (unmet.is_met_by(labels)) {
      continue;
    }
    std::vector<std::optional<std::string>> tries = {std::nullopt};
    tries.insert(tries.end(), unmet.values.begin(), unmet.values.end());
    tries.emplace_back("any");
    for (const auto& value : tries) {
      if (value) {
        labels[unmet.key] = *value;
      } else {
        labels.erase(unmet.key);
      }
      const bool met =
          std::all_of(requirements_.begin(), requirements_.end(),
                      [&unmet, &labels](const Requirement& requirement) {
                        return requirement.key != unmet.key || requirement.is_met_by(labels);
                      });
      if (met) {
        break;
      }
    }
  }
  return matches(labels) ? std::optional(std::move(labels)) : std::nullopt;
}

}  // namespace moonfence::policy
