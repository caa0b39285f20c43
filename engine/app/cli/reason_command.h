#pragma once

// `moonfence reason`: what a word of the records means and what to do about it, at the terminal.

#include <string>

namespace CLI {
class App;
}

namespace moonfence::app {

struct ReasonOptions {
  std::string code;  // empty: all of them
};

void add_reason(CLI::App& app, ReasonOptions& options);

struct ReasonAnswer {
  bool known = true;
  std::string text;
};
[[nodiscard]] ReasonAnswer reason_answer(const ReasonOptions& options);

}  // namespace moonfence::app
