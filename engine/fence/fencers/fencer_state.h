#pragma once

// What fencers are worth while nothing is wrong: by what they say of a machine that is well one
// sees whether they could prove, in the night, that it is off. Pure.

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "fence/fencers/power_question.h"
#include "policy/values/power.h"

namespace moonfence::fence {

// Of the fencers of one node.
enum class FencerState {
  Works,
  Broken,  // one of them, or more
  None,    // none is bound to it
};

[[nodiscard]] constexpr std::string_view to_string(FencerState state) {
  switch (state) {
    case FencerState::Works:
      return "works";
    case FencerState::Broken:
      return "broken";
    case FencerState::None:
      return "none";
  }
  return "none";
}

// What is wrong with such a word; "" nothing. Whose node is Ready has power: who says off of it
// looks at another machine, or lies.
[[nodiscard]] std::string fault_of(const PowerQuestion::Word& word, bool is_ready);
// Of all of them: "bmc: unknown, HTTP 401; cloud: failed, no such machine"; "" where all are sound.
[[nodiscard]] std::string faults_of(const std::vector<PowerQuestion::Word>& words, bool is_ready);
// How many nodes have such ones.
struct FencerCounts {
  std::size_t works = 0;
  std::size_t broken = 0;
  std::size_t none = 0;

  void add(FencerState state);
  [[nodiscard]] std::size_t all() const { return works + broken + none; }
  // "1 whose fencers work, 2 with a broken one, 3 without any"
  [[nodiscard]] std::string text() const;
};

[[nodiscard]] FencerState state_of(const std::vector<PowerQuestion::Word>& words, bool is_ready);

}  // namespace moonfence::fence
