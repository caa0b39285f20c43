#include "sim/draw.h"

#include <algorithm>
#include <utility>

#include "port/seeded_random.h"
#include "sim/drawing.h"
#include "sim/net/chance.h"
#include "sim/truth/settling.h"

namespace moonfence::sim {
namespace {

using std::chrono::seconds;

void end(Drawing& drawing) {
  drawing.add(drawing.noise, Verb::Calm, "");
  std::vector<Step>& steps = drawing.plan.steps;
  std::stable_sort(steps.begin(), steps.end(),
                   [](const Step& a, const Step& b) { return a.at < b.at; });
  drawing.plan.length = drawing.noise + closing_time(drawing.plan) + seconds(5);
}

bool acts_on_off(std::uint64_t seed) {
  return seed >= kFirstThatActOnOff && seed < kFirstThatLie;
}

// A machine is silent where a second replica bears that out.
void draw_witness(Drawing& drawing, port::Random& random) {
  if (happens(random, 0.7)) {
    drawing.plan.engines = std::max(drawing.plan.engines, 2);
  }
}

// What is demanded before anything is deleted.
void draw_demands(Drawing& drawing, port::Random& random, std::uint64_t seed) {
  if (seed >= kFirstWithFencers && seed <= kLastWithFencers) {
    draw_fencers(drawing, *random.fork("fencers"));
    if (seed >= kFirstThatPublish) {
      add_config(drawing.plan, "publishEvidence: on\n");
    } else if (acts_on_off(seed)) {
      draw_act_on_off(drawing, *random.fork("act-on-off"));
    } else if (seed >= kFirstThatIsolate) {
      draw_isolation(drawing, *random.fork("isolation"));
      if (seed >= kFirstWhoseStorageLies) {
        draw_lying_storage(drawing, *random.fork("lying-storage"));
      }
    } else if (seed >= kFirstThatLie) {
      draw_liars(drawing, *random.fork("liars"));
    }
  } else if (seed >= kFirstWithProof) {
    draw_proof(drawing, *random.fork("proof"));
  }
}

// One concern after the other.
Plan draw_all(port::Random& random, std::uint64_t seed) {
  Drawing drawing;
  drawing.plan.name = "seed";
  draw_shape(drawing, *random.fork("shape"));
  if (acts_on_off(seed)) {
    draw_witness(drawing, *random.fork("witness"));
  }
  draw_uncommon_nodes(drawing, *random.fork("uncommon-nodes"));
  draw_replicas(drawing, *random.fork("replicas"));
  draw_workloads(drawing, *random.fork("workloads"));
  drawing.plan.policies = draw_policies(*random.fork("policies"));
  draw_timings(drawing, *random.fork("timings"));
  draw_release(drawing, *random.fork("release"));
  const auto cruelty = random.fork("cruelty");
  // A third of the worlds is calm, a third unpleasant, a third cruel.
  drawing.cruelty = static_cast<int>(number(*cruelty, 0, 2));
  draw_wire(drawing, *random.fork("wire"));
  draw_machines(drawing, *random.fork("machines"));
  draw_engines(drawing, *random.fork("engines"));
  draw_servers(drawing, *random.fork("servers"));
  draw_controllers(drawing, *random.fork("controllers"));
  draw_storage(drawing, *random.fork("storage"));
  draw_objects(drawing, *random.fork("objects"));
  draw_edits(drawing, *random.fork("edits"));
  draw_brake(drawing, *random.fork("brake"));
  draw_quarantine(drawing, *random.fork("quarantine"));
  draw_verification(drawing, *random.fork("verification"));
  draw_refusals(drawing, *random.fork("refusals"));
  draw_hushes(drawing, *random.fork("hushes"));
  draw_slowness(drawing, *random.fork("slowness"));
  draw_clocks(drawing, *random.fork("clocks"));
  draw_seats(drawing, *random.fork("seats"));
  draw_rewind(drawing, *random.fork("rewind"));
  draw_made_anew(drawing, *random.fork("made-anew"));
  draw_uncommon_pods(drawing, *random.fork("uncommon-pods"));
  draw_uncommon_volumes(drawing, *random.fork("uncommon-volumes"));
  draw_long_dead(drawing, *random.fork("long-dead"));
  draw_joining(drawing, *random.fork("joining"));
  draw_hidden_objects(drawing, *random.fork("hidden-objects"));
  draw_asking(drawing, *random.fork("asking"));
  draw_marks(drawing, *random.fork("marks"));
  draw_last_word(drawing, *random.fork("last-word"));
  draw_relief(drawing, *random.fork("relief"));
  if (seed >= kFirstThatDetects && (seed % 2 == 0 || acts_on_off(seed))) {
    draw_detection(drawing, *random.fork("detection"));
    draw_silent_taint(drawing, *random.fork("silent-taint"));
  }
  draw_demands(drawing, random, seed);
  end(drawing);
  return std::move(drawing.plan);
}

}  // namespace

void Drawing::add(Duration at, Verb verb, const std::string& target,
                  std::map<std::string, std::string> arguments) {
  plan.steps.push_back(
      {.at = at, .verb = verb, .target = target, .arguments = std::move(arguments)});
}

Duration Drawing::moment(port::Random& random) const {
  return drawn_between(random, seconds(1), noise - seconds(10));
}

const std::string& Drawing::a_node(port::Random& random) const {
  return plan.nodes[number(random, 0, plan.nodes.size() - 1)].name;
}

Duration drawn_between(port::Random& random, Duration from, Duration to) {
  return within(random, {.from = from, .to = to});
}

std::string text_of(Duration duration) {
  return format_duration(std::chrono::duration_cast<std::chrono::milliseconds>(duration));
}

void add_config(Plan& plan, std::string_view entry) {
  plan.config += plan.config.empty() ? "api: 1\n" : "";
  plan.config += entry;
}

Plan default_world() {
  Plan plan;
  plan.name = "default";
  for (int i = 1; i <= 5; ++i) {
    NodePlan node;
    node.name = "n" + std::to_string(i);
    node.zone = i < 4 ? "a" : "b";
    plan.nodes.push_back(std::move(node));
  }
  plan.workloads = default_workloads();
  plan.policies = default_policies();
  plan.steps.push_back(
      {.at = seconds(10), .verb = Verb::PowerOff, .target = "n2", .arguments = {}});
  plan.length = seconds(120);
  return plan;
}

Plan draw(std::uint64_t seed) {
  port::SeededRandom random(seed);
  Plan plan = draw_all(random, seed);
  plan.name = "seed " + std::to_string(seed);
  return plan;
}

std::string describe(const Plan& plan) {
  int pods = 0;
  int volumes = 0;
  for (const WorkloadPlan& each : plan.workloads) {
    const int count =
        each.kind == WorkloadKind::DaemonSet ? static_cast<int>(plan.nodes.size()) : each.replicas;
    pods += count;
    volumes += each.kind == WorkloadKind::StatefulSet ? count * each.volumes : each.volumes;
  }
  std::string text = std::to_string(plan.nodes.size());
  text += " nodes, " + std::to_string(pods);
  text += " pods, " + std::to_string(volumes);
  text += " volumes, " + std::to_string(plan.engines);
  text += " engine(s), " + std::to_string(plan.servers);
  text += " server(s), " + std::to_string(plan.steps.size());
  text += " steps, " + format_duration(std::chrono::duration_cast<seconds>(plan.length));
  return text;
}

}  // namespace moonfence::sim
