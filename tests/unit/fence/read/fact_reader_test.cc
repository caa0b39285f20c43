#include "fence/read/fact_reader.h"

#include <algorithm>
#include <set>

#include "unit/fence/storage_fixture.h"

namespace moonfence::fence {
namespace {

struct FactReaderTest : StorageTest {
  // The reasons of the verdicts, as the policy gave them.
  [[nodiscard]] Lines said() const {
    Lines lines;
    for (const Record& record : story.records) {
      if (record.kind == Record::Kind::Verdict) {
        lines.push_back(std::string(code(record.reason)) + ": " + record.text);
      }
    }
    return lines;
  }
  // Where nothing is deleted the first pass is repeated after 15 s.
  void judge(const std::string& needs, const std::string& body, const std::string& more = "",
             Duration time = 40s) {
    take_up_nodes(
        policy_of(body, "trigger = { live_kubelet = true }, needs = { " + needs + " }," + more));
    tell(Look::Fell);
    run_for(time);
  }
};

TEST_F(FactReaderTest, volumes_are_told_with_driver_and_attachment) {
  const std::string attachment = add_pod_with_volume("web-0");
  judge("'volumes'",
        "local v = pod.volumes[1] "
        "return fence.skip(v.claim .. ' ' .. v.pv .. ' ' .. v.driver .. ' ' .. (v.attachment and "
        "'attached' or 'not'))");
  EXPECT_EQ(said(), Lines{"policy_skips: data-web-0 pv-web-0 csi.example.com attached"});
}

// Kubernetes translates volumes of old kinds to CSI; their objects name no driver.
TEST_F(FactReaderTest, a_translated_volume_is_told_with_driver_and_attachment) {
  const std::string attachment = add_pod_with_volume("web-0");
  translate("web-0");
  judge("'volumes'",
        "local v = pod.volumes[1] "
        "return fence.skip(v.driver .. ' ' .. v.handle .. ' ' .. (v.attachment or 'none'))");
  EXPECT_EQ(said(), Lines{"policy_skips: ebs.csi.aws.com  " + attachment});
}

TEST_F(FactReaderTest, a_claim_that_is_not_there_is_told_and_not_left_out) {
  add_pod_with_volume("web-0");
  claims = nlohmann::json::array();
  judge("'volumes'", "return fence.skip(pod.claims[1].state)");
  EXPECT_EQ(said(), Lines{"policy_skips: claim_missing"});
}

TEST_F(FactReaderTest, placement_knows_which_nodes_could_take_the_pod) {
  add_pod("web-0");
  nodes["n2"] = {.ready = "True", .uid = "node-2", .tainted = false, .unschedulable = false};
  nodes["n3"] = {.ready = "True", .uid = "node-3", .tainted = true, .unschedulable = false};
  nodes["n4"] = {.ready = "True", .uid = "node-4", .tainted = false, .unschedulable = true};
  judge("'placement'",
        "return fence.skip(tostring(#pod.placement.candidates) .. pod.placement.candidates[1])");
  EXPECT_EQ(said(), Lines{"policy_skips: 1n2"});
}

TEST_F(FactReaderTest, the_root_owner_is_looked_up_behind_a_replica_set) {
  add_pod("web-0");
  pods["web-0"]["metadata"]["ownerReferences"][0]["kind"] = "ReplicaSet";
  http.on(
      port::Method::Get, "/apis/apps/v1/namespaces/db/replicasets/web",
      test::FakeAnswer{.body = R"({"kind":"ReplicaSet","metadata":{"name":"web","namespace":"db",
            "ownerReferences":[{"apiVersion":"apps/v1","kind":"Deployment","name":"shop","uid":"d",
            "controller":true}]}})"});
  judge("'root_owner'",
        "return fence.skip(pod.root_owner.kind .. ' ' .. pod.root_owner.name .. ' ' .. "
        "#pod.owner_chain .. pod.owner_chain[1].kind)");
  EXPECT_EQ(said(), Lines{"policy_skips: Deployment shop 2ReplicaSet"});
}

// A batch system has Jobs of its own, which nobody lets us read.
TEST_F(FactReaderTest, a_kind_of_that_name_in_another_group_is_a_root) {
  add_pod("web-0");
  auto& owner = pods["web-0"]["metadata"]["ownerReferences"][0];
  owner["kind"] = "Job";
  owner["apiVersion"] = "batch.volcano.sh/v1alpha1";
  judge("'root_owner'", "return fence.skip(pod.root_owner.kind .. ' ' .. pod.root_owner.name)");
  EXPECT_EQ(said(), Lines{"policy_skips: Job web"});
}

constexpr const char* kFetches = R"(
  fetch = function(pod, s, got)
    if got.volume then return nil end
    return { volume = fence.get("longhorn.io/v1beta2", "volumes", "longhorn-system", "vol-1") }
  end,)";

TEST_F(FactReaderTest, what_a_policy_fetches_is_there_when_it_judges) {
  add_pod("web-0");
  robustness["vol-1"] = {{"metadata", {{"name", "vol-1"}}},
                         {"status", {{"robustness", "healthy"}}}};
  judge("", "return fence.skip(pod.fetched.volume.body.status.robustness)", kFetches);
  EXPECT_EQ(said(), Lines{"policy_skips: healthy"});
}

TEST_F(FactReaderTest, an_object_that_is_not_there_is_an_answer) {
  add_pod("web-0");
  judge("", "return fence.skip(tostring(pod.fetched.volume.status))", kFetches);
  EXPECT_EQ(said(), Lines{"policy_skips: 404"});
}

TEST_F(FactReaderTest, what_is_not_allowed_is_not_read) {
  add_pod("web-0");
  allowed_reads.clear();
  judge("", "return fence.delete_pod('dead')", kFetches);
  ASSERT_FALSE(said().empty());
  EXPECT_TRUE(said().front().starts_with("needs_unread: get longhorn.io/v1beta2 volumes"))
      << said().front();
  EXPECT_EQ(http.count("longhorn.io"), 0U);
  EXPECT_TRUE(deleted().empty());
}

constexpr const char* kLists = R"(
  fetch = function(pod, s, got)
    if got.all then return nil end
    return { all = fence.list("longhorn.io/v1beta2", "volumes", "db", { labels = "app=db" }) }
  end,)";

TEST_F(FactReaderTest, a_list_is_read_once_for_all_pods_of_a_pass) {
  add_pod("web-0");
  add_pod("web-1");
  http.on(port::Method::Get, "/apis/longhorn.io/v1beta2/namespaces/db/volumes",
          test::FakeAnswer{.body = R"({"items":[{"metadata":{"name":"a"}},{}]})"});
  judge("",
        "local all = pod.fetched.all.body.items return fence.skip(#all .. all[1].metadata.name)",
        kLists, 10s);
  EXPECT_EQ(said(), (Lines{"policy_skips: 2a", "policy_skips: 2a"}));
  EXPECT_EQ(http.count("volumes?limit=1000&labelSelector=app%3Ddb"), 1U);
}

// As of 50,000 of them: one page is read, and nobody judges by it.
TEST_F(FactReaderTest, a_list_of_too_many_is_told_and_no_part_of_it_is_judged_by) {
  add_pod("web-0");
  http.on(port::Method::Get, "/apis/longhorn.io/v1beta2/namespaces/db/volumes",
          test::FakeAnswer{
              .body = R"({"metadata":{"continue":"next","remainingItemCount":49000},"items":[]})"});
  judge("", "return fence.delete_pod('nothing is there')", kLists);
  ASSERT_FALSE(said().empty());
  EXPECT_EQ(said().front(),
            "needs_unread: list longhorn.io/v1beta2 volumes db labels: app=db: there are more than "
            "1000 objects; ask for one namespace, by labels, or for the metadata alone");
  EXPECT_EQ(http.count("continue="), 0U);
  EXPECT_TRUE(deleted().empty());
}

TEST_F(FactReaderTest, a_list_that_is_too_large_says_so_by_its_name) {
  add_pod("web-0");
  http.on(port::Method::Get, "/apis/longhorn.io/v1beta2/namespaces/db/volumes",
          test::FakeAnswer{.body = std::string(PolicyFetch::kListLimit + 1, ' ')});
  judge("", "return fence.delete_pod('dead')", kLists);
  ASSERT_FALSE(said().empty());
  EXPECT_EQ(said().front(),
            "needs_unread: list longhorn.io/v1beta2 volumes db labels: app=db: the objects are "
            "larger than 512 KiB; ask for one namespace, by labels, or for the metadata alone");
  EXPECT_TRUE(deleted().empty());
}

TEST_F(FactReaderTest, metadata_alone_is_asked_for_by_the_accept_header_and_read_apart) {
  add_pod("web-0");
  http.on(port::Method::Get, "/apis/longhorn.io/v1beta2/volumes",
          test::FakeAnswer{.body = R"({"items":[]})"});
  judge("", "return fence.skip(tostring(#pod.fetched.a.body.items + #pod.fetched.b.body.items))",
        R"(
  fetch = function(pod, s, got)
    if got.a then return nil end
    return { a = fence.list("longhorn.io/v1beta2", "volumes"),
             b = fence.list("longhorn.io/v1beta2", "volumes", "", { metadata = true }) }
  end,)",
        10s);
  EXPECT_EQ(said(), Lines{"policy_skips: 0"});
  std::set<std::string> accepted;
  for (const test::FakeRequest& request : http.requests) {
    for (const port::Header& header : request.headers) {
      if (request.path == "/apis/longhorn.io/v1beta2/volumes" && header.name == "Accept") {
        accepted.insert(header.value);
      }
    }
  }
  EXPECT_EQ(accepted, (std::set<std::string>{
                          "application/json",
                          "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"}));
}

// What reads for the node, and what it makes of it.
std::string by_rack() {
  return R"(
  node_fetch = function(node, s, got)
    if got.rack then return nil end
    return { rack = fence.http("vendor", "/racks", node.name) }
  end,
  node = function(node)
    if node.fetched.rack.body.power == "on" then return fence.hold("its rack has power", 20) end
    return fence.proceed("its rack has none")
  end,)";
}

TEST_F(FactReaderTest, what_is_fetched_for_the_node_is_read_once_for_all_of_its_pods) {
  add_pod("web-0");
  add_pod("web-1");
  http.on(port::Method::Get, "/vendor/racks/n1",
          test::FakeAnswer{.body = R"({"power":"off"})", .delay = 300ms});
  judge("", "return fence.skip('judged')", by_rack(), 10s);
  EXPECT_EQ(said(), (Lines{"policy_skips: judged", "policy_skips: judged"}));
  EXPECT_EQ(http.count("GET /vendor/racks/n1"), 1U);
}

TEST_F(FactReaderTest, by_what_is_fetched_the_node_is_held) {
  add_pod("web-0");
  http.on(port::Method::Get, "/vendor/racks/n1", test::FakeAnswer{.body = R"({"power":"on"})"});
  judge("", "return fence.delete_pod('dead')", by_rack());
  EXPECT_TRUE(deleted().empty());
  EXPECT_EQ(story.count(Record::Kind::IncidentHeld, audit::Reason::PolicyHoldsNode), 1U);
}

TEST_F(FactReaderTest, a_node_is_held_while_what_is_to_be_fetched_for_it_fails) {
  add_pod("web-0");
  http.on(port::Method::Get, "/vendor/racks/n1", test::FakeAnswer{.status = 503});
  judge("", "return fence.delete_pod('dead')", by_rack());
  EXPECT_TRUE(deleted().empty());
  EXPECT_EQ(story.count(Record::Kind::IncidentHeld, audit::Reason::NeedsUnread), 1U);
  http.on(port::Method::Get, "/vendor/racks/n1", test::FakeAnswer{.body = R"({"power":"off"})"});
  run_for(30s);
  EXPECT_EQ(deleted(), Lines{"pod web-0"});
}

constexpr const char* kAsks = R"(
  fetch = function(pod, s, got)
    if got.volume then return nil end
    return { volume = fence.http("vendor", "/volumes", 1, { full = 1 }) }
  end,)";

TEST_F(FactReaderTest, an_endpoint_is_asked_once_for_all_pods_of_a_pass) {
  add_pod("web-0");
  add_pod("web-1");
  http.on(port::Method::Get, "/vendor/volumes/1",
          test::FakeAnswer{.body = R"({"health":"online"})", .delay = 300ms});
  judge("", "return fence.skip(pod.fetched.volume.body.health)", kAsks, 10s);
  EXPECT_EQ(said(), (Lines{"policy_skips: online", "policy_skips: online"}));
  EXPECT_EQ(http.count("GET /vendor/volumes/1?full=1"), 1U);
}

TEST_F(FactReaderTest, what_an_endpoint_does_not_have_is_an_answer) {
  add_pod("web-0");
  judge("", "return fence.skip(tostring(pod.fetched.volume.status))", kAsks);
  EXPECT_EQ(said(), Lines{"policy_skips: 404"});
}

TEST_F(FactReaderTest, a_pod_waits_while_an_endpoint_fails) {
  for (const int status : {401, 403, 429, 500, 503}) {
    pods.clear();
    story.records.clear();
    add_pod("web-0");
    http.on(port::Method::Get, "/vendor/volumes/1", test::FakeAnswer{.status = status});
    judge("", "return fence.delete_pod('dead')", kAsks);
    ASSERT_FALSE(said().empty());
    EXPECT_EQ(said().front(), "needs_unread: endpoint vendor: GET /volumes/1?full=1: HTTP " +
                                  std::to_string(status));
    EXPECT_TRUE(deleted().empty());
  }
}

TEST_F(FactReaderTest, a_policy_that_never_has_enough_is_stopped) {
  add_pod("web-0");
  judge("", "return fence.delete_pod('dead')", R"(
  fetch = function(pod, s, got)
    local n = 0
    while got["v" .. tostring(n)] do n = n + 1 end
    return { ["v" .. tostring(n)] = fence.get("longhorn.io/v1beta2", "volumes", "longhorn-system", "v" .. tostring(n)) }
  end,)");
  ASSERT_FALSE(said().empty());
  EXPECT_EQ(said().front(), "needs_unread: it still asks after 4 rounds");
  EXPECT_TRUE(deleted().empty());
}

struct ManyVolumesTest : FactReaderTest {
  static constexpr int kPods = 150;
  nlohmann::json list_meta = {{"resourceVersion", "9"}};
  const std::map<std::string, nlohmann::json> nothing;

  ManyVolumesTest() {
    claims_answer.delay = 100ms;  // all pods wait for it
    for (int i = 0; i < kPods; ++i) {
      add_pod_with_volume("web-" + std::to_string(1000 + i));
    }
    serve("/api/v1/persistentvolumes", "PersistentVolumeList", volumes);
    serve("/apis/storage.k8s.io/v1/volumeattachments", "VolumeAttachmentList", attachments);
  }
  // Items of a list have no kind.
  void serve(const std::string& path, const std::string& kind,
             const std::map<std::string, nlohmann::json>& objects) {
    http.on(port::Method::Get, path, [this, kind, &objects](const test::FakeRequest&) {
      nlohmann::json items = nlohmann::json::array();
      for (const auto& [name, object] : objects) {
        items.push_back(object);
        items.back().erase("kind");
      }
      return test::FakeAnswer{
          .body = nlohmann::json{{"kind", kind}, {"metadata", list_meta}, {"items", items}}.dump()};
    });
  }
  void judge_all() {
    judge(
        "'volumes'",
        "local v = pod.volumes[1] return fence.skip(pod.claims[1].state .. (v and v.attachment and "
        "' attached' or ''))",
        "", 10s);
  }
  [[nodiscard]] std::size_t said(const std::string& line) const {
    const Lines lines = FactReaderTest::said();
    return static_cast<std::size_t>(std::count(lines.begin(), lines.end(), line));
  }
};

TEST_F(ManyVolumesTest, many_of_a_kind_are_one_list_and_few_are_read_one_by_one) {
  judge_all();
  EXPECT_EQ(said("policy_skips: bound attached"), std::size_t{kPods});
  EXPECT_EQ(http.count("GET /api/v1/persistentvolumes?"), 1U);
  EXPECT_EQ(http.count("GET /api/v1/persistentvolumes/"), 0U);
  EXPECT_EQ(http.count("GET /apis/storage.k8s.io/v1/volumeattachments?"), 1U);
  EXPECT_EQ(http.count("GET /apis/storage.k8s.io/v1/volumeattachments/"), 0U);
  EXPECT_EQ(http.count("GET /api/v1/namespaces/db/persistentvolumeclaims"), 1U);
}

// A list of the thousand claims of a namespace is not waited for where two of them are wanted.
TEST_F(FactReaderTest, few_claims_are_read_one_by_one) {
  add_pod_with_volume("web-0");
  add_pod_with_volume("web-1");
  add_pod_with_volume("web-2", "n2");
  judge("'volumes'", "return fence.skip(pod.claims[1].state)", "", 1s);
  EXPECT_EQ(said(), (Lines{"policy_skips: bound", "policy_skips: bound"}));
  const std::string claims_of_db = "GET /api/v1/namespaces/db/persistentvolumeclaims";
  EXPECT_EQ(http.count(claims_of_db + "/data-web-0"), 1U);
  EXPECT_EQ(http.count(claims_of_db + "/data-web-1"), 1U);
  EXPECT_EQ(http.count(claims_of_db), 2U);
}

// A role of an older version has the right to list alone.
TEST_F(FactReaderTest, who_may_only_list_claims_lists_those_of_a_name) {
  may_read_claims = false;
  add_pod_with_volume("web-0");
  add_pod_with_volume("web-1");
  judge("'volumes'", "return fence.skip(pod.claims[1].state)", "", 1s);
  EXPECT_EQ(said(), (Lines{"policy_skips: bound", "policy_skips: bound"}));
  const std::string claims_of_db = "GET /api/v1/namespaces/db/persistentvolumeclaims";
  EXPECT_EQ(http.count(claims_of_db + "?fieldSelector=metadata.name%3Ddata-web-0"), 1U);
  EXPECT_EQ(http.count(claims_of_db + "?fieldSelector=metadata.name%3Ddata-web-1"), 1U);
  EXPECT_EQ(http.count(claims_of_db), 4U);
}

// Each refusal is counted, and an alert tells of them.
TEST_F(FactReaderTest, who_may_only_list_claims_is_refused_once) {
  may_read_claims = false;
  add_pod_with_volume("web-0");
  judge("'volumes'", "return fence.skip(pod.claims[1].state)");  // more than one pass
  const std::string claims_of_db = "GET /api/v1/namespaces/db/persistentvolumeclaims";
  EXPECT_EQ(http.count(claims_of_db + "/data-web-0"), 1U);
  EXPECT_GE(http.count(claims_of_db + "?"), 2U);
}

// A pod may name anything. What no claim can be called reached the URL: the read failed, and for
// the whole node nothing was detached.
TEST_F(FactReaderTest, a_claim_of_a_name_that_none_can_have_is_missing) {
  int number = 0;
  for (const char* name : {"a b", "a/b", "..", "a%2fb", "a?b"}) {
    const std::string pod = "web-" + std::to_string(number++);
    add_pod(pod);
    pods[pod]["spec"]["volumes"] = {
        {{"name", "data"}, {"persistentVolumeClaim", {{"claimName", name}}}}};
  }
  judge("'volumes'", "return fence.skip(pod.claims[1].state)", "", 1s);
  EXPECT_EQ(said(), Lines(5, "policy_skips: claim_missing"));
  EXPECT_EQ(http.count("/persistentvolumeclaims/a/b"), 0U);
  EXPECT_EQ(http.count("/persistentvolumeclaims/.."), 0U);
}

TEST_F(FactReaderTest, a_claim_that_may_not_be_listed_either_is_unread) {
  may_read_claims = false;
  claims_answer = status(403, "Forbidden", "data-web-0");
  add_pod_with_volume("web-0");
  judge("'volumes'", "return fence.skip(pod.claims[1].state)", "", 1s);
  ASSERT_EQ(said().size(), 1U);
  EXPECT_TRUE(said().front().starts_with("needs_unread")) << said().front();
  EXPECT_EQ(http.count("GET /api/v1/namespaces/db/persistentvolumeclaims"), 2U);
}

// Short slices, that the first verdicts need not wait for the others, let the first pods read
// their volumes one by one before the others were known: 400 pods cost 164 reads.
TEST_F(ManyVolumesTest, what_takes_time_to_take_up_is_asked_for_together) {
  claims_answer.delay = 1ms;
  poller.look = 100us;
  judge_all();
  EXPECT_EQ(http.count("GET /api/v1/persistentvolumes?"), 1U);
  EXPECT_EQ(http.count("GET /api/v1/persistentvolumes/"), 0U);
}

TEST_F(ManyVolumesTest, what_a_whole_list_lacks_does_not_exist) {
  volumes.erase("pv-web-1149");
  judge_all();
  EXPECT_EQ(said("policy_skips: bound attached"), kPods - 1U);
  EXPECT_EQ(said("policy_skips: volume_missing"), 1U);
}

TEST_F(ManyVolumesTest, a_collection_too_large_for_what_is_wanted_is_left_after_a_page) {
  list_meta = {{"resourceVersion", "9"}, {"continue", "more"}, {"remainingItemCount", 5000}};
  serve("/api/v1/persistentvolumes", "PersistentVolumeList", nothing);
  serve("/apis/storage.k8s.io/v1/volumeattachments", "VolumeAttachmentList", nothing);
  judge_all();
  EXPECT_EQ(said("policy_skips: bound attached"), std::size_t{kPods});
  EXPECT_EQ(http.count("GET /api/v1/persistentvolumes?"), 1U);
  EXPECT_EQ(http.count("GET /api/v1/persistentvolumes/"), std::size_t{kPods});
}

TEST_F(ManyVolumesTest, who_may_not_list_reads_one_by_one) {
  http.on(port::Method::Get, "/api/v1/persistentvolumes", status(403, "Forbidden"));
  http.on(port::Method::Get, "/apis/storage.k8s.io/v1/volumeattachments", status(403, "Forbidden"));
  judge_all();
  EXPECT_EQ(said("policy_skips: bound attached"), std::size_t{kPods});
  EXPECT_EQ(http.count("GET /api/v1/persistentvolumes/"), std::size_t{kPods});
}

}  // namespace
}  // namespace moonfence::fence
