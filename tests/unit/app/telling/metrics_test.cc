#include "app/telling/metrics.h"

#include <algorithm>
#include <map>
#include <sstream>
#include <string_view>
#include <utility>

#include <gtest/gtest.h>

#include "fence/brake/brake.h"
#include "unit/app/records_fixture.h"

namespace moonfence::app {
namespace {

using namespace std::chrono_literals;
using audit::Reason;
using audit::Record;

// The longest beginning of `text` made of `allowed`; it is cut off.
std::string_view take(std::string_view& text, std::string_view allowed) {
  const auto end = std::min(text.find_first_not_of(allowed), text.size());
  const std::string_view taken = text.substr(0, end);
  text.remove_prefix(end);
  return taken;
}

bool drop(std::string_view& text, std::string_view prefix) {
  const bool there = text.starts_with(prefix);
  text.remove_prefix(there ? prefix.size() : 0);
  return there;
}

constexpr std::string_view kNameLetters = "abcdefghijklmnopqrstuvwxyz_";
constexpr std::string_view kNumber = "0123456789.+-eInf";

// `name{label="value",...} number`; the key is all before the number. "" when it is none.
std::pair<std::string, double> read_sample(std::string_view line) {
  std::string_view rest = line;
  bool good = !take(rest, kNameLetters).empty();
  if (drop(rest, "{")) {
    do {
      good = good && !take(rest, kNameLetters).empty() && drop(rest, "=\"");
      rest.remove_prefix(std::min(rest.find('"'), rest.size()));
      good = good && drop(rest, "\"");
    } while (good && drop(rest, ","));
    good = good && drop(rest, "}");
  }
  const std::string key(line.substr(0, line.size() - rest.size()));
  good = good && drop(rest, " ");
  const std::string number(take(rest, kNumber));
  good = good && !number.empty() && rest.empty();
  return good ? std::pair(key, std::stod(number)) : std::pair(std::string(), 0.0);
}

// Text format 0.0.4, read strictly: samples by their name and labels, types by name.
struct Exposition {
  std::map<std::string, double> samples;
  std::map<std::string, std::string> types;

  explicit Exposition(const Metrics& metrics) {
    std::istringstream text(metrics.exposition());
    for (std::string line; std::getline(text, line);) {
      std::string_view rest = line;
      if (drop(rest, "# TYPE ")) {
        const std::string name(take(rest, kNameLetters));
        EXPECT_TRUE(drop(rest, " ")) << line;
        EXPECT_TRUE(rest == "counter" || rest == "gauge" || rest == "histogram") << line;
        EXPECT_TRUE(types.emplace(name, rest).second) << line;
      } else if (drop(rest, "# HELP ")) {
        EXPECT_FALSE(take(rest, kNameLetters).empty()) << line;
        EXPECT_GT(rest.size(), 1U) << line;
      } else {
        const auto sample = read_sample(line);
        EXPECT_FALSE(sample.first.empty()) << line;
        EXPECT_TRUE(samples.insert(sample).second) << line;
      }
    }
  }
  [[nodiscard]] double at(const std::string& sample) const {
    const auto found = samples.find(sample);
    return found == samples.end() ? -1 : found->second;
  }
};

// Everything that can be told once.
void tell_all(Metrics& metrics) {
  for (const Record::Kind kind : kEveryKind) {
    for (const Reason reason : audit::all_reasons()) {
      metrics.count(record_of(kind, reason));
    }
  }
  metrics.on_exchange(port::Method::Get, 200, 3ms, std::nullopt);
  metrics.on_exchange(port::Method::Delete, 0, 5s, std::nullopt);
  metrics.set_nodes({.total = 5, .ready = 3, .schedulable = 2});
  metrics.set_awaited_replacements({{Reason::PodLingers, 2}, {Reason::ReplacementAbsent, 1}});
  metrics.set_awaited_replacements({{Reason::PodLingers, 1}});
  StatusSnapshot snapshot;
  snapshot.open_incidents = 2;
  snapshot.guard = {.too_many_down = true,
                    .workers = 5,
                    .workers_down = 3,
                    .disrupted_zones = 2,
                    .being_fenced = 5,
                    .waiting = 3,
                    .failing = 1};
  snapshot.stands = {{.incident_status = {.state = fence::IncidentStatus::State::Held,
                                          .reason = Reason::TooManyDown},
                      .next = std::nullopt},
                     {.incident_status = {}, .next = std::nullopt}};
  snapshot.fencers = fence::FencerCheck::Told{.counts = {.works = 28, .broken = 2, .none = 1}};
  metrics.set_stands(snapshot);
  metrics.set_limits(fence::switched_off({.max_down = fence::Limit::off()}));
  kube::WatchHealth health;
  health.connected = true;
  health.relists = 1;
  health.restarts = 2;
  health.events = 30;
  health.bookmarks = 4;
  metrics.set_watch("nodes", health, 7s);
  metrics.set_audit_failures(1);
  metrics.reader_answered(503);
  metrics.reader_answered(503);
  metrics.set_policies({{.policy = "noobaa",
                         .version = "1.0.0",
                         .digest = "abc",
                         .mode = "enforce",
                         .state = "Active"}});
  metrics.set_stale({{"noobaa", 7s}});
  metrics.count_reload(true);
  metrics.set_doubts(true);
  metrics.count_doubt("stopped");
  metrics.set_reloaded(WallTime(std::chrono::seconds(1700000000)));
  metrics.observe_stage("detect", 700ms);
  metrics.set_events(3, 4);
  metrics.count_run("noobaa", {.instructions = 100, .memory_bytes = 100000, .cpu = 80us});
  metrics.set_missed_heartbeats(2);
  metrics.set_witnesses({.replicas = 2, .failing = 1, .confirmed = 4, .heard = 3});
  metrics.set_detection({.answers = 5, .unsure = 1, .silent = 2, .not_observable = 3}, {});
  metrics.set_process(
      {.cpu_seconds = 1.5, .resident_bytes = 4096, .open_files = 7, .most_files = 9},
      WallTime(std::chrono::seconds(1600000000)));
  metrics.set_process(
      {.cpu_seconds = 2.5, .resident_bytes = 4096, .open_files = 7, .most_files = 9},
      WallTime(std::chrono::seconds(1600000000)));
}

TEST(Metrics, the_exposition_parses_and_names_keep_the_conventions) {
  Metrics metrics;
  tell_all(metrics);
  const Exposition text(metrics);
  EXPECT_GT(text.types.size(), 15U);
  for (const auto& [name, type] : text.types) {
    EXPECT_TRUE(name.starts_with("moonfence_") || name.starts_with("rest_client_") ||
                name.starts_with("process_"))
        << name;
    EXPECT_EQ(type == "counter", name.ends_with("_total")) << name;
    EXPECT_EQ(type == "histogram",
              (name.ends_with("_seconds") || name.ends_with("_memory_bytes")) && type != "gauge")
        << name;
  }
}

TEST(Metrics, what_is_told_can_be_read) {
  Metrics metrics;
  tell_all(metrics);
  const Exposition text(metrics);
  EXPECT_EQ(text.at(R"(moonfence_nodes{state="ready"})"), 3);
  EXPECT_EQ(text.at(R"(moonfence_nodes{state="not_ready"})"), 2);
  EXPECT_EQ(text.at("moonfence_incidents_open"), 2);
  EXPECT_EQ(text.at("moonfence_incidents_failing"), 1);
  EXPECT_EQ(text.at(R"(moonfence_replacements_awaited{reason="pod_lingers"})"), 1);
  EXPECT_EQ(text.at(R"(moonfence_replacements_awaited{reason="replacement_absent"})"), -1);
  EXPECT_EQ(text.at(R"(moonfence_replacements_total{reason="replacement_ready"})"), 1);
  EXPECT_EQ(text.at("moonfence_self_doubt"), 1);
  EXPECT_EQ(text.at(R"(moonfence_self_doubts_total{cause="stopped"})"), 1);
  EXPECT_EQ(text.at("moonfence_brake_engaged"), 1);
  EXPECT_EQ(text.at("moonfence_brake_disrupted_zones"), 2);
  EXPECT_EQ(text.at("moonfence_nodes_being_fenced"), 5);
  EXPECT_EQ(text.at("moonfence_incidents_braked"), 3);
  EXPECT_EQ(text.at(R"(moonfence_brake_limit_off{limit="maxDown"})"), 1);
  for (const char* on : {"maxAtOnce", "maxPerWindow", "zone.maxDown"}) {
    EXPECT_EQ(text.at(R"(moonfence_brake_limit_off{limit=")" + std::string(on) + R"("})"), 0) << on;
  }
  EXPECT_EQ(text.at(R"(moonfence_incidents_held_total{reason="too_many_down"})"), 1);
  EXPECT_EQ(text.at(R"(moonfence_incidents_opened_total{reason="node_unknown"})"), 1);
  EXPECT_EQ(text.at(R"(moonfence_incidents_closed_total{reason="settled"})"), 1);
  EXPECT_EQ(text.at(R"(moonfence_verdicts_total{policy="noobaa",reason="policy_skips"})"), 1);
  EXPECT_EQ(text.at(R"(moonfence_guard_refusals_total{action="delete_pod",reason="no_uid"})"), 1);
  EXPECT_EQ(
      text.at(R"(moonfence_actions_total{action="delete_pod",policy="noobaa",result="done"})"), 1);
  EXPECT_EQ(text.at(R"(moonfence_action_seconds_count{action="delete_pod"})"),
            static_cast<double>(audit::all_reasons().size()));
  EXPECT_EQ(text.at("moonfence_release_overlap_seconds_count"), 1);
  EXPECT_EQ(text.at(R"(rest_client_requests_total{code="200",method="GET"})"), 1);
  EXPECT_EQ(text.at(R"(rest_client_requests_total{code="<error>",method="DELETE"})"), 1);
  EXPECT_EQ(text.at(R"(moonfence_watch_silence_seconds{resource="nodes"})"), 7);
  EXPECT_EQ(text.at(R"(moonfence_watch_connected{resource="nodes"})"), 1);
  EXPECT_EQ(text.at(R"(moonfence_watch_events_total{resource="nodes"})"), 30);
  EXPECT_EQ(text.at("moonfence_audit_write_failures_total"), 1);
  EXPECT_EQ(text.at(R"(moonfence_readers_total{code="503"})"), 2);
  EXPECT_EQ(text.at(R"(moonfence_fencer_nodes{state="works"})"), 28);
  EXPECT_EQ(text.at(R"(moonfence_fencer_nodes{state="broken"})"), 2);
  EXPECT_EQ(text.at(R"(moonfence_fencer_nodes{state="none"})"), 1);
  EXPECT_EQ(text.at(R"(moonfence_intents_total{action="delete_pod",reason="sets_quarantine"})"), 1);
  EXPECT_EQ(text.at("moonfence_policy_last_reload_success_timestamp_seconds"), 1700000000);
  EXPECT_EQ(text.at(R"(moonfence_failover_stage_seconds_count{stage="detect"})"), 1);
  EXPECT_EQ(text.at("moonfence_events_queued"), 3);
  EXPECT_EQ(text.at(R"(moonfence_policy_run_seconds_bucket{policy="noobaa",le="0.0001"})"), 1);
  EXPECT_EQ(text.at(R"(moonfence_policy_run_seconds_bucket{policy="noobaa",le="5e-05"})"), 0);
  EXPECT_EQ(text.at(R"(moonfence_policy_run_memory_bytes_sum{policy="noobaa"})"), 100000);
  EXPECT_EQ(text.at("moonfence_events_dropped_total"), 4);
  EXPECT_EQ(text.at("moonfence_api_server_missed_heartbeats"), 2);
  EXPECT_EQ(text.at(R"(moonfence_detection_nodes{kernel="answers"})"), 5);
  EXPECT_EQ(text.at(R"(moonfence_detection_nodes{kernel="unsure"})"), 1);
  EXPECT_EQ(text.at(R"(moonfence_detection_nodes{kernel="silent"})"), 2);
  EXPECT_EQ(text.at(R"(moonfence_detection_nodes{kernel="not_observable"})"), 3);
  EXPECT_EQ(text.at(R"(moonfence_detection_witnesses{state="asked"})"), 2);
  EXPECT_EQ(text.at(R"(moonfence_detection_witnesses{state="failing"})"), 1);
  EXPECT_EQ(text.at(R"(moonfence_detection_silent_nodes{other_replica="confirms"})"), 4);
  EXPECT_EQ(text.at(R"(moonfence_detection_silent_nodes{other_replica="hears"})"), 3);
  EXPECT_EQ(text.at("process_cpu_seconds_total"), 2.5);
  EXPECT_EQ(text.at("process_start_time_seconds"), 1600000000);
}

TEST(Metrics, a_shadow_that_differs_is_counted_with_both_words) {
  Metrics metrics;
  Record record = record_of(Record::Kind::Verdict, Reason::ShadowDiffers);
  record.action = "delete_pod";
  record.instead_of = "skip";
  metrics.count(record);
  EXPECT_EQ(Exposition(metrics).at(R"(moonfence_shadow_differences_total{enforced="skip",)"
                                   R"(observed="delete_pod",policy="noobaa"})"),
            1);
}

TEST(Metrics, what_an_alert_needs_is_there_before_anything_happens) {
  const Metrics metrics;
  const Exposition text(metrics);
  EXPECT_EQ(text.at("moonfence_incidents_open"), 0);
  EXPECT_EQ(text.at("moonfence_brake_engaged"), 0);
  EXPECT_EQ(text.at(R"(moonfence_failover_stage_seconds_count{stage="detached"})"), 0);
  EXPECT_EQ(text.at("moonfence_audit_write_failures_total"), 0);
}

TEST(Metrics, counters_only_grow) {
  Metrics metrics;
  tell_all(metrics);
  const Exposition before(metrics);
  metrics.set_audit_failures(0);
  metrics.set_watch("nodes", {}, 0s);  // as after a watch was made anew
  metrics.count(record_of(Record::Kind::Outcome, Reason::Done));
  const Exposition after(metrics);
  for (const auto& [sample, value] : before.samples) {
    const std::string name = sample.substr(0, sample.find('{'));
    if (name.ends_with("_total") || name.ends_with("_count") || name.ends_with("_bucket")) {
      EXPECT_GE(after.at(sample), value) << sample;
    }
  }
}

TEST(Metrics, labels_are_bounded_no_pod_no_node_no_incident) {
  Metrics metrics;
  tell_all(metrics);
  const std::size_t before = Exposition(metrics).samples.size();
  for (int i = 0; i < 50; ++i) {
    for (const Record::Kind kind : kEveryKind) {
      Record record = record_of(kind, Reason::Settled);
      const std::string mark = "other-" + std::to_string(i);
      record.node = NodeName(mark);
      record.node_uid = Uid(mark);
      record.pod = PodRef{.space = Namespace(mark), .name = mark};
      record.pod_uid = Uid(mark);
      record.incident = IncidentId(mark);
      record.text = mark;
      metrics.count(record);
    }
  }
  EXPECT_EQ(Exposition(metrics).samples.size(), before);
}

TEST(Metrics, policies_that_are_not_named_any_more_are_gone) {
  Metrics metrics;
  metrics.set_policies({{.policy = "a", .state = "Active"}, {.policy = "b", .state = "Active"}});
  metrics.set_policies({{.policy = "b", .state = "Stale"}});
  metrics.set_stale({{"b", 1s}});
  metrics.set_stale({{"b", 2s}});
  const Exposition text(metrics);
  double shown = 0;
  for (const auto& [sample, value] : text.samples) {
    shown += sample.starts_with("moonfence_policy_info{") ? value : 0;
    EXPECT_EQ(sample.find("policy=\"a\""), std::string::npos) << sample;
  }
  EXPECT_EQ(shown, 1);
  EXPECT_EQ(text.at("moonfence_policy_stale_seconds{policy=\"b\"}"), 2);
  metrics.set_stale({});
  EXPECT_EQ(Exposition(metrics).at("moonfence_policy_stale_seconds{policy=\"b\"}"), -1);
}

}  // namespace
}  // namespace moonfence::app