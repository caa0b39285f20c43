#pragma once

// What completes the command line: scripts for shells, and the answers that kubectl asks of its
// plugins. Pure.

#include <string>
#include <vector>

#include "app/cli/command_tree.h"

namespace moonfence::app {

// `shell`: bash, zsh or fish.
[[nodiscard]] std::string completion_script(const CommandTree& tree, const std::string& shell);

// kubectl 1.26 and later run kubectl_complete-moonfence for `kubectl moonfence <TAB>`: `line` is
// what stands behind the plugin's name, its last word the one that is being written. The answer is
// of cobra's form: a word and what it means to a line, then what the shell may add: ":0" files,
// ":4" nothing, ":16" folders. https://kubernetes.io/docs/tasks/extend-kubectl/kubectl-plugins/
[[nodiscard]] std::string kubectl_answer(const CommandTree& tree, std::vector<std::string> line);

}  // namespace moonfence::app
