#include "app/telling/records.h"

#include <optional>

#include <gtest/gtest.h>

#include "support/fake_log.h"
#include "unit/app/records_fixture.h"

namespace moonfence::app {
namespace {

using audit::Reason;
using audit::Record;

constexpr WallTime kAt{std::chrono::seconds(1'000)};

struct RecordsTest : testing::Test {
  test::FakeLog log;
  Metrics metrics;
  std::vector<std::string> lines;
  std::vector<Reason> announced;
  bool full = false;
  Records records{[this](std::string_view line) -> Result<void> {
                    if (full) {
                      return failure(Error::Kind::Limit, "no space left on device");
                    }
                    lines.emplace_back(line);
                    return {};
                  },
                  log, metrics,
                  [this](const Record& record, WallTime at) {
                    announced.push_back(record.reason);
                    EXPECT_EQ(at, kAt);
                  }};

  [[nodiscard]] bool counted(const std::string& sample) const {
    return metrics.exposition().find("\n" + sample) != std::string::npos;
  }
};

TEST_F(RecordsTest, a_record_goes_to_the_file_the_log_the_metrics_and_the_events) {
  ASSERT_TRUE(records.append(record_of(Record::Kind::Outcome, Reason::Done), kAt, "{}"));
  EXPECT_EQ(lines, std::vector<std::string>{"{}"});
  EXPECT_EQ(log.lines.size(), 1U);
  EXPECT_TRUE(counted(R"(moonfence_actions_total{action="delete_pod",policy="noobaa",)"
                      R"(result="done"} 1)"));
  EXPECT_EQ(announced, std::vector<Reason>{Reason::Done});
}

TEST_F(RecordsTest, an_intent_that_cannot_be_written_is_told_nowhere) {
  full = true;
  EXPECT_FALSE(
      records.append(record_of(Record::Kind::Intent, Reason::PolicyDeletesPod), kAt, "{}"));
  EXPECT_TRUE(announced.empty());
  EXPECT_EQ(log.lines.size(), 1U);  // that the file cannot be written
}

TEST_F(RecordsTest, what_has_happened_is_told_even_if_the_file_cannot_be_written) {
  full = true;
  EXPECT_FALSE(records.append(record_of(Record::Kind::Outcome, Reason::Done), kAt, "{}"));
  EXPECT_FALSE(
      records.append(record_of(Record::Kind::Refusal, Reason::AuditUnwritable), kAt, "{}"));
  EXPECT_EQ(announced, (std::vector<Reason>{Reason::Done, Reason::AuditUnwritable}));
  EXPECT_EQ(log.lines.size(), 4U);
  EXPECT_TRUE(counted(R"(moonfence_actions_total{action="delete_pod",policy="noobaa",)"
                      R"(result="done"} 1)"));
  EXPECT_TRUE(counted(
      R"(moonfence_guard_refusals_total{action="delete_pod",reason="audit_unwritable"} 1)"));
}

TEST_F(RecordsTest, without_a_file_and_without_events_the_log_is_the_record) {
  Records bare({}, log, metrics, {});
  for (const Record::Kind kind : kEveryKind) {
    EXPECT_TRUE(bare.append(record_of(kind, Reason::Settled), kAt, "{}"));
  }
  EXPECT_EQ(log.lines.size(), std::size(kEveryKind));
}

TEST_F(RecordsTest, policies_that_fail_are_warned_of) {
  for (const Reason reason :
       {Reason::PolicyFailed, Reason::PolicyFailing, Reason::GuardFailed, Reason::GuardBroken}) {
    EXPECT_TRUE(records.append(record_of(Record::Kind::IncidentHeld, reason), kAt, "{}"));
  }
  EXPECT_EQ(log.count("warning incident_held"), 4U);
}

TEST_F(RecordsTest, every_kind_and_reason_can_be_told) {
  for (const Record::Kind kind : kEveryKind) {
    for (const Reason reason : audit::all_reasons()) {
      EXPECT_TRUE(records.append(record_of(kind, reason), kAt, "{}"));
    }
  }
  EXPECT_EQ(lines.size(), std::size(kEveryKind) * audit::all_reasons().size());
}

}  // namespace
}  // namespace moonfence::app
