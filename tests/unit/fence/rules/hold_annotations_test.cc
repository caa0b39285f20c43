// What somebody holds nobody touches: moonfence.io/hold on a node, a namespace or a pod.

#include "fence/rules/hold_annotations.h"

#include "unit/fence/guard_fixture.h"
#include "unit/fence/pass_fixture.h"

namespace moonfence::fence {
namespace {

using audit::Reason;
using audit::Record;
using nlohmann::json;

TEST(Hold, a_node_is_held_by_our_annotation_or_by_a_configured_one) {
  const auto held = [](json annotations, const HoldMarks& marks = {}) {
    return hold_on_node({{"metadata", {{"annotations", std::move(annotations)}}}}, marks)
        .value_or("-");
  };
  const HoldMarks openyurt = {"node.beta.openyurt.io/autonomy=true",
                              "node.openyurt.io/autonomy-duration"};
  EXPECT_EQ(held({{"moonfence.io/hold", "disk being saved"}}), "disk being saved");
  EXPECT_EQ(held({{"moonfence.io/hold", " "}}), "no reason is given");
  EXPECT_EQ(held({{"moonfence.io/hold", 7}}), "no reason is given");
  EXPECT_EQ(held({{"node.beta.openyurt.io/autonomy", "true"}}), "-");
  EXPECT_EQ(held({{"node.beta.openyurt.io/autonomy", "true"}}, openyurt),
            "annotation node.beta.openyurt.io/autonomy=true");
  EXPECT_EQ(held({{"node.beta.openyurt.io/autonomy", "false"}}, openyurt), "-");
  EXPECT_EQ(held({{"node.openyurt.io/autonomy-duration", "2h"}}, openyurt),
            "annotation node.openyurt.io/autonomy-duration");
  EXPECT_EQ(hold_on_node(json::object(), openyurt), std::nullopt);
}

struct HoldGuardTest : GuardTest {
  [[nodiscard]] std::optional<Reason> refusal() const {
    const auto set = active.current();
    const policy::Binding& by = set->bindings.front();
    return refuse_pod_deletion(
        authority, {.policy = by.name, .digest = by.digest, .set = set->digest}, pod, now);
  }
};

TEST_F(HoldGuardTest, whoever_holds_the_node_the_namespace_or_the_pod_is_heeded) {
  EXPECT_EQ(refusal(), std::nullopt);
  authority.reading.hold = "why";
  EXPECT_EQ(refusal(), Reason::OnHold);
  authority.reading.hold.reset();
  authority.held_pods[pod.uid] = "why";
  EXPECT_EQ(refusal(), Reason::OnHold);
  authority.held_pods.clear();
  authority.namespaces[pod.ref.space].hold = "why";
  EXPECT_EQ(refusal(), Reason::OnHold);
}

TEST_F(HoldGuardTest, a_namespace_that_nobody_has_heard_of_lately_is_as_good_as_held) {
  authority.namespaces[pod.ref.space].sent = now - 5001ms;
  EXPECT_EQ(refusal(), Reason::ReadingTooOld);
  authority.namespaces[pod.ref.space].known = false;
  EXPECT_EQ(refusal(), Reason::HoldUnknown);
  authority.namespaces.clear();
  EXPECT_EQ(refusal(), Reason::HoldUnknown);
}

struct HeldPassTest : OnePassTest {
  HeldPassTest() { add_pod("web-0"); }
  [[nodiscard]] std::string told(const Reason reason) const {
    for (const Record& record : story.records) {
      if (record.kind == Record::Kind::Refusal && record.reason == reason) {
        return record.text;
      }
    }
    return "-";
  }
  void expect_held(const std::string& by) {
    const auto pass = run_pass(deleting());
    EXPECT_EQ(deletes(), Lines{});
    EXPECT_EQ(told(Reason::OnHold), by);
    EXPECT_EQ(pass->result->look_again, Duration(15s));
    EXPECT_TRUE(pass->result->waits);
    EXPECT_EQ(pass->result->failed, 0U);
    EXPECT_NE(pass->result->waiting.find("disk"), std::string::npos) << pass->result->waiting;
  }
  static std::vector<Binding> deleting() { return {binding_of(deleting_policy())}; }
};

TEST_F(HeldPassTest, a_held_node_is_left_alone_with_the_holder_s_words) {
  nodes["n1"].annotations["moonfence.io/hold"] = "disk being saved";
  expect_held("node n1: disk being saved");
}

TEST_F(HeldPassTest, so_is_a_held_pod_and_nobody_else) {
  pods["web-0"]["metadata"]["annotations"]["moonfence.io/hold"] = "disk being saved";
  expect_held("pod db/web-0: disk being saved");
  add_pod("web-1");
  run_pass(deleting());
  EXPECT_FALSE(pods.contains("web-1"));
  EXPECT_TRUE(pods.contains("web-0"));
}

TEST_F(HeldPassTest, so_are_the_pods_of_a_held_namespace) {
  namespaces["db"]["moonfence.io/hold"] = "disk being saved";
  add_pod("shop-0", "n1", "shop");
  add_pod("web-1");
  const auto pass = run_pass({everywhere(deleting_policy())});
  EXPECT_EQ(deletes(), Lines{"shop-0 0s"});
  EXPECT_EQ(told(Reason::OnHold), "namespace db: disk being saved");
  EXPECT_EQ(namespace_reads, 2) << "each once";
  EXPECT_EQ(pass->result->look_again, Duration(15s));
}

TEST_F(HeldPassTest, a_namespace_that_cannot_be_read_holds_its_pods_and_is_asked_again) {
  namespace_answer = status(403, "Forbidden");
  const auto pass = run_pass(deleting());
  EXPECT_EQ(deletes(), Lines{});
  EXPECT_EQ(story.count(Record::Kind::Refusal, Reason::HoldUnknown), 1U);
  EXPECT_EQ(pass->result->failed, 1U);
  namespace_answer = {.body = "<html>sign in</html>"};
  run_pass(deleting());
  EXPECT_EQ(deletes(), Lines{});
}

TEST_F(HeldPassTest, what_is_held_while_its_deletion_waits_stays) {
  add_pods(2 * kube::Destroyer::kMostAtOnce);
  delete_delay = 6s;
  activate(deleting());
  OnePass pass(*this, active.current()->bindings);
  run_for(1s);
  namespaces["db"]["moonfence.io/hold"] = "stop";
  ASSERT_TRUE(run_until([&pass] { return pass.over(); }));
  EXPECT_EQ(deletes().size(), kube::Destroyer::kMostAtOnce);
}

TEST_F(HeldPassTest, what_observes_shows_who_holds) {
  nodes["n1"].annotations["moonfence.io/hold"] = "disk being saved";
  const auto pass = run_pass({binding_of(deleting_policy(), Mode::Observe)});
  EXPECT_EQ(told(Reason::OnHold), "node n1: disk being saved");
  EXPECT_EQ(pass->result->look_again, Duration(15s));
}

// Only what is to be deleted had its namespace read, so its hold was not seen before enforcing.
TEST_F(HeldPassTest, what_observes_shows_who_holds_the_namespace) {
  namespaces["db"]["moonfence.io/hold"] = "moving";
  run_pass({binding_of(deleting_policy(), Mode::Observe)});
  EXPECT_EQ(told(Reason::OnHold), "namespace db: moving");
  EXPECT_EQ(namespace_reads, 1);
}

TEST_F(HeldPassTest, what_observes_without_the_right_to_read_namespaces_says_what_it_would_do) {
  namespace_answer = status(403, "Forbidden");
  run_pass({binding_of(deleting_policy(), Mode::Observe)});
  EXPECT_EQ(story.count(Record::Kind::Refusal, Reason::ModeObserves), 1U);
}

}  // namespace
}  // namespace moonfence::fence
