#include "app/telling/failover_times.h"

#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "unit/app/records_fixture.h"

namespace moonfence::app {
namespace {

using namespace std::chrono_literals;
using audit::Reason;
using audit::Record;

struct FailoverTimesTest : testing::Test {
  std::vector<std::string> seen;
  FailoverTimes times{[this](std::string_view stage, Duration took) {
    seen.push_back(
        std::string(stage) + " " +
        std::to_string(std::chrono::duration_cast<std::chrono::milliseconds>(took).count()));
  }};
  Moment now{};
  std::optional<Duration> down_for = 700ms;

  void tell(Record::Kind kind, Reason reason, Duration later = 10ms, const char* action = "",
            const char* incident = "i1") {
    now += later;
    Record record = record_of(kind, reason);
    record.action = action;
    record.incident = IncidentId(incident);
    times.note(record, now, down_for);
  }
};

using Lines = std::vector<std::string>;

TEST_F(FailoverTimesTest, each_stage_is_measured_from_the_end_of_the_one_before) {
  tell(Record::Kind::IncidentOpened, Reason::NodeUnknown);
  tell(Record::Kind::IncidentHeld, Reason::AwaitingTaint, 1s);
  tell(Record::Kind::Verdict, Reason::PolicyWaits, 30ms);
  tell(Record::Kind::Verdict, Reason::PolicyDeletesPodAndAttachments, 2s);
  tell(Record::Kind::Intent, Reason::PolicyDeletesPodAndAttachments, 25ms, "delete_pod");
  tell(Record::Kind::Outcome, Reason::Done, 20ms, "delete_pod");
  tell(Record::Kind::Intent, Reason::PolicyDeletesAttachments, 25ms, "delete_attachment");
  tell(Record::Kind::Outcome, Reason::MarkedOnly, 20ms, "delete_attachment");
  tell(Record::Kind::Outcome, Reason::Detached, 20ms, "delete_attachment");
  tell(Record::Kind::Replacement, Reason::ReplacementStarting, 20ms);
  tell(Record::Kind::Replacement, Reason::ReplacementReady, 20ms);
  EXPECT_EQ(seen, (Lines{"detect 700", "confirm 1030", "decide 25", "delete 12", "detached 12",
                         "replaced 12"}));
}

TEST_F(FailoverTimesTest, a_node_that_was_down_before_us_says_nothing_of_detection) {
  tell(Record::Kind::IncidentOpened, Reason::StartupSweep);
  tell(Record::Kind::IncidentOpened, Reason::TookOver, 10ms, "", "i2");
  down_for.reset();
  tell(Record::Kind::IncidentOpened, Reason::NodeUnknown, 10ms, "", "i3");
  EXPECT_EQ(seen, Lines{});
}

TEST_F(FailoverTimesTest, a_stamp_from_the_future_is_no_negative_time) {
  down_for = -2s;
  tell(Record::Kind::IncidentOpened, Reason::NodeNotReady);
  EXPECT_EQ(seen, Lines{"detect 0"});
}

TEST_F(FailoverTimesTest, what_failed_is_not_measured_as_if_it_were_done) {
  tell(Record::Kind::Outcome, Reason::OutcomeLost, 10ms, "delete_pod");
  tell(Record::Kind::Outcome, Reason::Refused, 10ms, "delete_attachment");
  tell(Record::Kind::Outcome, Reason::Done, 10ms, "set_quarantine");
  EXPECT_EQ(seen, Lines{});
}

TEST_F(FailoverTimesTest, an_incident_is_forgotten_with_its_end) {
  tell(Record::Kind::IncidentOpened, Reason::StartupSweep);
  tell(Record::Kind::Verdict, Reason::PolicyDeletesPod);
  tell(Record::Kind::IncidentClosed, Reason::NodeReady);
  tell(Record::Kind::Verdict, Reason::PolicyDeletesPod);
  tell(Record::Kind::Intent, Reason::PolicyDeletesPod, 10ms, "delete_pod");
  EXPECT_EQ(seen, Lines{"confirm 10"});
}

}  // namespace
}  // namespace moonfence::app
