#pragma once

// One YAML document as a bounded tree of plain values. The parser's events are read directly, so a
// hostile text is refused before anything grows: size, depth and number of values are limited and
// aliases, which multiply, are not accepted. No exception leaves this file.

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace moonfence::kube {

struct Yaml {
  enum class Kind { Null, Scalar, Sequence, Map };

  Kind kind = Kind::Null;
  int line = 0;                   // counted from 1
  std::string text;               // of a Scalar
  bool quoted = false;            // a quoted Scalar is a string whatever it looks like
  std::vector<std::string> keys;  // of a Map, in the order written
  std::vector<int> key_lines;     // of a Map, beside its keys
  std::vector<Yaml> items;        // of a Sequence; of a Map, the values beside their keys

  // The value of a key; null when this is no map, lacks the key or has null there.
  [[nodiscard]] const Yaml* find(std::string_view key) const;
};

struct YamlLimits {
  std::size_t bytes = 1U << 20U;
  std::size_t depth = 32;
  std::size_t values = 200'000;
  bool plain = false;  // anchors and tags are refused too, not read over
};

// An empty text is Null. Malformed for what is no YAML, holds a key twice, an alias or a second
// document; Limit beyond the limits. The text says "line N: ..." where a line is known.
[[nodiscard]] Result<Yaml> parse_yaml(std::string_view text, const YamlLimits& limits = {});

}  // namespace moonfence::kube
