#include "fence/record/journal.h"

#include <functional>

#include "fence/incident/restore.h"
#include "unit/fence/storage_fixture.h"

namespace moonfence::fence {
namespace {

struct JournalTest : StorageTest {
  IncidentRecord::Step step(const std::string& uid) {
    IncidentRecord::Step made;
    made.pod = {.space = Namespace("db"), .name = uid};
    made.pod_uid = Uid(uid);
    made.policy = "test";
    return made;
  }
  // Whether the save succeeded; nullopt: it has not ended.
  std::optional<bool> save(const std::shared_ptr<RecordLedger>& ledger) {
    std::optional<bool> stands;
    journal->save(ledger, [&stands](bool said) { stands = said; });
    EXPECT_EQ(stands, std::nullopt);
    run_until([&stands] { return stands.has_value(); }, 10s);
    return stands;
  }
  std::vector<Journal::Found> read() {
    std::vector<Journal::Found> all;
    journal->read([&all](std::vector<Journal::Found> found) { all = std::move(found); });
    run_for(1s);
    return all;
  }
};

TEST_F(JournalTest, what_is_planned_is_held_when_it_stands_and_not_before) {
  const auto ledger = new_ledger();
  ledger->plan(step("a"));
  EXPECT_FALSE(ledger->holds(Uid("a")));
  EXPECT_EQ(records.maps.size(), 0U);
  EXPECT_EQ(save(ledger), true);
  EXPECT_TRUE(ledger->holds(Uid("a")));
  EXPECT_EQ(records.label("i1"), "open");
  EXPECT_NE(records.record("i1").find(Uid("a")), nullptr);
  ledger->plan(step("b"));
  EXPECT_FALSE(ledger->holds(Uid("b")));
}

TEST_F(JournalTest, whoever_listens_hears_what_stands_and_what_was_removed) {
  struct Heard final : Journal::Listener {
    void stands(const IncidentRecord& record, const Uid& config_map) override {
      said.push_back(record.id.text() + (record.closed ? " closed" : " open") + " in " +
                     config_map.text());
    }
    void removed(const IncidentId& id) override { said.push_back(id.text() + " removed"); }
    std::vector<std::string> said;
  };
  Heard heard;
  journal->tell(&heard);
  const auto ledger = new_ledger();
  ledger->plan(step("a"));
  records.faults = {{.answer = broken()}};
  EXPECT_EQ(save(ledger), false);
  EXPECT_TRUE(heard.said.empty()) << "it does not stand";
  EXPECT_EQ(save(ledger), true);
  const std::string uid = records.maps.at("moonfence-incident-i1")["metadata"]["uid"];
  EXPECT_EQ(heard.said, std::vector{"i1 open in " + uid});
  ledger->withdraw(Uid("a"), {});
  ledger->close(audit::Reason::NodeReady);
  journal->finish(ledger);
  run_for(10s);
  EXPECT_EQ(heard.said,
            (std::vector{"i1 open in " + uid, "i1 closed in " + uid, std::string("i1 removed")}));
  journal->tell(nullptr);
}

// The page goes on while it is written.
TEST_F(JournalTest, whoever_listens_hears_of_what_was_written_and_not_of_what_is_known_since) {
  struct Heard final : Journal::Listener {
    void stands(const IncidentRecord& record, const Uid& config_map) override {
      EXPECT_EQ(record.closed.has_value(), closed_there()) << config_map.text();
      said.push_back(record.closed ? "closed" : "open");
    }
    void removed(const IncidentId& id) override { said.push_back(id.text() + " removed"); }
    std::function<bool()> closed_there;
    std::vector<std::string> said;
  };
  Heard heard;
  heard.closed_there = [this] { return records.label("i1") == "closed"; };
  journal->tell(&heard);
  const auto ledger = new_ledger();
  ledger->plan(step("a"));
  journal->save(ledger, [](bool) {});
  ledger->close(audit::Reason::NodeReady);  // it is under way
  run_for(500ms);
  EXPECT_EQ(heard.said, std::vector<std::string>{"open"});
  journal->finish(ledger);
  run_for(10s);
  EXPECT_EQ(heard.said, (std::vector<std::string>{"open", "closed"}));
  journal->tell(nullptr);
}

TEST_F(JournalTest, whoever_listens_hears_that_one_was_gone_when_its_incident_ended) {
  struct Heard final : Journal::Listener {
    void stands(const IncidentRecord& record, const Uid& config_map) override {
      EXPECT_FALSE(config_map.text().empty()) << record.id.text();
    }
    void removed(const IncidentId& id) override { gone.push_back(id.text()); }
    std::vector<std::string> gone;
  };
  const auto old_ledger = new_ledger();
  old_ledger->plan(step("a"));
  EXPECT_EQ(save(old_ledger), true);
  start_journal("moonfence-1_b");
  Heard heard;
  journal->tell(&heard);
  const auto found = read();
  records.maps.clear();
  journal->close(found.at(0), audit::Reason::NodeReady);
  run_for(10s);
  EXPECT_EQ(records.maps.size(), 0U);
  EXPECT_EQ(heard.gone, std::vector<std::string>{"i1"});
  journal->tell(nullptr);
}

TEST_F(JournalTest, a_write_that_fails_holds_nothing_and_one_whose_answer_was_lost_is_found_again) {
  const auto ledger = new_ledger();
  ledger->plan(step("a"));
  records.faults = {{.answer = broken()}};
  EXPECT_EQ(save(ledger), false);
  EXPECT_FALSE(ledger->holds(Uid("a")));
  EXPECT_FALSE(journal->problem().empty());
  records.faults = {{.answer = test::FakeAnswer::lost(), .done = true}};
  EXPECT_EQ(save(ledger), false);
  EXPECT_EQ(records.maps.size(), 1U);
  EXPECT_FALSE(ledger->holds(Uid("a")));
  EXPECT_EQ(save(ledger), true);
  EXPECT_TRUE(ledger->holds(Uid("a")));
  EXPECT_EQ(journal->problem(), "");
}

// Whoever leaves an incident says by that whether somebody goes on with it.
TEST_F(JournalTest, it_knows_whether_the_next_leader_may_find_a_record) {
  const auto ledger = new_ledger();
  ledger->plan(step("a"));
  EXPECT_FALSE(journal->may_stand(*ledger));
  records.faults = {{.answer = test::FakeAnswer::lost(), .done = true}};
  EXPECT_EQ(save(ledger), false);
  EXPECT_TRUE(journal->may_stand(*ledger)) << "nobody heard";
  EXPECT_EQ(save(ledger), true);
  EXPECT_TRUE(journal->may_stand(*ledger));
  start_journal("moonfence-1_b");
  EXPECT_FALSE(journal->may_stand(*ledger)) << "not a ledger of this one";
  EXPECT_TRUE(journal->may_stand(*journal->resume(read().at(0))));
}

TEST_F(JournalTest, one_that_is_to_be_created_waits_for_as_long_as_the_server_asked) {
  const auto ledger = new_ledger();
  ledger->plan(step("a"));
  records.faults = {{.answer = status(429, "TooManyRequests", "x", {{"retry-after", "20"}})}};
  EXPECT_EQ(save(ledger), false);
  const int writes = records.writes;
  run_for(10s);
  EXPECT_EQ(save(ledger), false);
  EXPECT_EQ(records.writes, writes);
  run_for(11s);
  EXPECT_EQ(save(ledger), true);
}

// Else it would stand open until the next leader reads.
TEST_F(JournalTest, one_that_may_have_been_created_is_looked_for_when_its_incident_ends) {
  for (const bool during : {false, true}) {
    for (const bool done : {false, true}) {
      records.maps.clear();
      const auto ledger = new_ledger();
      ledger->plan(step("a"));
      records.faults = {{.answer = test::FakeAnswer::lost(), .done = done}};
      if (during) {
        journal->save(ledger, [](bool) {});
      } else {
        EXPECT_EQ(save(ledger), false);
      }
      ledger->close(audit::Reason::NodeReady);
      journal->finish(ledger);
      run_for(10s);
      EXPECT_EQ(records.maps.size(), done ? 1U : 0U) << during;
      if (done) {
        EXPECT_EQ(records.label("i1"), "closed") << during;
      }
      EXPECT_TRUE(journal->idle());
    }
  }
}

// An etcd was restored from a snapshot of before the incident.
TEST_F(JournalTest, what_stood_there_when_the_store_went_back_is_written_again_closed) {
  const auto ledger = new_ledger();
  ledger->plan(step("a"));
  EXPECT_EQ(save(ledger), true);
  ledger->sent(Uid("a"));
  ledger->ended(Uid("a"), audit::Reason::Done);
  records.maps.clear();
  journal->begin_anew();
  records.faults = {{.answer = broken()}};
  EXPECT_TRUE(read().empty());
  run_for(60s);
  EXPECT_EQ(records.label("i1"), "closed");
  EXPECT_EQ(records.record("i1").closed->reason, audit::Reason::StoreWentBack);
  EXPECT_EQ(records.record("i1").find(Uid("a"))->outcome, audit::Reason::Done);
  EXPECT_TRUE(journal->idle());
}

// It is of the same moment as everything else that stands there.
TEST_F(JournalTest, a_record_that_went_back_goes_on_as_it_stands) {
  const auto ledger = new_ledger();
  ledger->plan(step("a"));
  EXPECT_EQ(save(ledger), true);
  const auto saved = records.maps;
  ledger->plan(step("b"));
  EXPECT_EQ(save(ledger), true);
  records.maps = saved;
  journal->begin_anew();
  const auto found = read();
  ASSERT_EQ(found.size(), 1U);
  EXPECT_FALSE(found[0].record.closed);
  EXPECT_EQ(found[0].record.steps.size(), 1U);
  EXPECT_TRUE(journal->idle());
}

// What failed for certain says nothing of the attempt before it.
TEST_F(JournalTest, one_that_may_have_been_created_is_looked_for_after_another_failure_too) {
  const auto ledger = new_ledger();
  ledger->plan(step("a"));
  records.faults = {{.answer = test::FakeAnswer::lost(), .done = true}, {.answer = broken()}};
  EXPECT_EQ(save(ledger), false);
  EXPECT_EQ(save(ledger), false);
  ledger->close(audit::Reason::NodeReady);
  journal->finish(ledger);
  run_for(10s);
  EXPECT_EQ(records.label("i1"), "closed");
}

// Three reads that failed were enough for it to stand open for ever.
TEST_F(JournalTest, one_that_may_have_been_created_is_looked_for_until_somebody_answers) {
  bool away = true;
  http.on(port::Method::Get, std::string(test::RecordServer::kAll) + "/*",
          [this, &away](const test::FakeRequest& request) {
            return away ? broken()
                        : test::FakeAnswer{.body = records.maps.at(name_in(request)).dump()};
          });
  const auto ledger = new_ledger();
  ledger->plan(step("a"));
  records.faults = {{.answer = test::FakeAnswer::lost(), .done = true}};
  EXPECT_EQ(save(ledger), false);
  ledger->close(audit::Reason::NodeReady);
  journal->finish(ledger);
  run_for(10min);
  EXPECT_EQ(records.label("i1"), "open");
  away = false;
  run_for(61s);
  EXPECT_EQ(records.label("i1"), "closed");
  EXPECT_TRUE(journal->idle());
}

// A proxy answers it; the record stands and is ours.
TEST_F(JournalTest, a_404_of_a_write_is_looked_into) {
  const auto ledger = new_ledger();
  ledger->plan(step("a"));
  EXPECT_EQ(save(ledger), true);
  records.faults = {{.answer = status(404, "NotFound", "moonfence-incident-i1")}};
  ledger->plan(step("b"));
  EXPECT_EQ(save(ledger), true);
  EXPECT_TRUE(ledger->holds(Uid("b")));
  EXPECT_EQ(http.count("POST "), 1U) << "it was not made a second time";
}

TEST_F(JournalTest, conflicts_are_looked_into_again_after_a_pause) {
  const auto ledger = new_ledger();
  ledger->plan(step("a"));
  EXPECT_EQ(save(ledger), true);
  records.faults.assign(9, {.answer = status(409, "Conflict")});  // a webhook's
  ledger->plan(step("b"));
  EXPECT_EQ(save(ledger), false);
  run_for(2min);
  EXPECT_TRUE(ledger->holds(Uid("b")));
}

TEST_F(JournalTest, a_record_is_not_removed_because_somebody_answers_404) {
  IncidentRecord old;
  old.id = IncidentId("old");
  old.node = NodeName("n1");
  old.node_uid = Uid("node-1");
  old.opened = wall_now() - 10 * 24h;
  old.closed = {.at = wall_now() - 9 * 24h, .reason = Reason::Settled};
  old.steps = {step("x")};
  records.put(old);
  bool lies = true;
  http.on(port::Method::Delete, std::string(test::RecordServer::kAll) + "/*",
          [this, &lies](const test::FakeRequest& request) {
            if (lies) {
              return status(404, "NotFound", name_in(request));
            }
            records.maps.erase(name_in(request));
            return test::FakeAnswer{.body = R"({"kind":"Status","status":"Success"})"};
          });
  EXPECT_EQ(read().size(), 1U);
  lies = false;
  const auto ledger = new_ledger();
  ledger->plan(step("a"));
  EXPECT_EQ(save(ledger), true);
  ledger->close(Reason::Settled);
  journal->finish(ledger);
  run_for(10s);
  EXPECT_FALSE(records.maps.contains("moonfence-incident-old"));
}

TEST_F(JournalTest, outcomes_are_written_behind_and_several_in_one) {
  const auto ledger = new_ledger();
  ledger->plan(step("a"));
  ledger->plan(step("b"));
  EXPECT_EQ(save(ledger), true);
  for (const char* uid : {"a", "b"}) {
    ledger->sent(Uid(uid));
    ledger->ended(Uid(uid), Reason::Done);
  }
  EXPECT_EQ(records.writes, 1);
  run_for(1500ms);
  EXPECT_EQ(records.writes, 2);
  EXPECT_EQ(records.record("i1").find(Uid("b"))->outcome, Reason::Done);
  journal->finish(ledger);
  ledger->close(Reason::Settled);
  run_for(1s);
  EXPECT_EQ(records.label("i1"), "closed");
  EXPECT_TRUE(journal->idle());
}

TEST_F(JournalTest, nobody_writes_whose_term_does_not_cover_it) {
  const auto ledger = new_ledger();
  ledger->plan(step("a"));
  leadership.until = loop.now() + 5s;
  EXPECT_EQ(save(ledger), false);
  EXPECT_TRUE(records.maps.empty());
}

// Two leaders cannot be; one that was slow may still have a write under way.
TEST_F(JournalTest, a_late_write_of_the_leader_before_changes_nothing) {
  const auto old_ledger = new_ledger();
  old_ledger->plan(step("a"));
  EXPECT_EQ(save(old_ledger), true);
  Journal old_journal({loop, caller, random, log, leadership}, Namespace("moonfence"),
                      "moonfence-0_a", [this] { return wall_now(); });
  start_journal("moonfence-1_b");
  const auto found = read();
  ASSERT_EQ(found.size(), 1U);
  const auto late = old_journal.resume(found[0]);
  run_for(1s);
  const auto ledger = journal->resume(found[0]);  // by a version that is not the newest any more
  EXPECT_FALSE(ledger->holds(Uid("a"))) << "until it is written by us";
  run_for(1s);
  EXPECT_EQ(records.record("i1").leaders.back().identity, "moonfence-1_b");
  EXPECT_TRUE(ledger->holds(Uid("a")));
  ledger->plan(step("b"));
  EXPECT_EQ(save(ledger), true);
  late->plan(step("c"));
  std::optional<bool> stands;
  old_journal.save(late, [&stands](bool said) { stands = said; });
  run_for(10s);
  EXPECT_EQ(stands, false);
  EXPECT_EQ(records.record("i1").find(Uid("c")), nullptr);
  EXPECT_NE(records.record("i1").find(Uid("b")), nullptr);
}

TEST_F(JournalTest, somebody_elses_hand_ends_ours) {
  const auto ledger = new_ledger();
  ledger->plan(step("a"));
  EXPECT_EQ(save(ledger), true);
  IncidentRecord other = records.record("i1");
  other.leaders.push_back({.identity = "moonfence-9_z", .since = wall_now()});
  records.maps.clear();
  records.put(other);
  ledger->plan(step("b"));
  EXPECT_EQ(save(ledger), false);
  EXPECT_FALSE(ledger->holds(Uid("b")));
  EXPECT_EQ(save(ledger), false);
  EXPECT_EQ(records.record("i1").find(Uid("b")), nullptr);
}

// The documents invite operators to delete records.
TEST_F(JournalTest, one_of_another_leader_that_somebody_removed_is_made_again) {
  const auto old_ledger = new_ledger();
  old_ledger->plan(step("a"));
  EXPECT_EQ(save(old_ledger), true);
  start_journal("moonfence-1_b");
  const auto found = read();
  records.maps.clear();
  const auto ledger = journal->resume(found.at(0));
  ledger->plan(step("b"));
  EXPECT_EQ(save(ledger), true);
  EXPECT_TRUE(ledger->holds(Uid("b")));
}

TEST_F(JournalTest, one_that_somebody_removed_is_made_again) {
  const auto ledger = new_ledger();
  ledger->plan(step("a"));
  EXPECT_EQ(save(ledger), true);
  records.maps.clear();
  ledger->plan(step("b"));
  EXPECT_EQ(save(ledger), true);
  EXPECT_EQ(records.record("i1").steps.size(), 2U);
}

TEST_F(JournalTest, what_is_no_record_hides_no_other_and_is_left_alone) {
  IncidentRecord record;
  record.id = IncidentId("good");
  record.node = NodeName("n1");
  record.node_uid = Uid("node-1");
  record.opened = wall_now();
  records.put(record);
  record.id = IncidentId("bad");
  records.put(record);
  records.maps["moonfence-incident-bad"]["data"]["record.json"] = R"({"version": 7})";
  const auto found = read();
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found[0].record.id, IncidentId("good"));
  EXPECT_EQ(records.maps.size(), 2U);
  EXPECT_EQ(log.count("incident_record_unreadable"), 1U);
}

}  // namespace
}  // namespace moonfence::fence
