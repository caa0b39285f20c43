#pragma once

// What the parts of a draw share: the plan as far as it is drawn, and how cruel it is to be. Each
// concern is a function with a stream of chance of its own, in the file of its idea:
//
//   draw_cluster.cc   nodes, workloads, versions, where replicas sit
//   draw_machines.cc  what happens to machines, clocks and objects, and to the replicas
//   draw_fencers.cc   machines' BMCs, and the fencer that asks them
//   draw_isolation.cc storage that can refuse machines, and the fencer that has it told to
//   draw_servers.cc   the wire, the API servers, their store, the storage system
//   draw_settings.cc  the engine's settings, and edits of the policies
//   draw_uncommon.cc  pods, volumes and policies that are seldom seen
//   draw_ending.cc    what ends when all is calm, beside the faults
//
// A new concern has a new stream and comes last: what is drawn from older ones stays as it is.
// Private to sim.

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/time.h"
#include "port/random.h"
#include "sim/ground/plan.h"

namespace moonfence::sim {

struct Drawing {
  Plan plan;
  Duration noise{};  // how long it is not calm
  int cruelty = 0;   // 0 to 2: calm, unpleasant, cruel

  void add(Duration at, Verb verb, const std::string& target,
           std::map<std::string, std::string> arguments = {});
  // While it is not calm.
  [[nodiscard]] Duration moment(port::Random& random) const;
  [[nodiscard]] const std::string& a_node(port::Random& random) const;
};

// Uniform, from and to included.
[[nodiscard]] Duration drawn_between(port::Random& random, Duration from, Duration to);
// Another entry of the engine's configuration.
void add_config(Plan& plan, std::string_view entry);
// In milliseconds, as a scenario writes it.
[[nodiscard]] std::string text_of(Duration duration);

void draw_shape(Drawing& drawing, port::Random& random);
void draw_uncommon_nodes(Drawing& drawing, port::Random& random);
void draw_long_dead(Drawing& drawing, port::Random& random);
void draw_joining(Drawing& drawing, port::Random& random);
void draw_replicas(Drawing& drawing, port::Random& random);
void draw_workloads(Drawing& drawing, port::Random& random);
void draw_timings(Drawing& drawing, port::Random& random);
void draw_controllers(Drawing& drawing, port::Random& random);
void draw_seats(Drawing& drawing, port::Random& random);

void draw_machines(Drawing& drawing, port::Random& random);
void draw_engines(Drawing& drawing, port::Random& random);
void draw_clocks(Drawing& drawing, port::Random& random);
void draw_objects(Drawing& drawing, port::Random& random);
void draw_made_anew(Drawing& drawing, port::Random& random);
void draw_detection(Drawing& drawing, port::Random& random);
void draw_proof(Drawing& drawing, port::Random& random);
void draw_silent_taint(Drawing& drawing, port::Random& random);

void draw_fencers(Drawing& drawing, port::Random& random);
void draw_liars(Drawing& drawing, port::Random& random);
void draw_act_on_off(Drawing& drawing, port::Random& random);
// One of the failures in which containers run on, or one in which they do not, for long enough that
// Kubernetes calls the node down.
void draw_long_failure(Drawing& drawing, port::Random& random);

void draw_isolation(Drawing& drawing, port::Random& random);
void draw_lying_storage(Drawing& drawing, port::Random& random);

void draw_wire(Drawing& drawing, port::Random& random);
void draw_servers(Drawing& drawing, port::Random& random);
void draw_refusals(Drawing& drawing, port::Random& random);
void draw_hushes(Drawing& drawing, port::Random& random);
void draw_hidden_objects(Drawing& drawing, port::Random& random);
void draw_slowness(Drawing& drawing, port::Random& random);
void draw_storage(Drawing& drawing, port::Random& random);
void draw_rewind(Drawing& drawing, port::Random& random);

void draw_release(Drawing& drawing, port::Random& random);
void draw_verification(Drawing& drawing, port::Random& random);
void draw_edits(Drawing& drawing, port::Random& random);
void draw_brake(Drawing& drawing, port::Random& random);
void draw_quarantine(Drawing& drawing, port::Random& random);

void draw_uncommon_pods(Drawing& drawing, port::Random& random);
void draw_uncommon_volumes(Drawing& drawing, port::Random& random);

void draw_asking(Drawing& drawing, port::Random& random);
void draw_marks(Drawing& drawing, port::Random& random);

void draw_last_word(Drawing& drawing, port::Random& random);
void draw_relief(Drawing& drawing, port::Random& random);

// A binding that acts on lost nodes, in a third of the worlds.
void draw_lost(Drawing& drawing, port::Random& random);
// Binds a policy that deletes every pod of what is not heard; the lines of the binding say when.
struct WhenSilent {
  std::string_view mostly;
  std::string_view sometimes;
};
void bind_to_silence(Drawing& drawing, const std::string& policy, const WhenSilent& when,
                     port::Random& random);

[[nodiscard]] std::vector<WorkloadPlan> default_workloads();
[[nodiscard]] WorkloadPlan workload(WorkloadKind kind, const std::string& path, int replicas,
                                    int volumes, std::map<std::string, std::string> labels);

}  // namespace moonfence::sim
