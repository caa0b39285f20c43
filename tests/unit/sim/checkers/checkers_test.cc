#include <set>

#include "sim/checkers/bounds_checker.h"
#include "sim/ground/volumes.h"
#include "unit/sim/judge_fixture.h"

namespace moonfence::sim {
namespace {

using Names = std::vector<std::string>;

TEST_F(JudgeTest, a_deletion_that_keeps_the_rules_breaks_none) {
  prepare();
  send_delete(pod_uid);
  commit_delete();
  tell("outcome", "done", pod_uid);
  tell("incident_closed", "settled");
  EXPECT_EQ(broken(), Names{});
  EXPECT_EQ(judge.deletions(), 1);
}

// "moonfence deleted 0 pods", it said of one that the node controller had marked before.
TEST_F(JudgeTest, a_deletion_of_a_pod_that_terminates_already_counts) {
  (void)store.remove({.resource = "pods", .space = "noobaa", .name = "core-0"}, {},
                     "node-lifecycle");
  EXPECT_EQ(judge.deletions(), 0);
  prepare();
  send_delete(pod_uid);
  commit_delete();
  EXPECT_EQ(judge.deletions(), 1);
}

TEST_F(JudgeTest, a_delete_without_a_uid_is_seen) {
  prepare();
  send_delete("");
  EXPECT_TRUE(breaks(rules::kUidPrecondition));
}

TEST_F(JudgeTest, a_pod_that_was_never_meant_and_is_gone_is_seen) {
  commit_delete();
  EXPECT_EQ(broken(), (Names{"audit-complete", "record-first", "uid-precondition"}));
}

TEST_F(JudgeTest, a_deletion_that_no_record_names_is_seen) {
  tell("incident_opened", "node_unknown");
  list_pods();
  read_node();
  tell("intent", "policy_deletes_pod", pod_uid);
  send_delete(pod_uid);
  make_record("another");
  commit_delete();
  EXPECT_EQ(broken(), Names{"record-first"});
}

TEST_F(JudgeTest, a_collection_is_not_deleted) {
  prepare();
  send_delete(pod_uid, "noobaa/pods");
  EXPECT_TRUE(breaks(rules::kNoCollections));
}

TEST_F(JudgeTest, a_pod_that_was_not_listed_is_not_deleted) {
  tell("incident_opened", "node_unknown");
  read_node();
  tell("intent", "policy_deletes_pod", pod_uid);
  send_delete(pod_uid);
  EXPECT_EQ(broken(), Names{"listed-pod"});
}

TEST_F(JudgeTest, a_delete_without_an_intent_is_seen) {
  tell("incident_opened", "node_unknown");
  list_pods();
  read_node();
  send_delete(pod_uid);
  EXPECT_TRUE(breaks(rules::kIntentFirst));
}

TEST_F(JudgeTest, a_second_delete_needs_a_second_intent) {
  prepare();
  send_delete(pod_uid);
  send_delete(pod_uid);
  EXPECT_EQ(broken(), Names{"intent-first"});
}

TEST_F(JudgeTest, a_lease_that_was_renewed_since_unknown_is_seen) {
  make_lease();
  time.now += 5s;
  renew_lease();
  time.now += 1s;
  prepare();
  time.now += 1ns;
  send_delete(pod_uid);
  EXPECT_EQ(broken(), Names{"living-lease"});
}

TEST_F(JudgeTest, a_lease_may_have_been_renewed_after_the_reading) {
  make_lease();
  time.now += 5s;
  renew_lease();
  time.now += 1s;
  prepare();
  send_delete(pod_uid);
  EXPECT_EQ(broken(), Names{});
}

TEST_F(JudgeTest, a_lease_that_stands_still_for_its_duration_is_dead) {
  make_lease();
  time.now += 5s;
  renew_lease();
  time.now += 40s;
  prepare();
  send_delete(pod_uid);
  EXPECT_EQ(broken(), Names{});
}

TEST_F(JudgeTest, a_lease_that_is_gone_is_dead) {
  make_lease();
  time.now += 5s;
  renew_lease();
  (void)store.remove(kLease, {}, "administrator");
  time.now += 2s;
  prepare();
  send_delete(pod_uid);
  EXPECT_EQ(broken(), Names{});
}

TEST_F(JudgeTest, a_policy_that_wants_silence_may_go_by_a_lease_that_stands_still) {
  bind_strict_policy();
  make_lease();
  set_node("n1", "False", true);
  time.now += 40s;
  prepare();
  send_delete(pod_uid);
  EXPECT_EQ(broken(), Names{});
}

TEST_F(JudgeTest, a_policy_that_wants_silence_does_not_act_while_the_lease_moves) {
  bind_strict_policy();
  make_lease();
  set_node("n1", "False", true);
  time.now += 40s - 1ns;
  prepare();
  send_delete(pod_uid);
  EXPECT_EQ(broken(), Names{"silent-kubelet"});
}

TEST_F(JudgeTest, a_reading_is_good_for_one_second) {
  prepare();
  pass(1s);
  send_delete(pod_uid);
  EXPECT_EQ(broken(), Names{});
}

TEST_F(JudgeTest, a_reading_older_than_a_second_is_none) {
  prepare();
  pass(1001ms);
  send_delete(pod_uid);
  EXPECT_EQ(broken(), Names{"live-read"});
}

TEST_F(JudgeTest, a_node_that_is_clear_for_a_second_may_still_be_hit) {
  prepare();
  recover("n1");
  pass(1s);
  send_delete(pod_uid);
  EXPECT_EQ(broken(), Names{});
}

TEST_F(JudgeTest, a_node_that_is_clear_for_longer_may_not) {
  prepare();
  recover("n1");
  pass(1001ms);
  send_delete(pod_uid);
  EXPECT_TRUE(breaks(rules::kRecoveredNode));
}

TEST_F(JudgeTest, a_node_without_a_taint_is_left_alone) {
  set_node("n1", "Unknown", false);
  pass(2s);
  prepare();
  send_delete(pod_uid);
  EXPECT_EQ(broken(), Names{"tainted-node"});
}

// Row LH-22.
struct DeletedNodeJudgeTest : JudgeTest {
  void bind(const std::string& trigger) {
    (void)store.update(
        kPolicies,
        [&trigger](Json& map) {
          map["data"]["moonfence.yaml"] =
              "api: 1\nbindings:\n- {policy: own, source: own.lua, namespaces: [noobaa], mode: "
              "enforce}\n";
          map["data"]["own.lua"] = "trigger = { " + trigger + " }";
        },
        ObjectStore::Part::Whole, "admin");
    hear_policies();
  }
  void delete_node() {
    (void)store.remove({.resource = "nodes", .space = {}, .name = "n1"}, {}, "administrator");
  }
  void read_absence(const std::string& named = "n1") {
    ServerAnswer answer;
    answer.status = 404;
    answer.body = Json{{"kind", "Status"}, {"details", {{"name", named}}}}.dump();
    judge.on_answered(request(port::Method::Get, "/api/v1/nodes/n1"), answer);
  }
  // The list of the nodes of that name, which is empty.
  void list_absence(const std::string& more = "") {
    ServerAnswer answer;
    answer.body = Json{{"kind", "NodeList"}, {"items", Json::array()}}.dump();
    judge.on_answered(
        request(port::Method::Get, "/api/v1/nodes?fieldSelector=metadata.name%3Dn1" + more),
        answer);
  }
  // Read as down, long before it is deleted.
  void prepare_and_delete_node() {
    prepare();
    pass(5s);
    delete_node();
    pass(5s);
  }
};

TEST_F(DeletedNodeJudgeTest, who_acts_on_deleted_nodes_may_after_a_404) {
  bind("live_kubelet = true, deleted = true");
  prepare_and_delete_node();
  read_absence();
  send_delete(pod_uid);
  EXPECT_EQ(broken(), Names{});
}

TEST_F(DeletedNodeJudgeTest, nobody_else_may) {
  bind("live_kubelet = true");
  prepare_and_delete_node();
  read_absence();
  send_delete(pod_uid);
  EXPECT_EQ(broken(), Names{"deleted-node"});
}

TEST_F(DeletedNodeJudgeTest, a_404_that_names_another_or_is_old_is_none) {
  bind("live_kubelet = true, deleted = true");
  prepare_and_delete_node();
  read_absence("n2");
  send_delete(pod_uid);
  EXPECT_TRUE(breaks(rules::kLiveRead));
  read_absence();
  pass(1001ms);
  send_delete(pod_uid);
  EXPECT_FALSE(breaks(rules::kDeletedNode));
}

TEST_F(DeletedNodeJudgeTest, an_empty_list_of_that_name_is_as_good) {
  bind("live_kubelet = true, deleted = true");
  prepare_and_delete_node();
  list_absence();
  send_delete(pod_uid);
  EXPECT_EQ(broken(), Names{});
}

TEST_F(DeletedNodeJudgeTest, one_of_a_cache_may_be_of_any_age) {
  bind("live_kubelet = true, deleted = true");
  prepare_and_delete_node();
  list_absence("&resourceVersion=0");
  send_delete(pod_uid);
  EXPECT_TRUE(breaks(rules::kLiveRead));
}

TEST_F(DeletedNodeJudgeTest, not_while_another_node_has_its_name) {
  bind("live_kubelet = true, deleted = true");
  prepare_and_delete_node();
  make_node("n1");
  pass(1s);
  read_absence();
  send_delete(pod_uid);
  EXPECT_EQ(broken(), Names{"recovered-node"});
}

TEST_F(JudgeTest, a_pod_outside_every_namespace_is_left_alone) {
  pod_uid = make_pod("core-0", "n1", "StatefulSet", "web");
  prepare();
  send_delete(pod_uid, "web/pods/core-0");
  EXPECT_EQ(broken(), Names{"covered-pod"});
}

TEST_F(JudgeTest, behind_a_faulty_edit_what_was_heard_last_goes_on) {
  write_policies("api: 1\nbindings: []\n");  // while it was cut off
  write_policies("api: [");
  hear_policies();
  pass(1001ms);
  prepare();
  send_delete(pod_uid);
  EXPECT_EQ(broken(), Names{});
}

TEST_F(JudgeTest, behind_a_faulty_edit_an_older_one_does_not_come_back) {
  write_policies("api: 1\nbindings: []\n");
  hear_policies();
  pass(1001ms);  // it was taken up
  write_policies("api: [");
  hear_policies();
  pass(1001ms);
  prepare();
  send_delete(pod_uid);
  EXPECT_EQ(broken(), Names{"covered-pod"});
}

TEST_F(JudgeTest, behind_a_faulty_edit_what_was_kept_goes_on_after_a_restart) {
  write_policies("api: 1\nbindings: []\n");  // while it was away
  write_policies("api: [");
  restart(policies_of("enforce"));
  hear_policies();
  pass(1001ms);
  prepare();
  send_delete(pod_uid);
  EXPECT_EQ(broken(), Names{});
}

TEST_F(JudgeTest, behind_a_faulty_edit_what_was_not_kept_does_not_come_back) {
  write_policies("api: 1\nbindings: []\n");
  write_policies("api: [");
  restart("api: 1\nbindings: []\n");
  hear_policies();
  pass(1001ms);
  prepare();
  send_delete(pod_uid);
  EXPECT_EQ(broken(), Names{"covered-pod"});
}

TEST_F(JudgeTest, behind_a_deletion_nothing_comes_back) {
  (void)store.remove(kPolicies, {}, "admin");
  write_policies("api: [");
  hear_policies();
  pass(1001ms);
  prepare();
  send_delete(pod_uid);
  EXPECT_EQ(broken(), Names{"covered-pod"});
}

TEST_F(JudgeTest, observing_deletes_nothing) {
  make_policies("observe");
  pass(1001ms);
  prepare();
  send_delete(pod_uid);
  EXPECT_EQ(broken(), Names{"covered-pod"});
}

TEST_F(JudgeTest, an_edit_has_a_second_to_come_into_force) {
  prepare();
  make_policies("observe");
  pass(500ms);
  send_delete(pod_uid);
  EXPECT_EQ(broken(), Names{});
}

TEST_F(JudgeTest, daemon_set_mirror_and_bare_pods_are_protected) {
  int number = 1;
  for (const std::string owner : {"DaemonSet", "Node", ""}) {
    const std::string name = "other-" + std::to_string(number++);
    pod_uid = make_pod(name, "n1", owner);
    list_pods();
    read_node();
    tell("incident_opened", "node_unknown");
    list_pods();
    tell("intent", "policy_deletes_pod", pod_uid);
    const std::size_t before = broken().size();
    send_delete(pod_uid, "noobaa/pods/" + name);
    ASSERT_EQ(broken().size(), before + 1) << owner;
    EXPECT_EQ(broken().back(), "protected-pod");
    tell("outcome", "retryable", pod_uid);
    tell("incident_closed", "settled");
  }
}

TEST_F(JudgeTest, a_pod_of_another_node_is_left_alone) {
  make_node("n2");
  pod_uid = make_pod("core-1", "n2", "StatefulSet");
  prepare();
  send_delete(pod_uid, "noobaa/pods/core-1");
  EXPECT_EQ(broken(), Names{"incident-node"});
}

TEST_F(JudgeTest, other_writes_are_seen) {
  judge.on_left(
      request(port::Method::Post, "/apis/events.k8s.io/v1/namespaces/noobaa/events", "{}"));
  judge.on_left(request(port::Method::Patch,
                        "/api/v1/namespaces/moonfence/configmaps/moonfence-status", "{}"));
  EXPECT_EQ(broken(), Names{});
  judge.on_left(request(port::Method::Put, "/api/v1/nodes/n1", "{}"));
  EXPECT_EQ(broken(), Names{"expected-write"});
}

TEST_F(JudgeTest, a_patch_of_a_node_without_a_test_of_its_uid_is_seen) {
  judge.on_left(request(port::Method::Patch, "/api/v1/nodes/n1", "{}"));
  EXPECT_EQ(broken(), (Names{"uid-precondition", "intent-first"}));
}

TEST_F(JudgeTest, an_outcome_that_does_not_come_is_missed) {
  prepare();
  send_delete(pod_uid);
  pass(8s);
  judge.after_turn({.life = life});
  EXPECT_EQ(broken(), Names{});
  pass(1ms);
  judge.after_turn({.life = life});
  judge.after_turn({.life = life});
  EXPECT_EQ(broken(), Names{"outcome-recorded"});
}

TEST_F(JudgeTest, a_crash_takes_its_outcomes_with_it) {
  prepare();
  send_delete(pod_uid);
  judge.on_died(life, false);
  pass(60s);
  judge.after_turn({.life = life});
  EXPECT_EQ(broken(), Names{});
}

TEST_F(JudgeTest, a_lie_in_the_audit_is_seen) {
  prepare();
  send_delete(pod_uid);
  tell("outcome", "done", pod_uid);
  EXPECT_EQ(broken(), Names{"audit-true"});
}

TEST_F(JudgeTest, two_incidents_of_one_node_are_one_too_many) {
  tell("incident_opened", "node_unknown");
  tell("incident_opened", "node_unknown");
  EXPECT_EQ(broken(), Names{"one-incident"});
}

TEST_F(JudgeTest, who_leaves_by_itself_closes_its_incidents) {
  tell("incident_opened", "node_unknown");
  judge.on_died(life, true);
  EXPECT_EQ(broken(), Names{"one-incident"});
}

TEST_F(JudgeTest, bounds_are_kept) {
  judge.after_turn({.life = life, .timers = 1001});
  judge.after_turn({.life = life, .writes = BoundsChecker::kWrites + 1});
  for (int i = 0; i < 501; ++i) {
    judge.on_left(request(port::Method::Get, "/livez"));
  }
  for (int i = 0; i < 20'000; ++i) {
    judge.after_turn({.life = life});
  }
  EXPECT_EQ(broken(),
            (Names{"bounded-timers", "bounded-lane", "bounded-requests", "bounded-turns"}));
}

struct WritersTest : JudgeTest {
  WritersTest() {
    for (const std::string name : {"n1", "n2"}) {
      Machine& machine = machines.by_name[name];
      machine.name = name;
      machine.containers["uid-" + name] = {
          .pod_uid = "uid-" + name, .space = "noobaa", .pod = "core-0", .volumes = {"vol"}};
      machines.published["vol"].insert(name);
    }
  }
};

TEST_F(WritersTest, two_sound_machines_that_write_one_volume_are_a_violation_once) {
  judge.after_cluster_turn();
  judge.after_cluster_turn();
  EXPECT_EQ(broken(), Names{"single-writer"});
}

TEST_F(WritersTest, one_that_was_cut_off_alive_is_counted) {
  machines.by_name["n1"].connected = false;
  judge.after_cluster_turn();
  EXPECT_EQ(broken(), Names{});
  EXPECT_EQ(judge.accepted_double_writers(), 1);
}

TEST_F(WritersTest, one_that_is_frozen_is_alive_too) {
  machines.by_name["n1"].frozen = true;
  judge.after_cluster_turn();
  EXPECT_EQ(broken(), Names{});
  EXPECT_EQ(judge.accepted_double_writers(), 1);
}

TEST_F(WritersTest, a_container_whose_volume_was_moved_away_writes_to_nothing_of_its_own) {
  machines.by_name["n2"].containers.clear();
  machines.published["vol"] = {"n2"};
  judge.after_cluster_turn();
  EXPECT_EQ(broken(), Names{"single-writer"});
}

TEST_F(JudgeTest, an_attachment_is_not_deleted_under_a_consumer) {
  (void)store.create("persistentvolumeclaims", "noobaa",
                     {{"metadata", {{"name", "data"}}}, {"spec", {{"volumeName", "pv"}}}}, "admin");
  (void)store.update(
      {.resource = "pods", .space = "noobaa", .name = "core-0"},
      [](Json& pod) {
        pod["spec"]["volumes"] =
            Json::array({{{"name", "data"}, {"persistentVolumeClaim", {{"claimName", "data"}}}}});
      },
      ObjectStore::Part::Whole, "admin");
  (void)store.create("volumeattachments", "",
                     {{"metadata", {{"name", "va"}}},
                      {"spec", {{"nodeName", "n1"}, {"source", {{"persistentVolumeName", "pv"}}}}}},
                     "admin");
  (void)store.remove({.resource = "volumeattachments", .space = {}, .name = "va"}, {},
                     "moonfence-0");
  EXPECT_EQ(broken(), (Names{"audit-complete", "last-consumer", "record-first"}));
}

TEST_F(JudgeTest, at_the_end_of_a_calm_run_nothing_may_be_left) {
  tell("incident_opened", "node_unknown");
  pass(59s);
  judge.at_end(59s);
  EXPECT_EQ(broken(), Names{});
  pass(2s);
  judge.at_end(61s);
  EXPECT_EQ(broken(), (Names{"incident-closed", "node-dealt-with"}));
}

TEST_F(JudgeTest, while_too_many_nodes_are_down_everything_may_be_left) {
  tell("incident_opened", "node_unknown");
  fall("spare");
  pass(1h);
  judge.at_end(1h);
  EXPECT_EQ(broken(), Names{});
  recover("spare");
  pass(61s);
  judge.at_end(61s);
  EXPECT_EQ(broken(), (Names{"incident-closed", "node-dealt-with"}));
}

TEST_F(JudgeTest, what_was_heard_of_too_many_nodes_for_a_second_stops_deletions) {
  make_pod("web-0", "spare", "StatefulSet");
  hear_nodes();
  fall("spare");
  hear_nodes();
  pass(999ms);
  prepare();
  send_delete(pod_uid);
  EXPECT_FALSE(breaks("brake-down"));
  pass(1ms);
  send_delete(pod_uid);
  EXPECT_TRUE(breaks("brake-down"));
}

TEST_F(JudgeTest, what_was_not_heard_stops_nothing) {
  hear_nodes();
  fall("spare");
  pass(1h);
  prepare();
  send_delete(pod_uid);
  EXPECT_FALSE(breaks("brake-down"));
}

TEST_F(JudgeTest, intents_without_an_outcome_concern_five_nodes_at_most) {
  const auto say = [this](const std::string& kind, int node) {
    const std::string name = "m" + std::to_string(node);
    judge.on_audit(life, Json({{"kind", kind},
                               {"reason", "done"},
                               {"incident", "i" + name},
                               {"node", name},
                               {"pod_uid", "p" + name}})
                             .dump());
  };
  for (int i = 1; i <= 5; ++i) {
    say("intent", i);
  }
  say("outcome", 3);
  say("intent", 6);
  EXPECT_FALSE(breaks("brake-pace"));
  say("intent", 7);
  EXPECT_TRUE(breaks("brake-pace"));
}

// Nodes of zones, named after them, and intents about them.
struct ZonesTest : JudgeTest {
  ZonesTest() {
    for (const char* name : {"z1", "z2", "z3", "z4", "z5", "m1", "m2", "m3"}) {
      make_node(name);
      make_pod("web-" + std::string(name), name, "StatefulSet");  // one without pods is no loss
      (void)store.update(
          {.resource = "nodes", .space = {}, .name = name},
          [name](Json& node) {
            node["metadata"]["labels"]["topology.kubernetes.io/zone"] = std::string(name, 1);
          },
          ObjectStore::Part::Whole, "admin");
    }
    hear_nodes();
  }
  void say(const std::string& kind, const std::string& node) { say(kind, node, judge); }
  void say(const std::string& kind, const std::string& node, Judge& by) const {
    by.on_audit(life, Json({{"kind", kind},
                            {"reason", "done"},
                            {"incident", "i" + node},
                            {"node", node},
                            {"pod_uid", "p" + node}})
                          .dump());
  }
};

TEST_F(ZonesTest, of_one_that_is_known_to_be_disrupted_one_node_at_a_time) {
  fall("z1");
  fall("z2");
  hear_nodes();
  pass(2s);
  say("intent", "z1");
  say("intent", "z2");
  fall("z3");
  hear_nodes();
  pass(999ms);
  say("intent", "z3");
  EXPECT_FALSE(breaks("brake-pace")) << "it may not have noticed";
  say("outcome", "z3");
  pass(1ms);
  say("intent", "z1");
  say("intent", "m1");
  EXPECT_FALSE(breaks("brake-pace")) << "what left before ends, and another zone is well";
  say("intent", "z3");
  EXPECT_TRUE(breaks("brake-pace"));
}

TEST_F(ZonesTest, with_a_pace_of_their_own_each_goes_at_it) {
  plan.settings["zone-max-at-once"] = "1";
  Judge paced(plan, truth, time, story);
  paced.on_started(life);
  hear_nodes(paced);
  say("intent", "z1", paced);
  say("intent", "m1", paced);
  say("outcome", "z1", paced);
  say("intent", "z2", paced);
  const auto too_many = [&paced] {
    return std::count_if(paced.violations().begin(), paced.violations().end(),
                         [](const Violation& each) { return each.rule == "brake-pace"; });
  };
  EXPECT_EQ(too_many(), 0);
  say("intent", "z3", paced);
  EXPECT_EQ(too_many(), 1);
}

TEST_F(JudgeTest, a_pod_that_something_holds_may_be_left) {
  (void)store.update(
      {.resource = "pods", .space = "noobaa", .name = "core-0"},
      [](Json& pod) { pod["metadata"]["finalizers"] = {"example.com/held"}; },
      ObjectStore::Part::Whole, "admin");
  pass(100s);
  judge.at_end(100s);
  EXPECT_EQ(broken(), Names{});
}

TEST(Rules, names_are_kebab_case_and_used_once) {
  std::set<std::string_view> names;
  for (const Rule& rule : all_rules()) {
    EXPECT_EQ(rule.name.find_first_not_of("abcdefghijklmnopqrstuvwxyz-"), std::string_view::npos);
    EXPECT_TRUE(names.insert(rule.name).second) << rule.name;
    EXPECT_FALSE(rule.text.empty());
  }
}

TEST(Reach, reads_bindings_selectors_and_modes) {
  const auto reach =
      read_reach({{"moonfence.yaml",
                   "api: 1\nbindings:\n- policy: x\n  source: x.lua\n  namespaces: [a]\n"
                   "  mode: enforce\n  allow: [bare-pods]\n"},
                  {"x.lua", "-- sim: always\nselect = { labels = \"app=db,tier=back\" }"}});
  ASSERT_NE(reach, nullptr);
  const BindingReach& binding = reach->bindings.at(0);
  EXPECT_TRUE(binding.enforces && binding.bare_pods && binding.deletes && !binding.live_kubelet);
  EXPECT_TRUE(binding.covers("a", {{"app", "db"}, {"tier", "back"}}));
  EXPECT_FALSE(binding.covers("a", {{"app", "db"}}));
  EXPECT_FALSE(binding.covers("b", {{"app", "db"}, {"tier", "back"}}));
}

// Seed 27118: the last good version goes on, and what it takes for down is not said any more.
TEST(Reach, a_policy_that_is_cut_off_may_do_what_the_version_before_it_did) {
  const std::string bindings =
      "api: 1\nbindings:\n- {policy: x, source: x.lua, namespaces: [a], mode: enforce}\n";
  const auto cut_off = read_reach({{"moonfence.yaml", bindings}, {"x.lua", "return policy {"}});
  EXPECT_TRUE(cut_off->bindings.at(0).deleted && cut_off->bindings.at(0).live_kubelet);
  EXPECT_FALSE(cut_off->bindings.at(0).deletes);
  const auto whole = read_reach({{"moonfence.yaml", bindings}, {"x.lua", "return policy {}\n"}});
  EXPECT_FALSE(whole->bindings.at(0).deleted || whole->bindings.at(0).live_kubelet);
}

TEST(Reach, a_text_that_cannot_be_read_is_refused_and_none_binds_nothing) {
  EXPECT_EQ(read_reach({{"moonfence.yaml", "bindings: ["}}), nullptr);
  EXPECT_EQ(read_reach({{"moonfence.yaml", "api: 1\nbindigns: []\n"}}), nullptr);
  EXPECT_TRUE(read_reach({})->bindings.empty());
  EXPECT_TRUE(is_lowered({{"mode", "off"}, {"moonfence.yaml", "bindings: ["}}));
  EXPECT_FALSE(is_lowered({{"mode", "enforce"}}));
}

}  // namespace
}  // namespace moonfence::sim
