// Tables and documents of status, incidents and incident.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "app/cluster_commands/incident_text.h"
#include "app/cluster_commands/status_text.h"
#include "app/terminal/output.h"
#include "app/terminal/text_table.h"

namespace moonfence::app {
namespace {

using nlohmann::json;
using nlohmann::ordered_json;
using testing::HasSubstr;

WallTime at(const std::string& text) {
  return *parse_rfc3339("2026-11-20T" + text + "Z");
}

fence::IncidentRecord incident() {
  fence::IncidentRecord record;
  record.id = IncidentId("3f09c1d2a7");
  record.node = NodeName("n1");
  record.node_uid = Uid("node-uid");
  record.opened = at("10:00:00");
  record.opened_for = audit::Reason::NodeUnknown;
  record.leaders = {{.identity = "m-0_ab", .since = at("10:00:00")}};
  fence::IncidentRecord::Step step;
  step.pod = {.space = Namespace("db"), .name = "db-0"};
  step.pod_uid = Uid("pod-uid");
  step.policy = "noobaa";
  step.why = "the node is down";
  step.planned = at("10:00:00.012");
  step.sent = at("10:00:00.030");
  step.ended = at("10:00:00.042");
  step.outcome = audit::Reason::Done;
  step.calls = 1;
  record.steps = {step};
  return record;
}

TEST(TextTable, ColumnsAreAsWideAsTheirWidestCell) {
  TextTable table({"A", "LONGER"});
  table.add({"value", ""});
  table.add({"x\n"});
  EXPECT_EQ(table.text("  "), "  A       LONGER\n  value   -\n  x\\n     -\n");
  EXPECT_EQ(TextTable({"A"}).text(), "");
}

TEST(Output, YamlIsReadAsItWasWritten) {
  const ordered_json document = {{"word", "node-1"},
                                 {"empty", ordered_json::array()},
                                 {"list", {{{"a", 1}, {"b", {"x", "true"}}}, "10"}},
                                 {"nested", {{"text", "a: \"b\"\n"}, {"none", nullptr}}}};
  EXPECT_EQ(to_yaml_text(document),
            "word: node-1\n"
            "empty: []\n"
            "list:\n"
            "- a: 1\n"
            "  b:\n"
            "  - x\n"
            "  - \"true\"\n"
            "- \"10\"\n"
            "nested:\n"
            "  text: \"a: \\\"b\\\"\\n\"\n"
            "  none: null\n");
}

TEST(IncidentText, ListsTheNewestFirst) {
  fence::IncidentRecord older = incident();
  older.id = IncidentId("0000000001");
  older.opened = at("09:00:00");
  older.closed =
      fence::IncidentRecord::Closed{.at = at("10:00:30"), .reason = audit::Reason::Settled};
  EXPECT_EQ(incidents_table({older, incident()}),
            "ID           NODE   OPENED                 FOR            STATE     STEPS   LAST      "
            "LEADERS\n"
            "3f09c1d2a7   n1     2026-11-20T10:00:00Z   node_unknown   open      1/1     +42ms     "
            "1\n"
            "0000000001   n1     2026-11-20T09:00:00Z   node_unknown   settled   1/1     +1h42ms   "
            "1\n");
  EXPECT_EQ(incidents_table({}), "");
}

TEST(IncidentText, ShowsEachStepWithItsTimes) {
  fence::IncidentRecord record = incident();
  record.closed =
      fence::IncidentRecord::Closed{.at = at("10:00:21"), .reason = audit::Reason::Settled};
  EXPECT_EQ(
      incident_text(record),
      "incident 3f09c1d2a7, settled\n"
      "  node      n1 (node-uid)\n"
      "  opened    2026-11-20T10:00:00Z, node_unknown\n"
      "  leader    m-0_ab since 2026-11-20T10:00:00Z\n"
      "  closed    2026-11-20T10:00:21Z, settled, after 21s\n"
      "  steps     1/1 settled\n"
      "  STEP          POLICY   PLANNED   SENT    ENDED   GONE   CALLS   OUTCOME   WHY\n"
      "  pod db/db-0   noobaa   +12ms     +30ms   +42ms   -      1       done      the node is "
      "down\n");
}

TEST(IncidentText, NamesWhatEachStepIsAbout) {
  using Kind = fence::IncidentRecord::Step::Kind;
  fence::IncidentRecord record = incident();
  record.steps[0].kind = Kind::TaintNode;
  EXPECT_NE(incident_text(record).find("\n  node n1 out of service "), std::string::npos);
  record.steps[0].kind = Kind::DeleteAttachment;
  record.steps[0].attachment = "csi-1";
  EXPECT_NE(incident_text(record).find("\n  attachment csi-1 of pod db/db-0 "), std::string::npos);
}

ClusterStatus status() {
  ClusterStatus found;
  found.leader = ClusterStatus::Leader{
      .holder = "m-0_ab", .renewed = at("10:00:08"), .term = std::chrono::seconds(15)};
  found.instance = "m-0";
  found.report = {{"mode", "enforce"},
                  {"modeSetBy", "moonfence.yaml"},
                  {"observedResourceVersion", "77"},
                  {"observedAt", "2026-11-20T09:00:00Z"},
                  {"faults", json::array()},
                  {"policies",
                   {{{"name", "noobaa"},
                     {"state", "Active"},
                     {"mode", "enforce"},
                     {"namespaces", "db"},
                     {"digest", "sha256:0123456789abcdef"},
                     {"since", "2026-11-20T09:00:00Z"}}}}};
  found.nodes = 3;
  found.down = {
      {.name = "n1", .ready = "Unknown", .since = "2026-11-20T10:00:00Z", .fenced = true}};
  found.open = {incident()};
  return found;
}

TEST(StatusText, SaysWhoLeadsWhatIsInForceAndWhatIsBeingDone) {
  EXPECT_EQ(
      status_text(status(), at("10:00:10")),
      "LEADER      m-0_ab, renewed 2s ago\n"
      "MODE        enforce, set by moonfence.yaml\n"
      "STATE       unknown: no replica has told it\n"
      "POLICIES    version 77 read 2026-11-20T09:00:00Z, accepted\n"
      "  POLICY   STATE    MODE      NAMESPACES   DIGEST                SINCE                  "
      "ERROR\n"
      "  noobaa   Active   enforce   db           sha256:0123456789ab   2026-11-20T09:00:00Z   "
      "-\n"
      "BRAKE       unknown: only the replica that leads tells of it\n"
      "NODES       1 of 3 down\n"
      "  NODE   READY     SINCE                  FENCED\n"
      "  n1     Unknown   2026-11-20T10:00:00Z   yes\n"
      "INCIDENTS   1 open\n"
      "  ID           NODE   OPENED                 FOR            STATE   STEPS   LAST    "
      "LEADERS\n"
      "  3f09c1d2a7   n1     2026-11-20T10:00:00Z   node_unknown   open    1/1     +42ms   1\n");
}

TEST(StatusText, ATermThatHasRunOutLeadsNobody) {
  EXPECT_THAT(status_text(status(), at("10:00:30")),
              HasSubstr("LEADER      nobody: the term of m-0_ab has run out, renewed 22s ago\n"));
  EXPECT_EQ(status_document(status(), at("10:00:30"))["leader"]["leads"], false);
  EXPECT_EQ(status_document(status(), at("10:00:10"))["leader"]["leads"], true);
}

TEST(StatusText, SaysWhatMachinesAnswerAndHowOftenOneWasSilentThatLived) {
  ClusterStatus found = status();
  found.report["situation"]["detection"] = {
      {"since", "2026-11-18T22:00:10Z"},
      {"answers", 4},
      {"silent", 1},
      {"unsure", 0},
      {"notObservable", 2},
      {"silencesOf", {{"4s", 3}, {"6s", 2}, {"8s", 2}, {"12s", 1}, {"20s", 0}, {"40s", 0}}}};
  EXPECT_THAT(
      status_text(found, at("10:00:10")),
      HasSubstr("MACHINES    4 answer, 1 silent, 2 not observable\n"
                "  in 6.0 node-days so many were silent for so long and had not been restarted: "
                "4s: 3, 6s: 2, 8s: 2, 12s: 1, 20s: 0, 40s: 0\n"
                "  no other replica can be asked what it hears\n"));
  found.report["situation"]["detection"]["otherReplicas"] = {{"asked", 1}};
  EXPECT_THAT(status_text(found, at("10:00:10")),
              HasSubstr("\n  other replicas that are asked what they hear: 1\n"));
  found.report["situation"]["detection"]["otherReplicas"] = {
      {"asked", 2}, {"failing", 1}, {"confirmSilent", 3}, {"hearSilent", 4}};
  EXPECT_THAT(status_text(found, at("10:00:10")),
              HasSubstr("hear: 2, 1 without an answer as it should be, 3 silent machines are "
                        "confirmed, 4 machines that are silent to the leader are heard by "
                        "another\n"));
  found.report["situation"]["detection"]["since"] = "?";
  EXPECT_THAT(status_text(found, at("10:00:10")), testing::Not(HasSubstr("MACHINES")));
}

TEST(StatusText, MachinesThatDidNotAnswerAreShownWithTheirLastMinutes) {
  ClusterStatus found = status();
  found.report["situation"]["detection"] = {
      {"since", "2026-11-18T22:00:10Z"},
      {"answers", 4},
      {"machines",
       {{{"node", "n1"},
         {"lastSign", "2026-11-20T09:59:36Z"},
         {"confirmed", true},
         {"changes",
          {{{"at", "2026-11-20T09:59:38Z"}, {"kernel", "unsure"}},
           {{"at", "2026-11-20T09:59:40Z"}, {"kernel", "silent"}}}}},
        {{"node", "n2"}, {"changes", {{{"at", "?"}, {"kernel", "silent"}}, 7}}}}},
      {"machinesLeftOut", 3}};
  const std::string text = status_text(found, at("10:00:10"));
  EXPECT_THAT(text, HasSubstr("silent, confirmed   30s ago   34s ago     " + std::string(56, '.') +
                              "?xxx\n"));
  EXPECT_THAT(text, HasSubstr("\n  and 3 more\n"));
  EXPECT_THAT(text, HasSubstr("ten seconds a sign"));
}

TEST(StatusText, NodesWhoseFencersDoNotWorkAreNamed) {
  ClusterStatus found = status();
  EXPECT_EQ(status_text(found, at("10:00:10")).find("FENCERS"), std::string::npos);
  json& fencers = found.report["situation"]["fencers"];
  fencers = {{"works", 0}, {"broken", 0}, {"none", 0}, {"nodes", json::array()}};
  EXPECT_NE(status_text(found, at("10:00:10")).find("FENCERS     no node was asked about yet\n"),
            std::string::npos);
  fencers = {
      {"works", 28},
      {"broken", 2},
      {"none", 1},
      {"nodes", {{{"node", "n7"}, {"since", "2026-01-02"}, {"why", "bmc: HTTP 401\x1b[2J"}}}},
      {"nodesLeftOut", 1}};
  const std::string text = status_text(found, at("10:00:10"));
  EXPECT_NE(text.find("FENCERS     nodes: 28 whose fencers work, 2 with a broken one, 1 without "
                      "any\n  NODE   BROKEN SINCE   WHY\n  n7     2026-01-02     bmc: HTTP "
                      "401\\x1b[2J\n  and 1 more\n"),
            std::string::npos)
      << text;
}

TEST(StatusText, FaultsAndRejectionsAreCounted) {
  ClusterStatus found = status();
  found.report["faults"] = {"moonfence.yaml: line 3"};
  found.report["policies"][0]["error"] = {{"message", "no such field"}};
  const std::string text = status_text(found, at("10:00:10"));
  EXPECT_THAT(text,
              HasSubstr(", 1 faults, 1 policies rejected\n  fault: moonfence.yaml: line 3\n"));
  EXPECT_THAT(text, HasSubstr("no such field\n"));
}

TEST(StatusText, NothingKnownIsSaid) {
  const std::string text = status_text({}, at("10:00:10"));
  EXPECT_THAT(text, HasSubstr("LEADER      nobody: there is no Lease moonfence"));
  EXPECT_THAT(text, HasSubstr("MODE        unknown\n"));
  EXPECT_THAT(text, HasSubstr("POLICIES    unknown: no replica has reported"));
}

TEST(StatusText, WhatCouldNotBeReadIsNotSaidToBeAbsent) {
  ClusterStatus found;
  found.unread = {ClusterStatus::Part::Lease, ClusterStatus::Part::Report,
                  ClusterStatus::Part::Nodes, ClusterStatus::Part::Incidents};
  EXPECT_EQ(status_text(found, at("10:00:10")),
            "LEADER      unknown: could not be read\n"
            "MODE        unknown\n"
            "STATE       unknown: could not be read\n"
            "POLICIES    unknown: could not be read\n"
            "BRAKE       unknown: could not be read\n"
            "NODES       unknown: could not be read\n"
            "INCIDENTS   unknown: could not be read\n");
  const auto document = status_document(found, at("10:00:10"));
  for (const char* key : {"leader", "report", "nodes", "down", "openIncidents"}) {
    EXPECT_TRUE(document[key].is_null()) << key;
  }
}

TEST(ReportOf, TheLeadersReportCounts) {
  const json map = {{"data",
                     {{"m-0", R"({"observedAt":"2026-11-20T09:00:00Z"})"},
                      {"m-1", R"({"observedAt":"2026-11-20T10:00:00Z"})"},
                      {"m-2", "no JSON"}}}};
  EXPECT_EQ(report_of(map, "m-0_ab").first, "m-0");
  EXPECT_EQ(report_of(map, "").first, "m-1");
  EXPECT_EQ(report_of(json::object(), "m-0_ab").first, "");
}

}  // namespace
}  // namespace moonfence::app
