#include <algorithm>
#include <array>

#include "sim/drawing.h"
#include "sim/net/chance.h"

namespace moonfence::sim {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

void fail(Drawing& drawing, port::Random& random, const std::string& node, Duration at, Verb verb,
          bool heals) {
  drawing.add(at, verb, node);
  if (heals) {
    drawing.add(
        std::min(at + drawn_between(random, seconds(1), seconds(70)), drawing.noise - seconds(1)),
        Verb::Heal, node);
  }
}

void flap(Drawing& drawing, port::Random& random, const std::string& node) {
  const bool quickly = happens(random, 0.5);
  Duration at = drawing.moment(random) / 2;
  while (at < drawing.noise - seconds(10)) {
    drawing.add(at, quickly ? Verb::NotReady : Verb::StopKubelet, node);
    at += quickly ? drawn_between(random, milliseconds(1), seconds(3))
                  : drawn_between(random, seconds(15), seconds(50));
    drawing.add(std::min(at, drawing.noise - seconds(1)), Verb::Heal, node);
    at += quickly ? drawn_between(random, milliseconds(1), seconds(3))
                  : drawn_between(random, seconds(1), seconds(15));
  }
}

}  // namespace

// How a machine fails, how it comes back, and how often.
void draw_machines(Drawing& drawing, port::Random& random) {
  const std::uint64_t pattern = number(random, 0, 5);
  if (pattern == 0) {  // a whole zone
    const std::string zone = drawing.plan.nodes[number(random, 0, 2)].zone;
    const Duration at = drawing.moment(random);
    const Verb verb = happens(random, 0.5) ? Verb::PowerOff : Verb::PartitionNode;
    for (const NodePlan& node : drawing.plan.nodes) {
      if (node.zone == zone) {
        fail(drawing, random, node.name, at, verb, happens(random, 0.5));
      }
    }
    return;
  }
  if (pattern == 1) {  // one that flaps
    flap(drawing, random, drawing.a_node(random));
    return;
  }
  // One, or a storm.
  const std::size_t count =
      pattern == 2 ? number(random, 2, drawing.plan.nodes.size() - 1) : number(random, 1, 2);
  for (std::size_t i = 0; i < count; ++i) {
    constexpr std::array<Verb, 5> kVerbs = {Verb::PowerOff, Verb::PartitionNode, Verb::StopKubelet,
                                            Verb::NotReady, Verb::RemoveReady};
    const Verb verb = kVerbs[number(random, 0, kVerbs.size() - 1)];
    const bool heals = verb == Verb::NotReady || verb == Verb::RemoveReady || happens(random, 0.4);
    fail(drawing, random, drawing.a_node(random), drawing.moment(random), verb, heals);
  }
}

void draw_engines(Drawing& drawing, port::Random& random) {
  const double chance = drawing.cruelty == 0 ? 0.1 : 0.4;
  for (int i = 0; i < drawing.plan.engines; ++i) {
    const std::string name = "moonfence-" + std::to_string(i);
    while (happens(random, chance)) {
      const Duration at = drawing.moment(random);
      switch (number(random, 0, 5)) {
        case 0:
          drawing.add(at, Verb::CrashEngine, name,
                      {{"for", text_of(drawn_between(random, milliseconds(10), seconds(10)))}});
          break;
        case 1:
          drawing.add(at, Verb::CrashEngine, name,
                      {{"for", text_of(drawn_between(random, milliseconds(10), seconds(10)))},
                       {"inside", std::to_string(number(random, 0, 30))}});
          break;
        case 2:
          drawing.add(at, Verb::StopEngine, name,
                      {{"for", text_of(drawn_between(random, milliseconds(10), seconds(5)))}});
          break;
        case 3:
          drawing.add(at, Verb::PauseEngine, name,
                      {{"for", text_of(drawn_between(random, milliseconds(100), seconds(40)))}});
          break;
        case 4:
          drawing.add(at, Verb::PartitionEngine, name,
                      {{"for", text_of(drawn_between(random, milliseconds(100), seconds(30)))}});
          break;
        default:
          drawing.add(
              at, Verb::StepClock, name,
              {{"by", (happens(random, 0.5) ? "-" : "") +
                          text_of(drawn_between(random, milliseconds(500), seconds(4000)))}});
          break;
      }
    }
  }
}

// Of nodes and of the control plane; those of replicas jump elsewhere.
void draw_clocks(Drawing& drawing, port::Random& random) {
  while (happens(random, 0.15)) {
    const Duration by = drawn_between(random, milliseconds(500), seconds(4000));
    const std::string jump = (happens(random, 0.5) ? "-" : "") + text_of(by);
    const Duration at = drawing.moment(random);
    if (happens(random, 0.7)) {
      drawing.add(at, Verb::StepNodeClock, drawing.a_node(random), {{"by", jump}});
    } else {
      drawing.add(at, Verb::StepServerClock, "", {{"by", jump}});
    }
  }
}

void draw_objects(Drawing& drawing, port::Random& random) {
  while (happens(random, 0.4)) {
    drawing.add(drawing.moment(random), Verb::ReplacePod,
                (happens(random, 0.5) ? "db/postgres-" : "queue/kafka-") +
                    std::to_string(number(random, 0, 2)));
  }
  if (happens(random, 0.15)) {
    drawing.add(drawing.moment(random), Verb::RecreateNode, drawing.a_node(random));
  }
  if (happens(random, 0.1)) {
    drawing.add(drawing.moment(random), Verb::DeleteNode, drawing.a_node(random));
  }
  if (happens(random, 0.2)) {
    drawing.add(drawing.moment(random), Verb::Scale, "db/postgres",
                {{"replicas", std::to_string(number(random, 0, 6))}});
  }
}

// A machine fails, and another one takes its name: at once, or after its Node was deleted.
void draw_made_anew(Drawing& drawing, port::Random& random) {
  if (!happens(random, 0.12)) {
    return;
  }
  const std::string& node = drawing.a_node(random);
  const Duration at = drawn_between(random, seconds(1), drawing.noise / 3);
  drawing.add(at, happens(random, 0.6) ? Verb::PowerOff : Verb::PartitionNode, node);
  const Duration anew = drawn_between(random, at + seconds(1), drawing.noise - seconds(5));
  if (happens(random, 0.4)) {
    drawing.add(drawn_between(random, at, anew), Verb::DeleteNode, node);
  }
  drawing.add(anew, Verb::RecreateNode, node);
}

// Machines are asked: they freeze, they are away for seconds, packets are lost, and somebody acts
// on lost ones.
namespace {

// Ways between a replica and a machine that others reach; for long, so that Kubernetes may call the
// node down meanwhile.
void draw_links(Drawing& drawing, port::Random& random) {
  while (happens(random, 0.5)) {
    drawing.add(
        drawing.moment(random) / 2, Verb::CutLink, drawing.a_node(random),
        {{"from",
          "moonfence-" + std::to_string(number(
                             random, 0, static_cast<std::uint64_t>(drawing.plan.engines) - 1))},
         {"for", text_of(drawn_between(random, seconds(2), seconds(200)))}});
  }
}

}  // namespace

void draw_detection(Drawing& drawing, port::Random& random) {
  drawing.plan.settings[std::string(kDetectionWord)] = "on";
  if (happens(random, 0.4)) {
    drawing.plan.faults.lost_packet = 0.05 + 0.45 * random.unit();
  }
  while (happens(random, 0.4)) {
    fail(drawing, random, drawing.a_node(random), drawing.moment(random), Verb::Freeze,
         happens(random, 0.8));
  }
  while (happens(random, 0.5)) {
    const std::string& node = drawing.a_node(random);
    const Duration at = drawing.moment(random) / 2;
    drawing.add(at, Verb::PartitionNode, node);
    drawing.add(at + drawn_between(random, milliseconds(500), seconds(20)), Verb::Heal, node);
  }
  draw_lost(drawing, random);
  draw_links(drawing, *random.fork("links"));
}

// New pods are kept off silent machines.
void draw_silent_taint(Drawing& drawing, port::Random& random) {
  if (happens(random, 0.5)) {
    drawing.plan.settings["silent-taint"] = "on";
  }
}

// Somebody looks after a machine that has lost its power, and mostly says so: never of one that has
// some. Where the engine says that it does not count, since it has heard the machine, somebody
// looks again when all is calm.
void draw_proof(Drawing& drawing, port::Random& random) {
  drawing.plan.settings["proof"] = "attested";
  const std::vector<Step> steps = drawing.plan.steps;
  const auto is_on = [&steps](const Step& off, Duration at) {
    return std::any_of(steps.begin(), steps.end(), [&off, at](const Step& other) {
      return (other.verb == Verb::Heal || other.verb == Verb::RecreateNode) &&
             other.target == off.target && other.at >= off.at && other.at <= at;
    });
  };
  for (const Step& off : steps) {
    if (off.verb != Verb::PowerOff || happens(random, 0.2)) {
      continue;
    }
    const Duration at = off.at + drawn_between(random, seconds(5), seconds(90));
    if (!is_on(off, at) && at < drawing.noise) {
      drawing.add(at, Verb::Attest, off.target);
    }
    if (!is_on(off, drawing.noise)) {
      drawing.add(drawing.noise, Verb::Attest, off.target);
    }
  }
}

}  // namespace moonfence::sim
