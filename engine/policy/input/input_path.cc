#include "policy/input/input_path.h"

#include <algorithm>
#include <charconv>

#include "base/text.h"

namespace moonfence::policy {
namespace {

constexpr std::size_t kLongestPath = 512;
constexpr std::size_t kMostSteps = 32;

// What stands between "[" and "]".
Result<PathStep> parse_bracket(std::string_view inside) {
  const bool quoted = inside.size() >= 3 && (inside.front() == '"' || inside.front() == '\'') &&
                      inside.back() == inside.front();
  if (quoted) {
    return PathStep{.name = std::string(inside.substr(1, inside.size() - 2))};
  }
  PathStep step;
  const auto [end, fault] =
      std::from_chars(inside.data(), inside.data() + inside.size(), step.position);
  if (fault != std::errc() || end != inside.data() + inside.size() || step.position == 0) {
    return failure(Error::Kind::Invalid, "'[" + escaped(inside, 64) + "]' is no position",
                   "positions count from 1; a key is quoted, as in pod.labels[\"a.b/c\"]");
  }
  return step;
}

}  // namespace

Result<InputPath> parse_input_path(std::string_view text) {
  const auto bad = [text](const std::string& why, const std::string& hint) {
    return failure(Error::Kind::Invalid, "'" + escaped(text, 128) + "' is no input: " + why, hint);
  };
  constexpr const char* kHint = "write it as a policy does: pod.owner.kind, pod.volumes[1].driver";
  if (text.empty() || text.size() > kLongestPath) {
    return bad("it has " + std::to_string(text.size()) + " bytes", kHint);
  }
  InputPath path{.text = std::string(text), .steps = {}};
  std::string_view rest = text;
  while (!rest.empty()) {
    if (rest.front() == '[') {
      // A quoted key may hold brackets of its own.
      const bool quoted = rest.size() > 1 && (rest[1] == '"' || rest[1] == '\'');
      const std::string close = quoted ? std::string(1, rest[1]) + "]" : "]";
      const auto end = rest.find(close, quoted ? 2 : 1);
      if (end == std::string_view::npos || path.steps.empty()) {
        return bad("a bracket stands alone", kHint);
      }
      const auto step = parse_bracket(rest.substr(1, end + close.size() - 2));
      if (!step) {
        return bad(step.error().text, step.error().hint);
      }
      path.steps.push_back(*step);
      rest.remove_prefix(end + close.size());
    } else {
      if (!path.steps.empty()) {
        if (rest.front() != '.') {
          return bad("a '.' is missing before '" + escaped(rest, 32) + "'", kHint);
        }
        rest.remove_prefix(1);
      }
      const auto end = std::min(rest.find_first_of(".["), rest.size());
      if (end == 0) {
        return bad("a name is missing", kHint);
      }
      path.steps.push_back({.name = std::string(rest.substr(0, end))});
      rest.remove_prefix(end);
    }
    if (path.steps.size() > kMostSteps) {
      return bad("it has more than " + std::to_string(kMostSteps) + " steps", kHint);
    }
  }
  return path;
}

}  // namespace moonfence::policy
