// Every reason reaches the metrics, the audit, the log and the terminal by one word.

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "app/cli/reason_command.h"
#include "app/cluster_commands/explanation.h"
#include "app/cluster_commands/incident_text.h"
#include "app/cluster_commands/next_step.h"
#include "app/cluster_commands/plan_text.h"
#include "app/telling/records.h"
#include "audit/explanation.h"
#include "support/fake_log.h"
#include "support/policies.h"
#include "unit/app/records_fixture.h"

namespace moonfence::app {
namespace {

using audit::Reason;
using audit::Record;

struct StillClock final : port::WallClock {
  WallTime now() override { return *parse_rfc3339("2026-01-02T03:04:05.000006Z"); }
};

// A record is written as the engine does; everything that is told of it is kept.
struct Told {
  explicit Told(const Record& record) {
    StillClock clock;
    Records records{[this](std::string_view line) -> Result<void> {
                      json = nlohmann::json::parse(line);
                      return {};
                    },
                    log,
                    metrics,
                    {}};
    audit::Trail trail(clock, records);
    EXPECT_TRUE(trail.write(record));
  }
  // Some counter of the records has the word as a label, and says one.
  [[nodiscard]] bool counted(const std::string& word) const {
    const std::string text = metrics.exposition();
    return text.find("reason=\"" + word + "\"} 1\n") != std::string::npos ||
           text.find("result=\"" + word + "\"} 1\n") != std::string::npos;
  }

  test::FakeLog log;
  Metrics metrics;
  nlohmann::json json;
};

struct EveryReason : testing::TestWithParam<Reason> {};

TEST_P(EveryReason, reaches_metric_audit_and_log_alike_in_whatever_record_it_stands) {
  const std::string word(audit::code(GetParam()));
  for (const Record::Kind kind : kEveryKind) {
    const Told told(record_of(kind, GetParam()));
    EXPECT_EQ(told.json["reason"], word);
    EXPECT_EQ(told.json["kind"], std::string(audit::to_string(kind)));
    EXPECT_TRUE(told.counted(word)) << to_string(kind) << "\n" << told.metrics.exposition();
    ASSERT_EQ(told.log.lines.size(), 1U);
    EXPECT_NE(told.log.lines.front().find("reason=" + word), std::string::npos)
        << told.log.lines.front();
    EXPECT_NE(told.log.lines.front().find("incident=i1"), std::string::npos);
  }
}

TEST_P(EveryReason, is_explained_at_the_terminal) {
  const audit::Explanation explanation = audit::explain(GetParam());
  EXPECT_GT(explanation.when.size(), 15U);
  EXPECT_GT(explanation.what_to_do.size(), 6U);
  EXPECT_EQ((explanation.when + explanation.what_to_do).find("]("), std::string::npos);
  const std::string word(audit::code(GetParam()));
  const ReasonAnswer answer = reason_answer({.code = word});
  EXPECT_TRUE(answer.known);
  EXPECT_TRUE(answer.text.starts_with(word + "\n"));
  EXPECT_NE(answer.text.find(explanation.when), std::string::npos);
  EXPECT_NE(answer.text.find(explanation.what_to_do), std::string::npos);
  EXPECT_NE(reason_answer({}).text.find(word + " "), std::string::npos);
}

// What the engine's own records of the reason, after an incident was opened, come to.
Plan planned_of(const Record& record) {
  Rehearsed rehearsed;
  rehearsed.nodes = {{.name = NodeName("n1"), .supposed = Engine::Supposed::Fallen}};
  rehearsed.records = {Told(record_of(Record::Kind::IncidentOpened, Reason::NodeUnknown)).json,
                       Told(record).json};
  return plan_of(rehearsed);
}

policy::PolicySet selecting() {
  auto policy = load_text(policy_text("return fence.skip('x')"));
  EXPECT_TRUE(policy);
  policy::Binding binding;
  binding.name = "noobaa";
  binding.policy = std::make_shared<const policy::Policy>(*std::move(policy));
  binding.scope = policy::NamespaceScope::everywhere();
  binding.mode = policy::Mode::Enforce;
  policy::PolicySet set;
  set.bindings = {std::move(binding)};
  return set;
}

// `plan` has it beside the pod or the node that it is about, in every form; `explain` beside what
// would become of the pod, beside the policy that said it, and with the next step.
TEST_P(EveryReason, is_what_a_plan_and_an_explanation_say) {
  const std::string word(audit::code(GetParam()));
  std::vector<Record> records;
  for (const Record::Kind kind :
       {Record::Kind::IncidentHeld, Record::Kind::Verdict, Record::Kind::Refusal}) {
    records.push_back(record_of(kind, GetParam()));
  }
  records.push_back(records.front());
  records.back().policy.clear();  // the incident itself holds
  for (const Record& record : records) {
    const std::string of = std::string(to_string(record.kind)) + " of " + record.policy;
    const Plan plan = planned_of(record);
    const std::string table = plan_table(plan, /*wide=*/false);
    EXPECT_NE(table.find(word), std::string::npos) << of << "\n" << table;
    EXPECT_NE(plan_document(plan).dump().find("\"" + word + "\""), std::string::npos) << of;
    const std::string text =
        explained_text(explain({.space = Namespace("db"), .name = "web-0"}, {}, selecting(), plan));
    const std::string because = record.policy.empty()
                                    ? "the incident holds, " + word + ".\n"
                                    : "policy noobaa: " + word + ", \"because\".\n";
    EXPECT_NE(text.find(because), std::string::npos) << of << "\n" << text;
    EXPECT_NE(text.find("\nNext: " + next_step(word) + "\n"), std::string::npos) << of << "\n"
                                                                                 << text;
  }
}

TEST_P(EveryReason, has_a_next_step_that_is_a_sentence) {
  const std::string advice = next_step(audit::code(GetParam()));
  ASSERT_GT(advice.size(), 6U);
  EXPECT_EQ(advice.find("docs/"), std::string::npos) << advice;
  EXPECT_EQ(advice.find("]("), std::string::npos) << advice;
  EXPECT_NE(std::string("abcdefghijklmnopqrstuvwxyz").find(advice.front()), std::string::npos)
      << advice;
  EXPECT_TRUE(advice.ends_with('.') || advice.ends_with('?')) << advice;
  EXPECT_FALSE(advice.ends_with("..")) << advice;
}

TEST_P(EveryReason, stands_in_the_text_of_an_incident) {
  const std::string word(audit::code(GetParam()));
  fence::IncidentRecord record;
  record.id = IncidentId("3f09c1d2a7");
  record.node = NodeName("n1");
  record.opened_for = GetParam();
  EXPECT_NE(incident_text(record).find("Z, " + word + "\n"), std::string::npos);
  record.opened_for = Reason::NodeUnknown;
  record.closed = fence::IncidentRecord::Closed{.at = {}, .reason = GetParam()};
  const std::string closed = incident_text(record);
  EXPECT_TRUE(closed.starts_with("incident 3f09c1d2a7, " + word + "\n")) << closed;
  EXPECT_NE(closed.find("Z, " + word + ", after "), std::string::npos) << closed;
  EXPECT_NE(incidents_table({record}).find(" " + word + " "), std::string::npos);
  record.closed.reset();
  record.steps.resize(1);
  record.steps.front().outcome = GetParam();
  const std::string ended = incident_text(record);
  EXPECT_NE(ended.find(" " + word + " "), std::string::npos) << ended;
}

INSTANTIATE_TEST_SUITE_P(Reasons, EveryReason,
                         testing::ValuesIn(audit::all_reasons().begin(),
                                           audit::all_reasons().end()),
                         [](const auto& each) { return std::string(audit::code(each.param)); });

TEST(ReasonCommand, a_word_that_is_none_is_refused_with_the_way_on) {
  const ReasonAnswer answer = reason_answer({.code = "no\nsuch"});
  EXPECT_FALSE(answer.known);
  EXPECT_EQ(answer.text,
            "moonfence reason: there is no reason 'no\\nsuch'\n"
            "run `moonfence reason` for a list of all\n");
}

}  // namespace
}  // namespace moonfence::app
