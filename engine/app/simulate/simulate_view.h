#pragma once

// How a simulation is shown: as a timeline for people, or as JSON lines for programs.

#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "app/simulate/simulate_facts.h"
#include "sim/ground/story.h"
#include "sim/scenarios/scenario.h"

namespace moonfence::app {

// Something that happened, and what the run without moonfence had at the same time ("" nothing to
// say).
struct Told {
  sim::Happening happening;
  std::string stock;
};

class SimulateView {
 public:
  virtual ~SimulateView() = default;
  virtual void begin(const sim::Scenario& scenario) = 0;
  virtual void show(const Told& told) = 0;
  virtual void end(const SimulationFacts& facts) = 0;
};

// Takes text as it is to appear; called once for each line or block.
using Print = std::function<void(std::string_view)>;

[[nodiscard]] std::unique_ptr<SimulateView> make_timeline(Print print, bool colours);
[[nodiscard]] std::unique_ptr<SimulateView> make_json_lines(Print print);

// What a line of the timeline says; "" when the happening is not told to people.
[[nodiscard]] std::string timeline_text(const sim::Happening& happening);

}  // namespace moonfence::app
