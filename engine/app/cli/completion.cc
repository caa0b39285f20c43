#include "app/cli/completion.h"

#include <algorithm>
#include <functional>

namespace moonfence::app {
namespace {

// Calls `visit` for each command, with the words that lead to it: "", "policy", "policy test".
void for_each(const CommandTree& tree, const std::string& path,
              const std::function<void(const std::string&, const CommandTree&)>& visit) {
  visit(path, tree);
  for (const CommandTree& command : tree.commands) {
    for_each(command, path.empty() ? command.name : path + " " + command.name, visit);
  }
}

std::string joined(const std::vector<std::string>& words) {
  std::string text;
  for (const std::string& word : words) {
    text += (text.empty() ? "" : " ") + word;
  }
  return text;
}

// For single quotes of a shell.
std::string in_quotes(const std::string& text) {
  std::string out = "'";
  for (const char c : text) {
    if (c == '\'') {
      out += "'\\''";
    } else {
      out += c == '\n' ? ' ' : c;
    }
  }
  return out + "'";
}

// What a shell may offer for a value.
enum class Offer { Words, Files, Folders, Nothing };

Offer offer_for(const CommandTree::Option& option) {
  const std::string& what = option.flags.empty() ? option.name : option.type;
  return what == "FILE" || what == "PATH" ? Offer::Files
         : what == "DIR"                  ? Offer::Folders
         : option.words.empty()           ? Offer::Nothing
                                          : Offer::Words;
}

// Not of flags, nor of "[=MIN]", whose value stands in the same word.
bool takes_next_word(const CommandTree::Option& option) {
  return !option.flags.empty() && !option.type.empty() && !option.type.starts_with('[');
}

// What may stand there: subcommands, flags, the words of a positional argument.
std::string words_at(const CommandTree& tree) {
  std::vector<std::string> words;
  for (const CommandTree& command : tree.commands) {
    words.push_back(command.name);
  }
  for (const CommandTree::Option& option : tree.options) {
    words.insert(words.end(), option.flags.begin(), option.flags.end());
    words.insert(words.end(), option.words.begin(),
                 option.flags.empty() ? option.words.end() : option.words.begin());
  }
  return joined(words);
}

bool has_files(const CommandTree& tree) {
  return std::any_of(tree.options.begin(), tree.options.end(), [](const auto& option) {
    return option.flags.empty() && (option.files || offer_for(option) == Offer::Files);
  });
}

std::string all_paths(const CommandTree& tree, const std::string& between) {
  std::string paths;
  for_each(tree, "", [&](const std::string& path, const CommandTree&) {
    if (!path.empty()) {
      paths += (paths.empty() ? "" : between) + in_quotes(path);
    }
  });
  return paths;
}

std::string offered(const CommandTree::Option& option) {
  switch (offer_for(option)) {
    case Offer::Words:
      return "choices=" + in_quotes(joined(option.words));
    case Offer::Files:
      return "choices='' files=any";
    case Offer::Folders:
      return "choices='' files=folders";
    case Offer::Nothing:
      return "choices=''";
  }
  return {};
}

// bash and zsh share it: both know `case`, and local variables place and before.
std::string tables(const CommandTree& tree) {
  std::string values;
  std::string words;
  for_each(tree, "", [&](const std::string& path, const CommandTree& command) {
    words += "    " + in_quotes(path) + ") choices=" + in_quotes(words_at(command)) +
             (has_files(command) ? " files=any" : "") + " ;;\n";
    for (const CommandTree::Option& option : command.options) {
      if (!takes_next_word(option)) {
        continue;
      }
      std::string patterns;
      for (const std::string& flag : option.flags) {
        std::string both = path;
        both += " ";
        both += flag;
        patterns += (patterns.empty() ? "" : "|") + in_quotes(both);
      }
      values += "    " + patterns + ") files=''; " + offered(option) + " ;;\n";
    }
  });
  return "  for word in \"${line[@]}\"; do\n"
         "    case \"${place:+$place }$word\" in\n      " +
         all_paths(tree, "|") +
         ") place=\"${place:+$place }$word\" ;;\n"
         "    esac\n"
         "  done\n"
         "  case \"$place\" in\n" +
         words +
         "  esac\n"
         "  case \"$place $before\" in\n" +
         values + "  esac\n";
}

// readline takes the '=' of --output=json for a word of its own.
std::string for_bash(const CommandTree& tree) {
  return "# bash completion of moonfence, made by `moonfence completion bash`\n"
         "_moonfence() {\n"
         "  local current=\"${COMP_WORDS[COMP_CWORD]}\" before=\"${COMP_WORDS[COMP_CWORD-1]}\"\n"
         "  local place='' choices='' files='' word found=()\n"
         "  local line=(\"${COMP_WORDS[@]:1:COMP_CWORD-1}\")\n"
         "  if [ \"$current\" = '=' ]; then\n"
         "    current=''\n"
         "  elif [ \"$before\" = '=' ]; then\n"
         "    before=\"${COMP_WORDS[COMP_CWORD-2]}\"\n"
         "  fi\n" +
         tables(tree) +
         "  COMPREPLY=($(compgen -W \"$choices\" -- \"$current\"))\n"
         "  if [ -n \"$files\" ]; then\n"
         "    compopt -o filenames 2>/dev/null\n"
         "    [ \"$files\" = folders ] && files=-d || files=-f\n"
         "    mapfile -t found < <(compgen \"$files\" -- \"$current\")\n"
         "    COMPREPLY+=(\"${found[@]}\")\n"
         "  fi\n"
         "}\n"
         "complete -F _moonfence moonfence kubectl-moonfence\n";
}

std::string for_zsh(const CommandTree& tree) {
  return "#compdef moonfence kubectl-moonfence\n"
         "# zsh completion of moonfence, made by `moonfence completion zsh`\n"
         "_moonfence() {\n"
         "  local before=\"${words[CURRENT-1]}\" place='' choices='' files='' word\n"
         "  local -a line=(\"${(@)words[2,CURRENT-1]}\")\n"
         "  if [[ \"$PREFIX\" == --*=* ]]; then\n"
         "    before=\"${PREFIX%%=*}\"\n"
         "    compset -P '*='\n"
         "  fi\n" +
         tables(tree) +
         "  compadd -- ${=choices}\n"
         "  case \"$files\" in\n"
         "    folders) _files -/ ;;\n"
         "    any) _files ;;\n"
         "  esac\n"
         "}\n"
         "if [ \"$funcstack[1]\" = \"_moonfence\" ]; then\n"
         "  _moonfence \"$@\"\n"
         "else\n"
         "  compdef _moonfence moonfence kubectl-moonfence\n"
         "fi\n";
}

// A line of fish's own language for one option.
std::string fish_option(const CommandTree::Option& option) {
  std::string text;
  for (const std::string& flag : option.flags) {
    text += flag.starts_with("--") ? " -l " + flag.substr(2) : " -s " + flag.substr(1);
  }
  if (takes_next_word(option)) {
    switch (offer_for(option)) {
      case Offer::Words:
        text += " -x -a " + in_quotes(joined(option.words));
        break;
      case Offer::Files:
        text += " -r -F";
        break;
      case Offer::Folders:
        text += " -x -a '(__fish_complete_directories)'";
        break;
      case Offer::Nothing:
        text += " -x";
        break;
    }
  }
  return text + " -d " + in_quotes(option.help);
}

// One line for each word that may follow a command.
std::string for_fish(const CommandTree& tree) {
  std::string text =
      "# fish completion of moonfence, made by `moonfence completion fish`\n"
      "function __moonfence_at\n"
      "    set -l place\n"
      "    for word in (commandline -opc)[2..-1]\n"
      "        switch \"$place $word\"\n"
      "            case ";
  std::string cases;
  for_each(tree, "", [&cases](const std::string& path, const CommandTree&) {
    cases += path.empty() ? "" : (cases.empty() ? "" : " ") + in_quotes(" " + path);
  });
  text += cases +
          "\n"
          "                set place \"$place $word\"\n"
          "        end\n"
          "    end\n"
          "    test \"$place\" = \"$argv[1]\"\n"
          "end\n"
          "complete -c kubectl-moonfence -w moonfence\n"
          "complete -c moonfence -f\n";
  for_each(tree, "", [&text](const std::string& path, const CommandTree& command) {
    const std::string at =
        "complete -c moonfence -n " +
        in_quotes("__moonfence_at \"" + (path.empty() ? path : " " + path) + "\"");
    for (const CommandTree& next : command.commands) {
      text += at + " -a " + next.name + " -d " + in_quotes(next.help) + "\n";
    }
    for (const CommandTree::Option& option : command.options) {
      if (!option.flags.empty()) {
        text += at + fish_option(option) + "\n";
      } else if (!option.words.empty()) {
        text += at + " -a " + in_quotes(joined(option.words)) + "\n";
      }
    }
    text += has_files(command) ? at + " -F\n" : "";
  });
  return text;
}

// The command that these words lead to, as the scripts find it: options and their values may stand
// between.
const CommandTree& command_at(const CommandTree& tree, const std::vector<std::string>& line) {
  const CommandTree* place = &tree;
  for (const std::string& word : line) {
    const auto next = std::find_if(place->commands.begin(), place->commands.end(),
                                   [&word](const CommandTree& each) { return each.name == word; });
    place = next == place->commands.end() ? place : &*next;
  }
  return *place;
}

const CommandTree::Option* option_named(const CommandTree& command, const std::string& flag) {
  const auto found = std::find_if(
      command.options.begin(), command.options.end(), [&flag](const CommandTree::Option& option) {
        return takes_next_word(option) &&
               std::find(option.flags.begin(), option.flags.end(), flag) != option.flags.end();
      });
  return found == command.options.end() ? nullptr : &*found;
}

// Words of cobra's protocol, those that begin as `begun` does.
class Answer {
 public:
  explicit Answer(std::string begun) : begun_(std::move(begun)) {}
  void add(const std::string& word, const std::string& help = {}) {
    if (word.starts_with(begun_)) {
      text_ += word;
      text_ += help.empty() ? "\n" : "\t" + help.substr(0, help.find('\n')) + "\n";
    }
  }
  void add_all(const std::vector<std::string>& words) {
    for (const std::string& word : words) {
      add(word);
    }
  }
  [[nodiscard]] std::string with(Offer shell_adds) const {
    return text_ + (shell_adds == Offer::Files     ? ":0\n"
                    : shell_adds == Offer::Folders ? ":16\n"
                                                   : ":4\n");
  }

 private:
  std::string begun_;
  std::string text_;
};

}  // namespace

std::string kubectl_answer(const CommandTree& tree, std::vector<std::string> line) {
  std::string begun = line.empty() ? std::string() : line.back();
  std::string before = line.size() < 2 ? std::string() : line[line.size() - 2];
  if (!line.empty()) {
    line.pop_back();
  }
  if (const std::size_t value = begun.find('='); begun.starts_with("--") && value != begun.npos) {
    before = begun.substr(0, value);
    begun = begun.substr(value + 1);
  }
  Answer answer(begun);
  const CommandTree& command = command_at(tree, line);
  if (const CommandTree::Option* const option = option_named(command, before)) {
    answer.add_all(option->words);
    return answer.with(offer_for(*option));
  }
  for (const CommandTree& next : command.commands) {
    answer.add(next.name, next.help);
  }
  for (const CommandTree::Option& option : command.options) {
    if (option.flags.empty()) {
      answer.add_all(option.words);
    } else if (begun.starts_with('-')) {  // as kubectl offers its own flags: when one is begun
      for (const std::string& flag : option.flags) {
        answer.add(flag, option.help);
      }
    }
  }
  return answer.with(has_files(command) ? Offer::Files : Offer::Nothing);
}

std::string completion_script(const CommandTree& tree, const std::string& shell) {
  return shell == "fish" ? for_fish(tree) : shell == "zsh" ? for_zsh(tree) : for_bash(tree);
}

}  // namespace moonfence::app
