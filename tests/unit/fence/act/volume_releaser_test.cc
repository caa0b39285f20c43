#include "fence/act/volume_releaser.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <string>
#include <vector>

#include "unit/fence/volume_releaser_fixture.h"

namespace moonfence::fence {
namespace {

using nlohmann::json;

struct ReturnTest : VolumeReleaserTest {
  // What was told of each volume when the node came back.
  [[nodiscard]] std::vector<Record> told() const {
    std::vector<Record> found;
    std::copy_if(story.records.begin(), story.records.end(), std::back_inserter(found),
                 [](const Record& each) { return each.reason == Reason::StorageWithdrawn; });
    return found;
  }
  void come_back() {
    nodes["n1"].ready = "True";
    tell();
    EXPECT_EQ(closed_by(), Reason::NodeReady);
  }
};

TEST_F(VolumeReleaserTest, the_volume_is_released_as_soon_as_the_storage_has_let_go) {
  detach_delay = 1200ms;
  const std::string attachment = add("web-0", "vol-1");
  open();
  Moment gone{};
  tell(Look::Fell);
  run_until([&] {
    gone = attachments.empty() && gone == Moment{} ? loop.now() : gone;
    return incidents->open_incidents() == 0;
  });
  EXPECT_EQ(deleted(), (Lines{"pod web-0", "attachment " + attachment}));
  EXPECT_EQ(patches(), Lines{"/api/v1/nodes/n1/status"});
  ASSERT_EQ(released.size(), 1U);
  EXPECT_GE(released.front(), gone);
  EXPECT_LE(released.front() - gone, 150ms);
  EXPECT_TRUE(in_use.empty());
  EXPECT_EQ(story.count(Record::Kind::Intent, Reason::PolicyReleases), 1U);
  EXPECT_EQ(story.count(Record::Kind::Outcome, Reason::ReleaseAcknowledged), 1U);
  EXPECT_EQ(closed_by(), Reason::Settled);
}

// The release was taken for a deletion before which our taint is to be set, and ended the engine.
TEST_F(VolumeReleaserTest, a_taint_that_is_lost_before_the_release_keeps_the_volume) {
  quarantine = Quarantine::Missing;
  detach_delay = 1200ms;
  add("web-0", "vol-1");
  open();
  tell(Look::Fell);
  ASSERT_TRUE(run_until([this] { return attachments.empty(); }, 10s));
  nodes["n1"].tainted = false;
  run_for(30s);
  EXPECT_TRUE(released.empty());
  EXPECT_TRUE(was_refused(Reason::NotTainted));
}

TEST_F(VolumeReleaserTest, the_acknowledgement_is_timed) {
  add("web-0", "vol-1");
  open();
  run_incident();
  const auto record =
      std::find_if(story.records.begin(), story.records.end(),
                   [](const Record& each) { return each.reason == Reason::ReleaseAcknowledged; });
  ASSERT_NE(record, story.records.end());
  EXPECT_GE(record->took, controller_delay);
  EXPECT_LE(record->took, controller_delay + 60ms);
  EXPECT_EQ(record->text, name_of("vol-1"));
  EXPECT_EQ(record->action, "release_volume");
}

TEST_F(VolumeReleaserTest, nothing_is_released_while_the_attachment_is_there) {
  storage_lets_go = false;
  add("web-0", "vol-1");
  open();
  tell(Look::Fell);
  run_for(10min);
  EXPECT_EQ(deleted().size(), 2U);
  EXPECT_EQ(patches(), Lines{});
  EXPECT_EQ(incidents->open_incidents(), 1U);
}

TEST_F(VolumeReleaserTest, nothing_is_released_when_the_engine_is_not_allowed_to) {
  release.on = false;
  add("web-0", "vol-1");
  open();
  run_incident();
  EXPECT_EQ(deleted().size(), 2U);
  EXPECT_EQ(patches(), Lines{});
  EXPECT_EQ(story.count(Record::Kind::IncidentHeld, Reason::ReleaseNotServed), 1U);
}

// Kubernetes detaches the volumes of such a node by itself.
TEST_F(VolumeReleaserTest, nothing_is_released_of_a_node_that_is_out_of_service) {
  nodes["n1"].taints = {{{"key", "node.kubernetes.io/out-of-service"}, {"effect", "NoExecute"}}};
  add("web-0", "vol-1");
  open();
  run_incident();
  EXPECT_EQ(deleted().front(), "pod web-0");
  EXPECT_EQ(released.size(), 0U);
  EXPECT_EQ(story.count(Record::Kind::Refusal, Reason::OutOfService), 0U) << "none is asked for";
}

TEST_F(VolumeReleaserTest, nothing_is_released_that_the_policy_does_not_ask_for) {
  add("web-0", "vol-1");
  take_up_nodes(detaching_policy());
  run_incident();
  EXPECT_EQ(deleted().size(), 2U);
  EXPECT_EQ(patches(), Lines{});
}

TEST_F(VolumeReleaserTest, what_several_nodes_may_have_needs_no_release) {
  add("web-0", "vol-1");
  volumes["pv-web-0"]["spec"]["accessModes"] = {"ReadWriteMany"};
  open();
  run_incident();
  EXPECT_EQ(deleted().size(), 2U);
  EXPECT_EQ(patches(), Lines{});
}

TEST_F(VolumeReleaserTest, what_the_controller_could_never_detach_is_told_of_before_the_pod_goes) {
  for (const bool is_managed : {true, false}) {
    attach_managed = is_managed;
    story.records.clear();
    const std::string handle = is_managed ? "vol^1" : "vol-1";
    const std::string attachment = add("web-0", handle);
    open();
    run_incident();
    EXPECT_EQ(deleted().back(), "attachment " + attachment);
    EXPECT_EQ(patches(), Lines{});
    Lines told = story.told();
    std::erase_if(told, [](const std::string& line) {
      return !line.starts_with("refusal") && !line.starts_with("intent");
    });
    EXPECT_EQ(told, (Lines{"refusal volume_unfit db/web-0", "intent policy_deletes_pod db/web-0",
                           "intent policy_deletes_pod_and_attachments db/web-0"}))
        << handle;
    incidents.reset();
  }
}

TEST_F(VolumeReleaserTest, a_new_attachment_of_that_name_forbids_it) {
  const std::string attachment = add("web-0", "vol-1");
  storage_lets_go = false;
  const json made = attachments[attachment];
  int reads = 0;
  http.on(port::Method::Get, "/apis/storage.k8s.io/v1/volumeattachments/*",
          [&](const test::FakeRequest& request) {
            // Gone when it is first asked for after its deletion, and there again ever after.
            const bool is_marked =
                attachments[attachment]["metadata"].contains("deletionTimestamp");
            if (is_marked && ++reads == 2) {
              return status(404, "NotFound", name_in(request));
            }
            json other = made;
            other["metadata"]["uid"] = is_marked ? "va-other" : "va-web-0";
            return test::FakeAnswer{.body = other.dump()};
          });
  open();
  run_incident();
  EXPECT_EQ(patches(), Lines{});
}

TEST_F(VolumeReleaserTest, a_pod_that_came_to_use_the_volume_forbids_it) {
  add("web-0", "vol-1");
  detach_delay = 2s;
  open();
  tell(Look::Fell);
  run_for(1s);
  ASSERT_EQ(deleted().size(), 2U);
  add_pod("tolerant", "n1", "db", "other");
  pods["tolerant"]["spec"]["volumes"] =
      pods.contains("web-0")
          ? pods["web-0"]["spec"]["volumes"]
          : json{{{"name", "data"}, {"persistentVolumeClaim", {{"claimName", "data-web-0"}}}}};
  pods["tolerant"]["metadata"]["ownerReferences"][0]["kind"] = "DaemonSet";
  run_for(1min);
  EXPECT_EQ(patches(), Lines{});
  EXPECT_TRUE(was_refused(Reason::VolumeInUse));
}

TEST_F(VolumeReleaserTest, a_list_that_cannot_be_read_forbids_it) {
  add("web-0", "vol-1");
  detach_delay = 2s;
  open();
  tell(Look::Fell);
  run_for(1s);
  list_answer_in[""] = broken();
  run_for(1min);
  EXPECT_EQ(patches(), Lines{});
  list_answer_in.clear();
  run_for(20s);
  EXPECT_EQ(patches().size(), 1U) << "it is not forgotten";
}

TEST_F(VolumeReleaserTest, a_status_that_changed_since_it_was_read_is_read_again) {
  add("web-0", "vol-1");
  int changes = 0;
  on_patch = [&] {
    if (changes++ == 0) {
      in_use.push_back(name_of("vol-other"));  // a kubelet's word
    }
  };
  open();
  run_incident();
  EXPECT_EQ(patches().size(), 2U);
  EXPECT_EQ(story.count(Record::Kind::Outcome, Reason::ReleaseOvertaken), 1U);
  EXPECT_EQ(in_use, Lines{name_of("vol-other")});
}

TEST_F(VolumeReleaserTest, a_release_that_conflicts_begins_anew) {
  add("web-0", "vol-1");
  int asked = 0;
  http.on(port::Method::Patch, "/api/v1/nodes/*", [&](const test::FakeRequest&) {
    if (asked++ == 0) {
      return status(409, "Conflict", "n1");
    }
    in_use.clear();
    attached.clear();
    return test::FakeAnswer{.body = node().dump()};
  });
  open();
  tell(Look::Fell);
  ASSERT_TRUE(run_until([&] { return asked == 2; }, 500ms)) << "not at the pace of what failed";
  EXPECT_EQ(story.count(Record::Kind::Outcome, Reason::ReleaseOvertaken), 1U);
}

TEST_F(VolumeReleaserTest, a_node_that_came_back_keeps_its_volume) {
  detach_delay = 2s;
  add("web-0", "vol-1");
  open();
  tell(Look::Fell);
  run_for(1s);
  nodes["n1"].ready = "True";
  run_for(1min);
  EXPECT_EQ(patches(), Lines{});
  EXPECT_EQ(closed_by(), Reason::NodeReady);
  EXPECT_TRUE(was_refused(Reason::StorageWithdrawn));
}

TEST_F(ReturnTest, after_a_release_is_told_of_with_each_volume_s_overlap) {
  controller_delay = 1s;
  for (int i = 10; i < 20; ++i) {
    add("web-" + std::to_string(i), "vol-" + std::to_string(i));
  }
  open();
  std::map<std::string, Moment> acknowledged;
  story.hook = [&](const Record& record) {
    if (record.reason == Reason::ReleaseAcknowledged) {
      acknowledged.emplace(record.attachment, loop.now());
    }
  };
  tell(Look::Fell);
  ASSERT_TRUE(run_until([&] { return acknowledged.size() == 10; }, 30s));
  run_for(5s);
  come_back();
  const auto returns = told();
  ASSERT_EQ(returns.size(), 10U);
  for (const Record& each : returns) {
    EXPECT_EQ(each.took, loop.now() - acknowledged.at(each.attachment));
    EXPECT_EQ(each.text.starts_with("the node came back 5s"), each.took < 6s) << each.text;
  }
  EXPECT_GE(returns.front().took, 6s) << "of the first portion";
  EXPECT_LT(returns.back().took, 6s) << "of the second";
  run_for(1min);
  EXPECT_EQ(patches().size(), 2U);
}

TEST_F(ReturnTest, before_the_acknowledgement_has_no_overlap_that_is_known) {
  for (const Duration after : {Duration(50ms), VolumeReleaser::kAcknowledgement + 1s}) {
    controller_delay = 1h;
    nodes["n1"].ready = "Unknown";
    released.clear();
    story.records.clear();
    add("web-0", "vol-1");
    open();
    tell(Look::Fell);
    ASSERT_TRUE(run_until([this] { return !released.empty(); }, 10s));
    run_for(after);
    in_use = {name_of("vol-1")};  // its kubelet's own word
    come_back();
    const auto returns = told();
    ASSERT_EQ(returns.size(), 1U);
    EXPECT_EQ(returns.front().took, 0s) << "nobody knows since when another node may have it";
    EXPECT_TRUE(returns.front().text.starts_with("the node came back after its volume was rel"));
    run_for(1min);
    EXPECT_EQ(released.size(), 1U);
    incidents.reset();
  }
}

// Seen on a real control plane: the API server had written the patch, its answer was on the way,
// and the volume was told of as not released.
TEST_F(ReturnTest, while_the_release_is_under_way_nobody_claims_that_it_did_not_happen) {
  add("web-0", "vol-1");
  bool was_sent = false;
  http.on(port::Method::Patch, "/api/v1/nodes/*", [&](const test::FakeRequest&) {
    was_sent = true;
    return test::FakeAnswer{.body = node().dump(), .delay = 2s};
  });
  open();
  tell(Look::Fell);
  ASSERT_TRUE(run_until([&] { return was_sent; }, 10s));
  come_back();
  const auto returns = told();
  ASSERT_EQ(returns.size(), 1U);
  EXPECT_TRUE(returns.front().text.starts_with("the node came back while its volume was being rel"))
      << returns.front().text;
}

TEST_F(VolumeReleaserTest, a_release_that_waits_for_the_wire_is_refused_when_the_node_comes_back) {
  add("web-0", "vol-1");
  open();
  story.hook = [this](const Record& record) {
    credentials.late =
        record.kind == Record::Kind::Intent && record.reason == Reason::PolicyReleases;
  };
  tell(Look::Fell);
  ASSERT_TRUE(run_until([this] { return credentials.waiting != nullptr; }));
  story.hook = [](const Record&) {};
  credentials.late = false;
  nodes["n1"].ready = "True";
  tell();
  credentials.answer(credentials.waiting);
  run_for(1min);
  EXPECT_EQ(patches(), Lines{});
  EXPECT_TRUE(was_refused(Reason::IncidentClosed));
}

TEST_F(VolumeReleaserTest, another_boot_keeps_its_volume) {
  detach_delay = 2s;
  add("web-0", "vol-1");
  open();
  tell(Look::Fell);
  run_for(1s);
  boot = "boot-2";
  run_incident();
  EXPECT_EQ(patches(), Lines{});
  EXPECT_TRUE(was_refused(Reason::NodeRestarted));
}

TEST_F(VolumeReleaserTest, without_the_controllers_lease_nothing_is_released) {
  controller_lease = Renewal::StandsStill;
  add("web-0", "vol-1");
  open();
  run_incident();
  EXPECT_EQ(patches(), Lines{});
  EXPECT_EQ(story.count(Record::Kind::Refusal, Reason::ControllerSilent), 1U);
}

TEST_F(VolumeReleaserTest, a_lease_of_the_controller_that_cannot_be_read_counts_as_none) {
  controller_lease = Renewal::Unreadable;
  add("web-0", "vol-1");
  open();
  run_incident();
  EXPECT_EQ(patches(), Lines{});
  EXPECT_TRUE(was_refused(Reason::ControllerSilent));
}

TEST_F(VolumeReleaserTest, many_volumes_go_in_portions_one_after_the_other) {
  controller_delay = 300ms;
  for (int i = 10; i < 30; ++i) {
    add("web-" + std::to_string(i), "vol-" + std::to_string(i));
  }
  open();
  run_incident();
  EXPECT_EQ(portions, (std::vector<std::size_t>{8, 8, 4}));
  ASSERT_EQ(released.size(), 3U);
  EXPECT_GE(released[1] - released[0], controller_delay);
  EXPECT_GE(released[2] - released[1], controller_delay);
  EXPECT_TRUE(attached.empty());
  EXPECT_EQ(story.count(Record::Kind::Outcome, Reason::ReleaseAcknowledged), 20U);
}

TEST_F(VolumeReleaserTest, the_most_important_pods_come_first) {
  for (int i = 10; i < 20; ++i) {
    add("web-" + std::to_string(i), "vol-" + std::to_string(i));
  }
  pods["web-19"]["spec"]["priority"] = 1000;
  std::vector<std::string> first;
  on_patch = [&] { first = first.empty() ? in_use : first; };
  open();
  tell(Look::Fell);
  run_until([this] { return released.size() == 1; });
  EXPECT_EQ(std::count(in_use.begin(), in_use.end(), name_of("vol-19")), 0);
  EXPECT_EQ(in_use.size(), 2U);
}

TEST_F(VolumeReleaserTest, a_controller_that_does_not_answer_is_told_of_and_waited_for_no_longer) {
  controller_delay = 1h;
  add("web-0", "vol-1");
  open();
  run_incident();
  EXPECT_EQ(patches().size(), 1U) << "it is not repeated";
  EXPECT_EQ(story.count(Record::Kind::IncidentHeld, Reason::ReleaseUnacknowledged), 1U);
}

// Somebody claims the volume again: whether the controller has seen the first one nobody knows.
TEST_F(VolumeReleaserTest, an_unacknowledged_release_is_not_repeated) {
  controller_delay = 1h;
  add("web-0", "vol-1");
  open();
  tell(Look::Fell);
  ASSERT_TRUE(run_until([this] { return released.size() == 1; }, 10s));
  in_use = {name_of("vol-1")};
  run_for(10min);
  EXPECT_EQ(patches().size(), 1U);
  EXPECT_EQ(story.count(Record::Kind::IncidentHeld, Reason::ReleaseUnacknowledged), 1U);
  EXPECT_EQ(in_use, Lines{name_of("vol-1")});
}

TEST_F(VolumeReleaserTest, a_lost_answer_is_looked_after) {
  add("web-0", "vol-1");
  bool lost = false;
  http.on(port::Method::Patch, "/api/v1/nodes/*", [&](const test::FakeRequest&) {
    lost = true;
    in_use.clear();
    attached.clear();
    return test::FakeAnswer::lost();
  });
  open();
  run_incident();
  EXPECT_TRUE(lost);
  EXPECT_EQ(patches().size(), 1U);
  EXPECT_EQ(story.count(Record::Kind::Outcome, Reason::OutcomeLost), 1U);
}

TEST_F(VolumeReleaserTest, nothing_leaves_that_could_not_be_recorded) {
  add("web-0", "vol-1");
  detach_delay = 2s;
  open();
  tell(Look::Fell);
  run_for(1s);
  story.full = true;
  run_for(1min);
  EXPECT_EQ(patches(), Lines{});
}

TEST_F(AttacherTest, an_attacher_that_is_alive_holds_nobody_up) {
  add("web-0", "vol-1");
  open();
  run_incident();
  EXPECT_EQ(patches().size(), 1U);
  EXPECT_EQ(story.count(Record::Kind::IncidentHeld, Reason::AttacherUnwatched), 0U);
}

TEST_F(AttacherTest, without_a_living_attacher_the_pod_is_not_deleted) {
  for (const Renewal renewal : {Renewal::StandsStill, Renewal::Unreadable}) {
    attacher_lease = renewal;
    add("web-0", "vol-1");
    open();
    tell(Look::Fell);
    run_for(1min);
    EXPECT_EQ(deleted(), Lines{}) << static_cast<int>(renewal);
    EXPECT_TRUE(was_refused(Reason::AttacherSilent)) << static_cast<int>(renewal);
    incidents.reset();
  }
}

// It is known when it was renewed last: more than 15 s ago.
TEST_F(AttacherTest, one_whose_lease_ran_out_is_not_alive) {
  store_is_at_hand();
  attacher_lease = Renewal::RanOut;
  run_for(10ms);
  reached = "200";
  store_is_at_hand();
  run_for(16s);
  add("web-0", "vol-1");
  open();
  tell(Look::Fell);
  run_for(1min);
  EXPECT_EQ(deleted(), Lines{});
  EXPECT_TRUE(was_refused(Reason::AttacherSilent));
}

TEST_F(AttacherTest, one_that_falls_silent_while_the_volume_is_detached_has_nothing_released) {
  add("web-0", "vol-1");
  detach_delay = 5s;
  open();
  tell(Look::Fell);
  run_for(2s);
  EXPECT_EQ(deleted().size(), 2U);
  attacher_lease = Renewal::StandsStill;
  run_for(20s);
  EXPECT_EQ(patches(), Lines{});
  EXPECT_TRUE(was_refused(Reason::AttacherSilent));
  attacher_lease = Renewal::GoesOn;
  run_for(10s);
  EXPECT_EQ(patches().size(), 1U);
}

TEST_F(AttacherTest, the_pod_goes_when_its_attacher_is_back) {
  attacher_lease = Renewal::Unreadable;
  add("web-0", "vol-1");
  open();
  tell(Look::Fell);
  run_for(1min);
  attacher_lease = Renewal::GoesOn;
  run_for(10s);
  EXPECT_EQ(deleted().size(), 2U);
}

TEST_F(AttacherTest, who_releases_nothing_needs_no_attacher) {
  attacher_lease = Renewal::Unreadable;
  add("web-0", "vol-1");
  take_up_nodes(detaching_policy());
  run_incident();
  EXPECT_EQ(deleted().size(), 2U);
}

// Its deletion would only start the six minutes after which Kubernetes detaches by force.
TEST_F(VolumeReleaserTest, a_pod_whose_volume_the_storage_refuses_to_detach_is_held) {
  const std::string attachment = add("web-0", "vol-1");
  attachments[attachment]["status"]["detachError"]["message"] = "array is offline";
  open();
  tell(Look::Fell);
  run_for(1min);
  EXPECT_EQ(deleted(), Lines{});
  ASSERT_EQ(story.count(Record::Kind::Refusal, Reason::DetachError), 1U) << "told once";
  EXPECT_EQ(story.records.back().text, attachment + ": array is offline");
  attachments[attachment].erase("status");
  run_for(10s);
  EXPECT_EQ(deleted(), (Lines{"pod web-0", "attachment " + attachment}));
}

TEST_F(VolumeReleaserTest, who_releases_nothing_is_not_held_by_that) {
  const std::string attachment = add("web-0", "vol-1");
  attachments[attachment]["status"]["detachError"]["message"] = "array is offline";
  take_up_nodes(detaching_policy());
  run_incident();
  EXPECT_EQ(deleted().size(), 2U);
}

TEST_F(VolumeReleaserTest, an_attacher_whose_lease_is_not_named_is_told_of_once) {
  add("web-0", "vol-1");
  add("web-1", "vol-2");
  open();
  run_incident();
  EXPECT_EQ(story.count(Record::Kind::IncidentHeld, Reason::AttacherUnwatched), 1U);
}

TEST_F(VolumeReleaserTest, between_passes_few_objects_are_read_and_ever_more_seldom) {
  storage_lets_go = false;
  add("web-0", "vol-1");
  open();
  tell(Look::Fell);
  run_for(1s);
  const std::size_t first = http.count("GET /apis/storage.k8s.io/v1/volumeattachments/");
  EXPECT_LE(first, 45U);
  EXPECT_GE(first, 10U);
  run_for(60s);
  const std::size_t before = http.count("GET /apis/storage.k8s.io/v1/volumeattachments/");
  run_for(10s);
  EXPECT_LE(http.count("GET /apis/storage.k8s.io/v1/volumeattachments/") - before, 16U);
}

}  // namespace
}  // namespace moonfence::fence
