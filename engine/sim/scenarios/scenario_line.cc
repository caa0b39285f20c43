#include "sim/scenarios/scenario_line.h"

#include <algorithm>
#include <charconv>
#include <optional>
#include <system_error>

#include "base/text.h"

namespace moonfence::sim {
namespace {

constexpr std::string_view kDurationRule = "write it with its unit, for example 5s, 250ms or 1h";

template <class Number>
std::optional<Number> parse_number(std::string_view word) {
  Number number{};
  const auto [end, fault] = std::from_chars(word.data(), word.data() + word.size(), number);
  const bool whole = fault == std::errc() && end == word.data() + word.size();
  return whole ? std::optional(number) : std::nullopt;
}

}  // namespace

Failure ScenarioLine::wrong(const std::string& problem, std::string next) const {
  std::string place(file);
  place += ":" + std::to_string(number) + ": " + problem;
  return failure(Error::Kind::Invalid, std::move(place), std::move(next));
}

Failure ScenarioLine::unknown(std::string_view what, std::string_view word,
                              std::span<const std::string_view> known) const {
  std::string problem = "'" + escaped(word, 64) + "' is no ";
  problem += what;
  problem += did_you_mean(word, known);
  std::string next = "known: ";
  for (const std::string_view each : known) {
    next += next.size() > 7 ? ", " : "";
    next += each;
  }
  return wrong(problem, std::move(next));
}

Result<void> ScenarioLine::ends_after(std::size_t count) const {
  if (size() > count) {
    return wrong("'" + escaped(words[count], 64) + "' is too much: nothing follows '" +
                     escaped(words[count - 1], 64) + "' here",
                 "take it out, or put a '#' before what is meant as a comment");
  }
  return {};
}

Result<Duration> ScenarioLine::duration(std::string_view what, std::string_view word) const {
  const auto parsed = parse_duration(word);
  if (!parsed) {
    return wrong(std::string(what) + ": '" + escaped(word, 64) + "' is no duration",
                 std::string(kDurationRule));
  }
  return *parsed;
}

Result<Duration> ScenarioLine::signed_duration(std::string_view what, std::string_view word) const {
  const bool negative = word.starts_with('-');
  auto parsed = duration(what, negative ? word.substr(1) : word);
  if (parsed && negative) {
    return -*parsed;
  }
  return parsed;
}

Result<int> ScenarioLine::number_of(std::string_view what, std::string_view word, int least,
                                    int most) const {
  const auto parsed = parse_number<int>(word);
  if (!parsed || *parsed < least || *parsed > most) {
    const std::string range = std::to_string(least) + " to " + std::to_string(most);
    return wrong(std::string(what) + ": '" + escaped(word, 64) + "' is no number from " + range,
                 "write a whole number from " + range);
  }
  return *parsed;
}

Result<double> ScenarioLine::share(std::string_view what, std::string_view word) const {
  const auto parsed = parse_number<double>(word);
  if (!parsed || !(*parsed >= 0 && *parsed <= 1)) {
    return wrong(std::string(what) + ": '" + escaped(word, 64) + "' is no share from 0 to 1",
                 "write the share of requests it befalls, for example 0.05");
  }
  return *parsed;
}

Result<std::map<std::string, std::string>> ScenarioLine::options(
    std::size_t first, std::span<const std::string_view> known,
    std::span<const std::string_view> flags) const {
  std::map<std::string, std::string> found;
  for (std::size_t i = first; i < size(); ++i) {
    const std::string_view word = words[i];
    const std::size_t equals = word.find('=');
    const std::string_view key = word.substr(0, equals);
    const bool flag = std::find(flags.begin(), flags.end(), key) != flags.end();
    if (!flag && std::find(known.begin(), known.end(), key) == known.end()) {
      std::vector<std::string_view> all(known.begin(), known.end());
      all.insert(all.end(), flags.begin(), flags.end());
      if (all.empty()) {
        return failure(ends_after(i).error());
      }
      return unknown("option of '" + words.front() + "'", key, all);
    }
    if (!flag && (equals == std::string_view::npos || equals + 1 == word.size())) {
      return wrong("'" + escaped(word, 64) + "' has no value",
                   "write " + std::string(key) + "=VALUE without blanks");
    }
    if (flag && equals != std::string_view::npos) {
      return wrong("'" + escaped(key, 64) + "' takes no value", "write " + std::string(key));
    }
    const std::string value(flag ? std::string_view() : word.substr(equals + 1));
    if (!found.emplace(key, value).second) {
      return wrong("'" + escaped(key, 64) + "' stands twice", "leave one of them");
    }
  }
  return found;
}

bool is_qualified(std::string_view text) {
  const std::size_t slash = text.find('/');
  return slash != std::string_view::npos && slash > 0 && slash + 1 < text.size() &&
         text.find('/', slash + 1) == std::string_view::npos;
}

std::string_view without_comment(std::string_view line) {
  for (std::size_t i = 0; i < line.size(); ++i) {
    if (line[i] == '#' && (i == 0 || line[i - 1] == ' ' || line[i - 1] == '\t')) {
      return line.substr(0, i);
    }
  }
  return line;
}

std::vector<std::string> words_of(std::string_view text) {
  std::vector<std::string> words;
  std::size_t at = 0;
  while (true) {
    at = text.find_first_not_of(" \t\r", at);
    if (at == std::string_view::npos) {
      return words;
    }
    const std::size_t end = std::min(text.find_first_of(" \t\r", at), text.size());
    words.emplace_back(text.substr(at, end - at));
    at = end;
  }
}

}  // namespace moonfence::sim
