#include "fence/display/incident_object.h"

#include <gtest/gtest.h>

#include "kube/text/json.h"

namespace moonfence::fence {
namespace {

using namespace std::chrono_literals;
using audit::Reason;
using nlohmann::json;
using Step = IncidentRecord::Step;

const WallTime kOpened = WallTime(1767330000s);  // 2026-01-02T05:00:00Z

Step pod_step(const std::string& uid, std::optional<Reason> outcome, bool sent = true) {
  Step step;
  step.pod = {.space = Namespace("db"), .name = uid};
  step.pod_uid = Uid(uid);
  step.outcome = outcome;
  step.planned = kOpened;
  if (sent) {
    step.sent = kOpened + 2s;
    step.calls = 1;
  }
  return step;
}

IncidentRecord make_record() {
  IncidentRecord record;
  record.id = IncidentId("3f09c1d2a7");
  record.node = NodeName("n1");
  record.node_uid = Uid("uid-n1");
  record.opened = kOpened;
  record.opened_for = Reason::NodeUnknown;
  record.steps = {pod_step("a", Reason::Done), pod_step("b", Reason::AlreadyGone),
                  pod_step("c", Reason::ServerSlow, false), pod_step("d", std::nullopt, false)};
  return record;
}

ShownRecord shown() {
  return shown_of(make_record(), Uid("map-1"));
}

ShownStand stand(IncidentStatus::State state, Reason reason, const std::string& text) {
  return {.state = state, .reason = reason, .text = text, .stalled = false, .pods = {}};
}

json object_with(const json& status) {
  return {{"metadata", {{"uid", "obj-1"}}}, {"status", status}};
}

const json& condition(const json& status, const std::string& type) {
  for (const json& each : status.at("conditions")) {
    if (each.at("type") == type) {
      return each;
    }
  }
  ADD_FAILURE() << "no condition " << type;
  return status;
}

std::string statuses(const json& status) {
  return condition(status, "Settled").at("status").get<std::string>() + " " +
         condition(status, "Reconciling").at("status").get<std::string>() + " " +
         condition(status, "Stalled").at("status").get<std::string>();
}

TEST(IncidentObject, is_owned_by_its_record_and_called_like_it) {
  const auto object = kube::parse_json(new_object(shown(), Namespace("moonfence")));
  ASSERT_TRUE(object);
  EXPECT_EQ(kube::text_at(*object, "/metadata/name"), "moonfence-incident-3f09c1d2a7");
  EXPECT_EQ(kube::text_at(*object, "/metadata/namespace"), "moonfence");
  EXPECT_EQ(object->at(json::json_pointer("/metadata/ownerReferences/0")),
            json({{"apiVersion", "v1"},
                  {"kind", "ConfigMap"},
                  {"name", "moonfence-incident-3f09c1d2a7"},
                  {"uid", "map-1"}}));
  EXPECT_TRUE(is_of(*object, shown()));
}

TEST(IncidentObject, of_another_record_or_of_nobody_is_not_ours) {
  json object = *kube::parse_json(new_object(shown(), Namespace("moonfence")));
  for (const json& owners :
       {json::array(), json("none"), json(nullptr), json::array({1, "x", nullptr}),
        json::array({{{"kind", "ConfigMap"}, {"uid", "map-2"}}}),
        json::array({{{"kind", "Pod"}, {"uid", "map-1"}}}), json::array({{{"uid", {"map-1"}}}})}) {
    object["metadata"]["ownerReferences"] = owners;
    EXPECT_FALSE(is_of(object, shown())) << owners;
  }
  EXPECT_FALSE(is_of(json::object(), shown()));
  EXPECT_FALSE(is_of({{"metadata", json::array({1})}}, shown()));
}

TEST(IncidentObject, counts_what_the_record_says_of_pods) {
  IncidentRecord record = make_record();
  record.steps[0].sent = kOpened + 3s;
  Step attachment;
  attachment.kind = Step::Kind::DeleteAttachment;
  attachment.sent = kOpened + 1s;
  attachment.outcome = Reason::Done;
  record.steps.push_back(attachment);
  record.steps_cut = 7;
  const json status =
      status_of(shown_of(record, Uid("map-1")), std::nullopt, json::object(), kOpened + 9s);
  EXPECT_EQ(status["pods"], json({{"planned", 4}, {"deleted", 2}, {"notDeleted", 1}}));
  EXPECT_EQ(status["firstDeletion"], "2026-01-02T05:00:02Z");
  EXPECT_EQ(status["stepsLeftOut"], 7);
  EXPECT_EQ(status["node"], json({{"name", "n1"}, {"uid", "uid-n1"}}));
  EXPECT_EQ(status["opened"], "2026-01-02T05:00:00Z");
  EXPECT_EQ(status["openedFor"], "node_unknown");
  EXPECT_EQ(status["phase"], "Open");
  EXPECT_FALSE(status.contains("closed"));
}

TEST(IncidentObject, a_pod_that_a_finalizer_keeps_is_not_gone) {
  IncidentRecord record = make_record();
  record.steps[0].outcome = Reason::MarkedOnly;
  const json status =
      status_of(shown_of(record, Uid("map-1")), std::nullopt, json::object(), kOpened + 9s);
  EXPECT_EQ(status["pods"], json({{"planned", 4}, {"deleted", 1}, {"notDeleted", 2}}));
}

// The record keeps the newest call of each pod.
TEST(IncidentObject, the_first_deletion_is_the_earliest_of_the_newest_calls) {
  IncidentRecord record = make_record();
  record.steps[0].sent = kOpened + 8s;  // once more
  const json status =
      status_of(shown_of(record, Uid("map-1")), std::nullopt, json::object(), kOpened + 9s);
  EXPECT_EQ(status["firstDeletion"], "2026-01-02T05:00:02Z");
}

TEST(IncidentObject, says_what_was_known_of_the_node_where_proof_was_demanded) {
  IncidentRecord record = make_record();
  EXPECT_FALSE(status_of(shown(), std::nullopt, json::object(), kOpened).contains("proof"));
  record.steps[1].proof = "off;attested";
  record.steps[1].evidence = "silent; fencer redfish: PowerState Off";
  const json status =
      status_of(shown_of(record, Uid("map-1")), std::nullopt, json::object(), kOpened);
  EXPECT_EQ(status["proof"], "off;attested");
  EXPECT_EQ(status["evidence"], "silent; fencer redfish: PowerState Off");
}

// By kstatus' rules: in progress, failed, or there.
TEST(IncidentObject,
     its_conditions_say_in_turn_that_it_goes_on_that_it_is_stuck_and_that_it_is_over) {
  ShownRecord record = shown();
  ShownStand held = stand(IncidentStatus::State::Held, Reason::TooManyDown, "9 of 10 are down");
  const json goes_on = status_of(record, held, json::object(), kOpened + 9s);
  EXPECT_EQ(statuses(goes_on), "False True False");
  EXPECT_EQ(goes_on["phase"], "Held");
  EXPECT_EQ(goes_on["reason"], "too_many_down");
  EXPECT_EQ(goes_on["message"], "9 of 10 are down");
  EXPECT_EQ(condition(goes_on, "Reconciling")["reason"], "TooManyDown");
  EXPECT_EQ(condition(goes_on, "Reconciling")["lastTransitionTime"], "2026-01-02T05:00:00Z");
  held.stalled = true;
  const json stuck = status_of(record, held, object_with(goes_on), kOpened + 60s);
  EXPECT_EQ(statuses(stuck), "False False True");
  EXPECT_EQ(condition(stuck, "Stalled")["message"],
            "9 of 10 are down (see `moonfence reason too_many_down`)");
  EXPECT_EQ(condition(stuck, "Stalled")["lastTransitionTime"], "2026-01-02T05:01:00Z");
  held.stalled = false;
  const json freed = status_of(record, held, object_with(stuck), kOpened + 70s);
  EXPECT_EQ(statuses(freed), "False True False");
  EXPECT_EQ(condition(freed, "Stalled")["lastTransitionTime"], "2026-01-02T05:01:10Z");
  EXPECT_EQ(condition(freed, "Reconciling")["lastTransitionTime"], "2026-01-02T05:01:10Z");
  EXPECT_EQ(condition(freed, "Settled")["lastTransitionTime"], "2026-01-02T05:00:00Z");
  EXPECT_EQ(status_of(record, held, object_with(freed), kOpened + 99s), freed);
  record.closed = kOpened + 90s;
  record.closed_for = Reason::NodeReady;
  const json over = status_of(record, held, object_with(stuck), kOpened + 91s);
  EXPECT_EQ(statuses(over), "True False False");
  EXPECT_EQ(over["phase"], "Closed");
  EXPECT_EQ(over["reason"], "node_ready");
  EXPECT_EQ(over["closed"], "2026-01-02T05:01:30Z");
  EXPECT_FALSE(over.contains("message"));
  EXPECT_EQ(condition(over, "Settled")["reason"], "NodeReady");
  EXPECT_EQ(condition(over, "Settled")["lastTransitionTime"], "2026-01-02T05:01:30Z");
  EXPECT_EQ(condition(over, "Stalled")["lastTransitionTime"], "2026-01-02T05:01:30Z");
}

// A leader that knows nothing but the record says the same, and writes nothing.
TEST(IncidentObject, of_a_closed_record_every_leader_says_the_same) {
  ShownRecord record = shown();
  record.closed = kOpened + 90s;
  ShownStand known = stand(IncidentStatus::State::Verifying, Reason::Settled, "x");
  known.pods = JudgedPods{.judged = 9, .waiting = 1, .left_alone = 2, .would_delete = 3};
  const json first = status_of(record, known, json::object(), kOpened + 91s);
  const json second = status_of(record, std::nullopt, object_with(first), kOpened + 5000s);
  EXPECT_EQ(first, second);
  EXPECT_EQ(status_change(object_with(first), second), std::nullopt);
}

TEST(IncidentObject, the_time_of_a_condition_changes_with_its_status_only) {
  const ShownRecord record = shown();
  ShownStand fails = stand(IncidentStatus::State::Fails, Reason::StillFailing, "no");
  fails.stalled = true;
  const json first = status_of(record, fails, json::object(), kOpened + 60s);
  fails.text = "still no";
  const json second = status_of(record, fails, object_with(first), kOpened + 600s);
  EXPECT_EQ(condition(second, "Stalled")["lastTransitionTime"], "2026-01-02T05:01:00Z");
  EXPECT_NE(first, second);
}

// Whoever may write the object may have written anything there.
TEST(IncidentObject, takes_no_impossible_time_and_nothing_else_from_what_stands_there) {
  const ShownRecord record = shown();
  const json right = status_of(record, std::nullopt, json::object(), kOpened + 9s);
  for (const json& time : {json("2031-01-01T00:00:00Z"), json("1999-01-01T00:00:00Z"), json("soon"),
                           json(7), json(nullptr), json::object()}) {
    json forged = right;
    for (json& each : forged["conditions"]) {
      each["lastTransitionTime"] = time;
    }
    forged["phase"] = "Closed";
    forged["conditions"].push_back({{"type", "Settled"}, {"status", "True"}});
    EXPECT_EQ(status_of(record, std::nullopt, object_with(forged), kOpened + 9s), right) << time;
    EXPECT_TRUE(status_change(object_with(forged), right)) << time;
  }
  for (const json& conditions :
       {json(1), json("x"), json::object(), json::array({1, json::array()})}) {
    EXPECT_EQ(
        status_of(record, std::nullopt, object_with({{"conditions", conditions}}), kOpened + 9s),
        right);
  }
}

TEST(IncidentObject, a_change_is_of_the_very_object_that_was_read) {
  const json status = status_of(shown(), std::nullopt, json::object(), kOpened);
  const auto change =
      status_change({{"metadata", {{"uid", "obj-1"}, {"resourceVersion", "7"}}}}, status);
  ASSERT_TRUE(change);
  const json patch = json::parse(*change);
  EXPECT_EQ(patch[0], json({{"op", "test"}, {"path", "/metadata/uid"}, {"value", "obj-1"}}));
  EXPECT_EQ(patch[1],
            json({{"op", "test"}, {"path", "/metadata/resourceVersion"}, {"value", "7"}}));
  EXPECT_EQ(patch[2]["path"], "/status");
  EXPECT_EQ(patch[2]["value"], status);
}

TEST(IncidentObject, a_long_text_is_cut_to_what_the_kind_takes) {
  ShownStand long_one =
      stand(IncidentStatus::State::Fails, Reason::StillFailing, std::string(5000, 'x'));
  long_one.stalled = true;
  const json status = status_of(shown(), long_one, json::object(), kOpened);
  EXPECT_LE(status["message"].get<std::string>().size(), 1100U);
  EXPECT_LE(condition(status, "Stalled")["message"].get<std::string>().size(), 2048U);
}

}  // namespace
}  // namespace moonfence::fence
