#include "app/cli/command_tree.h"

#include <CLI/CLI.hpp>

namespace moonfence::app {
namespace {

// Of a type such as "observe|enforce|off".
std::vector<std::string> words_of(const std::string& type) {
  std::vector<std::string> words;
  if (type.find('|') == std::string::npos) {
    return words;
  }
  std::string word;
  for (const char c : type + "|") {
    if (c != '|') {
      word += c;
    } else {
      // N|max names a number, which nobody can list.
      if (!word.empty() && (word.front() < 'A' || word.front() > 'Z')) {
        words.push_back(word);
      }
      word.clear();
    }
  }
  return words;
}

CommandTree::Option option_of(const CLI::Option& option) {
  CommandTree::Option out;
  for (const std::string& name : option.get_snames()) {
    out.flags.push_back("-" + name);
  }
  for (const std::string& name : option.get_lnames()) {
    out.flags.push_back("--" + name);
  }
  out.name = option.get_name(/*positional=*/true);
  const bool is_flag = option.get_items_expected_max() == 0 || option.get_expected_max() == 0;
  out.type = is_flag ? std::string() : option.get_type_name();
  out.help = option.get_description();
  out.words = words_of(out.type);
  return out;
}

}  // namespace

CommandTree tree_of(const CLI::App& app) {
  CommandTree tree = {.name = app.get_name(),
                      .help = app.get_description(),
                      .footer = app.get_footer(),
                      .options = {},
                      .commands = {}};
  for (const CLI::Option* option : app.get_options({})) {
    tree.options.push_back(option_of(*option));
  }
  for (const CLI::App* command : app.get_subcommands([](const CLI::App*) { return true; })) {
    tree.commands.push_back(tree_of(*command));
  }
  return tree;
}

}  // namespace moonfence::app
