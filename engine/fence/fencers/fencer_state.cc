#include "fence/fencers/fencer_state.h"

namespace moonfence::fence {

using policy::Power;

std::string fault_of(const PowerQuestion::Word& word, bool is_ready) {
  const policy::PowerState& said = word.state;
  switch (said.power) {
    case Power::On:
    case Power::Served:
      return word.cannot.empty() ? std::string() : said.why + "; but " + word.cannot;
    case Power::Off:
      return is_ready ? said.why +
                            "; but the node is Ready: it asks about another machine, or the "
                            "power has failed this minute"
                      : std::string();
    case Power::Isolated:
      return is_ready ? said.why +
                            "; but the node is Ready: its pods cannot write to that storage until "
                            "the isolation is lifted"
                      : std::string();
    case Power::Unknown:
    case Power::Failed:
      return said.why;
  }
  return said.why;
}

std::string faults_of(const std::vector<PowerQuestion::Word>& words, bool is_ready) {
  std::string text;
  for (const PowerQuestion::Word& word : words) {
    if (const std::string fault = fault_of(word, is_ready); !fault.empty()) {
      text += (text.empty() ? "" : "; ") + word.fencer + ": " +
              std::string(to_string(word.state.power)) + ", " + fault;
    }
  }
  return text;
}

void FencerCounts::add(FencerState state) {
  switch (state) {
    case FencerState::Works:
      ++works;
      return;
    case FencerState::Broken:
      ++broken;
      return;
    case FencerState::None:
      ++none;
      return;
  }
}

std::string FencerCounts::text() const {
  return std::to_string(works) + " whose fencers work, " + std::to_string(broken) +
         " with a broken one, " + std::to_string(none) + " without any";
}

FencerState state_of(const std::vector<PowerQuestion::Word>& words, bool is_ready) {
  return words.empty()                        ? FencerState::None
         : faults_of(words, is_ready).empty() ? FencerState::Works
                                              : FencerState::Broken;
}

}  // namespace moonfence::fence
