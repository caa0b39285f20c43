#include "fence/act/attachment_deleter.h"

#include <algorithm>

#include "unit/fence/storage_fixture.h"

namespace moonfence::fence {
namespace {

using AttachmentDeleterTest = StorageTest;

TEST_F(AttachmentDeleterTest, the_pod_goes_first_and_its_attachment_when_it_is_gone) {
  const std::string attachment = add_pod_with_volume("web-0");
  take_up_nodes(detaching_policy());
  run_incident();
  EXPECT_EQ(deleted(), (Lines{"pod web-0", "attachment " + attachment}));
  EXPECT_TRUE(attachments.empty());
  EXPECT_EQ(closed_by(), Reason::Settled);
  EXPECT_EQ(story.count(Record::Kind::Intent, Reason::PolicyDeletesPodAndAttachments), 1U);
  EXPECT_EQ(story.count(Record::Kind::Outcome, Reason::MarkedOnly), 1U);
}

TEST_F(AttachmentDeleterTest, every_deletion_of_an_attachment_says_which_one_it_means) {
  add_pod_with_volume("web-0");
  take_up_nodes(detaching_policy());
  run_incident();
  const auto request =
      std::find_if(http.requests.rbegin(), http.requests.rend(),
                   [](const auto& sent) { return sent.method == port::Method::Delete; });
  ASSERT_NE(request, http.requests.rend());
  EXPECT_EQ(nlohmann::json::parse(request->body),
            nlohmann::json::parse(R"({"apiVersion":"v1","kind":"DeleteOptions",
              "preconditions":{"uid":"va-web-0"},"propagationPolicy":"Background"})"));
}

TEST_F(AttachmentDeleterTest, the_incident_lasts_until_the_storage_has_let_go) {
  add_pod_with_volume("web-0");
  detach_delay = 90s;
  take_up_nodes(detaching_policy());
  tell(Look::Fell);
  run_for(80s);
  EXPECT_EQ(incidents->open_incidents(), 1U);
  EXPECT_EQ(deleted().size(), 2U) << "it is asked once, not again and again";
  EXPECT_EQ(story.count(Record::Kind::IncidentHeld, Reason::AwaitingDetach), 1U);
  EXPECT_EQ(story.count(Record::Kind::Outcome, Reason::Detached), 0U);
  run_for(40s);
  EXPECT_EQ(incidents->open_incidents(), 0U);
  EXPECT_EQ(closed_by(), Reason::Settled);
  ASSERT_EQ(story.count(Record::Kind::Outcome, Reason::Detached), 1U);
  const auto detached =
      std::find_if(story.records.begin(), story.records.end(),
                   [](const Record& each) { return each.reason == Reason::Detached; });
  EXPECT_EQ(detached->attachment_uid, Uid("va-web-0"));
  EXPECT_EQ(detached->action, "delete_attachment");
  EXPECT_GE(detached->took, 90s);
  EXPECT_LE(detached->took, 96s) << "it is looked at every five seconds";
}

// Who uses a volume is told by the lists of the pass; reading hundreds of attachments may take
// longer than that holds.
TEST_F(AttachmentDeleterTest, lists_that_grew_old_while_attachments_were_read_say_nothing) {
  const std::string attachment = add_pod_with_volume("web-0");
  bool slow = true;
  http.on(port::Method::Get, "/apis/storage.k8s.io/v1/volumeattachments/*",
          [this, &slow, &attachment](const test::FakeRequest&) {
            test::FakeAnswer answer = attachments.contains(attachment)
                                          ? test::FakeAnswer{.body = attachments[attachment].dump()}
                                          : status(404, "NotFound", attachment);
            answer.delay = slow ? Duration(5100ms) : Duration::zero();
            slow = false;
            return answer;
          });
  take_up_nodes(detaching_policy());
  run_incident();
  EXPECT_EQ(deleted(), (Lines{"pod web-0", "attachment " + attachment}));
  std::string order;
  for (const test::FakeRequest& request : http.requests) {
    const bool of_attachment = request.path.find("/volumeattachments/") != std::string::npos;
    if (of_attachment) {
      order += request.method == port::Method::Delete ? 'D' : 'r';
    } else if (request.path.ends_with("/pods")) {
      order += 'L';
    }
  }
  EXPECT_NE(order.find("LrLrD"), std::string::npos) << order;
}

TEST_F(AttachmentDeleterTest, a_refusal_of_the_storage_is_told_with_its_words) {
  const std::string attachment = add_pod_with_volume("web-0");
  storage_lets_go = false;
  take_up_nodes(detaching_policy());
  tell(Look::Fell);
  run_for(2s);
  attachments[attachment]["status"]["detachError"] = {{"message", "array is offline"}};
  run_for(20s);
  ASSERT_EQ(story.count(Record::Kind::IncidentHeld, Reason::AwaitingDetach), 2U);
  EXPECT_EQ(story.records.back().text, "array is offline");
}

TEST_F(AttachmentDeleterTest, before_kubernetes_would_use_force_somebody_is_told_once) {
  const std::string attachment = add_pod_with_volume("web-0");
  storage_lets_go = false;
  take_up_nodes(detaching_policy());
  tell(Look::Fell);
  run_for(2s);
  attachments[attachment]["status"]["detachError"] = {{"message", "array is offline"}};
  run_for(235s);
  EXPECT_EQ(story.count(Record::Kind::IncidentHeld, Reason::ForcedDetachNear), 0U);
  run_for(10s);
  ASSERT_EQ(story.count(Record::Kind::IncidentHeld, Reason::ForcedDetachNear), 1U);
  EXPECT_EQ(story.records.back().text, "array is offline");
  EXPECT_EQ(story.records.back().attachment, attachment);
  run_for(10min);
  EXPECT_EQ(story.count(Record::Kind::IncidentHeld, Reason::ForcedDetachNear), 1U);
}

TEST_F(AttachmentDeleterTest, a_pod_that_a_finalizer_keeps_keeps_its_attachment) {
  add_pod_with_volume("web-0");
  pods["web-0"]["metadata"]["finalizers"] = {"example.com/hold"};
  pods["web-0"]["metadata"]["deletionTimestamp"] = "2026-01-02T05:00:00Z";
  scripts["web-0"] = {{.body = pods["web-0"].dump()}};
  take_up_nodes(detaching_policy());
  tell(Look::Fell);
  run_for(1min);
  EXPECT_EQ(deleted(), Lines{"pod web-0"});
  pods.erase("web-0");
  run_for(1min);
  EXPECT_EQ(deleted().size(), 2U);
  EXPECT_EQ(closed_by(), Reason::Settled);
}

// Row E-13: nobody judges a pod that is gone, yet its attachment is still to go.
TEST_F(AttachmentDeleterTest, e_13_a_failed_deletion_is_repeated_although_the_pod_is_gone) {
  const std::string attachment = add_pod_with_volume("web-0");
  int refusals = 2;
  http.on(port::Method::Delete, "/apis/storage.k8s.io/v1/volumeattachments/*",
          [&](const test::FakeRequest&) {
            if (refusals-- > 0) {
              return broken();
            }
            lets_go(attachment);
            return test::FakeAnswer{.body = "{}"};
          });
  take_up_nodes(detaching_policy());
  run_incident();
  EXPECT_EQ(deleted(), (Lines{"pod web-0", "attachment " + attachment, "attachment " + attachment,
                              "attachment " + attachment}));
  EXPECT_EQ(closed_by(), Reason::Settled);
}

TEST_F(AttachmentDeleterTest, e_10_a_pod_that_vanished_leaves_its_attachment_to_be_deleted) {
  const std::string attachment = add_pod_with_volume("web-0");
  story.hook = [this](const Record& record) {
    if (record.kind == Record::Kind::Intent) {
      pods.clear();
    }
  };
  take_up_nodes(detaching_policy());
  tell(Look::Fell);
  run_until([this] { return deleted().size() == 2; });
  EXPECT_EQ(deleted(), (Lines{"pod web-0", "attachment " + attachment}));
}

TEST_F(AttachmentDeleterTest, e_12_an_attachment_that_is_gone_stops_nobody) {
  const std::string first = add_pod_with_volume("web-0");
  const std::string second = add_pod_with_volume("web-1");
  http.on(port::Method::Delete, "/apis/storage.k8s.io/v1/volumeattachments/*",
          [&](const test::FakeRequest& request) {
            lets_go(name_in(request));
            return name_in(request) == first ? status(404, "NotFound", first)
                                             : test::FakeAnswer{.body = "{}"};
          });
  take_up_nodes(detaching_policy());
  run_incident();
  EXPECT_EQ(deleted().size(), 4U);
  EXPECT_EQ(story.count(Record::Kind::Outcome, Reason::AlreadyGone), 1U);
  EXPECT_TRUE(attachments.empty());
  EXPECT_EQ(closed_by(), Reason::Settled);
}

TEST_F(AttachmentDeleterTest, e_26_only_the_attachment_to_the_dead_node_goes) {
  const std::string attachment = add_pod_with_volume("web-0");
  const std::string elsewhere = policy::attachment_name("vol-web-0", driver, "n2");
  attachments[elsewhere] = attachments[attachment];
  attachments[elsewhere]["metadata"]["name"] = elsewhere;
  attachments[elsewhere]["metadata"]["uid"] = "va-elsewhere";
  attachments[elsewhere]["spec"]["nodeName"] = "n2";
  attachments["inline"] = {{"kind", "VolumeAttachment"},
                           {"metadata", {{"name", "inline"}, {"uid", "va-inline"}}},
                           {"spec",
                            {{"attacher", driver},
                             {"nodeName", "n1"},
                             {"source", {{"persistentVolumeName", nullptr}}}}}};
  take_up_nodes(detaching_policy());
  run_incident();
  EXPECT_EQ(deleted(), (Lines{"pod web-0", "attachment " + attachment}));
  EXPECT_EQ(attachments.size(), 2U);
}

TEST_F(AttachmentDeleterTest, a_lost_answer_is_looked_after_and_not_taken_for_either) {
  const std::string attachment = add_pod_with_volume("web-0");
  int deletions = 0;
  http.on(port::Method::Delete, "/apis/storage.k8s.io/v1/volumeattachments/*",
          [&](const test::FakeRequest&) {
            if (++deletions > 1) {
              lets_go(attachment);
              return test::FakeAnswer{.body = "{}"};
            }
            return test::FakeAnswer::lost();
          });
  take_up_nodes(detaching_policy());
  run_incident();
  EXPECT_EQ(deletions, 2) << "it was still there and not marked";
}

// Hazard H24: the attachment serves every pod of the node that uses the volume.
TEST_F(AttachmentDeleterTest, another_pod_of_the_node_keeps_the_attachment_of_a_shared_volume) {
  const std::string attachment = add_pod_with_volume("web-0");
  add_pod("other-0", "n1", "db", "other");
  pods["other-0"]["metadata"]["ownerReferences"][0]["kind"] = "DaemonSet";
  pods["other-0"]["spec"]["volumes"] = pods["web-0"]["spec"]["volumes"];
  take_up_nodes(detaching_policy());
  tell(Look::Fell);
  run_for(30s);
  EXPECT_EQ(deleted(), Lines{"pod web-0"});
  EXPECT_EQ(story.count(Record::Kind::Refusal, Reason::VolumeInUse), 1U);
  pods.erase("other-0");
  run_for(30s);
  EXPECT_EQ(deleted().back(), "attachment " + attachment);
}

TEST_F(AttachmentDeleterTest, the_volume_is_known_by_its_handle_and_not_by_its_claim) {
  const std::string attachment = add_pod_with_volume("web-0", "n1", "shared");
  add_pod("other-0", "n1", "db", "other");
  pods["other-0"]["metadata"]["ownerReferences"][0]["kind"] = "DaemonSet";
  const auto of_web = attachments[attachment];
  add_volume("other-0", "n1", "shared");
  attachments[attachment] = of_web;
  take_up_nodes(detaching_policy());
  tell(Look::Fell);
  run_for(30s);
  EXPECT_EQ(deleted(), Lines{"pod web-0"});
}

TEST_F(AttachmentDeleterTest, the_attachment_of_a_translated_volume_goes_with_its_pod) {
  for (const bool annotated : {true, false}) {
    pods.clear();
    attachments.clear();
    http.requests.clear();
    fencing_drivers = {"ebs.csi.aws.com"};
    const std::string attachment = add_pod_with_volume("web-0");
    translate("web-0", annotated);
    take_up_nodes(detaching_policy());
    tell(Look::Fell);
    run_for(30s);
    EXPECT_EQ(deleted(), (Lines{"pod web-0", "attachment " + attachment})) << annotated;
  }
}

TEST_F(AttachmentDeleterTest, another_user_of_a_translated_volume_keeps_its_attachment) {
  fencing_drivers = {"ebs.csi.aws.com"};
  add_pod_with_volume("web-0");
  translate("web-0");
  add_pod("other-0", "n1", "db", "other");
  pods["other-0"]["metadata"]["ownerReferences"][0]["kind"] = "DaemonSet";
  pods["other-0"]["spec"]["volumes"] = pods["web-0"]["spec"]["volumes"];
  take_up_nodes(detaching_policy());
  tell(Look::Fell);
  run_for(30s);
  EXPECT_EQ(deleted(), Lines{"pod web-0"});
  EXPECT_EQ(story.count(Record::Kind::Refusal, Reason::VolumeInUse), 1U);
}

// Nothing younger can be had: on a server whose reads take two seconds nothing was ever detached.
TEST_F(AttachmentDeleterTest, what_took_long_to_find_out_is_believed_for_longer) {
  const std::string attachment = add_pod_with_volume("web-0");
  add_pod_with_volume("other-0");
  pods["other-0"]["metadata"]["ownerReferences"][0]["kind"] = "DaemonSet";
  leadership.granted.reading = 4s;
  may_read_claims = false;  // a list is waited for longer
  claims_answer.delay = 6s;
  take_up_nodes(detaching_policy());
  tell(Look::Fell);
  run_for(1min);
  EXPECT_EQ(deleted(), (Lines{"pod web-0", "attachment " + attachment}));
  EXPECT_EQ(closed_by(), Reason::Settled);
}

// The incident went round without a word.
TEST_F(AttachmentDeleterTest,
       lists_that_are_always_too_old_to_detach_by_are_a_failure_which_is_told) {
  const std::string attachment = add_pod_with_volume("web-0");
  add_pod_with_volume("other-0");
  pods["other-0"]["metadata"]["ownerReferences"][0]["kind"] = "DaemonSet";
  crash_before_the_attachment(detaching_policy());
  may_read_claims = false;  // a list is waited for longer
  claims_answer.delay = 12s;
  restart();
  tell(Look::Fell);
  run_for(3min);
  EXPECT_EQ(deleted(), Lines{"pod web-0"});
  EXPECT_GE(story.count(Record::Kind::IncidentHeld, Reason::StillFailing), 1U);
  claims_answer.delay = {};
  run_for(2min);
  EXPECT_EQ(deleted(), (Lines{"pod web-0", "attachment " + attachment}));
}

// Its own deletion took so long each time that the lists were too old for whatever comes after it.
TEST_F(AttachmentDeleterTest,
       a_pod_that_is_deleted_slowly_and_in_vain_keeps_no_attachment_of_others) {
  const std::string attachment = add_pod_with_volume("web-0");
  crash_before_the_attachment(detaching_policy());
  add_pod_with_volume("web-1");
  test::FakeAnswer refusal = broken();
  refusal.delay = 8s;
  scripts["web-1"] = std::vector<test::FakeAnswer>(100, refusal);
  restart();
  tell(Look::Fell);
  run_for(1min);
  const Lines done = deleted();
  EXPECT_EQ(std::count(done.begin(), done.end(), "attachment " + attachment), 1);
  EXPECT_GE(std::count(done.begin(), done.end(), "pod web-1"), 3) << "it is tried as before";
}

// What is known of the last pod comes when the lists are too old already: attachments never have
// their turn, whoever comes first. Pods that always came after them would have none either.
TEST_F(AttachmentDeleterTest, where_one_pod_takes_too_long_others_come_first_in_every_other_pass) {
  const std::string attachment = add_pod_with_volume("web-0");
  crash_before_the_attachment(detaching_policy());
  add_pod_with_volume("daemon-0");
  pods["daemon-0"]["metadata"]["ownerReferences"][0]["kind"] = "DaemonSet";
  add_pod("web-2");
  scripts["web-2"] = {broken()};
  const auto slowly = [](const nlohmann::json& object) {
    return test::FakeAnswer{.body = object.dump(), .delay = 4s};
  };
  claims_answer.delay = 4s;
  http.on(port::Method::Get, "/api/v1/persistentvolumes/*",
          [this, slowly](const test::FakeRequest& request) {
            return slowly(volumes.at(name_in(request)));
          });
  http.on(port::Method::Get, "/apis/storage.k8s.io/v1/volumeattachments/*",
          [this, slowly](const test::FakeRequest& request) {
            return slowly(attachments.at(name_in(request)));
          });
  restart();
  tell(Look::Fell);
  run_for(20s);
  scripts.clear();
  run_for(2min);
  const Lines done = deleted();
  EXPECT_EQ(std::count(done.begin(), done.end(), "attachment " + attachment), 0);
  EXPECT_FALSE(pods.contains("web-2"));
}

// It may live for years, and the incident stayed open as long.
TEST_F(AttachmentDeleterTest,
       an_attachment_that_a_pod_of_the_machine_made_anew_uses_is_not_waited_for) {
  add_pod_with_volume("web-0");
  bind_at("web-0", "2026-01-02T04:00:00Z");
  scripts["web-0"] = {broken()};
  take_up_nodes(detaching_policy());
  tell(Look::Fell);
  run_for(2s);
  nodes["n1"] = {.ready = "True",
                 .uid = "node-2",
                 .tainted = false,
                 .boot_id = "boot-2",
                 .created = "2026-01-02T05:05:00Z"};
  scripts.clear();
  add_pod("web-1");
  pods["web-1"]["spec"]["volumes"] = pods["web-0"]["spec"]["volumes"];
  bind_at("web-1", "2026-01-02T05:05:30Z");
  tell();
  run_for(1min);
  EXPECT_EQ(deleted(), (Lines{"pod web-0", "pod web-0"}));
  EXPECT_EQ(story.count(Record::Kind::Refusal, Reason::VolumeInUse), 1U);
  EXPECT_EQ(closed_by(), Reason::Settled);
}

// It goes by the node's name, and may be the new one's. It was refused again and again.
TEST_F(AttachmentDeleterTest, an_attachment_of_a_machine_made_anew_is_refused_once) {
  add_pod_with_volume("web-0");
  bind_at("web-0", "2026-01-02T04:00:00Z");
  scripts["web-0"] = {broken()};
  take_up_nodes(detaching_policy());
  tell(Look::Fell);
  run_for(2s);
  nodes["n1"] = {.ready = "True",
                 .uid = "node-2",
                 .tainted = false,
                 .boot_id = "boot-2",
                 .created = "2026-01-02T05:05:00Z"};
  scripts.clear();
  tell();
  run_for(1min);
  EXPECT_EQ(deleted(), (Lines{"pod web-0", "pod web-0"}));
  EXPECT_EQ(story.count(Record::Kind::Refusal, Reason::NodeReplaced), 1U);
  EXPECT_EQ(closed_by(), Reason::Settled);
}

// The attachment of a disk bears the name of one PersistentVolume. Another one of the same disk has
// none of its own, and nobody but Kubernetes can tell that they are one.
TEST_F(AttachmentDeleterTest, two_translated_volumes_may_be_one_disk) {
  fencing_drivers = {"ebs.csi.aws.com"};
  const std::string attachment = add_pod_with_volume("web-0", "n1", "disk");
  translate("web-0");
  const nlohmann::json of_web = attachments[attachment];
  add_pod("other-0", "n1", "db", "other");
  pods["other-0"]["metadata"]["ownerReferences"][0]["kind"] = "DaemonSet";
  attachments.erase(add_volume("other-0", "n1", "disk"));
  translate("other-0");
  attachments[attachment] = of_web;
  take_up_nodes(detaching_policy());
  tell(Look::Fell);
  run_for(30s);
  EXPECT_EQ(deleted(), Lines{"pod web-0"});
  EXPECT_EQ(story.count(Record::Kind::Refusal, Reason::VolumeInUse), 1U);
  pods.erase("other-0");
  run_for(30s);
  EXPECT_EQ(deleted(), (Lines{"pod web-0", "attachment " + attachment}));
}

TEST_F(AttachmentDeleterTest, a_translated_volume_and_one_of_its_driver_may_be_one_disk) {
  fencing_drivers = {"csi.example.com", "ebs.csi.aws.com"};
  const std::string attachment = add_pod_with_volume("web-0", "n1", "disk");
  translate("web-0");
  const nlohmann::json of_web = attachments[attachment];
  add_pod("other-0", "n1", "db", "other");
  pods["other-0"]["metadata"]["ownerReferences"][0]["kind"] = "DaemonSet";
  attachments.erase(add_volume("other-0", "n1", "disk"));
  volumes["pv-other-0"]["spec"]["csi"]["driver"] = "ebs.csi.aws.com";
  // As Kubernetes names it, by what it made of the old kind.
  const std::string name = policy::attachment_name("disk", "ebs.csi.aws.com", "n1");
  attachments = {{name, of_web}};
  attachments[name]["metadata"]["name"] = name;
  take_up_nodes(detaching_policy());
  tell(Look::Fell);
  run_for(30s);
  EXPECT_EQ(deleted(), Lines{"pod web-0"});
  pods.erase("other-0");
  run_for(30s);
  EXPECT_EQ(deleted(), (Lines{"pod web-0", "attachment " + name}));
}

TEST_F(AttachmentDeleterTest, a_volume_that_stands_in_a_pod_itself_may_be_the_same_disk) {
  fencing_drivers = {"ebs.csi.aws.com"};
  const std::string attachment = add_pod_with_volume("web-0");
  translate("web-0");
  add_pod("other-0", "n1", "db", "other");
  pods["other-0"]["metadata"]["ownerReferences"][0]["kind"] = "DaemonSet";
  pods["other-0"]["spec"]["volumes"] = {
      {{"name", "disk"}, {"awsElasticBlockStore", {{"volumeID", "vol-web-0"}}}}};
  take_up_nodes(detaching_policy());
  tell(Look::Fell);
  run_for(30s);
  EXPECT_EQ(deleted(), Lines{"pod web-0"});
  pods.erase("other-0");
  run_for(30s);
  EXPECT_EQ(deleted(), (Lines{"pod web-0", "attachment " + attachment}));
}

// A claim whose PersistentVolume somebody removed by force kept every attachment of the node.
TEST_F(AttachmentDeleterTest,
       a_pod_whose_volume_is_missing_keeps_the_attachment_that_bears_its_name) {
  const std::string attachment = add_pod_with_volume("web-0");
  add_pod_with_volume("other-0");
  pods["other-0"]["metadata"]["ownerReferences"][0]["kind"] = "DaemonSet";
  volumes.erase("pv-other-0");
  take_up_nodes(detaching_policy());
  tell(Look::Fell);
  run_for(30s);
  EXPECT_EQ(deleted(), (Lines{"pod web-0", "attachment " + attachment}));
}

TEST_F(AttachmentDeleterTest, a_volume_that_was_made_again_under_another_name_is_the_same_disk) {
  const std::string attachment = add_pod_with_volume("web-0", "n1", "disk");
  attachments[attachment]["spec"]["source"]["persistentVolumeName"] = "pv-other-0";
  const nlohmann::json of_other = attachments[attachment];
  add_pod("other-0", "n1", "db", "other");
  pods["other-0"]["metadata"]["ownerReferences"][0]["kind"] = "DaemonSet";
  add_volume("other-0", "n1", "disk");
  attachments[attachment] = of_other;
  volumes.erase("pv-other-0");
  take_up_nodes(detaching_policy());
  tell(Look::Fell);
  run_for(30s);
  EXPECT_EQ(deleted(), Lines{"pod web-0"});
  EXPECT_EQ(story.count(Record::Kind::Refusal, Reason::VolumeInUse), 1U);
}

TEST_F(AttachmentDeleterTest,
       a_pod_whose_volume_is_missing_and_not_attached_keeps_every_attachment) {
  add_pod_with_volume("web-0");
  attachments.erase(add_pod_with_volume("other-0"));
  pods["other-0"]["metadata"]["ownerReferences"][0]["kind"] = "DaemonSet";
  volumes.erase("pv-other-0");
  take_up_nodes(detaching_policy());
  tell(Look::Fell);
  run_for(30s);
  EXPECT_EQ(deleted(), Lines{"pod web-0"});
  EXPECT_EQ(story.count(Record::Kind::Refusal, Reason::VolumeInUse), 1U);
}

TEST_F(AttachmentDeleterTest, a_pod_whose_volumes_cannot_be_read_keeps_every_attachment) {
  add_pod_with_volume("web-0");
  add_pod_with_volume("other-0");
  broken_volume = "pv-other-0";
  take_up_nodes(detaching_policy());
  tell(Look::Fell);
  run_for(4s);
  EXPECT_EQ(deleted(), Lines{"pod web-0"});
  EXPECT_EQ(story.count(Record::Kind::Verdict, Reason::NeedsUnread), 1U);
  broken_volume = "";
  run_for(1min);
  EXPECT_EQ(deleted().size(), 4U);
  EXPECT_EQ(closed_by(), Reason::Settled);
}

// Row LH-18. It once made the engine blind for all attachments of the node: on the real control
// plane nobody saw it as long as Kubernetes was quick enough to protect the claim that the test
// removed.
TEST_F(AttachmentDeleterTest, a_claim_that_is_missing_keeps_no_attachment_of_another_claim) {
  add_pod_with_volume("web-0");
  add_pod_with_volume("other-0");
  claims.erase(1);
  take_up_nodes(detaching_policy());
  run_incident();
  EXPECT_EQ(deleted().size(), 3U) << "both pods, and the attachment of the claim that is there";
  EXPECT_EQ(story.count(Record::Kind::Refusal, Reason::VolumeInUse), 0U);
}

TEST_F(AttachmentDeleterTest, claims_that_cannot_be_read_hold_the_pods_that_need_them) {
  add_pod_with_volume("web-0");
  claims_answer = status(403, "Forbidden");
  take_up_nodes(detaching_policy());
  tell(Look::Fell);
  run_for(5min);
  EXPECT_TRUE(deleted().empty());
  EXPECT_EQ(story.count(Record::Kind::Verdict, Reason::NeedsUnread), 1U);
  claims_answer = {};
  run_for(1min);
  EXPECT_EQ(deleted().size(), 2U) << "a node is not forgotten because the server was away";
}

TEST_F(AttachmentDeleterTest, a_driver_that_is_not_declared_keeps_its_attachments) {
  fencing_drivers.clear();
  add_pod_with_volume("web-0");
  take_up_nodes(detaching_policy());
  run_incident();
  EXPECT_EQ(deleted(), Lines{"pod web-0"});
  EXPECT_EQ(story.count(Record::Kind::Refusal, Reason::DriverNotDeclared), 1U);
}

// The attacher takes it up a moment after Kubernetes made it: it was given up for ever.
TEST_F(AttachmentDeleterTest, an_attachment_goes_when_its_attacher_has_taken_it_up_and_not_before) {
  const std::string attachment = add_pod_with_volume("web-0");
  const nlohmann::json finalizers = attachments[attachment]["metadata"]["finalizers"];
  attachments[attachment]["metadata"].erase("finalizers");
  take_up_nodes(detaching_policy());
  tell(Look::Fell);
  run_for(1min);
  EXPECT_EQ(deleted(), Lines{"pod web-0"});
  EXPECT_GE(story.count(Record::Kind::Refusal, Reason::NotHeldByAttacher), 1U);
  attachments[attachment]["metadata"]["finalizers"] = finalizers;
  run_for(2min);
  EXPECT_EQ(deleted(), (Lines{"pod web-0", "attachment " + attachment}));
  EXPECT_EQ(closed_by(), Reason::Settled);
}

// Two PersistentVolumes with one handle: the one that was attached first gave the attachment its
// volume's name, and that of the other one was left behind.
TEST_F(AttachmentDeleterTest, an_attachment_may_bear_the_name_of_another_volume_of_the_same_disk) {
  const std::string attachment = add_pod_with_volume("web-0");
  attachments[attachment]["spec"]["source"]["persistentVolumeName"] = "pv-of-the-same-disk";
  take_up_nodes(detaching_policy());
  run_incident();
  EXPECT_EQ(deleted(), (Lines{"pod web-0", "attachment " + attachment}));
  EXPECT_EQ(closed_by(), Reason::Settled);
}

TEST_F(AttachmentDeleterTest, an_attachment_of_another_driver_under_the_right_name_is_left_alone) {
  const std::string attachment = add_pod_with_volume("web-0");
  attachments[attachment]["spec"]["attacher"] = "other.example.com";
  take_up_nodes(detaching_policy());
  run_incident();
  EXPECT_EQ(deleted(), Lines{"pod web-0"});
  EXPECT_EQ(story.count(Record::Kind::Refusal, Reason::AttachmentMismatch), 1U);
}

TEST_F(AttachmentDeleterTest, an_attachment_that_was_made_again_is_left_alone) {
  const std::string attachment = add_pod_with_volume("web-0");
  storage_lets_go = false;
  take_up_nodes(detaching_policy());
  tell(Look::Fell);
  run_for(1s);
  ASSERT_EQ(deleted().size(), 2U);
  attachments[attachment]["metadata"] = {
      {"name", attachment}, {"uid", "va-2"}, {"finalizers", {"external-attacher/csi-example-com"}}};
  run_for(1min);
  EXPECT_EQ(deleted().size(), 2U);
  EXPECT_EQ(incidents->open_incidents(), 0U);
  EXPECT_EQ(story.count(Record::Kind::Refusal, Reason::Replaced), 1U);
}

TEST_F(AttachmentDeleterTest, a_node_that_comes_back_keeps_its_attachments) {
  add_pod_with_volume("web-0");
  delete_delay = 500ms;
  take_up_nodes(detaching_policy());
  tell(Look::Fell);
  run_for(200ms);
  nodes["n1"].ready = "True";
  tell(Look::Changed);
  run_for(1min);
  EXPECT_EQ(deleted(), Lines{"pod web-0"});
  EXPECT_EQ(closed_by(), Reason::NodeReady);
}

TEST_F(AttachmentDeleterTest, in_observe_mode_nothing_goes) {
  add_pod_with_volume("web-0");
  take_up_nodes(detaching_policy(), Mode::Observe);
  run_incident();
  EXPECT_TRUE(deleted().empty());
}

TEST_F(AttachmentDeleterTest, pods_that_share_nothing_are_deleted_before_the_first_attachment) {
  for (const char* name : {"web-0", "web-1", "web-2"}) {
    add_pod_with_volume(name);
  }
  take_up_nodes(detaching_policy());
  run_incident();
  const Lines all = deleted();
  ASSERT_EQ(all.size(), 6U);
  EXPECT_EQ(Lines(all.begin(), all.begin() + 3), (Lines{"pod web-0", "pod web-1", "pod web-2"}));
  EXPECT_TRUE(attachments.empty());
}

TEST_F(AttachmentDeleterTest, attachments_first_wants_a_pod_that_is_being_deleted) {
  const std::string attachment = add_pod_with_volume("web-0");
  take_up_nodes(on_every_signal_with_volumes(
      "if not pod.volumes[1].attachment then return fence.delete_pod('detached') end "
      "return fence.delete_attachments('first', pod.volumes, "
      "{ order = 'attachments-first', wait = '60s', on_timeout = 'hold' })"));
  tell(Look::Fell);
  run_for(10s);
  EXPECT_TRUE(deleted().empty());
  EXPECT_GE(story.count(Record::Kind::Refusal, Reason::PodNotTerminating), 1U);
  pods["web-0"]["metadata"]["deletionTimestamp"] = "2026-01-02T06:00:00Z";
  run_for(1min);
  EXPECT_EQ(deleted(), (Lines{"attachment " + attachment, "pod web-0"}));
  EXPECT_EQ(incidents->open_incidents(), 0U);
}

TEST_F(AttachmentDeleterTest, attachments_first_deletes_the_pod_when_they_take_too_long) {
  const std::string attachment = add_pod_with_volume("web-0");
  pods["web-0"]["metadata"]["deletionTimestamp"] = "2026-01-02T06:00:00Z";
  storage_lets_go = false;
  take_up_nodes(on_every_signal_with_volumes(
      "return fence.delete_attachments('first', pod.volumes, "
      "{ order = 'attachments-first', wait = '60s', on_timeout = 'delete' })"));
  tell(Look::Fell);
  run_for(50s);
  EXPECT_EQ(deleted(), Lines{"attachment " + attachment});
  EXPECT_EQ(story.count(Record::Kind::Verdict, Reason::PolicyDeletesAttachments), 1U);
  EXPECT_EQ(story.count(Record::Kind::Intent, Reason::PolicyDeletesAttachments), 1U);
  EXPECT_EQ(story.count(Record::Kind::IncidentHeld, Reason::DetachOverdue), 0U);
  run_for(20s);
  EXPECT_EQ(deleted(), (Lines{"attachment " + attachment, "pod web-0"}));
  EXPECT_EQ(story.count(Record::Kind::IncidentHeld, Reason::DetachOverdue), 1U);
}

TEST_F(AttachmentDeleterTest, lh_12_attachments_first_holds_the_pod_and_tells_it_once) {
  const std::string attachment = add_pod_with_volume("web-0");
  pods["web-0"]["metadata"]["deletionTimestamp"] = "2026-01-02T06:00:00Z";
  storage_lets_go = false;
  take_up_nodes(on_every_signal_with_volumes(
      "return fence.delete_attachments('first', pod.volumes, "
      "{ order = 'attachments-first', wait = '60s', on_timeout = 'hold' })"));
  tell(Look::Fell);
  run_for(50s);
  EXPECT_EQ(story.count(Record::Kind::IncidentHeld, Reason::DetachOverdue), 0U);
  run_for(10min);
  EXPECT_EQ(deleted(), Lines{"attachment " + attachment});
  EXPECT_EQ(story.count(Record::Kind::IncidentHeld, Reason::DetachOverdue), 1U);
}

TEST_F(AttachmentDeleterTest, everything_is_read_once_whoever_needs_it) {
  for (const char* name : {"web-0", "web-1", "web-2"}) {
    add_pod_with_volume(name);
  }
  pods["web-1"]["spec"]["volumes"] = pods["web-0"]["spec"]["volumes"];
  take_up_nodes(on_every_signal_with_volumes("return fence.skip('only looking')"));
  tell(Look::Fell);
  run_for(5s);
  int reads_of_claims = 0;
  int reads_of_volumes = 0;
  for (const test::FakeRequest& request : http.requests) {
    reads_of_claims += request.path.find("/persistentvolumeclaims") != std::string::npos ? 1 : 0;
    reads_of_volumes += request.path.find("/persistentvolumes/") != std::string::npos ? 1 : 0;
  }
  EXPECT_EQ(reads_of_claims, 2);
  EXPECT_EQ(reads_of_volumes, 2);
}

// Who else uses the volume may stand on the page that is missing.
TEST_F(AttachmentDeleterTest, while_a_page_of_the_pods_cannot_be_read_nothing_is_detached) {
  const std::string attachment = add_pod_with_volume("web-0");
  for (int i = 1; i < 10; ++i) {
    add_pod_with_volume("web-" + std::to_string(i));
  }
  pages = true;
  bool readable = false;
  for (const char* last : {"web-7", "web-8"}) {  // of the first page, with web-0 and without
    http.on(
        port::Method::Get, std::string("/api/v1/pods?continue=") + last,
        [&](const test::FakeRequest& request) { return readable ? list_pods(request) : broken(); });
  }
  take_up_nodes(on_every_signal_with_volumes(
      "if pod.name == 'web-0' then return fence.delete_pod_and_attachments('dead') end "
      "return fence.skip('not')"));
  tell(Look::Fell);
  run_for(20s);
  EXPECT_EQ(deleted(), Lines{"pod web-0"});
  readable = true;
  run_for(1min);
  EXPECT_EQ(deleted(), (Lines{"pod web-0", "attachment " + attachment}));
}

// A verdict that was not carried out is nobody's any more when the next pass says something else.
TEST_F(AttachmentDeleterTest, what_a_policy_no_longer_wants_is_forgotten_while_the_pod_is_there) {
  add_pod_with_volume("web-0");
  scripts["web-0"] = {broken()};
  take_up_nodes(on_every_signal_with_volumes(
      "if pod.labels.app == 'precious' then return fence.wait('not now', 5) end "
      "return fence.delete_pod_and_attachments('dead')"));
  tell(Look::Fell);
  run_for(1s);
  ASSERT_EQ(deleted(), Lines{"pod web-0"});
  pods["web-0"]["metadata"]["labels"]["app"] = "precious";
  run_for(10s);
  pods.erase("web-0");  // by somebody else
  run_for(1min);
  EXPECT_EQ(deleted(), Lines{"pod web-0"});
  EXPECT_EQ(attachments.size(), 1U);
}

TEST_F(AttachmentDeleterTest, what_was_asked_in_vain_is_not_asked_again_when_it_is_wanted_no_more) {
  const std::string attachment = add_pod_with_volume("web-0");
  pods["web-0"]["metadata"]["deletionTimestamp"] = "2026-01-02T06:00:00Z";
  http.on(port::Method::Delete, "/apis/storage.k8s.io/v1/volumeattachments/*",
          [this](const test::FakeRequest&) {
            pods["web-0"]["metadata"]["labels"]["app"] = "precious";
            return test::FakeAnswer::lost();
          });
  take_up_nodes(on_every_signal_with_volumes(
      "if pod.labels.app == 'precious' then return fence.wait('not now', 5) end "
      "return fence.delete_attachments('first', pod.volumes, "
      "{ order = 'attachments-first', wait = '60s', on_timeout = 'hold' })"));
  tell(Look::Fell);
  run_for(1min);
  EXPECT_EQ(deleted(), Lines{"attachment " + attachment});
}

TEST_F(AttachmentDeleterTest, after_a_reload_without_its_policy_nothing_more_is_detached) {
  const std::string attachment = add_pod_with_volume("web-0");
  http.on(port::Method::Delete, "/apis/storage.k8s.io/v1/volumeattachments/*",
          [](const test::FakeRequest&) { return broken(); });
  take_up_nodes(detaching_policy());
  tell(Look::Fell);
  run_for(1s);
  ASSERT_EQ(deleted(), (Lines{"pod web-0", "attachment " + attachment}));
  activate({binding_of(
      named_policy("other", "return fence.skip('no')", "trigger = { live_kubelet = true },"))});
  incidents->policies_changed();
  run_for(1min);
  EXPECT_EQ(deleted().size(), 2U);
  EXPECT_EQ(story.count(Record::Kind::Refusal, Reason::PolicyChanged), 1U);
}

TEST_F(AttachmentDeleterTest, a_reload_that_leaves_its_policy_as_it_was_changes_nothing) {
  const std::string attachment = add_pod_with_volume("web-0");
  int failures = 1;
  http.on(port::Method::Delete, "/apis/storage.k8s.io/v1/volumeattachments/*",
          [&](const test::FakeRequest&) {
            if (failures-- > 0) {
              return broken();
            }
            lets_go(attachment);
            return test::FakeAnswer{.body = "{}"};
          });
  const auto policy = detaching_policy();
  take_up_nodes(policy);
  tell(Look::Fell);
  run_for(1s);
  activate({binding_of(policy), binding_of(named_policy("other", "return fence.skip('no')",
                                                        "trigger = { live_kubelet = true },"))});
  incidents->policies_changed();
  run_for(1min);
  EXPECT_TRUE(attachments.empty());
}

TEST_F(AttachmentDeleterTest,
       a_guard_that_comes_with_a_reload_keeps_what_it_cannot_be_asked_about) {
  add_pod_with_volume("web-0");
  http.on(port::Method::Delete, "/apis/storage.k8s.io/v1/volumeattachments/*",
          [](const test::FakeRequest&) { return broken(); });
  const auto policy = detaching_policy();
  take_up_nodes(policy);
  tell(Look::Fell);
  run_for(1s);
  activate({binding_of(policy), broken_guard()});
  incidents->policies_changed();
  run_for(1min);
  EXPECT_EQ(deleted().size(), 2U);
}

TEST_F(AttachmentDeleterTest, the_brake_delays_a_detachment_and_does_not_lose_it) {
  const std::string attachment = add_pod_with_volume("web-0");
  delete_delay = 500ms;
  take_up_nodes(detaching_policy());
  tell(Look::Fell);
  run_for(200ms);
  incidents->census_changed(census_of(3, 2));
  run_for(1min);
  EXPECT_EQ(deleted(), Lines{"pod web-0"});
  incidents->census_changed(census_of(10, 1));
  run_for(1min);
  EXPECT_EQ(deleted(), (Lines{"pod web-0", "attachment " + attachment}));
}

TEST_F(AttachmentDeleterTest, what_can_never_go_is_not_looked_at_four_times_a_second) {
  fencing_drivers.clear();
  add_pod_with_volume("web-0");
  pods["web-0"]["metadata"]["deletionTimestamp"] = "2026-01-02T06:00:00Z";
  take_up_nodes(on_every_signal_with_volumes(
      "return fence.delete_attachments('first', pod.volumes, "
      "{ order = 'attachments-first', wait = '1h', on_timeout = 'hold' })"));
  tell(Look::Fell);
  run_for(10min);
  EXPECT_LT(http.count("/api/v1/nodes/n1"), 40U);
  EXPECT_EQ(story.count(Record::Kind::Refusal, Reason::DriverNotDeclared), 1U);
}

TEST_F(AttachmentDeleterTest,
       a_refusing_server_is_asked_at_the_pace_of_retries_until_it_lets_the_attachment_go) {
  add_pod_with_volume("web-0");
  http.on(port::Method::Delete, "/apis/storage.k8s.io/v1/volumeattachments/*",
          [](const test::FakeRequest&) { return status(403, "Forbidden"); });
  take_up_nodes(detaching_policy());
  tell(Look::Fell);
  run_for(24s);
  EXPECT_EQ(deleted().size(), 6U) << "the pod, and five attempts";
  run_for(3min);
  http.on(port::Method::Delete, "/apis/storage.k8s.io/v1/volumeattachments/*",
          [this](const test::FakeRequest& request) {
            lets_go(name_in(request));
            return test::FakeAnswer{.body = "{}"};
          });
  run_for(1min);
  EXPECT_TRUE(attachments.empty());
}

// A volume that detaches is looked after 50 ms later, 100 ms later and so on. Each of these looks
// tried again what the server had refused: five times in 0.7 s (random world 1000733).
TEST_F(AttachmentDeleterTest, looks_after_a_volume_do_not_repeat_what_the_server_refused) {
  const std::string going = add_pod_with_volume("web-0");
  storage_lets_go = false;  // it stays marked
  const std::string refused = add_pod_with_volume("web-1");
  add_pod("web-2");
  scripts["web-2"] = std::vector<test::FakeAnswer>(5, status(403, "Forbidden"));
  http.on(port::Method::Delete, "/apis/storage.k8s.io/v1/volumeattachments/" + refused,
          [](const test::FakeRequest&) { return status(403, "Forbidden"); });
  take_up_nodes(detaching_policy());
  tell(Look::Fell);
  const auto times = [this](const std::string& line) {
    const Lines done = deleted();
    return std::count(done.begin(), done.end(), line);
  };
  run_for(4500ms);
  EXPECT_EQ(times("attachment " + going), 1);
  EXPECT_EQ(times("attachment " + refused), 1);
  EXPECT_EQ(times("pod web-2"), 1);
  EXPECT_GT(http.count("/api/v1/nodes/n1"), 3U) << "it is looked after";
  run_for(26s);
  EXPECT_EQ(times("attachment " + refused), 6) << "0, 5 … 20, 30 s";
  EXPECT_EQ(times("pod web-2"), 6) << "until it goes";
}

// Its pause is no other pod's.
TEST_F(AttachmentDeleterTest, what_fails_in_a_look_does_not_wait_for_what_failed_before) {
  add_pod("web-0");
  add_pod("web-1");
  scripts["web-0"] = {status(429, "TooManyRequests", "web-0", {{"retry-after", "300"}})};
  scripts["web-1"] = {broken(), test::FakeAnswer{.body = "{}"}};
  pods["web-1"]["metadata"]["labels"]["later"] = "yes";
  take_up_nodes(on_every_signal(R"(
    if pod.labels.later then return fence.wait('1s', 'not yet') end
    return fence.delete_pod('its node is dead'))"));
  tell(Look::Fell);
  run_for(500ms);
  pods["web-1"]["metadata"]["labels"].erase("later");
  run_for(30s);
  const Lines done = deleted();
  EXPECT_EQ(std::count(done.begin(), done.end(), "pod web-0"), 1);
  EXPECT_EQ(std::count(done.begin(), done.end(), "pod web-1"), 2);
}

// A proxy says that the attachment is gone: another node would get a volume that is still attached.
TEST_F(AttachmentDeleterTest, an_attachment_is_not_gone_because_somebody_answers_404) {
  const std::string attachment = add_pod_with_volume("web-0");
  http.on(port::Method::Delete, "/apis/storage.k8s.io/v1/volumeattachments/*",
          status(404, "NotFound", attachment));
  take_up_nodes(detaching_policy());
  tell(Look::Fell);
  run_for(3min);
  EXPECT_EQ(story.count(Record::Kind::Outcome, Reason::AlreadyGone), 0U);
  EXPECT_EQ(story.count(Record::Kind::Outcome, Reason::Detached), 0U);
  EXPECT_EQ(incidents->open_incidents(), 1U);
  lets_go(attachment);
  ASSERT_TRUE(run_until([this] { return incidents->open_incidents() == 0; }));
  EXPECT_EQ(closed_by(), Reason::Settled);
}

}  // namespace
}  // namespace moonfence::fence
