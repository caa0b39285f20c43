#pragma once

// Follows the strings and brackets of JSON text, nothing more: enough to tell where a value ends
// and how deep it nests, at memory speed. Whether the text is JSON is the parser's question.

#include <cstddef>
#include <string_view>

namespace moonfence::kube {

struct Nesting {
  int depth = 0;
  int deepest = 0;
  bool in_string = false;
  bool escape = false;

  // Reads on until a bracket closes down to `floor` (that byte included) or the text ends; how many
  // bytes were read. State carries over to the next piece of the same text.
  std::size_t follow(std::string_view text, int floor);
};

}  // namespace moonfence::kube
