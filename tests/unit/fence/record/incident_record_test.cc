#include "fence/record/incident_record.h"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

namespace moonfence::fence {
namespace {

using namespace std::chrono_literals;
using audit::Reason;
using Step = IncidentRecord::Step;

WallTime at(int second) {
  return WallTime(1767330000s) + std::chrono::seconds(second);
}

IncidentRecord sample() {
  IncidentRecord record;
  record.id = IncidentId("3f09c1d2a7");
  record.node = NodeName("n1");
  record.node_uid = Uid("node-1");
  record.boot_id = "boot-1";
  record.zone = "a";
  record.source = "key-1";
  record.fell = true;
  record.silent = at(4);
  record.opened = at(0);
  record.opened_for = Reason::NodeUnknown;
  record.leaders = {{.identity = "moonfence-0_a", .since = at(0)}};
  Step pod;
  pod.pod = {.space = Namespace("db"), .name = "pg-0"};
  pod.pod_uid = Uid("pod-1");
  pod.controller = "StatefulSet";
  pod.phase = "Running";
  pod.policy = "both";
  pod.policy_digest = "d1";
  pod.set_digest = "s1";
  pod.why = "its node is dead";
  pod.proof = "silent,attested;unreachable";
  pod.evidence = "unreachable, attested: off by alice, 2026-01-02T03:04:05Z, no light";
  pod.planned = at(1);
  Step attachment = pod;
  pod.sent = at(2);
  pod.ended = at(3);
  pod.outcome = Reason::Done;
  pod.calls = 1;
  attachment.kind = Step::Kind::DeleteAttachment;
  attachment.attachment = "csi-1";
  attachment.attachment_uid = Uid("va-1");
  attachment.driver = "csi.example.com";
  attachment.handle = "vol-1";
  attachment.volume = "pv-1";
  attachment.before_pod = true;
  record.steps = {pod, attachment};
  return record;
}

TEST(IncidentRecords, what_is_written_is_read_back) {
  IncidentRecord record = sample();
  record.closed = {.at = at(9), .reason = Reason::Settled};
  record.last_sign = at(3);
  record.steps_cut = 3;
  record.steps[1].gone = at(8);
  record.steps[0].owner_api = "apps/v1";
  record.steps[0].owner = "pg";
  record.steps[0].owner_uid = Uid("set-1");
  record.steps[0].follow = Step::Follow{.state = Reason::ReplacementUnscheduled,
                                        .text = "no room",
                                        .node = NodeName("n2"),
                                        .uid = Uid("pod-2"),
                                        .at = at(7)};
  const std::string text = to_text(record);
  const auto read = parse_record(text);
  ASSERT_TRUE(read) << read.error().message();
  EXPECT_EQ(to_text(*read), text);
  EXPECT_EQ(nlohmann::json::parse(text).dump(), text) << "as the library writes it, keys in order";
  EXPECT_EQ(read->last_sign, at(3));
  EXPECT_EQ(read->steps[1].handle, "vol-1");
  EXPECT_EQ(read->steps[0].outcome, Reason::Done);
  EXPECT_EQ(read->acted(), at(2));
  EXPECT_EQ(read->steps[0].owner_uid, Uid("set-1"));
  ASSERT_TRUE(read->steps[0].follow);
  EXPECT_EQ(read->steps[0].follow->state, Reason::ReplacementUnscheduled);
  EXPECT_EQ(read->steps[0].follow->text, "no room");
}

TEST(IncidentRecords, proof_in_other_words_is_refused) {
  std::string text = to_text(sample());
  const std::string good = "silent,attested;unreachable";
  text.replace(text.find(good), good.size(), "silent,burnt;unreachable");
  const auto record = parse_record(text);
  ASSERT_FALSE(record);
  EXPECT_NE(record.error().text.find("is not a list of evidence"), std::string::npos);
}

// What docs/incident-record.md says of the size.
TEST(IncidentRecords, six_hundred_pods_with_a_volume_and_a_replacement_each_fit) {
  IncidentRecord record = sample();
  record.steps.clear();
  const std::string uid = "01234567-89ab-cdef-0123-456789abcdef";
  for (int i = 0; i < 600; ++i) {
    Step step = sample().steps[0];
    step.pod = {.space = Namespace("production"), .name = "database-" + std::to_string(i)};
    step.pod_uid = Uid(uid + std::to_string(i));
    step.owner = "database";
    step.owner_uid = Uid(uid);
    step.why = "its node is down and its kubelet is silent";
    step.follow = Step::Follow{.state = Reason::ReplacementReady,
                               .text = "on worker-17.example.com",
                               .node = NodeName("worker-17.example.com"),
                               .uid = Uid(uid),
                               .at = at(9)};
    record.steps.push_back(step);
    step.kind = Step::Kind::DeleteAttachment;
    step.follow.reset();
    step.attachment = "csi-" + std::string(64, 'a');
    step.attachment_uid = Uid(uid + "-" + std::to_string(i));
    step.driver = "rbd.csi.ceph.com";
    step.handle = "0001-0009-rook-ceph-0000000000000002-" + uid;
    step.volume = "pvc-" + uid;
    step.gone = at(8);
    record.steps.push_back(step);
  }
  const std::size_t bytes = to_text(record).size() / 600;
  RecordProperty("bytes_of_a_pod_with_a_volume", static_cast<int>(bytes));
  EXPECT_LT(to_text(record).size(), kRecordLimit);
  EXPECT_GT(bytes, 1400U) << "more of them fit than is said";
}

TEST(IncidentRecords, a_replacement_is_awaited_of_what_may_have_been_deleted) {
  Step step = sample().steps[0];
  EXPECT_TRUE(step.awaits_replacement());
  step.follow = Step::Follow{.state = Reason::ReplacementUnscheduled};
  EXPECT_TRUE(step.awaits_replacement());
  step.follow->state = Reason::ReplacementReady;
  EXPECT_FALSE(step.awaits_replacement());
  step.follow->state = Reason::ReplacementNotNeeded;
  EXPECT_FALSE(step.awaits_replacement());
  step.follow.reset();
  step.outcome = Reason::OutcomeLost;
  EXPECT_TRUE(step.awaits_replacement());
  step.outcome = Reason::Refused;
  EXPECT_FALSE(step.awaits_replacement()) << "the server said no";
  for (const Reason elsewhere : {Reason::AlreadyGone, Reason::Replaced}) {
    step.outcome = elsewhere;
    step.calls = 1;
    EXPECT_FALSE(step.awaits_replacement()) << "somebody else deleted it";
    step.calls = 2;
    EXPECT_TRUE(step.awaits_replacement()) << "maybe it was our first call";
    step.calls = 1;
    const auto ended = std::exchange(step.ended, std::nullopt);
    EXPECT_TRUE(step.awaits_replacement()) << "nobody heard what our only call came to";
    step.ended = ended;
  }
  step.outcome.reset();
  step.sent.reset();
  EXPECT_FALSE(step.awaits_replacement()) << "nothing has left";
  EXPECT_FALSE(sample().steps[1].awaits_replacement()) << "an attachment";
}

TEST(IncidentRecords, a_taint_is_a_step_of_its_own) {
  IncidentRecord record = sample();
  Step taint;
  taint.kind = Step::Kind::TaintNode;
  taint.node_uid = Uid("node-1");
  taint.policy = "both";
  taint.policy_digest = "d1";
  taint.set_digest = "s1";
  taint.planned = at(1);
  taint.outcome = Reason::Done;
  record.steps.push_back(taint);
  const std::string text = to_text(record);
  const auto read = parse_record(text);
  ASSERT_TRUE(read) << read.error().message();
  EXPECT_EQ(to_text(*read), text);
  EXPECT_EQ(nlohmann::json::parse(text).dump(), text) << "as the library writes it, keys in order";
  const Step* found = read->find(Uid("node-1"));
  ASSERT_NE(found, nullptr);
  EXPECT_EQ(found->kind, Step::Kind::TaintNode);
  EXPECT_TRUE(found->settled());
}

TEST(IncidentRecords, the_form_is_that_of_the_documentation) {
  const auto json = nlohmann::json::parse(to_text(sample()));
  EXPECT_EQ(json["version"], 1);
  EXPECT_EQ(json["policies"],
            nlohmann::json::parse(R"([{"name": "both", "digest": "d1", "set": "s1",
    "proof": "silent,attested;unreachable",
    "evidence": "unreachable, attested: off by alice, 2026-01-02T03:04:05Z, no light"}])"));
  EXPECT_EQ(json["steps"][1], nlohmann::json::parse(R"({
    "step": "delete_attachment", "policy": 0, "planned": "2026-01-02T05:00:01.000000Z",
    "why": "its node is dead",
    "pod": {"namespace": "db", "name": "pg-0", "uid": "pod-1", "controller": "StatefulSet",
            "phase": "Running"},
    "attachment": {"name": "csi-1", "uid": "va-1", "driver": "csi.example.com",
                   "handle": "vol-1", "volume": "pv-1", "before_pod": true}})"));
}

// Of a volume that stands in a pod itself, or is of a kind without handles. The next leader could
// not read the record.
TEST(IncidentRecords, an_attachment_of_a_volume_without_handle_or_name_is_read_back) {
  IncidentRecord record = sample();
  record.steps[1].handle.clear();
  record.steps[1].volume.clear();
  const auto read = parse_record(to_text(record));
  ASSERT_TRUE(read) << read.error().message();
  EXPECT_EQ(read->steps[1].attachment, "csi-1");
  EXPECT_EQ(read->steps[1].handle, "");
  EXPECT_EQ(read->steps[1].volume, "");
}

std::string refusal_of(const std::string& pointer, const nlohmann::json& value) {
  auto json = nlohmann::json::parse(to_text(sample()));
  json[nlohmann::json::json_pointer(pointer)] = value;
  const auto read = parse_record(json.dump());
  EXPECT_FALSE(read) << pointer;
  EXPECT_FALSE(read || read.error().hint.empty()) << "there is a next step";
  return read ? "" : read.error().text;
}

TEST(IncidentRecords, what_is_none_is_refused_with_place_value_and_rule) {
  EXPECT_EQ(refusal_of("/version", 2), "version: expected 1, found 2");
  EXPECT_EQ(refusal_of("/incident", ""), "incident: is required");
  EXPECT_EQ(refusal_of("/node", "n1"), "node.name: lies inside string instead of an object");
  EXPECT_EQ(refusal_of("/opened", "noon"), "opened: expected an RFC 3339 time, found \"noon\"");
  EXPECT_EQ(refusal_of("/opened_for", "whim"),
            "opened_for: \"whim\" is no reason of docs/reasons.md");
  EXPECT_EQ(refusal_of("/steps", 7), "steps: expected an array, found number");
  EXPECT_EQ(refusal_of("/steps/0/step", "release"),
            "steps[0].step: \"release\" is no step that this version knows");
  EXPECT_EQ(refusal_of("/steps/0/policy", 1),
            "steps[0].policy: expected the index of one of 1 policies, found 1");
  EXPECT_EQ(refusal_of("/steps/0/policy", -1),
            "steps[0].policy: expected the index of one of 1 policies, found -1");
  EXPECT_EQ(refusal_of("/steps/1/attachment/uid", nullptr), "steps[1].attachment.uid: is required");
  EXPECT_EQ(refusal_of("/steps/0/calls", -1), "steps[0].calls: expected 0 to 2147483647, found -1");
  EXPECT_EQ(refusal_of("/steps_cut", -1), "steps_cut: expected 0 or more, found -1");
  for (const char* text : {"", "[]", "null", "{", "\"x\"", "{\"version\":1}"}) {
    EXPECT_FALSE(parse_record(text)) << text;
  }
}

TEST(IncidentRecords, what_is_settled_is_cut_first_the_rest_never) {
  IncidentRecord record = sample();
  const Step done = record.steps[0];
  const Step pending = record.steps[1];
  record.steps.clear();
  for (int i = 0; i < 100; ++i) {
    record.steps.push_back(i % 2 == 0 ? done : pending);
    record.steps.back().pod_uid = Uid("pod-" + std::to_string(i));
    record.steps.back().attachment_uid = Uid("va-" + std::to_string(i));
  }
  const std::size_t whole = to_text(record).size();
  auto text = fit(record, whole - 1000);
  ASSERT_TRUE(text);
  EXPECT_LE(text->size(), whole - 1000);
  EXPECT_EQ(record.find(Uid("pod-0")), nullptr) << "the oldest goes first";
  EXPECT_NE(record.find(Uid("pod-98")), nullptr);
  EXPECT_EQ(record.steps.size() + record.steps_cut, 100U);
  EXPECT_EQ(parse_record(*text)->steps_cut, record.steps_cut);
  text = fit(record, 5000);
  ASSERT_FALSE(text);
  EXPECT_EQ(text.error().kind, Error::Kind::Limit);
  EXPECT_EQ(record.steps.size(), 50U) << "what is still to be done stays";
}

TEST(IncidentRecords, a_release_is_written_read_back_and_not_cut) {
  IncidentRecord record = sample();
  Step& step = record.steps[1];
  step.before_pod = false;
  step.release = {.boot_id = "boot-1", .heartbeat = "2026-01-02T04:59:00Z"};
  EXPECT_EQ(nlohmann::json::parse(to_text(record))["steps"][1]["attachment"]["release"],
            nlohmann::json::parse(R"({"boot_id": "boot-1", "heartbeat": "2026-01-02T04:59:00Z"})"));
  EXPECT_EQ(parse_record(to_text(record))->steps[1].release, step.release);
  EXPECT_FALSE(step.awaits_release()) << "nobody is known to have asked it to go";
  step.sent = at(4);
  step.outcome = Reason::MarkedOnly;
  EXPECT_FALSE(step.awaits_release()) << "it is there";
  step.gone = at(5);
  EXPECT_TRUE(step.awaits_release());
  EXPECT_FALSE(fit(record, 10)) << "it is still to be released";
  EXPECT_EQ(record.steps.size(), 1U);
  record.steps[0].outcome = Reason::Replaced;
  EXPECT_FALSE(record.steps[0].awaits_release());
  EXPECT_NE(refusal_of("/steps/1/attachment/release", 7), "");
}

TEST(IncidentRecords, a_marked_attachment_is_settled_when_it_is_gone_and_a_marked_pod_at_once) {
  Step pod = sample().steps[0];
  Step attachment = sample().steps[1];
  EXPECT_FALSE(attachment.settled());
  pod.outcome = attachment.outcome = Reason::MarkedOnly;
  EXPECT_TRUE(pod.settled());
  EXPECT_FALSE(attachment.settled());
  attachment.gone = at(5);
  EXPECT_TRUE(attachment.settled());
  pod.outcome = Reason::OutcomeLost;
  EXPECT_FALSE(pod.settled());
}

TEST(IncidentRecords, closed_ones_without_a_step_are_not_kept_and_push_out_no_other) {
  std::vector<KeptRecord> records;
  for (int i = 0; i < 100; ++i) {
    records.push_back({.name = "r" + std::to_string(i), .opened = at(i), .closed = at(i + 1)});
  }
  records.push_back({.name = "open", .opened = at(200), .closed = std::nullopt, .empty = true});
  EXPECT_EQ(outdated(records, {.count = 101}, at(201)), std::vector<std::string>{});
  records.push_back({.name = "empty", .opened = at(201), .closed = at(202), .empty = true});
  EXPECT_EQ(outdated(records, {.count = 101}, at(203)), std::vector<std::string>{"empty"});
}

TEST(IncidentRecords, a_hundred_are_kept_for_seven_days_and_open_ones_for_ever) {
  std::vector<KeptRecord> records;
  for (int i = 0; i < 103; ++i) {
    records.push_back({.name = "r" + std::to_string(i), .opened = at(i), .closed = at(i + 1)});
  }
  records[0].closed.reset();
  EXPECT_EQ(outdated(records, {}, at(200)), (std::vector<std::string>{"r2", "r1"}));
  EXPECT_EQ(outdated(records, {}, at(200) + 8 * 24h).size(), 102U);
  EXPECT_EQ(outdated({{.name = "a", .opened = at(0), .closed = at(1)}}, {}, at(1) + 7 * 24h),
            std::vector<std::string>{});
}

}  // namespace
}  // namespace moonfence::fence
