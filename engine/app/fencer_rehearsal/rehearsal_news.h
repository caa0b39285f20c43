#pragma once

// The Events at a node whose machine is switched off for a rehearsal: who does it, before it is
// done, and what came of it; and what is said of that. Pure.

#include <string>

#include "kube/calls/events.h"
#include "kube/objects/objects.h"

namespace moonfence::app {

[[nodiscard]] kube::EventNews news_of_beginning(const kube::Node& node, const std::string& user,
                                                const std::string& fencer);
// It was begun, and nothing has left.
[[nodiscard]] kube::EventNews news_of_nothing(const kube::Node& node, const std::string& why);
// It was told, and is read off by somebody: mostly by the same fencer.
struct ReadOff {
  std::string fencer;
  std::string reader;
};
[[nodiscard]] kube::EventNews news_of_proof(const kube::Node& node, const ReadOff& off,
                                            const std::string& user);
[[nodiscard]] kube::EventNews news_of_failure(const kube::Node& node, const std::string& fencer,
                                              const std::string& why);

// The same for whoever has typed the command.
[[nodiscard]] std::string proven_text(const kube::Node& node, const ReadOff& off);
[[nodiscard]] std::string unproven_text(const kube::Node& node, const std::string& why);
// Why what is read off is not proven all the same.
[[nodiscard]] std::string unwritten_text(const ReadOff& off, const std::string& why);

}  // namespace moonfence::app
