#include "app/cli/man_page.h"

namespace moonfence::app {
namespace {

// Nothing of a text is taken for a request or an escape.
std::string literal(const std::string& text) {
  std::string out;
  bool line_begins = true;
  for (const char c : text) {
    if (line_begins && (c == '.' || c == '\'')) {
      out += "\\&";
    }
    out += c == '\\' ? "\\e" : c == '-' ? "\\-" : std::string(1, c);
    line_begins = c == '\n';
  }
  return out;
}

std::string option_text(const CommandTree::Option& option) {
  std::string heading;
  for (const std::string& flag : option.flags) {
    heading += (heading.empty() ? "\\fB" : ", \\fB") + literal(flag) + "\\fR";
  }
  if (option.flags.empty()) {
    heading = "\\fI" + literal(option.name) + "\\fR";
  } else if (!option.type.empty()) {
    heading += " \\fI" + literal(option.type) + "\\fR";
  }
  return ".TP\n" + heading + "\n" + literal(option.help) + "\n";
}

void append(std::string& text, const CommandTree& tree, const std::string& path) {
  for (const CommandTree& command : tree.commands) {
    const std::string name = path + " " + command.name;
    text += ".SS \"" + literal(name) + "\"\n" + literal(command.help) + ".\n";
    for (const CommandTree::Option& option : command.options) {
      text += option_text(option);
    }
    if (!command.footer.empty()) {
      std::string footer = command.footer;
      footer.erase(0, footer.find_first_not_of('\n'));
      text += ".PP\n.nf\n" + literal(footer) + "\n.fi\n";
    }
    append(text, command, name);
  }
}

}  // namespace

std::string man_page(const CommandTree& tree, const std::string& version) {
  std::string text = ".TH MOONFENCE 1 \"\" \"moonfence " + literal(version) +
                     "\" \"User Commands\"\n"
                     ".SH NAME\n"
                     "moonfence \\- fences the pods of failed Kubernetes nodes\n"
                     ".SH SYNOPSIS\n.B moonfence\n\\fICOMMAND\\fR [\\fIOPTION\\fR]...\n.br\n"
                     ".B kubectl moonfence\n\\fICOMMAND\\fR [\\fIOPTION\\fR]...\n"
                     ".SH DESCRIPTION\n" +
                     literal(tree.help) + ".\n.SH OPTIONS\n";
  for (const CommandTree::Option& option : tree.options) {
    text += option_text(option);
  }
  text += ".SH COMMANDS\n";
  append(text, tree, tree.name);
  std::string footer = tree.footer;
  footer.erase(0, footer.find_first_not_of('\n'));
  return text + ".SH EXAMPLES\n.nf\n" + literal(footer) + "\n.fi\n";
}

}  // namespace moonfence::app
