#pragma once

// The Events at a node whose machine is switched off for a rehearsal: who does it, before it is
// done, and what came of it. Pure.

#include <string>

#include "kube/calls/events.h"
#include "kube/objects/objects.h"

namespace moonfence::app {

[[nodiscard]] kube::EventNews news_of_beginning(const kube::Node& node, const std::string& user,
                                                const std::string& fencer);
[[nodiscard]] kube::EventNews news_of_end(const kube::Node& node, bool proven,
                                          const std::string& text);

}  // namespace moonfence::app
