#include "app/rehearsal/plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "app/cluster_commands/explanation.h"
#include "app/cluster_commands/next_step.h"
#include "app/cluster_commands/plan_text.h"
#include "support/policies.h"

namespace moonfence::app {
namespace {

using nlohmann::json;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;
using testing::SizeIs;
using Fate = Plan::Pod::Fate;

json record(const std::string& kind, const std::string& reason, const std::string& pod = "",
            const json& more = json::object()) {
  json out = {{"kind", kind}, {"reason", reason}, {"incident", "abc"}, {"node", "n1"}};
  if (!pod.empty()) {
    out.update({{"namespace", "db"}, {"pod", pod}, {"pod_uid", pod + "-uid"}});
  }
  out.update(more);
  return out;
}

json verdict(const std::string& pod, const std::string& reason, const std::string& policy = "db",
             const std::string& text = "as it says") {
  return record("verdict", reason, pod,
                {{"policy", policy}, {"policy_digest", "d1"}, {"text", text}});
}

Write deletion(const std::string& pod) {
  return {.method = port::Method::Delete,
          .path = "/api/v1/namespaces/db/pods/" + pod,
          .body = {{"preconditions", {{"uid", pod + "-uid"}}}}};
}

// One node that was only supposed to be down.
Rehearsed rehearsed(std::vector<json> records, std::vector<Write> writes = {}) {
  records.insert(records.begin(), record("incident_opened", "node_unknown"));
  return {.nodes = {{.name = NodeName("n1"),
                     .supposed = Engine::Supposed::Fallen,
                     .although_up = true}},
          .records = std::move(records),
          .writes = std::move(writes),
          .evaluated = {},
          .ahead = {},
          .notes = {},
          .complete = true,
          .policies = nullptr};
}

Plan::Pod the_pod(const Rehearsed& from) {
  const Plan plan = plan_of(from);
  EXPECT_THAT(plan.nodes.at(0).pods, SizeIs(1));
  return plan.nodes.at(0).pods.at(0);
}

TEST(Plan, ADeletionIsTheCallThatWouldLeave) {
  const Plan::Pod pod =
      the_pod(rehearsed({verdict("db-0", "policy_deletes_pod")}, {deletion("db-0")}));
  EXPECT_EQ(pod.fate, Fate::Deleted);
  EXPECT_EQ(pod.because.reason, "policy_deletes_pod");
  ASSERT_THAT(pod.calls, SizeIs(1));
  EXPECT_EQ(pod.calls[0].path, "/api/v1/namespaces/db/pods/db-0");
  EXPECT_EQ(pod.calls[0].uid, "db-0-uid");
}

TEST(Plan, AWishWithoutACallIsNoDeletion) {
  const Rehearsed from = rehearsed({verdict("db-0", "policy_deletes_pod")});
  EXPECT_EQ(the_pod(from).fate, Fate::Waits);
  EXPECT_FALSE(plan_of(from).acts());
}

TEST(Plan, ACallForAPodOfThatNameWithAnotherUidIsNotItsOwn) {
  Write other = deletion("db-0");
  other.body["preconditions"]["uid"] = "another";
  EXPECT_THAT(the_pod(rehearsed({verdict("db-0", "policy_deletes_pod")}, {other})).calls,
              IsEmpty());
}

TEST(Plan, TheGuardsRefusalDecides) {
  const Plan::Pod pod = the_pod(rehearsed(
      {verdict("db-0", "policy_deletes_pod"),
       record("refusal", "mode_observes", "db-0", {{"policy", "db"}, {"action", "delete_pod"}})}));
  EXPECT_EQ(pod.fate, Fate::Refused);
  EXPECT_EQ(pod.because.reason, "mode_observes");
  EXPECT_EQ(pod.refusals.at(0).action, "delete_pod");
}

TEST(Plan, OfSeveralWordsTheStrongestIsTheReason) {
  EXPECT_EQ(
      the_pod(rehearsed({verdict("db-0", "policy_skips", "a"), verdict("db-0", "policy_waits", "b"),
                         verdict("db-0", "policy_forbids", "c")}))
          .because.policy,
      "c");
  const Plan::Pod waits = the_pod(
      rehearsed({verdict("db-0", "policy_skips", "a"), verdict("db-0", "policy_failed", "b")}));
  EXPECT_EQ(waits.because.policy, "b");
  EXPECT_EQ(waits.fate, Fate::Waits);
  EXPECT_EQ(the_pod(rehearsed({verdict("db-0", "daemon_set_pod", "")})).fate, Fate::Kept);
}

TEST(Plan, AttachmentsBelongToThePodThatHeldThem) {
  const Rehearsed from = rehearsed(
      {verdict("db-0", "policy_deletes_pod_and_attachments"),
       record("intent", "policy_deletes_pod_and_attachments", "db-0", {{"attachment", "csi-1"}})},
      {deletion("db-0"),
       {.method = port::Method::Delete,
        .path = "/apis/storage.k8s.io/v1/volumeattachments/csi-1",
        .body = {{"preconditions", {{"uid", "va-uid"}}}}}});
  const Plan::Pod pod = the_pod(from);
  ASSERT_THAT(pod.calls, SizeIs(2));
  EXPECT_EQ(pod.calls[1].what, "delete_attachment");
  EXPECT_EQ(pod.calls[1].uid, "va-uid");
}

TEST(Plan, WhatIsNotAboutAPodStandsAtTheNode) {
  const json patch =
      json::parse(R"([{"op": "test", "path": "/metadata/uid", "value": "node-uid"}])");
  const Plan plan = plan_of(
      rehearsed({}, {{.method = port::Method::Post,
                      .path = "/api/v1/namespaces/m/configmaps",
                      .body = {{"metadata", {{"name", "moonfence-incident-abc"}}}}},
                     {.method = port::Method::Patch,
                      .path = "/api/v1/namespaces/m/configmaps/moonfence-incident-abc",
                      .body = json::object()},
                     {.method = port::Method::Patch,
                      .path = "/api/v1/namespaces/m/configmaps/moonfence-status",
                      .body = json::object()},
                     {.method = port::Method::Patch, .path = "/api/v1/nodes/n1", .body = patch},
                     {.method = port::Method::Patch, .path = "/api/v1/nodes/n2", .body = patch}}));
  const auto& calls = plan.nodes[0].calls;
  ASSERT_THAT(calls, SizeIs(2));
  EXPECT_EQ(calls[0].what, "write_record");
  EXPECT_EQ(calls[1].what, "patch_node");
  EXPECT_EQ(calls[1].uid, "node-uid");
  EXPECT_TRUE(plan.acts());
}

TEST(Plan, RecordsOfOtherNodesAreNotShown) {
  Rehearsed from = rehearsed({verdict("db-0", "policy_skips")});
  from.records.back()["node"] = "n2";
  EXPECT_THAT(plan_of(from).nodes[0].pods, IsEmpty());
}

TEST(Plan, AHoldLastsUntilItGoesOn) {
  EXPECT_EQ(plan_of(rehearsed({record("incident_held", "too_many_down")})).nodes[0].open,
            "too_many_down");
  EXPECT_EQ(
      plan_of(rehearsed({record("incident_held", "holding_down"), verdict("db-0", "policy_skips")}))
          .nodes[0]
          .open,
      std::nullopt);
  // What one policy waits for does not keep the incident.
  EXPECT_EQ(plan_of(rehearsed({record("incident_held", "holding_down", "", {{"policy", "db"}})}))
                .nodes[0]
                .open,
            std::nullopt);
}

TEST(Plan, WhatAPolicyReadStandsAtItsWord) {
  Rehearsed from = rehearsed({verdict("db-0", "policy_skips")});
  from.evaluated.push_back({.pod = {.space = Namespace("db"), .name = "db-0"},
                            .policy = "db",
                            .digest = "d1",
                            .mode = policy::Mode::Enforce,
                            .reads = {{.path = "pod.phase", .value = "\"Running\""}}});
  const Plan::Pod pod = the_pod(from);
  EXPECT_EQ(pod.opinions[0].mode, policy::Mode::Enforce);
  EXPECT_EQ(pod.opinions[0].reads.at(0).path, "pod.phase");
  EXPECT_THAT(plan_table(plan_of(from), /*wide=*/true), HasSubstr("pod.phase=\\\"Running\\\""));
  EXPECT_EQ(plan_document(plan_of(from))["nodes"][0]["pods"][0]["opinions"][0]["read"]["pod.phase"],
            "\"Running\"");
}

// A guard is asked about the pod and again about the deletion, and the second time it may read
// nothing: what it had read was not shown.
TEST(Plan, WhatAGuardReadTheFirstTimeIsKept) {
  Rehearsed from = rehearsed({verdict("db-0", "policy_skips")});
  Evaluated asked = {.pod = {.space = Namespace("db"), .name = "db-0"},
                     .policy = "db",
                     .digest = "d1",
                     .mode = policy::Mode::Enforce,
                     .reads = {{.path = "pod.phase", .value = "\"Running\""}}};
  from.evaluated.push_back(asked);
  asked.reads.clear();
  from.evaluated.push_back(asked);
  EXPECT_EQ(the_pod(from).opinions[0].reads.size(), 1U);
}

// One has nothing against the pod, another one has not come to it. The plan said that it is kept.
TEST(Plan, AHoldOfTheWholeNodeKeepsForNowWhatOthersSkip) {
  const auto held_by = [](policy::Mode mode, const std::string& said) {
    Rehearsed from = rehearsed(
        {record("incident_held", "policy_holds_node", "", {{"policy", "b"}, {"text", "later"}}),
         verdict("db-0", said, "a")});
    from.evaluated.push_back({.pod = {.space = Namespace("db"), .name = "db-0"},
                              .policy = "b",
                              .digest = "d2",
                              .mode = mode,
                              .reads = {}});
    return from;
  };
  const Plan::Pod pod = the_pod(held_by(policy::Mode::Enforce, "policy_skips"));
  EXPECT_EQ(pod.fate, Fate::Waits);
  EXPECT_EQ(pod.because.policy, "b");
  EXPECT_EQ(the_pod(held_by(policy::Mode::Observe, "policy_skips")).fate, Fate::Kept);
  EXPECT_EQ(the_pod(held_by(policy::Mode::Enforce, "policy_forbids")).because.policy, "a");
  Rehearsed came_to_it = held_by(policy::Mode::Enforce, "policy_skips");
  came_to_it.records.push_back(verdict("db-0", "policy_skips", "b"));
  EXPECT_EQ(the_pod(came_to_it).fate, Fate::Kept);
}

// A rehearsal begins anew: it doubts nothing, and has not failed for an hour.
TEST(Plan, WhatTheEngineThatActsSaysStandsBesideIt) {
  Plan plan = plan_of(rehearsed({verdict("db-0", "policy_deletes_pod")}, {deletion("db-0")}));
  hear_engine(plan, json());
  EXPECT_FALSE(plan.nodes[0].engine);
  hear_engine(plan, {{"frozen", true},
                     {"state", {{"title", "Frozen"}, {"text", "It doubts."}}},
                     {"incidents",
                      {{{"node", "n2"}, {"state", "waits"}},
                       {{"node", "n1"}, {"state", "held"}, {"reason", "doubts_itself"}}}}});
  EXPECT_THAT(plan_table(plan, false), HasSubstr("NOTHING IS DONE NOW. Frozen. It doubts.\n"));
  EXPECT_THAT(plan_table(plan, false), HasSubstr("  the engine says: held, doubts_itself\n"));
  EXPECT_EQ(plan_document(plan)["frozen"], "Frozen. It doubts.");
  EXPECT_EQ(plan_document(plan)["nodes"][0]["engine"]["state"], "held");
  const PodRef pod = {.space = Namespace("db"), .name = "db-0"};
  const Explained explained = explain(pod, {}, {}, plan);
  EXPECT_EQ(explained_document(explained, plan)["frozen"], "Frozen. It doubts.");
}

TEST(PlanTable, ShowsVerdictsAndCalls) {
  const Plan plan = plan_of(
      rehearsed({verdict("db-0", "policy_deletes_pod"), verdict("db-10", "policy_skips", "db", "")},
                {deletion("db-0")}));
  EXPECT_EQ(plan_table(plan, /*wide=*/false),
            "node n1: is up, assumed to be down, incident node_unknown\n"
            "  POD        VERDICT   REASON               POLICY   REFUSED-BY   WHY\n"
            "  db/db-0    delete    policy_deletes_pod   db       -            as it says\n"
            "  db/db-10   keep      policy_skips         db       -            -\n"
            "  CALL     PATH                              PRECONDITION\n"
            "  DELETE   /api/v1/namespaces/db/pods/db-0   uid=db-0-uid\n");
}

TEST(PlanTable, SaysWhatKeepsANodeAndWhichIsNotThere) {
  Rehearsed from = rehearsed({record("incident_held", "lease_alive")});
  from.nodes.push_back({.name = NodeName("n9")});
  from.nodes.push_back({.name = NodeName("n3"), .supposed = Engine::Supposed::Up});
  from.nodes.push_back({.name = NodeName("n4"), .supposed = Engine::Supposed::Fallen});
  from.ahead = std::chrono::milliseconds(59'980);
  EXPECT_EQ(plan_table(plan_of(from), /*wide=*/false),
            "node n1: is up, assumed to be down, incident node_unknown, after holding down for 1m, "
            "holds: lease_alive\n"
            "node n9: the cluster has no such node\n"
            "node n3: is up, nothing would be done; --assume-down shows what if its machine died "
            "now\n"
            "node n4: is down; no policy in force applies to it, moonfence status shows them\n");
}

// Row LH-22: a record named it, and some policy in force takes a deleted node for down.
TEST(PlanTable, ANodeThatIsDeletedHasAnIncidentAllTheSame) {
  Rehearsed from = rehearsed({verdict("db-0", "policy_deletes_pod")}, {deletion("db-0")});
  from.nodes.front().supposed = Engine::Supposed::Unknown;
  from.nodes.front().although_up = false;
  from.records.front()["reason"] = "took_over";
  const Plan plan = plan_of(from);
  EXPECT_EQ(plan.nodes[0].state, Engine::Supposed::Deleted);
  EXPECT_EQ(plan_document(plan)["nodes"][0]["state"], "deleted");
  EXPECT_TRUE(
      plan_table(plan, /*wide=*/false).starts_with("node n1: is deleted, incident took_over"));
}

TEST(PlanDocument, HoldsTheSame) {
  const Plan plan = plan_of(rehearsed({verdict("db-0", "policy_deletes_pod")}, {deletion("db-0")}));
  const auto document = plan_document(plan);
  EXPECT_EQ(document["acts"], true);
  EXPECT_EQ(document["nodes"][0]["state"], "supposed-down");
  const auto& pod = document["nodes"][0]["pods"][0];
  EXPECT_EQ(pod["verdict"], "delete");
  EXPECT_EQ(pod["because"]["text"], "as it says");
  EXPECT_EQ(pod["calls"][0]["preconditionUID"], "db-0-uid");
}

const PodRef kPod = {.space = Namespace("db"), .name = "db-0"};

policy::Binding bound(const std::string& name, policy::Mode mode = policy::Mode::Enforce,
                      const std::string& space = "db") {
  auto loaded = load_text(policy_text("return fence.skip('x')"));
  EXPECT_TRUE(loaded) << loaded.error().text;
  policy::Binding binding;
  binding.name = name;
  binding.policy = std::make_shared<const policy::Policy>(*std::move(loaded));
  binding.scope = policy::NamespaceScope::of({Namespace(space)});
  binding.mode = mode;
  return binding;
}

policy::Binding broken(const std::string& name, const std::string& space = "db") {
  policy::Binding binding = bound(name, policy::Mode::Enforce, space);
  binding.policy = nullptr;
  binding.error = "no such key";
  return binding;
}

std::string explained_by(std::vector<policy::Binding> bindings, const Rehearsed& from) {
  policy::PolicySet set;
  set.bindings = std::move(bindings);
  return explained_text(explain(kPod, {}, set, plan_of(from)));
}

json held(const std::string& reason, const std::string& policy, const std::string& text = "") {
  return record("incident_held", reason, "", {{"policy", policy}, {"text", text}});
}

TEST(Explanation, SaysWhoSpokeAndWhatToDo) {
  const std::string text = explained_by(
      {broken("db", "web")}, rehearsed({verdict("db-0", "policy_deletes_pod"),
                                        record("refusal", "mode_observes", "db-0",
                                               {{"policy", "db"}, {"text", "as it says"}})}));
  EXPECT_THAT(text, HasSubstr("Pod db/db-0 is bound to node n1, which is up. If n1 died now:\n"
                              "It would not be deleted, although a policy wants that. policy db: "
                              "mode_observes, \"as it says\".\n"));
  EXPECT_THAT(text, HasSubstr("  db (enforce, namespaces web) does not reach this namespace\n"));
  EXPECT_THAT(text,
              HasSubstr("Next: when you trust the policy, set `mode: enforce` in its binding"));
}

TEST(Explanation, OfAPodThatNobodySelects) {
  const std::string text = explained_by({broken("db", "web")}, rehearsed({}));
  EXPECT_THAT(text, HasSubstr("no policy in force selects it"));
  EXPECT_THAT(text, HasSubstr("Next: bind a policy"));
}

// Nobody was asked about the pod: what a policy said of its node keeps it.
TEST(Explanation, OfANodeThatAPolicyHolds) {
  const std::string text = explained_by(
      {bound("db")}, rehearsed({held("policy_holds_node", "db", "too many are down")}));
  EXPECT_THAT(text, HasSubstr("It would be kept for now. policy db: policy_holds_node, \"too many "
                              "are down\".\n"));
  EXPECT_THAT(text, HasSubstr("  db (enforce, namespaces db) selects it; policy_holds_node, \"too "
                              "many are down\"\n"
                              "Next: nothing; it is asked about the node again by itself.\n"));
  EXPECT_THAT(text, Not(HasSubstr("bind a policy")));
}

TEST(Explanation, OfAPolicyThatFailsOrObservesOverTheNode) {
  const std::string failed =
      explained_by({bound("db")}, rehearsed({held("policy_failed", "db", "db.lua:3: oh no")}));
  EXPECT_THAT(failed,
              HasSubstr("It would be kept for now. policy db: policy_failed, \"db.lua:3: oh "
                        "no\".\n"));
  EXPECT_THAT(failed, HasSubstr("Next: read `text` and mend the policy; "));
  EXPECT_THAT(failed, Not(HasSubstr("bind a policy")));
  const std::string observes = explained_by({bound("db", policy::Mode::Observe)},
                                            rehearsed({held("mode_observes", "db", "its power")}));
  EXPECT_THAT(observes, HasSubstr("policy db: mode_observes, \"its power\".\n"));
  EXPECT_THAT(observes,
              HasSubstr("Next: when you trust the policy, set `mode: enforce` in its binding"));
}

// It told of no policy, and advised to bind one, although the node was to be put out of service by
// one.
TEST(Explanation, OfANodeThatIsPutOutOfServiceFirst) {
  const json intent =
      record("intent", "sets_out_of_service", "",
             {{"policy", "db"}, {"action", "taint_out_of_service"}, {"text", "its power is off"}});
  const Write taint = {
      .method = port::Method::Patch, .path = "/api/v1/nodes/n1", .body = json::array()};
  const std::string text = explained_by({bound("db")}, rehearsed({intent}, {taint}));
  EXPECT_THAT(
      text,
      HasSubstr(
          "Its node would be put out of service first, and Kubernetes evicts it then, unless it "
          "tolerates that. policy db: sets_out_of_service, \"its power is off\".\n"
          "  PATCH /api/v1/nodes/n1\n"));
  EXPECT_THAT(text, Not(HasSubstr("Next: see `trigger`")));
  policy::PolicySet set;
  set.bindings = {bound("db", policy::Mode::Enforce, "web")};
  EXPECT_FALSE(explain(kPod, {}, set, plan_of(rehearsed({intent}, {taint}))).acts())
      << "of another namespace";
  set.bindings = {bound("db")};
  EXPECT_TRUE(explain(kPod, {}, set, plan_of(rehearsed({intent}, {taint}))).acts());
  EXPECT_THAT(plan_table(plan_of(rehearsed({intent}, {taint})), false),
              HasSubstr("  policy db: sets_out_of_service, its power is off\n"));
  EXPECT_EQ(
      plan_document(plan_of(rehearsed({intent}, {taint})))["nodes"][0]["changes"][0]["action"],
      "taint_out_of_service");
}

TEST(Explanation, OfABindingThatIsBroken) {
  const std::string text = explained_by({broken("db")}, rehearsed({}));
  EXPECT_THAT(text, HasSubstr("It would be kept: what would decide about it cannot be loaded.\n"));
  EXPECT_THAT(
      text, HasSubstr("Next: mend the policy that cannot be loaded; `text` and `moonfence status` "
                      "show its error.\n"));
  EXPECT_THAT(text, Not(HasSubstr("bind a policy")));
}

TEST(Explanation, OfAPolicyThatDoesNotTakeTheNodeForDown) {
  const std::string text = explained_by({bound("db")}, rehearsed({}));
  EXPECT_THAT(text, HasSubstr("no policy that selects it acts on this node"));
  EXPECT_THAT(text, HasSubstr("Next: see `trigger` and `source` of the policy that selects it"));
}

// One has nothing against the pod, another one has not come to it.
TEST(Explanation, AHoldOutlastsWhoeverSkipsThePodAndNobodyElse) {
  const json hold = held("policy_holds_node", "b", "later");
  const auto told = [&hold](const std::string& said, policy::Mode mode = policy::Mode::Enforce) {
    return explained_by({bound("a"), bound("b", mode)},
                        rehearsed({hold, verdict("db-0", said, "a")}));
  };
  EXPECT_THAT(told("policy_skips"), HasSubstr("kept for now. policy b: policy_holds_node"));
  EXPECT_THAT(told("policy_skips", policy::Mode::Observe),
              HasSubstr("It would be kept. policy a: policy_skips"));
  EXPECT_THAT(told("policy_forbids"), HasSubstr("It would be kept. policy a: policy_forbids"));
  EXPECT_THAT(told("policy_skips"), HasSubstr("  b (enforce, namespaces db) selects it; "
                                              "policy_holds_node, \"later\"\n"));
  // What it said of the node before it came to the pod is over.
  const std::string came_to_it =
      explained_by({bound("b")}, rehearsed({hold, verdict("db-0", "policy_skips", "b")}));
  EXPECT_THAT(came_to_it, Not(HasSubstr("policy_holds_node")));
}

TEST(Explanation, APodThatIsLeftAloneIsNoPolicysConcern) {
  const std::string text = explained_by(
      {bound("b")},
      rehearsed({held("policy_holds_node", "b"), verdict("db-0", "daemon_set_pod", "")}));
  EXPECT_THAT(text, HasSubstr("It would be kept. the engine: daemon_set_pod"));
  EXPECT_THAT(text, Not(HasSubstr("policy_holds_node")));
}

TEST(NextStep, IsWhatThePageSays) {
  EXPECT_EQ(next_step("policy_waits"), "nothing: it is asked again by itself.");
  EXPECT_EQ(next_step("volume_unfit"), "nothing; Kubernetes detaches it in its own time.");
  EXPECT_EQ(next_step("no_such"), "");
}

TEST(NextStep, OfWhatCannotBeReadDependsOnWhoDoesNotAnswer) {
  EXPECT_EQ(next_step("needs_unread", "endpoint array: GET /v1/hosts: HTTP 503"),
            "see what is wrong with the endpoint array; it is asked again by itself.");
  EXPECT_EQ(next_step("needs_unread", "endpoint array: GET /v1/hosts: HTTP 401"),
            "see which user the endpoint array wants: it refuses the engine's.");
  EXPECT_EQ(next_step("needs_unread", "endpoint array is not configured"),
            "name the endpoint in endpoints of the engine's configuration.");
  EXPECT_THAT(next_step("needs_unread",
                        "get v1 pods a/b: v1/pods is not among allowedReads of the "
                        "engine's configuration"),
              HasSubstr("name it in allowedReads"));
  EXPECT_THAT(next_step("needs_unread", "GET /api/v1/x: HTTP 403 Forbidden: x is forbidden"),
              HasSubstr("give the engine the right to read it"));
  EXPECT_EQ(next_step("needs_unread", "GET /api/v1/x: no answer within 5s"),
            "see whether the API server answers; it is asked again by itself.");
  EXPECT_EQ(next_step("lease_unreadable", "GET /apis/x: no answer within 5s"),
            "see whether the API server answers; it is asked again by itself.");
}

}  // namespace
}  // namespace moonfence::app
