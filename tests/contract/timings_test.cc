// The simulated controllers take as long as real ones. The table, timings.json, is the one that
// tests/e2e/test_contract_timings.py holds a real control plane to; measured here in virtual time,
// with the flags of that control plane.

#include <algorithm>
#include <fstream>
#include <limits>
#include <set>

#include <gmock/gmock.h>
#include <nlohmann/json.hpp>

#include "unit/sim/cluster_fixture.h"

namespace moonfence::sim {
namespace {

constexpr std::string_view kUnreachableTaint = "node.kubernetes.io/unreachable";
constexpr std::string_view kNotReadyTaint = "node.kubernetes.io/not-ready";

class Timetable {
 public:
  Timetable() {
    std::ifstream file(std::string(MOONFENCE_SOURCE_DIR) + "/tests/contract/timings.json");
    const Json written = Json::parse(file);
    for (const Json& row : written.at("rows")) {
      const Json& sides = row.at("sides");
      if (std::find(sides.begin(), sides.end(), "sim") != sides.end()) {
        rows_[row.at("name")] = row;
      }
    }
  }

  void terms(std::map<std::string, double> terms) { terms_ = std::move(terms); }

  void measure(const std::string& name, double seconds) {
    measured_.insert(name);
    const Json& row = rows_.at(name);
    // A time is a whole number of nanoseconds; a sum of doubles is not.
    constexpr double kRounding = 1e-6;
    const double most =
        row.contains("most") ? sum(row["most"]) : std::numeric_limits<double>::infinity();
    EXPECT_GE(seconds, sum(row.at("least")) - kRounding) << name << ": " << row.dump(1);
    EXPECT_LE(seconds, most + kRounding) << name << ": " << row.dump(1);
    testing::Test::RecordProperty(name, std::to_string(seconds));
  }

  void expect_complete() const {
    for (const auto& [name, row] : rows_) {
      EXPECT_TRUE(measured_.contains(name)) << name << " was not measured";
    }
  }

 private:
  [[nodiscard]] double sum(const Json& bound) const {
    double seconds = 0;
    for (const auto& [term, factor] : bound.items()) {
      seconds += terms_.at(term) * factor.get<double>();
    }
    return seconds;
  }

  std::map<std::string, Json> rows_;
  std::map<std::string, double> terms_;
  std::set<std::string> measured_;
};

double seconds_of(Duration duration) {
  return std::chrono::duration<double>(duration).count();
}

// Each seed gives the controllers other phases.
struct TimingsTest : ClusterTest, testing::WithParamInterface<int> {
  static constexpr Duration kToleration = 2s;
  Timetable table;

  TimingsTest() {
    random = test::FakeRandom(static_cast<std::uint64_t>(GetParam()));
    // As tests/e2e/control_plane.py and conftest.py set them.
    plan.timings.node_monitor_grace = 8s;
    plan.timings.node_monitor_period = 1s;
    plan.timings.lease_renewal = 2s;
    // Evictions wait for others of the same zone.
    for (NodePlan& each : plan.nodes) {
      each.zone = "a";
    }
    table.terms({{"grace", seconds_of(plan.timings.node_monitor_grace)},
                 {"monitor", seconds_of(plan.timings.node_monitor_period)},
                 {"toleration", seconds_of(kToleration)},
                 {"eviction_interval", 10},
                 {"resync", seconds_of(plan.timings.attach_detach_resync)},
                 {"detach_timeout", seconds_of(plan.timings.attach_detach_timeout)},
                 {"seconds", 1}});
  }

  void put(WorkloadKind kind, const std::string& name, Duration toleration, int volumes = 0) {
    WorkloadPlan& workload = add(kind, name);
    workload.toleration = toleration;
    workload.volumes = volumes;
    workload.replicas = volumes > 0 ? 1 : 3;  // one on each node
  }
  // Anew, whatever was there.
  void begin() {
    cluster.reset();
    start();
  }

  Moment when(const std::function<bool()>& holds) {
    EXPECT_TRUE(run_until(holds));
    return loop.now();
  }
  // The first moment from now on.
  void measure(const std::string& name, Moment since, const std::function<bool()>& holds) {
    table.measure(name, seconds_of(when(holds) - since));
  }

  [[nodiscard]] bool tainted(const std::string& name, std::string_view key,
                             std::string_view effect) const {
    return has_taint(*node(name), key, effect);
  }
  [[nodiscard]] bool has_effect(const std::string& name, std::string_view effect) const {
    return tainted(name, kUnreachableTaint, effect) || tainted(name, kNotReadyTaint, effect);
  }
  [[nodiscard]] std::set<std::string> uids_of(const std::string& workload) const {
    std::set<std::string> uids;
    for (const Object& candidate : pods_of(workload)) {
      uids.insert(uid_of(*candidate));
    }
    return uids;
  }
  // A pod of the workload that is none of those; null when there is none.
  [[nodiscard]] Object fresh(const std::string& workload,
                             const std::set<std::string>& known) const {
    for (const Object& candidate : pods_of(workload)) {
      if (!known.contains(uid_of(*candidate))) {
        return candidate;
      }
    }
    return nullptr;
  }
  [[nodiscard]] Object on_first(const std::string& workload) const {
    for (const Object& candidate : pods_of(workload)) {
      if (node_of(*candidate) == "n1") {
        return candidate;
      }
    }
    return nullptr;
  }
  [[nodiscard]] std::string renewed(const std::string& name) const {
    return text_field(
        *cluster->store().find({.resource = "leases", .space = "kube-node-lease", .name = name}),
        {"spec", "renewTime"});
  }

  void replace(const Json& victim, const std::string& workload, const std::string& row) {
    const std::set<std::string> known = uids_of(workload);
    const std::string dead = node_of(victim);
    const Moment since = loop.now();
    force_delete(victim);
    measure(row + "_made", since, [&] { return fresh(workload, known) != nullptr; });
    measure(row + "_bound", since, [&] {
      const Object pod = fresh(workload, known);
      return pod != nullptr && !node_of(*pod).empty() && node_of(*pod) != dead;
    });
    measure(row + "_running", since, [&] {
      const Object pod = fresh(workload, known);
      return pod != nullptr && serves(*pod);
    });
  }

  void fall_silent();
  void evict_and_replace();
  void heal();
  void turn_not_ready();
  void lose_two();
  void take_attachment_away();
  void force_detach();
};

void TimingsTest::fall_silent() {
  const std::string before = renewed("n1");
  const Moment last = when([&] { return renewed("n1") != before; });
  ASSERT_TRUE(perform(Verb::PartitionNode, "n1"));
  measure("unknown", last, [this] { return ready("n1") == "Unknown"; });
  const Moment since = loop.now();
  measure("unreachable_no_schedule", since,
          [this] { return tainted("n1", kUnreachableTaint, "NoSchedule"); });
  measure("unreachable_no_execute", since,
          [this] { return tainted("n1", kUnreachableTaint, "NoExecute"); });
}

void TimingsTest::evict_and_replace() {
  const Moment tainted_at = loop.now();
  const Object core = on_first("core");
  const Object web = on_first("web");
  const Object slow = on_first("slow");
  ASSERT_TRUE(core != nullptr && web != nullptr && slow != nullptr);
  const std::set<std::string> webs = uids_of("web");
  std::optional<Moment> core_ended;
  std::optional<Moment> web_ended;
  std::optional<Moment> web_replaced;
  replace(*slow, "slow", "replica");
  when([&] {
    const auto note = [this](std::optional<Moment>& at, bool holds) {
      if (!at && holds) {
        at = loop.now();
      }
      return at.has_value();
    };
    const bool core_has = note(core_ended, is_terminating(*pod(name_of(*core))));
    const bool web_has = note(web_ended, is_terminating(*pod(name_of(*web))));
    return note(web_replaced, fresh("web", webs) != nullptr) && core_has && web_has;
  });
  ASSERT_TRUE(core_ended && web_ended && web_replaced);
  table.measure("eviction", seconds_of(*core_ended - tainted_at));
  table.measure("replica_made_early", seconds_of(*web_replaced - *web_ended));
  run_for(10min);
  const Object stuck = pod(name_of(*core));
  ASSERT_NE(stuck, nullptr);
  EXPECT_EQ(uid_of(*stuck), uid_of(*core));
  table.measure("terminating_stays", seconds_of(loop.now() - *core_ended));
  replace(*stuck, "core", "stateful");
}

void TimingsTest::heal() {
  Moment since = loop.now();
  ASSERT_TRUE(perform(Verb::Heal, "n1"));
  measure("healed", since, [this] { return ready("n1") == "True"; });
  since = loop.now();
  measure("no_schedule_gone", since, [this] { return !has_effect("n1", "NoSchedule"); });
  measure("no_execute_gone", since, [this] { return !has_effect("n1", "NoExecute"); });
}

void TimingsTest::turn_not_ready() {
  ASSERT_TRUE(perform(Verb::NotReady, "n1"));
  const Moment since = when([this] { return ready("n1") == "False"; });
  measure("not_ready_no_schedule", since,
          [this] { return tainted("n1", kNotReadyTaint, "NoSchedule"); });
  measure("not_ready_no_execute", since,
          [this] { return tainted("n1", kNotReadyTaint, "NoExecute"); });
}

void TimingsTest::lose_two() {
  ASSERT_TRUE(perform(Verb::PowerOff, "n1"));
  ASSERT_TRUE(perform(Verb::PowerOff, "n2"));
  const Moment first =
      when([this] { return has_effect("n1", "NoExecute") || has_effect("n2", "NoExecute"); });
  measure("second_no_execute", first,
          [this] { return has_effect("n1", "NoExecute") && has_effect("n2", "NoExecute"); });
}

void TimingsTest::take_attachment_away() {
  const std::string home = node_of(*pod("db-0"));
  run_for(1s);
  delete_attachments_of(home);
  const Moment gone = when([&] { return attachments_on(home) == 0; });
  measure("attachment_noticed", gone, [&] { return attachments_on(home) == 1; });
}

void TimingsTest::force_detach() {
  const Object victim = pod("db-0");
  const std::string home = node_of(*victim);
  lose(home);
  const Moment since = loop.now();
  force_delete(*victim);
  measure("forced_detach", since, [&] { return attachments_on(home) == 0; });
}

TEST_P(TimingsTest, the_simulated_controllers_keep_the_timetable) {
  put(WorkloadKind::StatefulSet, "core", kToleration);
  put(WorkloadKind::Deployment, "web", kToleration);
  put(WorkloadKind::Deployment, "slow", 600s);
  begin();
  fall_silent();
  evict_and_replace();
  heal();
  turn_not_ready();

  plan.workloads.clear();
  put(WorkloadKind::StatefulSet, "db", 600s, 1);
  begin();
  take_attachment_away();
  force_detach();

  begin();
  lose_two();
  table.expect_complete();
}

INSTANTIATE_TEST_SUITE_P(Phases, TimingsTest, testing::Range(1, 13));

}  // namespace
}  // namespace moonfence::sim
