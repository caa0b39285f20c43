#include "fence/lift/taint_lifter.h"
#include "unit/fence/volume_releaser_fixture.h"

namespace moonfence::fence {
namespace {

const std::string kNotLeader =
    "moonfence-not-leader: this replica of moonfence does not hold the Lease";
const std::string kNoUid = "moonfence-no-uid: moonfence deletes by UID only";

// What the API server refuses by our own policies (deploy/overlays/enforce/admission.yaml).
test::FakeAnswer denied(const std::string& message, int code = 403,
                        const std::string& reason = "Forbidden") {
  const json body = {{"kind", "Status"},
                     {"apiVersion", "v1"},
                     {"status", "Failure"},
                     {"reason", reason},
                     {"message",
                      "pods \"x\" is forbidden: ValidatingAdmissionPolicy 'moonfence-deletions' "
                      "with binding 'moonfence-deletions' denied request: " +
                          message},
                     {"code", code}};
  return {.status = code, .body = body.dump(), .headers = {{"content-type", "application/json"}}};
}

// Wired as app/ does, without an election.
template <class Base>
struct Deposable : Base {
  int deposed = 0;

  Deposable() {
    Base::actions.emplace(Base::loop, kube::Destroyer(Base::caller), Base::trail, [this] {
      ++deposed;
      end_term();
    });
  }
  virtual void end_term() {
    Base::leadership.until.reset();
    Base::incidents->step_down();
  }
  void deny(port::Method method, const std::string& path, const test::FakeAnswer& answer) {
    Base::http.on(method, path, [answer](const test::FakeRequest&) { return answer; });
  }
  // Another replica, which holds the Lease.
  void next_leader() {
    Base::incidents.reset();
    Base::journal.reset();
    Base::leadership.until = Moment::max();
    Base::restart();
    Base::tell(Look::Swept);
  }
};

constexpr const char* kPod = "/api/v1/namespaces/db/pods/*";
constexpr const char* kAttachment = "/apis/storage.k8s.io/v1/volumeattachments/*";
constexpr const char* kNode = "/api/v1/nodes/*";

struct DeposedTest : Deposable<StorageTest> {};

TEST_F(DeposedTest, a_deletion_that_only_the_leader_may_do_ends_leadership_at_once) {
  add_pod("web-0");
  add_pod("web-1");
  add_pod_with_volume("web-2");
  test::FakeAnswer late = denied(kNotLeader);
  late.delay = 10ms;
  test::FakeAnswer later = late;
  later.delay = 20ms;  // after the incident was closed
  scripts = {{"web-0", {late}}, {"web-1", {later}}, {"web-2", {later}}};
  take_up_nodes(detaching_policy());
  tell(Look::Fell);
  run_for(1min);
  EXPECT_GE(deposed, 1);
  EXPECT_EQ(deleted(), (Lines{"pod web-0", "pod web-1", "pod web-2"})) << "it repeats nothing";
  EXPECT_EQ(story.count(Record::Kind::Outcome, Reason::Deposed), 3U);
  EXPECT_EQ(closed_by(), Reason::SteppedDown);
  EXPECT_FALSE(records.record("i1").closed) << "the next leader goes on with it";
  scripts.clear();
  next_leader();
  run_for(1min);
  EXPECT_TRUE(pods.empty());
  EXPECT_TRUE(attachments.empty());
  EXPECT_EQ(made_ids, 1) << "it is the same incident";
}

TEST_F(DeposedTest, an_attachment_that_only_the_leader_may_delete_does_so_too) {
  const std::string attachment = add_pod_with_volume("web-0");
  deny(port::Method::Delete, kAttachment, denied(kNotLeader, 422, "Invalid"));
  take_up_nodes(detaching_policy());
  tell(Look::Fell);
  run_for(1min);
  EXPECT_EQ(deposed, 1);
  EXPECT_EQ(deleted(), (Lines{"pod web-0", "attachment " + attachment}));
  EXPECT_EQ(closed_by(), Reason::SteppedDown);
}

TEST_F(DeposedTest, a_taint_that_only_the_leader_may_set_does_so_too) {
  add_pod("web-0");
  nodes["n1"].tainted = false;
  quarantine = Quarantine::Missing;
  patch_answers = {denied(kNotLeader, 422, "Invalid"), denied(kNotLeader)};
  take_up_nodes(detaching_policy());
  tell(Look::Fell);
  run_for(1min);
  EXPECT_EQ(deposed, 1);
  EXPECT_EQ(patch_answers.size(), 1U);
  EXPECT_EQ(story.count(Record::Kind::Outcome, Reason::Deposed), 1U);
  EXPECT_EQ(deleted(), Lines{});
  EXPECT_EQ(closed_by(), Reason::SteppedDown);
}

// With nobody else to lead it is a refusal like others, and no reason to hammer on it.
TEST_F(DeposedTest, where_no_lease_says_who_acts_it_is_told_of_and_tried_at_the_pace_of_retries) {
  actions.emplace(loop, kube::Destroyer(caller), trail);
  add_pod("web-0");
  deny(port::Method::Delete, kPod, denied(kNotLeader));
  take_up_nodes(detaching_policy());
  tell(Look::Fell);
  run_for(24s);
  EXPECT_EQ(story.count(Record::Kind::Outcome, Reason::Deposed), 5U);
  EXPECT_EQ(incidents->open_incidents(), 1U);
}

TEST_F(DeposedTest, what_is_refused_in_other_words_ends_no_leadership) {
  for (const char* words : {"no such luck", "moonfence-not-leader", "'moonfence-not-leader': no",
                            "moonfence-not-leader-0: no", "a-moonfence-not-leader: no"}) {
    for (const auto& [code, reason] : {std::pair(403, "Forbidden"), {422, "Invalid"}}) {
      story.records.clear();
      add_pod("web-0");
      deny(port::Method::Delete, kPod, denied(words, code, reason));
      take_up_nodes(detaching_policy());
      tell(Look::Fell);
      run_for(24s);
      EXPECT_EQ(story.count(Record::Kind::Outcome, Reason::Refused), 5U) << words;
    }
  }
  EXPECT_EQ(deposed, 0);
}

TEST_F(DeposedTest, a_deletion_that_came_without_its_uid_is_a_fault_and_leadership_stays) {
  add_pod("web-0");
  deny(port::Method::Delete, kPod, denied(kNoUid, 422, "Invalid"));
  take_up_nodes(detaching_policy());
  tell(Look::Fell);
  run_for(24s);
  EXPECT_EQ(deposed, 0);
  EXPECT_EQ(story.count(Record::Kind::Outcome, Reason::NoUid), 5U) << "at the pace of retries";
  EXPECT_EQ(incidents->open_incidents(), 1U) << "not as if nothing were left to do";
}

TEST_F(DeposedTest, an_attachment_that_was_to_go_without_its_uid_is_tried_at_the_pace_of_retries) {
  add_pod_with_volume("web-0");
  deny(port::Method::Delete, kAttachment, denied(kNoUid, 422, "Invalid"));
  take_up_nodes(detaching_policy());
  tell(Look::Fell);
  run_for(24s);
  EXPECT_EQ(deposed, 0);
  EXPECT_EQ(deleted().size(), 6U);
  EXPECT_EQ(story.count(Record::Kind::Outcome, Reason::NoUid), 5U);
}

struct DeposedReleaseTest : Deposable<VolumeReleaserTest> {};

TEST_F(DeposedReleaseTest, a_release_that_only_the_leader_may_do_ends_leadership_at_once) {
  add("web-0", "vol-1");
  deny(port::Method::Patch, kNode, denied(kNotLeader));
  open();
  tell(Look::Fell);
  run_for(1min);
  EXPECT_EQ(deposed, 1);
  EXPECT_EQ(patches().size(), 1U);
  EXPECT_EQ(story.count(Record::Kind::Outcome, Reason::Deposed), 1U);
  EXPECT_EQ(closed_by(), Reason::SteppedDown);
  EXPECT_TRUE(records.record("i1").find(Uid("va-web-0"))->release) << "left to the next leader";
}

TEST_F(DeposedReleaseTest, one_that_is_refused_in_other_words_begins_anew) {
  add("web-0", "vol-1");
  deny(port::Method::Patch, kNode, denied("moonfence removes volumes only", 422, "Invalid"));
  open();
  tell(Look::Fell);
  run_for(5s);
  EXPECT_EQ(deposed, 0);
  EXPECT_GE(story.count(Record::Kind::Outcome, Reason::ReleaseOvertaken), 2U);
}

struct DeposedTaintLifterTest : Deposable<StorageTest> {
  void end_term() override { taint_lifter->step_down(); }

  std::optional<TaintLifter> taint_lifter;
};

TEST_F(DeposedTaintLifterTest, a_taint_that_only_the_leader_may_take_off_stays) {
  NodeState& node = nodes["n1"];
  node.ready = "True";
  node.boot_id = "boot-2";
  node.taints = {{{"key", "moonfence.io/fenced"}, {"value", "i1"}, {"effect", "NoSchedule"}}};
  node.annotations["moonfence.io/fenced"] =
      to_text(FenceMark{.incident = IncidentId("i1"),
                        .boot_id = "boot-1",
                        .since = *parse_rfc3339("2026-01-02T05:00:00Z")});
  patch_answers = {denied(kNotLeader, 422, "Invalid")};
  taint_lifter.emplace(surroundings());
  taint_lifter->look_at(view(), Look::Changed);
  run_for(10min);
  EXPECT_EQ(deposed, 1);
  EXPECT_EQ(story.told(), (Lines{"intent lifts_quarantine", "outcome deposed"}));
  EXPECT_TRUE(nodes["n1"].is_fenced());
}

}  // namespace
}  // namespace moonfence::fence
