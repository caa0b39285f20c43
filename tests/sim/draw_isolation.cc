#include <algorithm>
#include <array>

#include "sim/drawing.h"
#include "sim/net/chance.h"

namespace moonfence::sim {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr std::string_view kApi = "csiaddons.openshift.io/v1alpha1/";

// Half of the worlds have no other storage than one that does what it says.
FenceClassPlan draw_class(const std::string& name, bool well, port::Random& random) {
  FenceClassPlan drawn{.name = name, .takes = drawn_between(random, milliseconds(100), seconds(3))};
  // Whoever hears of it asks again a second later.
  drawn.lags =
      happens(random, 0.5) ? drawn_between(random, milliseconds(1), milliseconds(800)) : Duration();
  if (!well && happens(random, 0.7)) {
    switch (number(random, 0, 2)) {
      case 0:
        drawn.kind = FenceKind::Dead;
        break;
      case 1:
        drawn.kind = FenceKind::Failing;
        break;
      default:
        drawn.takes = drawn_between(random, seconds(5), seconds(60));
        break;
    }
  }
  return drawn;
}

// Behind the fencer of the BMCs, which stands there already.
void add_fencer(Drawing& drawing, bool isolates) {
  std::string classes;
  for (const FenceClassPlan& each : drawing.plan.fence_classes) {
    classes.append(classes.empty() ? "" : ", ").append(each.name);
  }
  std::string fencer = "- {fencer: network-fence";
  fencer.append(isolates ? ", isolate: true" : "").append(", settings: {drivers: [");
  fencer.append(kFencedDriver).append("], classes: [").append(classes).append("]}}\n");
  std::string& config = drawing.plan.config;
  config.insert(config.find('\n', config.find("{fencer: redfish")) + 1, fencer);
  std::string reads = "allowedReads: [v1/nodes, ";
  reads.append(kApi).append("csiaddonsnodes, ").append(kApi).append("networkfences]\n");
  add_config(drawing.plan, reads);
  if (isolates) {
    add_config(drawing.plan,
               std::string("allowedWrites: [").append(kApi).append("networkfences]\n"));
  }
}

// A person has some of them isolated: after a while, or for nothing.
void draw_hands(Drawing& drawing, port::Random& random) {
  constexpr std::array<Verb, 4> kFailures = {Verb::PartitionNode, Verb::Freeze, Verb::StopKubelet,
                                             Verb::PowerOff};
  const std::vector<Step> steps = drawing.plan.steps;
  for (const Step& step : steps) {
    if (std::find(kFailures.begin(), kFailures.end(), step.verb) != kFailures.end() &&
        happens(random, 0.6)) {
      drawing.add(step.at + drawn_between(random, seconds(5), seconds(80)), Verb::Isolate,
                  step.target);
    }
  }
  while (happens(random, 0.2)) {
    const Duration at = drawing.moment(random);
    drawing.add(at, Verb::Isolate, drawing.a_node(random));
  }
}

// The cable of a machine is cut for long enough, twice. What was found the first time is not so any
// more the second time.
void draw_second_outage(Drawing& drawing, port::Random& random) {
  const std::string& node = drawing.a_node(random);
  Duration at = drawn_between(random, seconds(1), seconds(20));
  drawing.add(at, Verb::PartitionNode, node);
  at += drawn_between(random, seconds(60), seconds(100));
  drawing.add(at, Verb::Heal, node);
  // Time for a person to reboot it.
  at += drawing.plan.timings.boot + drawn_between(random, seconds(20), seconds(90));
  drawing.add(at, Verb::PartitionNode, node);
  at += drawn_between(random, seconds(60), seconds(100));
  drawing.noise = std::max(drawing.noise, at);
}

}  // namespace

// The storage of one driver is one cluster or two, which can refuse machines. The BMCs before it
// are often dead.
void draw_isolation(Drawing& drawing, port::Random& random) {
  const bool well = happens(random, 0.5);
  drawing.plan.fence_classes.push_back(draw_class("ceph-a", well, random));
  if (happens(random, 0.5)) {
    drawing.plan.fence_classes.push_back(draw_class("ceph-b", well, random));
  }
  drawing.plan.lifting = happens(random, 0.2)   ? Lifting::Nobody
                         : happens(random, 0.5) ? Lifting::ByObject
                                                : Lifting::InStorage;
  for (BmcPlan& bmc : drawing.plan.bmcs) {
    if (happens(random, 0.6)) {
      bmc.kind = BmcKind::Dead;
      bmc.of.clear();
      bmc.takes = happens(random, 0.5) ? std::chrono::hours(1) : Duration();
    }
  }
  drawing.plan.settings.erase("proof");
  drawing.plan.settings[happens(random, 0.5) ? "proof" : std::string(kVolumeProofWord)] =
      "off,isolated";
  for (auto failures = number(random, 1, 3); failures > 0; --failures) {
    draw_long_failure(drawing, random);
  }
  if (happens(random, 0.7)) {
    draw_second_outage(drawing, random);
  }
  const bool isolates = happens(random, 0.5);
  if (!isolates) {
    draw_hands(drawing, *random.fork("hands"));
  }
  add_fencer(drawing, isolates);
}

// Some of it says that a machine is refused which writes on, which nobody can know.
void draw_lying_storage(Drawing& drawing, port::Random& random) {
  for (FenceClassPlan& each : drawing.plan.fence_classes) {
    if (happens(random, 0.6)) {
      each.kind = FenceKind::Lying;
      each.takes = drawn_between(random, milliseconds(100), seconds(3));
    }
  }
}

}  // namespace moonfence::sim
