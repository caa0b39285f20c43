#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "app/simulate/simulate_view.h"

namespace moonfence::app {
namespace {

using sim::Happening;
using std::chrono::milliseconds;
using std::chrono::minutes;
using std::chrono::seconds;

std::string told(Happening::Kind kind, const std::string& subject, const std::string& what,
                 const std::string& detail = "") {
  return timeline_text({.kind = kind, .subject = subject, .what = what, .detail = detail});
}

std::string audit(const std::string& json) {
  return told(Happening::Kind::Audit, "moonfence-0", "", json);
}

SimulationFacts facts() {
  const PodFacts core{.pod = "noobaa/core-0",
                      .fenced = {.deleted = seconds(45),
                                 .running = seconds(46),
                                 .replacement = "noobaa/core-0",
                                 .node = "n2"},
                      .reason = "policy_deletes_pod"};
  const PodFacts database{.pod = "noobaa/db-0", .reason = "policy_skips", .text = "a database"};
  return {.nodes = {{.node = "n1",
                     .how = "power-off",
                     .lost = seconds(5),
                     .noticed = seconds(45),
                     .ready = "Unknown",
                     .pods = {core, database}}},
          .outcome = {.incidents_opened = 1, .incidents_closed = 1, .deletions = 1},
          .stock_lived = minutes(20)};
}

struct Printed {
  std::string text;
  [[nodiscard]] Print print() {
    return [this](std::string_view more) { text += more; };
  }
};

TEST(Timeline, tells_what_people_want_to_know) {
  using Kind = Happening::Kind;
  EXPECT_EQ(told(Kind::Node, "n1", "Ready=Unknown", "node-controller"),
            "Kubernetes n1: Ready=Unknown");
  EXPECT_EQ(told(Kind::Pod, "noobaa/core-0", "Running on n2"),
            "pod        noobaa/core-0 is Running on n2");
  EXPECT_EQ(told(Kind::Pod, "noobaa/core-0", "created"), "");
  EXPECT_EQ(told(Kind::Call, "moonfence-0", "GET /"), "");
  EXPECT_EQ(told(Kind::Volume, "pv-1", "Multi-Attach error on n2", "still attached to n1"),
            "volume     pv-1: Multi-Attach error on n2, still attached to n1");
  EXPECT_EQ(audit(R"({"kind":"verdict","reason":"policy_skips","namespace":"a","pod":"b",
                      "text":"so it is"})"),
            "moonfence  judges a/b: policy_skips: so it is");
  EXPECT_EQ(audit(R"({"kind":"intent","reason":"policy_deletes_pod"})"), "");
  EXPECT_EQ(audit(R"({"kind":"outcome","reason":"done","namespace":"a","pod":"b"})"),
            "moonfence  deleted a/b");
  EXPECT_EQ(audit("no json"), "");
}

TEST(Timeline, a_text_from_outside_cannot_paint_the_terminal) {
  EXPECT_EQ(audit(R"({"kind":"verdict","reason":"policy_skips","namespace":"a","pod":"b",
                      "text":"\u001b[2J"})"),
            "moonfence  judges a/b: policy_skips: \\x1b[2J");
}

TEST(Timeline, says_beside_a_line_what_stock_kubernetes_has) {
  Printed printed;
  make_timeline(printed.print(), false)
      ->show({.happening = {.at = milliseconds(46200),
                            .kind = Happening::Kind::Pod,
                            .subject = "noobaa/core-0",
                            .what = "Running on n2"},
              .stock = "Terminating on n1"});
  EXPECT_EQ(printed.text,
            "   +46.20 s  pod        noobaa/core-0 is Running on n2                        | "
            "Terminating on n1\n");
}

TEST(Timeline, ends_in_a_table) {
  Printed printed;
  make_timeline(printed.print(), false)->end(facts());
  EXPECT_EQ(printed.text,
            "\nn1 failed at 5.0 s (power-off). Kubernetes set Ready=Unknown 40.0 s later. "
            "Time from the failure until the pod runs again:\n\n"
            "  pod             with moonfence             stock Kubernetes\n"
            "  noobaa/core-0   41.0 s, on n2              not within 20 min\n"
            "  noobaa/db-0     left alone: policy_skips   not within 20 min\n"
            "\nmoonfence deleted 1 pod in 1 incident. Safety rules violated: 0.\n");
}

// A taint that has Kubernetes evict them is no deletion of ours; the pods are gone all the same.
TEST(Timeline, the_last_line_counts_pods_that_others_deleted) {
  SimulationFacts gone = facts();
  gone.outcome.deletions = 0;
  Printed printed;
  make_timeline(printed.print(), false)->end(gone);
  EXPECT_NE(printed.text.find("\nmoonfence deleted 0 pods in 1 incident; others deleted 1 pod of "
                              "the lost nodes. Safety rules violated: 0.\n"),
            std::string::npos)
      << printed.text;
}

TEST(Timeline, paints_only_when_it_may) {
  const Told loss{.happening = {.kind = Happening::Kind::Machine, .subject = "n1", .what = "off"}};
  Printed plain;
  make_timeline(plain.print(), false)->show(loss);
  EXPECT_EQ(plain.text.find('\x1b'), std::string::npos);
  Printed painted;
  make_timeline(painted.print(), true)->show(loss);
  EXPECT_NE(painted.text.find("\x1b[33m"), std::string::npos);
}

TEST(JsonLines, are_one_object_each_and_end_in_a_summary) {
  Printed printed;
  const auto lines = make_json_lines(printed.print());
  lines->show({.happening = {.at = milliseconds(1500),
                             .kind = Happening::Kind::Audit,
                             .subject = "moonfence-0",
                             .detail = R"({"kind":"verdict"})"},
               .stock = ""});
  lines->end(facts());
  const std::size_t end = printed.text.find('\n');
  const auto first = nlohmann::json::parse(printed.text.substr(0, end));
  EXPECT_EQ(first["at"], 1.5);
  EXPECT_EQ(first["kind"], "audit");
  EXPECT_EQ(first["record"]["kind"], "verdict");
  const auto summary = nlohmann::json::parse(printed.text.substr(end + 1))["summary"];
  EXPECT_EQ(summary["deletions"], 1);
  const auto& node = summary["nodes"][0];
  EXPECT_EQ(node["noticed"], 40.0);
  EXPECT_EQ(node["pods"][0]["moonfence"]["running"], 41.0);
  EXPECT_TRUE(node["pods"][0]["stock"]["running"].is_null());
  EXPECT_EQ(node["pods"][1]["reason"], "policy_skips");
}

}  // namespace
}  // namespace moonfence::app
