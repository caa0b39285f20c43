#pragma once

// The commands and options of the program as plain values, taken from the parser's own table: what
// completions and the manual page say can never be anything but what the parser accepts.

#include <string>
#include <vector>

namespace CLI {
class App;
}

namespace moonfence::app {

struct CommandTree {
  struct Option {
    std::vector<std::string> flags;  // "-o", "--output"; empty: a positional argument
    std::string name = {};           // of a positional argument
    std::string type = {};           // "FILE", "table|json"; empty: it takes no value
    std::string help = {};
    std::vector<std::string> words = {};  // the values that it takes, where they are known
    bool files = false;                   // of a positional argument: a file may stand for a word
  };
  std::string name;
  std::string help;
  std::string footer;  // examples, exit codes
  std::vector<Option> options;
  std::vector<CommandTree> commands;
};

[[nodiscard]] CommandTree tree_of(const CLI::App& app);

}  // namespace moonfence::app
