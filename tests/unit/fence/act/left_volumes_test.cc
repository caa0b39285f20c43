#include "fence/act/left_volumes.h"

#include "unit/fence/storage_fixture.h"

namespace moonfence::fence {
namespace {

// Somebody else deletes a pod of the dead node, and its attachment stays behind.
struct VanishedTest : StorageTest {
  std::string attachment;

  VanishedTest() { attachment = add_pod_with_volume("web-0"); }

  void vanishes_after(Record::Kind kind) {
    story.hook = [this, kind](const Record& record) {
      if (record.kind == kind && record.pod_uid == Uid("uid-web-0")) {
        pods.erase("web-0");
      }
    };
  }
  [[nodiscard]] bool asked_to_go() const {
    const Lines lines = deleted();
    return std::find(lines.begin(), lines.end(), "attachment " + attachment) != lines.end();
  }
};

TEST_F(VanishedTest, after_the_verdict_its_attachment_goes_as_the_policy_said) {
  vanishes_after(Record::Kind::Verdict);
  take_up_nodes(detaching_policy());
  run_incident();
  EXPECT_TRUE(asked_to_go());
  EXPECT_EQ(story.count(Record::Kind::Outcome, Reason::AlreadyGone), 1U);
  EXPECT_TRUE(attachments.empty());
}

TEST_F(VanishedTest, also_when_another_pod_has_its_name_by_then) {
  story.hook = [this](const Record& record) {
    if (record.kind == Record::Kind::Verdict) {
      pods["web-0"]["metadata"]["uid"] = "uid-new";
      pods["web-0"]["spec"]["nodeName"] = "n2";
      scripts["web-0"] = {status(409, "Conflict", "web-0")};
    }
  };
  take_up_nodes(detaching_policy());
  run_incident();
  EXPECT_TRUE(asked_to_go());
  EXPECT_TRUE(pods.contains("web-0"));
}

TEST_F(VanishedTest, also_while_its_own_deletion_is_refused) {
  scripts["web-0"] = {status(403, "Forbidden")};
  take_up_nodes(detaching_policy());
  tell(Look::Fell);
  run_for(7s);
  EXPECT_FALSE(asked_to_go());
  pods.erase("web-0");
  ASSERT_TRUE(run_until([this] { return incidents->open_incidents() == 0; }));
  EXPECT_TRUE(asked_to_go());
}

TEST_F(VanishedTest, also_between_two_leaders) {
  scripts["web-0"] = {status(403, "Forbidden")};
  take_up_nodes(detaching_policy());
  tell(Look::Fell);
  run_for(7s);
  incidents.reset();
  journal.reset();
  pods.erase("web-0");
  restart();
  tell(Look::Swept);
  ASSERT_TRUE(run_until([this] { return attachments.empty(); }, 30s));
  EXPECT_EQ(made_ids, 1);
}

TEST_F(VanishedTest, also_when_the_verdict_was_foreseen_while_the_taint_was_awaited) {
  plans_ahead = true;
  nodes["n1"].tainted = false;
  take_up_nodes(detaching_policy());
  tell(Look::Fell);
  run_for(500ms);
  pods.erase("web-0");
  nodes["n1"].tainted = true;
  tell();
  ASSERT_TRUE(run_until([this] { return attachments.empty(); }, 30s));
}

TEST_F(VanishedTest, a_guard_speaks_as_ever) {
  vanishes_after(Record::Kind::Verdict);
  add_pod("web-1");
  pods["web-1"]["spec"]["volumes"] = pods["web-0"]["spec"]["volumes"];
  pods["web-1"]["metadata"]["ownerReferences"][0]["kind"] = "DaemonSet";
  take_up_nodes(detaching_policy());
  tell(Look::Fell);
  run_for(1min);
  EXPECT_FALSE(asked_to_go()) << "another pod of the node uses the volume";
}

// Its pod is gone before anybody was asked, and the node's status says that its volume is attached.
struct LeftVolumesTest : VanishedTest {
  LeftVolumesTest() {
    attach("vol-web-0");
    volumes["pv-web-0"]["spec"]["claimRef"] = {{"namespace", "db"}, {"name", "data-web-0"}};
    pods.clear();
  }
  void attach(const std::string& handle) {
    const std::string name = "kubernetes.io/csi/" + driver + "^" + handle;
    nodes["n1"].status["volumesInUse"].push_back(name);
    nodes["n1"].status["volumesAttached"].push_back({{"name", name}, {"devicePath", ""}});
  }
  [[nodiscard]] std::size_t told() const {
    return story.count(Record::Kind::IncidentHeld, Reason::VolumeLeft);
  }
};

TEST_F(LeftVolumesTest, it_is_told_after_a_minute_and_again_and_nothing_is_deleted) {
  take_up_nodes(detaching_policy());
  tell(Look::Fell);
  run_for(59s);
  EXPECT_EQ(told(), 0U) << "somebody may be detaching it";
  run_for(31s);
  ASSERT_EQ(told(), 1U);
  const Record& record = story.records.back();
  EXPECT_EQ(record.attachment, attachment);
  EXPECT_EQ(record.attachment_uid, Uid("va-web-0"));
  EXPECT_EQ(record.text, "volume pv-web-0 of claim db/data-web-0");
  run_for(10min);
  EXPECT_EQ(told(), 3U);
  EXPECT_EQ(incidents->open_incidents(), 1U);
  EXPECT_EQ(deleted(), Lines{});
}

TEST_F(LeftVolumesTest, when_it_is_gone_the_incident_is_over) {
  take_up_nodes(detaching_policy());
  tell(Look::Fell);
  run_for(10s);
  lets_go(attachment);
  ASSERT_TRUE(run_until([this] { return incidents->open_incidents() == 0; }, 1min));
  EXPECT_EQ(told(), 0U);
  EXPECT_EQ(closed_by(), Reason::Settled);
}

TEST_F(LeftVolumesTest, also_of_a_pod_that_a_policy_made_wait) {
  add_pod("web-0");
  pods["web-0"]["spec"]["volumes"] = {
      {{"name", "data"}, {"persistentVolumeClaim", {{"claimName", "data-web-0"}}}}};
  take_up_nodes(on_every_signal_with_volumes(
      "if pod.phase == 'Running' then return fence.wait('not yet', 10) end "
      "return fence.delete_pod_and_attachments('its node is dead')"));
  tell(Look::Fell);
  run_for(2min);
  EXPECT_EQ(told(), 0U) << "its pod is there";
  pods.clear();
  run_for(2min);
  EXPECT_EQ(told(), 1U);
  EXPECT_EQ(deleted(), Lines{});
}

TEST_F(LeftVolumesTest, not_of_a_pod_that_a_policy_wanted_deleted_without_it) {
  add_pod_with_volume("web-1");
  attach("vol-web-1");
  volumes["pv-web-1"]["spec"]["claimRef"] = {{"namespace", "db"}, {"name", "data-web-1"}};
  lets_go(attachment);
  take_up_nodes(on_every_signal_with_volumes("return fence.delete_pod('its node is dead')"));
  tell(Look::Fell);
  run_for(5min);
  EXPECT_EQ(deleted(), Lines{"pod web-1"});
  EXPECT_EQ(told(), 0U);
}

TEST_F(LeftVolumesTest, not_while_the_volumes_of_some_pod_are_unknown) {
  add_pod_with_volume("web-1");
  broken_volume = "pv-web-1";
  take_up_nodes(detaching_policy());
  tell(Look::Fell);
  run_for(5min);
  EXPECT_EQ(told(), 0U);
}

TEST_F(LeftVolumesTest, not_of_a_claim_where_no_policy_may_detach) {
  volumes["pv-web-0"]["spec"]["claimRef"]["namespace"] = "shop";
  take_up_nodes(detaching_policy());
  run_incident();
  EXPECT_EQ(told(), 0U);
}

// Of a volume of an old kind that stands in a pod itself the attachment names no PersistentVolume.
struct LeftInlineTest : LeftVolumesTest {
  LeftInlineTest() {
    const std::string old_kind = "ebs.csi.aws.com";
    nlohmann::json left = attachments[attachment];
    attachment = policy::attachment_name("vol-1", old_kind, "n1");
    left["metadata"]["name"] = attachment;
    left["spec"]["attacher"] = old_kind;
    left["spec"]["source"] = {{"inlineVolumeSpec", nlohmann::json::object()}};
    attachments = {{attachment, left}};
    const std::string name = "kubernetes.io/csi/" + old_kind + "^vol-1";
    nodes["n1"].status["volumesInUse"] = nlohmann::json::array({name});
    nodes["n1"].status["volumesAttached"] =
        nlohmann::json::array({{{"name", name}, {"devicePath", ""}}});
  }
};

TEST_F(LeftInlineTest, one_that_stood_in_a_pod_itself_is_told_too) {
  take_up_nodes(detaching_policy());
  tell(Look::Fell);
  run_for(90s);
  ASSERT_EQ(told(), 1U);
  EXPECT_EQ(story.records.back().attachment, attachment);
  EXPECT_EQ(story.records.back().text,
            "a volume of driver ebs.csi.aws.com that stood in a pod itself");
  EXPECT_EQ(incidents->open_incidents(), 1U);
  EXPECT_EQ(deleted(), Lines{});
  lets_go(attachment);
  ASSERT_TRUE(run_until([this] { return incidents->open_incidents() == 0; }, 1min));
}

TEST_F(LeftInlineTest, not_while_a_pod_of_the_node_may_use_it) {
  add_pod("agent-0");
  pods["agent-0"]["metadata"]["ownerReferences"][0]["kind"] = "DaemonSet";
  pods["agent-0"]["spec"]["volumes"] = {
      {{"name", "disk"}, {"awsElasticBlockStore", {{"volumeID", "vol-1"}}}}};
  take_up_nodes(detaching_policy());
  tell(Look::Fell);
  run_for(5min);
  EXPECT_EQ(told(), 0U);
}

TEST_F(LeftVolumesTest, not_where_kubernetes_detaches_by_itself) {
  nodes["n1"].taints.push_back(
      {{"key", "node.kubernetes.io/out-of-service"}, {"effect", "NoExecute"}});
  take_up_nodes(detaching_policy());
  run_incident();
  EXPECT_EQ(told(), 0U);
}

TEST_F(LeftVolumesTest, a_node_that_is_back_ends_it) {
  take_up_nodes(detaching_policy());
  tell(Look::Fell);
  run_for(10s);
  nodes["n1"].ready = "True";
  tell();
  run_for(5min);
  EXPECT_EQ(told(), 0U);
  EXPECT_EQ(closed_by(), Reason::NodeReady);
}

}  // namespace
}  // namespace moonfence::fence
