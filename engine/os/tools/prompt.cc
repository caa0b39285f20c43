#include "os/tools/prompt.h"

#include <array>
#include <cstdio>

#include <unistd.h>

namespace moonfence::os {

std::optional<std::string> ask_at_terminal(std::string_view question) {
  if (isatty(STDIN_FILENO) != 1) {
    return std::nullopt;
  }
  std::fwrite(question.data(), 1, question.size(), stderr);
  std::fflush(stderr);
  std::array<char, 512> line{};
  if (std::fgets(line.data(), static_cast<int>(line.size()), stdin) == nullptr) {
    return std::nullopt;
  }
  std::string typed(line.data());
  while (!typed.empty() && (typed.back() == '\n' || typed.back() == '\r')) {
    typed.pop_back();
  }
  return typed;
}

}  // namespace moonfence::os
