#pragma once

// One statement of a scenario as its parsers see it: words, and errors that say where. Private to
// sim.

#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "base/time.h"

namespace moonfence::sim {

struct ScenarioLine {
  std::string_view file;
  std::size_t number = 0;
  std::string text;  // without comment and margins
  std::vector<std::string> words;

  [[nodiscard]] std::size_t size() const { return words.size(); }
  // "" beyond the end.
  [[nodiscard]] std::string_view word(std::size_t index) const {
    return index < words.size() ? std::string_view(words[index]) : std::string_view();
  }
  [[nodiscard]] Failure wrong(const std::string& problem, std::string next) const;
  // "'x' is no <what>", with the nearest of the known.
  [[nodiscard]] Failure unknown(std::string_view what, std::string_view word,
                                std::span<const std::string_view> known) const;
  // Nothing may follow after that many words.
  [[nodiscard]] Result<void> ends_after(std::size_t count) const;

  [[nodiscard]] Result<Duration> duration(std::string_view what, std::string_view word) const;
  // "-5s" too.
  [[nodiscard]] Result<Duration> signed_duration(std::string_view what,
                                                 std::string_view word) const;
  [[nodiscard]] Result<int> number_of(std::string_view what, std::string_view word, int least,
                                      int most) const;
  [[nodiscard]] Result<double> share(std::string_view what, std::string_view word) const;
  // The words from `first` on as KEY=VALUE, each key known and once. A key of `flags` stands alone
  // and has the value "".
  [[nodiscard]] Result<std::map<std::string, std::string>> options(
      std::size_t first, std::span<const std::string_view> known,
      std::span<const std::string_view> flags = {}) const;
};

// "space/name".
[[nodiscard]] bool is_qualified(std::string_view text);

// Without the comment: '#' at the beginning or after a blank.
[[nodiscard]] std::string_view without_comment(std::string_view line);
[[nodiscard]] std::vector<std::string> words_of(std::string_view text);

}  // namespace moonfence::sim
