#include "fence/verify/replacements.h"

#include <gtest/gtest.h>

#include "kube/objects/decode.h"

namespace moonfence::fence {
namespace {

using namespace std::chrono_literals;
using audit::Reason;
using Kind = Replacements::Finding::Kind;

const NodeName& dead() {
  static const NodeName name("n1");
  return name;
}
constexpr WallTime kDeleted = WallTime(1'767'330'000s);

PodRef ref(const std::string& name) {
  return {.space = Namespace("db"), .name = name};
}

Replacements::Deleted gone(const std::string& name, const std::string& kind = "StatefulSet") {
  return {.pod = ref(name),
          .uid = Uid("old-" + name),
          .owner = {.api_version = kind == "Job" ? "batch/v1" : "apps/v1",
                    .kind = kind,
                    .name = "web",
                    .uid = Uid("owner"),
                    .controller = true},
          .at = kDeleted};
}

NamespacePod made(const std::string& name, Duration after = 1s) {
  NamespacePod pod;
  pod.ref = ref(name);
  pod.uid = Uid("new-" + name);
  pod.owner = Uid("owner");
  pod.created = kDeleted + after;
  return pod;
}
NamespacePod bound(NamespacePod pod, const std::string& node = "n2") {
  pod.node = NodeName(node);
  return pod;
}
NamespacePod ready(NamespacePod pod, Duration after = 3s, const std::string& node = "n2") {
  pod = bound(std::move(pod), node);
  pod.begun = true;
  pod.ready_since = kDeleted + after;
  return pod;
}
NamespacePod marked(const std::string& name, const std::string& finalizers) {
  NamespacePod pod = bound(made(name, -1h), "n1");
  pod.uid = Uid("old-" + name);
  pod.terminating = true;
  pod.finalizers = finalizers;
  return pod;
}

struct ReplacementsTest : testing::Test {
  Replacements replacements;
  Sighting seen;

  ReplacementsTest() { seen.pods[Namespace("db")] = {}; }
  // Shown to what is awaited by now.
  void show(const std::vector<NamespacePod>& pods) {
    seen.pods[Namespace("db")] = {};
    for (const NamespacePod& pod : pods) {
      replacements.see(pod, seen.pods[Namespace("db")]);
    }
  }
  std::vector<Replacements::Finding> look(Duration after = 20s) {
    return replacements.look(seen, dead(), kDeleted + after);
  }
  // Of the only news.
  Replacements::Finding only(Duration after = 20s) {
    auto news = look(after);
    EXPECT_EQ(news.size(), 1U);
    return news.empty() ? Replacements::Finding{} : news.front();
  }
  [[nodiscard]] Reason obstacle() const {
    const auto obstacles = replacements.obstacles();
    EXPECT_EQ(obstacles.size(), 1U);
    return obstacles.empty() ? Reason::Done : obstacles.begin()->first;
  }
};

TEST_F(ReplacementsTest, another_pod_of_the_name_that_is_ready_elsewhere_ends_it) {
  replacements.deleted(gone("web-0"));
  EXPECT_TRUE(replacements.awaits());
  show({ready(made("web-0"), 3s)});
  const auto found = only();
  EXPECT_EQ(found.kind, Kind::Ready);
  EXPECT_EQ(found.obstacle.reason, Reason::ReplacementReady);
  EXPECT_EQ(found.pod, ref("web-0"));
  EXPECT_EQ(found.uid, Uid("old-web-0"));
  EXPECT_EQ(found.node, NodeName("n2"));
  EXPECT_EQ(found.took, 3s) << "since the deletion, by the condition and not by our look";
  EXPECT_FALSE(replacements.awaits());
  EXPECT_TRUE(look().empty()) << "told once";
}

TEST_F(ReplacementsTest, the_time_that_it_took_lies_between_the_deletion_and_the_look) {
  replacements.deleted(gone("web-0"));
  replacements.deleted(gone("web-1"));
  show({ready(made("web-0"), -2s), ready(made("web-1"), 1h)});
  const auto news = look(7s);
  ASSERT_EQ(news.size(), 2U);
  EXPECT_EQ(news[0].took, 0s);
  EXPECT_EQ(news[1].took, 7s);
}

TEST_F(ReplacementsTest, a_pod_that_is_ready_on_the_dead_node_is_no_replacement) {
  replacements.deleted(gone("web-0"));
  show({ready(made("web-0"), 3s, "n1")});
  EXPECT_EQ(only().obstacle.reason, Reason::ReplacementMisplaced);
  EXPECT_TRUE(replacements.awaits());
}

TEST_F(ReplacementsTest, what_keeps_a_replacement_is_told_when_it_has_lasted_and_when_it_changes) {
  replacements.deleted(gone("web-0"));
  NamespacePod pod = made("web-0");
  pod.unscheduled = "Unschedulable: 0/2 nodes are available";
  show({pod});
  EXPECT_TRUE(look(Replacements::kPatience - 1ms).empty());
  EXPECT_EQ(obstacle(), Reason::ReplacementUnscheduled) << "but it is known";
  const auto first = only(Replacements::kPatience);
  EXPECT_EQ(first.kind, Kind::Blocked);
  EXPECT_EQ(first.obstacle.reason, Reason::ReplacementUnscheduled);
  EXPECT_EQ(first.obstacle.text, "Unschedulable: 0/2 nodes are available");
  EXPECT_TRUE(look().empty());
  pod.has_claims = true;
  show({bound(pod)});
  EXPECT_EQ(only().obstacle.reason, Reason::ReplacementUnattached);
  pod.begun = true;
  show({bound(pod)});
  EXPECT_EQ(only().obstacle.reason, Reason::ReplacementStarting);
  show({ready(pod)});
  EXPECT_EQ(only().obstacle.reason, Reason::ReplacementReady);
}

TEST_F(ReplacementsTest, a_finalizer_that_keeps_the_old_pod_is_named) {
  replacements.deleted(gone("web-0"));
  show({marked("web-0", "example.com/held")});
  const auto found = only();
  EXPECT_EQ(found.obstacle.reason, Reason::PodLingers);
  EXPECT_EQ(found.obstacle.text, "held by example.com/held");
}

TEST_F(ReplacementsTest, of_a_replica_set_a_newer_pod_is_the_replacement_whatever_its_name) {
  replacements.deleted(gone("web-a", "ReplicaSet"));
  show({ready(made("web-old", -1h)), marked("web-a", "example.com/held")});
  EXPECT_EQ(only().obstacle.reason, Reason::PodLingers) << "the other one was there before";
  show({ready(made("web-old", -1h)), marked("web-a", "example.com/held"), ready(made("web-b"))});
  EXPECT_EQ(only().replacement, Uid("new-web-b")) << "a finalizer keeps no replica set waiting";
}

// A webhook took 10 s over the deletion: the pod was marked by then, and the answer came later.
TEST_F(ReplacementsTest, a_replacement_that_was_made_while_the_deletion_took_its_time_is_one) {
  Replacements::Deleted slow = gone("web-a", "ReplicaSet");
  slow.call = 16s;
  replacements.deleted(std::move(slow));
  show({ready(made("web-old", -1h)), ready(made("web-b", -10s))});
  EXPECT_EQ(only().replacement, Uid("new-web-b"));
}

TEST_F(ReplacementsTest, one_pod_replaces_one_pod) {
  replacements.deleted(gone("web-a", "ReplicaSet"));
  replacements.deleted(gone("web-b", "ReplicaSet"));
  show({bound(made("web-c")), ready(made("web-d"))});
  auto news = look();
  ASSERT_EQ(news.size(), 2U);
  EXPECT_EQ(news[0].replacement, Uid("new-web-d")) << "what is ready is not left over";
  EXPECT_EQ(news[1].obstacle.reason, Reason::ReplacementStarting);
  EXPECT_TRUE(replacements.awaits());
  show({ready(made("web-d"))});
  EXPECT_EQ(only().obstacle.reason, Reason::ReplacementAbsent) << "it replaced the other one";
  show({ready(made("web-c")), ready(made("web-d"))});
  EXPECT_EQ(only().replacement, Uid("new-web-c"));
  EXPECT_FALSE(replacements.awaits());
}

TEST_F(ReplacementsTest, a_replacement_that_is_deleted_itself_is_replaced_by_the_next) {
  replacements.deleted(gone("web-0"));
  NamespacePod lost = bound(made("web-0"), "n1");
  show({lost});
  (void)look();
  auto again = gone("web-0");
  again.uid = lost.uid;
  again.at = kDeleted + 2s;
  replacements.deleted(again);
  NamespacePod next = ready(made("web-0", 3s), 6s);
  next.uid = Uid("newer");
  show({next});
  EXPECT_EQ(only().took, 6s) << "since the first deletion";
  EXPECT_FALSE(replacements.awaits());
}

TEST_F(ReplacementsTest, a_controller_that_is_gone_or_wants_no_more_pods_ends_it) {
  std::vector<NamespacePod> pods;
  const auto ends_by = [this, &pods](const std::string& pod, const std::string& kind,
                                     const OwnerSight& owner) {
    replacements.deleted(gone(pod, kind));
    show(pods);
    seen.owners[Uid("owner")] = owner;
    const auto found = look();
    seen.owners.clear();
    const bool ends = !replacements.awaits();
    replacements = {};
    return ends && found.size() == 1 && found.front().kind == Kind::NotNeeded &&
           found.front().obstacle.reason == Reason::ReplacementNotNeeded;
  };
  EXPECT_TRUE(ends_by("web-0", "StatefulSet", {.gone = true}));
  EXPECT_TRUE(ends_by("web-2", "StatefulSet", {.replicas = 2}));
  EXPECT_FALSE(ends_by("web-1", "StatefulSet", {.replicas = 2}));
  EXPECT_FALSE(ends_by("web-2", "StatefulSet", {.replicas = 2, .first = 1}));
  EXPECT_TRUE(ends_by("web-0", "StatefulSet", {.replicas = 2, .first = 1}));
  EXPECT_TRUE(ends_by("web-a", "ReplicaSet", {.replicas = 0}));
  EXPECT_FALSE(ends_by("web-a", "ReplicaSet", {.replicas = 1}));
  pods = {ready(made("web-old", -1h))};
  EXPECT_TRUE(ends_by("web-a", "ReplicaSet", {.replicas = 1})) << "it has all that it wants";
  EXPECT_FALSE(ends_by("web-a", "ReplicaSet", {.replicas = 2}));
  EXPECT_FALSE(ends_by("job-a", "Job", {}));
}

TEST_F(ReplacementsTest, a_namespace_that_could_not_be_read_changes_nothing) {
  replacements.deleted(gone("web-0"));
  seen.pods.clear();
  EXPECT_TRUE(look().empty());
  EXPECT_TRUE(replacements.awaits());
}

TEST_F(ReplacementsTest, nobody_waits_for_what_replaces_a_bare_pod) {
  auto bare = gone("web-0");
  bare.owner = {};
  replacements.deleted(bare);
  EXPECT_FALSE(replacements.awaits());
}

TEST_F(ReplacementsTest, a_pod_that_may_not_have_been_deleted_and_was_not_is_forgotten) {
  auto unanswered = gone("web-0");
  unanswered.answered = false;
  replacements.deleted(unanswered);
  NamespacePod alive = marked("web-0", "");
  alive.terminating = false;
  show({alive});
  EXPECT_TRUE(look().empty());
  EXPECT_FALSE(replacements.awaits());
  replacements.deleted(unanswered);
  EXPECT_FALSE(replacements.awaits()) << "we know";
  unanswered.at += 5s;
  replacements.deleted(unanswered);
  EXPECT_TRUE(replacements.awaits()) << "another call";
  EXPECT_TRUE(look().empty());
  EXPECT_FALSE(replacements.awaits());
  replacements.deleted(gone("web-0"));
  EXPECT_TRUE(replacements.awaits()) << "this time it was";
}

TEST_F(ReplacementsTest, one_question_a_namespace_and_a_name_where_one_pod_is_awaited) {
  replacements.deleted(gone("web-0"));
  auto questions = replacements.questions();
  ASSERT_EQ(questions.size(), 1U);
  EXPECT_EQ(questions[0].name, "web-0");
  replacements.deleted(gone("web-1"));
  auto other = gone("api-x", "ReplicaSet");
  other.pod.space = Namespace("shop");
  replacements.deleted(other);
  questions = replacements.questions();
  ASSERT_EQ(questions.size(), 2U);
  EXPECT_EQ(questions[0].space, Namespace("db"));
  EXPECT_EQ(questions[0].name, "");
  EXPECT_EQ(questions[1].space, Namespace("shop"));
  EXPECT_EQ(questions[1].name, "");
}

TEST_F(ReplacementsTest, owners_and_events_are_asked_for_only_where_they_tell_something) {
  replacements.deleted(gone("web-0"));
  replacements.deleted(gone("web-1"));
  auto further = replacements.further(seen, dead());
  ASSERT_EQ(further.owners.size(), 1U) << "one owner of both";
  EXPECT_TRUE(further.unattached.empty());
  NamespacePod waiting = bound(made("web-0"));
  waiting.has_claims = true;
  show({waiting, ready(made("web-1"))});
  further = replacements.further(seen, dead());
  EXPECT_TRUE(further.owners.empty());
  ASSERT_EQ(further.unattached.size(), 1U);
  EXPECT_EQ(further.unattached[0].uid, Uid("new-web-0"));
}

TEST_F(ReplacementsTest, what_is_read_in_one_look_is_bounded_and_the_next_goes_on_with_others) {
  std::vector<NamespacePod> waiting;
  for (int i = 0; i < 20; ++i) {
    auto pod = gone("web-" + std::to_string(i));
    pod.owner.uid = Uid("owner-" + std::to_string(i));
    replacements.deleted(pod);
    replacements.deleted(gone("api-" + std::to_string(i)));
    waiting.push_back(bound(made("api-" + std::to_string(i))));
    waiting.back().has_claims = true;
  }
  show(waiting);
  std::set<Uid> owners;
  std::set<Uid> unattached;
  for (int turn = 0; turn < 3; ++turn) {
    const auto further = replacements.further(seen, dead());
    EXPECT_EQ(further.owners.size(), Replacements::kMostOwners);
    EXPECT_EQ(further.unattached.size(), Replacements::kMostUnattached);
    for (const auto& [space, owner] : further.owners) {
      owners.insert(owner.uid);
    }
    for (const NamespacePod& pod : further.unattached) {
      unattached.insert(pod.uid);
    }
  }
  EXPECT_EQ(owners.size(), 20U);
  EXPECT_EQ(unattached.size(), 20U);
}

TEST_F(ReplacementsTest,
       what_an_earlier_look_read_of_a_replacements_volumes_counts_until_the_next) {
  replacements.deleted(gone("web-0"));
  NamespacePod pod = bound(made("web-0"));
  pod.has_claims = true;
  show({pod});
  seen.storage[pod.uid] = {.attached = true};
  EXPECT_EQ(only().obstacle.reason, Reason::ReplacementStarting);
  seen.storage.clear();
  EXPECT_TRUE(look().empty());
  EXPECT_EQ(obstacle(), Reason::ReplacementStarting);
  pod.uid = Uid("another");
  show({pod});
  EXPECT_EQ(only().obstacle.reason, Reason::ReplacementUnattached) << "that is another pod";
}

TEST_F(ReplacementsTest, of_a_large_namespace_only_what_matters_is_kept) {
  replacements.deleted(gone("web-a", "ReplicaSet"));
  PodSights sights;
  NamespacePod stranger = ready(made("api-0"));
  stranger.owner = Uid("another");
  replacements.see(stranger, sights);
  EXPECT_TRUE(sights.pods.empty() && sights.alive.empty());
  replacements.see(ready(made("web-old", -1h)), sights);
  EXPECT_TRUE(sights.pods.empty());
  EXPECT_EQ(sights.alive.at(Uid("owner")), 1U) << "it counts";
  for (std::size_t i = 0; i < 2 * Replacements::kMostKept; ++i) {
    NamespacePod pod = bound(made("web-" + std::to_string(i)));
    replacements.see(pod, sights);
  }
  EXPECT_EQ(sights.pods.size(), Replacements::kMostKept);
  EXPECT_EQ(sights.alive.at(Uid("owner")), 2 * Replacements::kMostKept + 1);
  replacements.see(marked("web-a", "example.com/held"), sights);
  replacements.see(ready(made("web-z")), sights);
  seen.pods[Namespace("db")] = sights;
  EXPECT_EQ(sights.pods.size(), Replacements::kMostKept + 2);
  EXPECT_EQ(only().replacement, Uid("new-web-z")) << "however many are not ready";
}

TEST_F(ReplacementsTest, what_another_leader_told_is_not_told_again) {
  auto inherited = gone("web-0");
  inherited.told = Reason::ReplacementAbsent;
  replacements.deleted(inherited);
  EXPECT_TRUE(look().empty());
  show({bound(made("web-0"))});
  EXPECT_EQ(only().obstacle.reason, Reason::ReplacementStarting);
}

TEST_F(ReplacementsTest, the_last_deletion_is_the_newest_also_of_a_replacement) {
  EXPECT_TRUE(replacements.is_blind());
  replacements.deleted(gone("web-0"));
  auto again = gone("web-0");
  again.uid = Uid("newer");
  again.at = kDeleted + 9s;
  replacements.deleted(again);
  EXPECT_EQ(replacements.last_deletion(), kDeleted + 9s);
  (void)look();
  EXPECT_FALSE(replacements.is_blind());
}

TEST_F(ReplacementsTest, the_summary_names_pods_and_what_keeps_them) {
  for (int i = 0; i < 10; ++i) {
    replacements.deleted(gone("web-" + std::to_string(i)));
  }
  (void)look();
  const std::string text = replacements.summary();
  EXPECT_TRUE(text.starts_with("db/web-0 (replacement_absent), db/web-1 ")) << text;
  EXPECT_TRUE(text.ends_with("db/web-7 (replacement_absent) and 2 more")) << text;
}

kube::Pod pod_of(const std::string& text) {
  auto pod = kube::decode_pod_text(text);
  EXPECT_TRUE(pod) << pod.error().text;
  return *std::move(pod);
}

TEST(NamespacePod, is_read_from_a_pod) {
  const NamespacePod waiting = namespace_pod(pod_of(R"({"kind":"Pod",
    "metadata":{"name":"web-0","namespace":"db","uid":"u","creationTimestamp":"2026-01-02T05:00:00Z",
      "finalizers":["example.com/a","example.com/b"],
      "ownerReferences":[{"apiVersion":"apps/v1","kind":"StatefulSet","name":"web","uid":"o","controller":true}]},
    "spec":{"nodeName":"n2","volumes":[{"name":"data","persistentVolumeClaim":{"claimName":"data-web-0"}}]},
    "status":{"phase":"Pending","conditions":[{"type":"PodScheduled","status":"True"},
        {"type":"Ready","status":"False"}],
      "containerStatuses":[{"name":"a","state":{"waiting":{"reason":"ErrImagePull","message":"no"}}}]}})"));
  EXPECT_EQ(waiting.owner, Uid("o"));
  EXPECT_EQ(waiting.node, NodeName("n2"));
  EXPECT_TRUE(waiting.has_claims);
  EXPECT_FALSE(waiting.begun);
  EXPECT_FALSE(waiting.ready_since);
  EXPECT_EQ(waiting.finalizers, "example.com/a, example.com/b");
  EXPECT_EQ(waiting.unscheduled, "");
  EXPECT_EQ(waiting.waiting, "ErrImagePull: no");
  const NamespacePod pending = namespace_pod(pod_of(R"({"kind":"Pod",
    "metadata":{"name":"web-0","namespace":"db","uid":"u"},"spec":{},
    "status":{"conditions":[{"type":"PodScheduled","status":"False","reason":"Unschedulable",
        "message":"0/2 nodes are available"}]}})"));
  EXPECT_EQ(pending.unscheduled, "Unschedulable: 0/2 nodes are available");
  const NamespacePod done = namespace_pod(pod_of(R"({"kind":"Pod",
    "metadata":{"name":"job-1","namespace":"db","uid":"u"},"spec":{"nodeName":"n2"},
    "status":{"phase":"Succeeded"}})"));
  EXPECT_TRUE(done.ready_since) << "it has done its work";
}

TEST(OwnerSight, is_read_from_its_object) {
  const auto read = [](const char* text) {
    return owner_sight_of(nlohmann::json::parse(text), Uid("o"));
  };
  const OwnerSight set = read(R"({"kind":"StatefulSet","metadata":{"uid":"o"},
      "spec":{"replicas":3,"ordinals":{"start":5}}})");
  EXPECT_FALSE(set.gone);
  EXPECT_TRUE(wants_ordinal(set, "web-5"));
  EXPECT_TRUE(wants_ordinal(set, "web-7"));
  EXPECT_FALSE(wants_ordinal(set, "web-8"));
  EXPECT_FALSE(wants_ordinal(set, "web-4"));
  EXPECT_TRUE(wants_ordinal(set, "web")) << "not understood";
  EXPECT_EQ(read(R"({"kind":"ReplicaSet","metadata":{"uid":"o"},"spec":{}})").replicas, 1);
  EXPECT_FALSE(read(R"({"kind":"Job","metadata":{"uid":"o"}})").replicas);
  EXPECT_TRUE(read(R"({"kind":"Job","metadata":{"uid":"o"},
      "status":{"completionTime":"2026-01-02T05:00:00Z"}})")
                  .gone);
  EXPECT_TRUE(read(R"({"kind":"StatefulSet","metadata":{"uid":"o",
      "deletionTimestamp":"2026-01-02T05:00:00Z"}})")
                  .gone);
  EXPECT_TRUE(read(R"({"kind":"StatefulSet","metadata":{"uid":"another"}})").gone);
}

nlohmann::json event(const std::string& reason, const std::string& at, const std::string& text = "",
                     const std::string& pod = "u") {
  return {{"involvedObject", {{"uid", pod}}},
          {"reason", reason},
          {"message", text},
          {"lastTimestamp", "2026-01-02T05:00:" + at + "Z"}};
}
StorageSight read_events(const std::vector<nlohmann::json>& events) {
  return storage_sight_of({{"items", events}}, Uid("u"));
}

TEST(StorageSight, is_the_newest_refusal_unless_it_was_overcome) {
  const auto refused = event("FailedAttachVolume", "10", "Multi-Attach error for volume \"pv\"");
  EXPECT_EQ(read_events({refused}).failure, "Multi-Attach error for volume \"pv\"");
  EXPECT_FALSE(read_events({refused}).attached);
  EXPECT_EQ(read_events({refused, event("FailedAttachVolume", "05", "older")}).failure,
            "Multi-Attach error for volume \"pv\"");
  const auto attached = read_events({refused, event("SuccessfulAttachVolume", "20")});
  EXPECT_TRUE(attached.attached);
  EXPECT_EQ(attached.failure, "");
  EXPECT_FALSE(read_events({event("SuccessfulAttachVolume", "05"), refused}).attached);
  EXPECT_TRUE(read_events({refused, event("Pulling", "01")}).attached) << "volumes come first";
  EXPECT_EQ(read_events({event("FailedAttachVolume", "10", "no", "another")}).failure, "");
}

TEST(Obstacle, of_a_volume_is_told_in_the_storages_words) {
  NamespacePod pod = bound(made("web-0"));
  pod.has_claims = true;
  EXPECT_EQ(obstacle_of(pod, dead(), nullptr).text,
            "on n2: its volumes are not attached and mounted yet");
  const StorageSight refused{.failure = "Multi-Attach error"};
  EXPECT_EQ(obstacle_of(pod, dead(), &refused).reason, Reason::ReplacementUnattached);
  EXPECT_EQ(obstacle_of(pod, dead(), &refused).text, "on n2: Multi-Attach error");
  const StorageSight attached{.attached = true};
  pod.waiting = "ErrImagePull: no";
  EXPECT_EQ(obstacle_of(pod, dead(), &attached).reason, Reason::ReplacementStarting);
  EXPECT_EQ(obstacle_of(pod, dead(), &attached).text, "on n2: ErrImagePull: no");
}

}  // namespace
}  // namespace moonfence::fence
