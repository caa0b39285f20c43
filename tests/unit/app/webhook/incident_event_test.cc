#include "app/webhook/incident_event.h"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

namespace moonfence::app {
namespace {

using namespace std::chrono_literals;
using audit::Reason;
using nlohmann::json;

const WallTime kAt = *parse_rfc3339("2026-03-04T10:30:00Z");

IncidentEvent event_of(IncidentPhase phase, Reason reason) {
  return {.incident = IncidentId("3f09c1d2a7"),
          .node = NodeName("worker-2"),
          .phase = phase,
          .reason = reason,
          .at = kAt,
          .opened = kAt - 90s,
          .opened_for = Reason::NodeUnknown};
}

TEST(IncidentEvent, is_a_cloud_event) {
  IncidentEvent event = event_of(IncidentPhase::Settled, Reason::NodeReady);
  event.took = 90500ms;
  event.enforces = true;
  event.pods = EventPods{.judged = 6,
                         .deleted = 1,
                         .not_deleted = 2,
                         .would_delete = 0,
                         .waiting = 1,
                         .left_alone = 2};
  const json text = json::parse(cloud_event(event, "/clusters/berlin-1"));
  json data = text.at("data");
  EXPECT_EQ(data["reason"]["code"], "node_ready");
  EXPECT_FALSE(data["reason"]["meaning"].get<std::string>().empty());
  EXPECT_FALSE(data["reason"]["nextStep"].get<std::string>().empty());
  data.erase("reason");
  EXPECT_EQ(data, json::parse(R"({"incident":"3f09c1d2a7","node":"worker-2","phase":"settled",
      "mode":"enforce","opened":"2026-03-04T10:28:30Z","openedFor":"node_unknown",
      "durationSeconds":90.5,"pods":{"judged":6,"deleted":1,"notDeleted":2,"wouldBeDeleted":0,
      "waiting":1,"leftAlone":2}})"));
  json rest = text;
  rest.erase("data");
  EXPECT_EQ(rest, json::parse(R"({"specversion":"1.0","id":"3f09c1d2a7-settled",
      "source":"/clusters/berlin-1","type":"io.moonfence.incident.settled.v1",
      "subject":"worker-2","time":"2026-03-04T10:30:00.000000Z",
      "datacontenttype":"application/json"})"));
}

TEST(IncidentEvent, its_id_is_of_incident_phase_and_cause_alone) {
  IncidentEvent event = event_of(IncidentPhase::Opened, Reason::NodeUnknown);
  const std::string id = id_of(event);
  EXPECT_EQ(id, "3f09c1d2a7-opened");
  event.reason = Reason::TookOver;  // the next leader opens it for another reason
  event.at += 1h;
  event.enforces = true;
  EXPECT_EQ(id_of(event), id);
  EXPECT_EQ(id_of(event_of(IncidentPhase::Acting, Reason::PolicyDeletesPod)), "3f09c1d2a7-acting");
  IncidentEvent attention = event_of(IncidentPhase::Attention, Reason::TooManyDown);
  EXPECT_EQ(id_of(attention), "3f09c1d2a7-attention-too_many_down");
  attention.trouble = kAt + 999ms;
  EXPECT_EQ(id_of(attention), "3f09c1d2a7-attention-too_many_down-1772620200");
  attention.enforces = true;
  attention.at += 1h;
  EXPECT_EQ(id_of(attention), "3f09c1d2a7-attention-too_many_down-1772620200");
}

TEST(IncidentEvent, an_id_that_somebody_wrote_into_a_record_adds_no_header) {
  IncidentEvent event = event_of(IncidentPhase::Opened, Reason::NodeUnknown);
  event.incident = IncidentId("3f09\r\nX-Evil: 1");
  EXPECT_EQ(id_of(event), "3f09XEvil1-opened");
}

TEST(IncidentEvent, how_long_it_took_is_to_the_millisecond_and_never_less_than_nothing) {
  IncidentEvent event = event_of(IncidentPhase::Settled, Reason::Settled);
  for (const auto& [took, told] :
       {std::pair<Duration, double>(90500123456ns, 90.5),
        std::pair<Duration, double>(1999600us, 2.0), std::pair<Duration, double>(-3s, 0.0)}) {
    event.took = took;
    const json text = json::parse(cloud_event(event, "/c"));
    EXPECT_EQ(text.at("data").at("durationSeconds").get<double>(), told);
  }
}

TEST(IncidentEvent, whatever_is_in_it_it_is_bounded_and_json) {
  const std::string huge(1'000'000, '\xff');
  std::size_t longest = 0;
  for (const Reason reason : audit::all_reasons()) {
    IncidentEvent event = event_of(IncidentPhase::Attention, reason);
    event.incident = IncidentId(huge);
    event.node = NodeName(huge);
    event.pods = EventPods{.judged = ~std::uint64_t{0}};
    const std::string text = cloud_event(event, std::string(1'000'000, 'c'));
    EXPECT_TRUE(json::accept(text)) << audit::code(reason);
    longest = std::max(longest, text.size());
  }
  EXPECT_LE(longest, kLongestEvent);
}

}  // namespace
}  // namespace moonfence::app
