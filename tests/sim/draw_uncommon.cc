#include <array>

#include "sim/drawing.h"
#include "sim/net/chance.h"

namespace moonfence::sim {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

WorkloadPlan* find_workload(Drawing& drawing, std::string_view name) {
  for (WorkloadPlan& each : drawing.plan.workloads) {
    if (each.name == name) {
      return &each;
    }
  }
  return nullptr;
}

}  // namespace

// A grace of a week, a volume that lives and dies with its pod, an owner of a kind that nobody
// knows; pods that somebody has asked to go, and of which nothing runs any more.
void draw_uncommon_pods(Drawing& drawing, port::Random& random) {
  if (!happens(random, 0.25)) {
    return;
  }
  for (const std::string_view name : {"postgres", "kafka", "shop"}) {
    WorkloadPlan* each = find_workload(drawing, name);
    each->grace = happens(random, 0.3) ? seconds(604'800) : each->grace;
    each->inline_volume = happens(random, 0.3);
  }
  if (happens(random, 0.5)) {
    WorkloadPlan owned = workload(WorkloadKind::Bare, "queue/operand",
                                  static_cast<int>(number(random, 1, 3)), 0, {{"app", "operand"}});
    owned.owner = "Widget";
    owned.owner_controls = happens(random, 0.6);
    drawing.plan.workloads.push_back(std::move(owned));
  }
  while (happens(random, 0.5)) {
    const std::string pod = (happens(random, 0.5) ? "db/postgres-" : "queue/kafka-") +
                            std::to_string(number(random, 0, 2));
    const Duration at = drawing.moment(random);
    drawing.add(at, Verb::DeletePod, pod);
    if (happens(random, 0.4)) {
      drawing.add(at + drawn_between(random, milliseconds(1), seconds(5)), Verb::FailPod, pod);
    }
  }
}

// What nobody may touch, for a while, and now and then for good; and a node that is not counted.
void draw_marks(Drawing& drawing, port::Random& random) {
  if (!happens(random, 0.2)) {
    return;
  }
  add_config(drawing.plan,
             "holdMarks: [example.com/autonomy=true]\nbrake: {exclude: [example.com/spare]}\n");
  if (happens(random, 0.5)) {
    drawing.add(seconds(1), Verb::LabelNode, drawing.a_node(random),
                {{"key", "example.com/spare"}, {"value", "yes"}});
  }
  using Arguments = std::map<std::string, std::string>;
  struct Mark {
    Verb verb;
    std::string target;
    Arguments set;
    Arguments lifted;
  };
  const Arguments held = {{"why", "maintenance"}};
  const Arguments let_go = {};
  do {
    const std::array<Mark, 4> marks = {{
        {Verb::HoldNode, drawing.a_node(random), held, let_go},
        {Verb::AnnotateNode,
         drawing.a_node(random),
         {{"key", "example.com/autonomy"}, {"value", "true"}},
         {{"key", "example.com/autonomy"}}},
        {Verb::HoldNamespace, happens(random, 0.5) ? "db" : "noobaa", held, let_go},
        {Verb::HoldPod, "db/postgres-0", held, let_go},
    }};
    const Mark& mark = marks[number(random, 0, marks.size() - 1)];
    const Duration at = drawn_between(random, seconds(1), drawing.noise / 2);
    drawing.add(at, mark.verb, mark.target, mark.set);
    if (happens(random, 0.8)) {
      drawing.add(drawn_between(random, at + seconds(1), drawing.noise), mark.verb, mark.target,
                  mark.lifted);
    }
  } while (happens(random, 0.4));
}

void draw_uncommon_volumes(Drawing& drawing, port::Random& random) {
  if (!happens(random, 0.2)) {
    return;
  }
  constexpr std::array<std::string_view, 2> kDrivers = {kOddDriver, kInTreeDriver};
  for (const std::string_view name : {"postgres", "kafka", "uploads"}) {
    if (happens(random, 0.6)) {
      find_workload(drawing, name)->driver = kDrivers[number(random, 0, kDrivers.size() - 1)];
    }
  }
}

}  // namespace moonfence::sim
