#pragma once

// What the fencers of nodes have said, as `moonfence fencer check` prints it. Pure.

#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "fence/fencers/fencer_state.h"

namespace moonfence::app {

struct FencerReport {
  struct Node {
    std::string name;
    bool is_ready = false;
    std::vector<fence::PowerQuestion::Word> words = {};  // empty: no fencer is bound to it
  };
  std::vector<Node> nodes;
  bool any_bound = true;  // false: the configuration has no fencer

  [[nodiscard]] fence::FencerCounts counts() const;
};

[[nodiscard]] std::string fencer_text(const FencerReport& report);
[[nodiscard]] nlohmann::ordered_json fencer_document(const FencerReport& report);

}  // namespace moonfence::app
