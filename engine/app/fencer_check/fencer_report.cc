#include "app/fencer_check/fencer_report.h"

#include <utility>

#include "app/terminal/text_table.h"

namespace moonfence::app {

using fence::FencerState;
using nlohmann::ordered_json;

namespace {

constexpr const char* kNoneBound =
    "No fencer is configured: nothing can prove that a machine is off.\n"
    "Name one under `fencers` in the engine's configuration, and ask again: docs/proof.md, "
    "Fencers.\n";

FencerState state_of(const FencerReport::Node& node) {
  return fence::state_of(node.words, node.is_ready);
}

// Of a word that is as it should be, why it says so.
std::string why(const FencerReport::Node& node, const fence::PowerQuestion::Word& word) {
  const std::string fault = fence::fault_of(word, node.is_ready);
  return fault.empty() ? word.state.why : fault;
}

}  // namespace

fence::FencerCounts FencerReport::counts() const {
  fence::FencerCounts counts;
  for (const Node& node : nodes) {
    counts.add(state_of(node));
  }
  return counts;
}

std::string fencer_text(const FencerReport& report) {
  if (!report.any_bound) {
    return kNoneBound;
  }
  TextTable table({"NODE", "FENCER", "STATE", "WHY"});
  for (const FencerReport::Node& node : report.nodes) {
    for (const fence::PowerQuestion::Word& word : node.words) {
      table.add(
          {node.name, word.fencer, std::string(to_string(word.state.power)), why(node, word)});
    }
    if (node.words.empty()) {
      table.add({node.name, "", "", "no fencer: nothing can prove that it is off"});
    }
  }
  const fence::FencerCounts counts = report.counts();
  std::string text = table.text() + "Nodes: " + counts.text() + ".\n";
  return counts.works == counts.all()
             ? text
             : text + "What to do about it: docs/proof.md, Before the night.\n";
}

ordered_json fencer_document(const FencerReport& report) {
  ordered_json nodes = ordered_json::array();
  for (const FencerReport::Node& node : report.nodes) {
    ordered_json fencers = ordered_json::array();
    for (const fence::PowerQuestion::Word& word : node.words) {
      fencers.push_back({{"fencer", word.fencer},
                         {"power", to_string(word.state.power)},
                         {"works", fence::fault_of(word, node.is_ready).empty()},
                         {"why", why(node, word)}});
    }
    nodes.push_back({{"node", node.name},
                     {"ready", node.is_ready},
                     {"state", to_string(state_of(node))},
                     {"fencers", std::move(fencers)}});
  }
  const fence::FencerCounts counts = report.counts();
  return {{"kind", "FencerCheck"},
          {"works", counts.works},
          {"broken", counts.broken},
          {"none", counts.none},
          {"nodes", std::move(nodes)}};
}

}  // namespace moonfence::app
