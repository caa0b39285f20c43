#include <array>

#include "sim/drawing.h"
#include "sim/net/chance.h"

namespace moonfence::sim {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

// What no engine may be taken in by.
void draw_fault(Drawing& drawing, BmcPlan& bmc, port::Random& random) {
  constexpr std::array<BmcKind, 9> kKinds = {BmcKind::Dead,    BmcKind::Busy,     BmcKind::Locked,
                                             BmcKind::Broken,  BmcKind::Refusing, BmcKind::Stubborn,
                                             BmcKind::Hanging, BmcKind::Stuck,    BmcKind::Late};
  const std::uint64_t drawn = number(random, 0, kKinds.size() + 2);
  if (drawn < kKinds.size()) {
    bmc.kind = kKinds[drawn];
    if (bmc.kind == BmcKind::Dead && happens(random, 0.5)) {
      bmc.takes = std::chrono::hours(1);  // nobody refuses either
    }
  } else if (drawn == kKinds.size()) {
    bmc.of = drawing.a_node(random);  // somebody has changed the cables
  } else {
    bmc.takes = drawn_between(random, seconds(2), seconds(12));
  }
}

void draw_bmc(Drawing& drawing, const std::string& node, bool well, port::Random& random) {
  BmcPlan bmc{.node = node};
  bmc.takes =
      happens(random, 0.5) ? drawn_between(random, milliseconds(10), seconds(2)) : Duration();
  bmc.off_takes =
      happens(random, 0.7) ? drawn_between(random, milliseconds(100), seconds(20)) : Duration();
  // Where somebody attests that a machine is off, nobody else switches it on.
  const Duration on_again =
      happens(random, 0.3) ? drawn_between(random, seconds(5), seconds(150)) : Duration();
  bmc.on_again = demands(drawing.plan, "attested") ? Duration() : on_again;
  if (!well && happens(random, 0.4)) {
    draw_fault(drawing, bmc, random);
  }
  bmc.of = bmc.of == node ? "" : bmc.of;
  drawing.plan.bmcs.push_back(std::move(bmc));
}

}  // namespace

void draw_long_failure(Drawing& drawing, port::Random& random) {
  constexpr std::array<Verb, 5> kVerbs = {Verb::PartitionNode, Verb::PartitionNode, Verb::Freeze,
                                          Verb::StopKubelet, Verb::PowerOff};
  const std::string& node = drawing.a_node(random);
  const Duration at = drawing.moment(random) / 2;
  drawing.add(at, kVerbs[number(random, 0, kVerbs.size() - 1)], node);
  if (happens(random, 0.3)) {
    drawing.add(drawn_between(random, at + seconds(1), drawing.noise - seconds(1)), Verb::Heal,
                node);
  }
}

// Every machine has a BMC, a fencer asks them, and what they say is demanded. A third of the worlds
// has only honest ones. A machine that gets its power takes longer to boot than a reading counts.
void draw_fencers(Drawing& drawing, port::Random& random) {
  drawing.plan.timings.boot = drawn_between(random, seconds(20), seconds(60));
  add_config(drawing.plan, happens(random, 0.5) ? "fencers:\n- {fencer: redfish, switchOff: true}\n"
                                                : "fencers:\n- {fencer: redfish}\n");
  while (happens(random, 0.5)) {
    draw_long_failure(drawing, random);
  }
  if (happens(random, 0.25)) {
    draw_proof(drawing, *random.fork("word"));
    drawing.plan.settings["proof"] = "off,attested";
  } else {
    drawing.plan.settings["proof"] = "off";
  }
  const bool well = happens(random, 0.34);
  for (const NodePlan& node : drawing.plan.nodes) {
    draw_bmc(drawing, node.name, well, random);
  }
}

// Somebody does not wait for Kubernetes where a machine is silent and off.
void draw_act_on_off(Drawing& drawing, port::Random& random) {
  bind_to_silence(drawing, "powerless",
                  {.mostly = "  actOn: off\n  after: 12s\n", .sometimes = "  actOn: off\n"},
                  random);
  for (auto failures = number(random, 1, 3); failures > 0; --failures) {
    draw_long_failure(drawing, random);
  }
}

// Some of them say that a machine is off which runs, which nobody can know.
void draw_liars(Drawing& drawing, port::Random& random) {
  for (BmcPlan& bmc : drawing.plan.bmcs) {
    if (happens(random, 0.4)) {
      bmc.kind = BmcKind::Lying;
      bmc.of.clear();
    }
  }
}

}  // namespace moonfence::sim
