// What scripts see of pods, nodes and the cluster.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "policy/values/failed_answer.h"
#include "support/policies.h"

namespace moonfence {
namespace {

using testing::HasSubstr;

// What comes of it when these are the answers to what was fetched.
std::string outcome_of(const std::string& body, const policy::PodFacts& facts) {
  auto policy = load_text(policy_text(body, "fetch = function() end,"));
  EXPECT_TRUE(policy) << policy.error().text;
  const auto verdict =
      policy->evaluate(pod_of(sample_pod()), node_of(sample_node()), sample_cluster(), {}, facts)
          .verdict;
  return verdict ? std::string(policy::to_string(verdict->kind)) + ": " + verdict->reason
                 : verdict.error().text;
}

std::string minimal(const std::string& expression) {
  return outcome("return fence.skip('<' .. tostring(" + expression + ") .. '>')", "",
                 minimal_pod());
}

TEST(PodInput, every_field_of_a_full_pod) {
  EXPECT_EQ(value_of("pod.name"), "web-0");
  EXPECT_EQ(value_of("pod.namespace"), "shop");
  EXPECT_EQ(value_of("pod.uid"), "pod-uid");
  EXPECT_EQ(value_of("pod.labels.app"), "web");
  EXPECT_EQ(value_of("pod.labels.none"), "nil");
  EXPECT_EQ(value_of("pod.annotations['example.com/note']"), "hello");
  EXPECT_EQ(value_of("pod.phase"), "Running");
  EXPECT_EQ(value_of("pod.display_status"), "Unknown");
  EXPECT_EQ(value_of("pod.ready"), "true");
  EXPECT_EQ(value_of("pod.reason"), "NodeLost");
  EXPECT_EQ(value_of("pod.node_name"), "n1");
  EXPECT_EQ(value_of("pod.created_at"), "1767323045");
  EXPECT_EQ(value_of("pod.terminating"), "true");
  EXPECT_EQ(value_of("pod.deletion_timestamp - pod.created_at"), "3355");
  EXPECT_EQ(value_of("pod.grace_period"), "30");
  EXPECT_EQ(value_of("pod.owner.kind .. pod.owner.name .. pod.owner.uid .. pod.owner.api_version"),
            "StatefulSetwebu2apps/v1");
  EXPECT_EQ(value_of("#pod.owners .. pod.owners[1].kind"), "2ConfigMap");
  EXPECT_EQ(value_of("pod.owners[3]"), "nil");
  EXPECT_EQ(value_of("pod.priority"), "7");
  EXPECT_EQ(value_of("pod.is_daemonset"), "false");
  EXPECT_EQ(value_of("pod.is_static"), "false");
}

TEST(PodInput, a_minimal_pod_has_no_nil_where_a_table_is_expected) {
  EXPECT_EQ(minimal("pod.labels.app"), "skip: <nil>");
  EXPECT_EQ(minimal("pod.annotations.x"), "skip: <nil>");
  EXPECT_EQ(minimal("pod.owner.kind"), "skip: <>");
  EXPECT_EQ(minimal("#pod.owners"), "skip: <0>");
  EXPECT_EQ(minimal("pod.phase .. pod.reason .. pod.node_name .. pod.uid"), "skip: <>");
  EXPECT_EQ(minimal("pod.terminating"), "skip: <false>");
  EXPECT_EQ(minimal("pod.ready"), "skip: <false>");
  EXPECT_EQ(minimal("pod.deletion_timestamp"), "skip: <nil>");
  EXPECT_EQ(minimal("pod.grace_period"), "skip: <nil>");
  EXPECT_EQ(minimal("pod.created_at"), "skip: <nil>");
  EXPECT_EQ(minimal("pod.priority"), "skip: <0>");
  EXPECT_EQ(minimal("pod.raw:get('spec.nodeName')"), "skip: <nil>");
  EXPECT_EQ(minimal("#table.keys(pod.labels)"), "skip: <0>");
}

TEST(PodInput, fields_of_another_type_than_kubernetes_gives_them_are_harmless) {
  const nlohmann::json odd = {{"metadata",
                               {{"name", "odd"},
                                {"namespace", "d"},
                                {"labels", {"a", "list"}},
                                {"annotations", 7},
                                {"creationTimestamp", "soon"},
                                {"deletionTimestamp", 12},
                                {"ownerReferences", "none"}}},
                              {"spec", "text"},
                              {"status", {{"conditions", {1, "x", nullptr}}, {"phase", {1}}}}};
  EXPECT_EQ(
      outcome("return fence.skip('<' .. tostring(pod.labels.a) .. #pod.owners .. pod.phase .. "
              "tostring(pod.created_at) .. tostring(pod.deletion_timestamp) .. "
              "tostring(pod.terminating) .. pod.node_name .. tostring(pod.ready) .. '>')",
              "", odd),
      "skip: <nil0nilniltruefalse>");
}

TEST(PodInput, a_misspelled_field_is_an_error_with_the_nearest_name) {
  EXPECT_EQ(value_of("pod.lables"),
            "test.lua:2: unknown field 'lables' of pod (did you mean 'labels'?)");
  EXPECT_EQ(value_of("pod.owner.knd"),
            "test.lua:2: unknown field 'knd' of pod.owner (did you mean 'kind'?)");
  EXPECT_EQ(value_of("pod.owners[1].nme"),
            "test.lua:2: unknown field 'nme' of owner (did you mean 'name'?)");
  EXPECT_EQ(value_of("node.ready"), "test.lua:2: unknown field 'ready' of node");
  EXPECT_EQ(value_of("node.taints[1].efect"),
            "test.lua:2: unknown field 'efect' of taint (did you mean 'effect'?)");
  EXPECT_EQ(value_of("cluster.nodes_totl"),
            "test.lua:2: unknown field 'nodes_totl' of cluster (did you mean 'nodes_total'?)");
  EXPECT_EQ(value_of("pod[1]"), "test.lua:2: pod has no entry for an integer");
  EXPECT_EQ(value_of("pod.labels[true]"), "test.lua:2: pod.labels has no entry for a boolean");
  EXPECT_EQ(value_of("pod.owners.first"),
            "test.lua:2: pod.owners is a list; it has no field 'first'");
}

TEST(VolumeInput, every_field) {
  const auto value = [](const std::string& expression) {
    return value_of(expression, "needs = { 'volumes' },");
  };
  EXPECT_EQ(value("#pod.volumes .. #pod.claims"), "23");
  EXPECT_EQ(value("pod.volumes[1].name"), "data");
  EXPECT_EQ(value("pod.volumes[1].claim .. ' ' .. pod.volumes[1].namespace"), "data-web-0 shop");
  EXPECT_EQ(value("pod.volumes[1].state"), "bound");
  EXPECT_EQ(value("pod.volumes[1].pv .. pod.volumes[1].handle"), "pvc-1vol-1");
  EXPECT_EQ(value("pod.volumes[1].driver .. pod.volumes[2].driver"), "csi.example.com");
  EXPECT_EQ(value("pod.volumes[1].storage_class"), "fast");
  EXPECT_EQ(value("pod.volumes[1].provisioner .. pod.volumes[2].provisioner"), "csi.example.com");
  EXPECT_EQ(value("pod.volumes[1].attachment"), "csi-1");
  EXPECT_EQ(value("pod.volumes[2].attachment"), "nil");
  EXPECT_EQ(value("pod.volumes[2].claim .. table.concat(pod.volumes[2].access_modes, '+')"),
            "shareReadWriteMany+ReadOnlyMany");
  EXPECT_EQ(value("pod.claims[2].claim .. pod.claims[2].state .. pod.claims[2].driver"),
            "lost-web-0unbound");
  EXPECT_EQ(value("pod.volumes[1].clam"),
            "test.lua:2: unknown field 'clam' of volume (did you mean 'claim'?)");
  EXPECT_THAT(value("pod.volumes.first"), HasSubstr("pod.volumes is a list"));
  EXPECT_EQ(outcome("pod.volumes[1].driver = 'x'", "needs = { 'volumes' },"),
            "test.lua:2: cannot set 'driver' of volume: inputs are read-only");
}

TEST(NeededInput, placement_owner_siblings_and_answers) {
  EXPECT_EQ(value_of("table.concat(pod.placement.candidates, ',')", "needs = { 'placement' },"),
            "n2,n3");
  const std::string root = "needs = { 'root_owner' },";
  EXPECT_EQ(value_of("pod.root_owner.kind .. pod.root_owner.name .. pod.root_owner.uid .. "
                     "pod.root_owner.api_version",
                     root),
            "Widgetwu9x.io/v1");
  EXPECT_EQ(value_of("#pod.owner_chain .. pod.owner_chain[1].kind .. pod.owner_chain[1].api_group "
                     ".. ' ' .. pod.owner_chain[2].kind .. pod.owner_chain[2].api_group",
                     root),
            "2StatefulSetapps Widgetx.io");
  EXPECT_THAT(value_of("pod.owner_chain"), HasSubstr("declare needs = { 'root_owner' }"));
  EXPECT_EQ(value_of("'<' .. pod.owners[1].api_group .. '>' .. pod.owner.api_group"), "<>apps");
  const std::string siblings = "needs = { 'siblings' },";
  EXPECT_EQ(value_of("#pod.siblings .. pod.siblings[1].name .. pod.siblings[1].uid .. "
                     "pod.siblings[1].node_name .. pod.siblings[1].claim .. pod.siblings[1].phase",
                     siblings),
            "1web-1u8n2sharePending");
  EXPECT_EQ(value_of("tostring(pod.siblings[1].ready) .. tostring(pod.siblings[1].terminating) .. "
                     "pod.siblings[1].attach_error",
                     siblings),
            "falsefalseMulti-Attach error");
  const std::string fetch = "fetch = function() end,";
  EXPECT_EQ(value_of("pod.fetched.vol.status .. pod.fetched.vol.body.health", fetch), "200ok");
  EXPECT_EQ(value_of("pod.fetched.vol.body.none", fetch), "nil");
  EXPECT_EQ(value_of("pod.fetched.nothing", fetch), "nil");
  EXPECT_THAT(outcome("pod.fetched.vol.status = 1", fetch), HasSubstr("inputs are read-only"));
}

TEST(NeededInput, a_misspelt_field_of_an_answer_is_an_error) {
  const std::string fetch = "fetch = function() end,";
  EXPECT_EQ(value_of("pod.fetched.vol.staus", fetch),
            "test.lua:2: unknown field 'staus' of pod.fetched (did you mean 'status'?)");
  EXPECT_EQ(value_of("pod.fetched.vol[1]", fetch),
            "test.lua:2: pod.fetched has no entry for an integer");
}

// A back end that was down never reached the policy, so that none could give up and say why.
TEST(NeededInput, an_answer_to_try_says_how_it_failed_and_has_no_body_to_be_misread) {
  policy::PodFacts facts;
  using policy::failed_json;
  facts.fetched = {
      {"down", failed_json({.error = "status", .message = "m", .since = 301, .status = 503})},
      {"slow", failed_json({.error = "timeout", .message = "m"})},
      {"well", policy::tried_json(200, nullptr)},
      {"plain", policy::answer_json(200, nullptr)}};
  const auto read = [&facts](const std::string& expression) {
    return outcome_of("return fence.skip('<' .. tostring(pod.fetched." + expression + ") .. '>')",
                      facts);
  };
  EXPECT_EQ(read("down.error"), "skip: <status>");
  EXPECT_EQ(read("down.since"), "skip: <301>");
  EXPECT_EQ(read("down.status"), "skip: <503>");
  EXPECT_EQ(read("down.message"), "skip: <m>");
  EXPECT_EQ(read("slow.status"), "skip: <nil>");
  EXPECT_EQ(
      read("down.body"),
      "test.lua:2: pod.fetched: no field 'body': the request failed (status); look at 'error' "
      "before 'body'");
  EXPECT_EQ(read("well.error"), "skip: <nil>");
  EXPECT_EQ(read("well.body"), "skip: <nil>");
  EXPECT_EQ(read("down.sinse"),
            "test.lua:2: unknown field 'sinse' of pod.fetched (did you mean 'since'?)");
  for (const std::string field : {"error", "message", "since"}) {
    EXPECT_THAT(read("plain." + field), HasSubstr("make it by fence.try(fence.http(...))"));
  }
}

TEST(NeededInput, a_field_without_its_declaration_says_what_to_declare) {
  // Read by a computed name, so that the scan does not see it.
  const auto read = [](const std::string& name) {
    return value_of("pod['" + name.substr(0, 1) + "' .. '" + name.substr(1) + "']");
  };
  EXPECT_EQ(read("volumes"), "test.lua:2: pod.volumes: declare needs = { 'volumes' }");
  EXPECT_EQ(read("claims"), "test.lua:2: pod.claims: declare needs = { 'volumes' }");
  EXPECT_EQ(read("placement"), "test.lua:2: pod.placement: declare needs = { 'placement' }");
  EXPECT_EQ(read("root_owner"), "test.lua:2: pod.root_owner: declare needs = { 'root_owner' }");
  EXPECT_EQ(read("siblings"), "test.lua:2: pod.siblings: declare needs = { 'siblings' }");
  EXPECT_EQ(read("fetched"),
            "test.lua:2: pod.fetched: declare fetch = function(pod, s, got) ... end");
}

TEST(NeededInput, a_policy_may_need_it_for_some_settings_alone) {
  const auto policy = load_text(policy_text(
      "if s.deep then return fence.skip(pod.claims[1].claim) end return fence.skip('shallow')",
      "settings = { deep = { type = 'boolean', default = false } }, "
      "needs = function(s) if s.deep then return { 'volumes' } end return {} end,"));
  ASSERT_TRUE(policy) << policy.error().text;
  EXPECT_FALSE(policy->needs().volumes);
  const auto shallow =
      policy->evaluate(pod_of(sample_pod()), node_of(sample_node()), sample_cluster(), {});
  EXPECT_EQ(shallow.verdict->reason, "shallow");
  const auto deep = policy->with_settings({{"deep", true}});
  ASSERT_TRUE(deep) << deep.error().text;
  EXPECT_TRUE(deep->needs().volumes);
  EXPECT_FALSE(
      deep->evaluate(pod_of(sample_pod()), node_of(sample_node()), sample_cluster(), {}).verdict);
  policy::PodFacts known;
  known.volumes.emplace().push_back({.name = "data", .claim = "data-web-0", .space = "shop"});
  EXPECT_EQ(
      deep->evaluate(pod_of(sample_pod()), node_of(sample_node()), sample_cluster(), {}, known)
          .verdict->reason,
      "data-web-0");
}

TEST(NeededInput, what_the_settings_did_not_ask_for_cannot_be_read) {
  const auto policy = load_text(
      policy_text("return fence.skip(pod.volumes[1].claim)", "needs = function() return {} end,"));
  ASSERT_TRUE(policy) << policy.error().text;
  const auto read =
      policy->evaluate(pod_of(sample_pod()), node_of(sample_node()), sample_cluster(), {});
  EXPECT_EQ(read.verdict.error().text, "test.lua:2: pod.volumes: declare needs = { 'volumes' }");
}

TEST(NeededInput, a_function_of_needs_returns_known_ones) {
  EXPECT_EQ(load_error(policy_text("", "needs = function() end,")),
            "test.lua:1: needs returned nil; it must return a table");
  EXPECT_EQ(load_error(policy_text("", "needs = function() return { 'volume' } end,")),
            "test.lua:1: needs[1] is the unknown need 'volume' (did you mean 'volumes'?)");
}

TEST(NeededInput, without_what_it_needs_the_policy_is_not_called) {
  const auto policy = load_text(policy_text("log.info('called') return fence.skip('x')",
                                            "needs = { 'volumes', 'siblings' },"));
  ASSERT_TRUE(policy) << policy.error().text;
  EXPECT_TRUE(policy->needs().volumes && policy->needs().siblings);
  EXPECT_FALSE(policy->needs().placement || policy->needs().root_owner);
  const auto without = [&](const policy::PodFacts& facts) {
    const auto evaluation =
        policy->evaluate(pod_of(sample_pod()), node_of(sample_node()), sample_cluster(), {}, facts);
    EXPECT_TRUE(evaluation.log.empty());
    return evaluation.verdict ? "" : evaluation.verdict.error().text;
  };
  EXPECT_EQ(without({}),
            "test.lua: pod shop/web-0 was read without its volumes, which the policy needs");
  policy::PodFacts facts = sample_facts();
  facts.siblings.reset();
  EXPECT_EQ(without(facts),
            "test.lua: pod shop/web-0 was read without its siblings, which the policy needs");
}

TEST(NeededInput, nothing_found_is_an_empty_list) {
  const auto policy =
      load_text(policy_text("return fence.skip(#pod.volumes .. #pod.claims .. #pod.siblings .. "
                            "#pod.placement.candidates .. #pod.owner_chain .. '<' .. "
                            "pod.root_owner.kind .. '>')",
                            "needs = { 'volumes', 'siblings', 'placement', 'root_owner' },"));
  ASSERT_TRUE(policy) << policy.error().text;
  policy::PodFacts facts;
  facts.volumes.emplace();
  facts.siblings.emplace();
  facts.candidates.emplace();
  facts.owner_chain.emplace();
  EXPECT_EQ(
      policy->evaluate(pod_of(sample_pod()), node_of(sample_node()), sample_cluster(), {}, facts)
          .verdict->reason,
      "00000<>");
}

TEST(PodInput, volume_kinds_are_those_of_the_spec_sorted) {
  auto pod = sample_pod();
  pod["spec"]["volumes"] = nlohmann::json::parse(R"([
    {"name": "a", "persistentVolumeClaim": {"claimName": "x"}}, {"name": "b", "emptyDir": {}},
    {"name": "c", "emptyDir": {}}, {"name": "d", "hostPath": null}, 7])");
  EXPECT_EQ(outcome("return fence.skip(table.concat(pod.volume_kinds, ','))", "", pod),
            "skip: emptyDir,persistentVolumeClaim");
  EXPECT_EQ(value_of("#pod.volume_kinds"), "0");
}

TEST(PodInput, nothing_can_be_written) {
  EXPECT_EQ(outcome("pod.name = 'x'"),
            "test.lua:2: cannot set 'name' of pod: inputs are read-only");
  EXPECT_THAT(outcome("pod.labels.x = 'y'"), HasSubstr("cannot set 'x' of pod.labels"));
  EXPECT_THAT(outcome("pod.owners[1] = 'y'"), HasSubstr("of pod.owners: inputs are read-only"));
  EXPECT_THAT(outcome("node.name = 'x'"), HasSubstr("of node: inputs are read-only"));
  EXPECT_THAT(outcome("cluster.now = 0"), HasSubstr("of cluster: inputs are read-only"));
  EXPECT_THAT(outcome("table.insert(pod.owners, 1)"),
              HasSubstr("must be a table of the script's own, not pod.owners"));
}

TEST(PodInput, maps_are_walked_in_the_order_of_their_keys) {
  EXPECT_EQ(
      outcome("local t = '' for k, v in pairs(pod.labels) do t = t .. k .. '=' .. v .. ' ' end "
              "return fence.skip(t)"),
      "skip: app=web tier=front zone=b");
  EXPECT_EQ(value_of("table.concat(table.keys(pod.labels), ',')"), "app,tier,zone");
  EXPECT_EQ(outcome("local t = '' for i, o in ipairs(pod.owners) do t = t .. i .. o.name end "
                    "return fence.skip(t)"),
            "skip: 1extra2web");
  EXPECT_EQ(outcome("local t = '' for i, o in pairs(pod.owners) do t = t .. i .. o.name end "
                    "return fence.skip(t)"),
            "skip: 1extra2web");
  EXPECT_THAT(outcome("for k in pairs(pod) do end"), HasSubstr("pod cannot be walked"));
  EXPECT_THAT(outcome("for k in ipairs(pod.labels) do end"), HasSubstr("must be a list"));
  EXPECT_THAT(value_of("#pod.labels"), HasSubstr("is no list and has no length"));
  EXPECT_THAT(value_of("#pod"), HasSubstr("is no list and has no length"));
}

TEST(RawInput, a_path_finds_or_is_nil) {
  EXPECT_EQ(value_of("pod.raw:get('spec.nodeName')"), "n1");
  EXPECT_EQ(value_of("pod.raw:get('spec.no.such.path')"), "nil");
  EXPECT_EQ(value_of("pod.raw:get('metadata', 'annotations', 'example.com/note')"), "hello");
  EXPECT_EQ(value_of("pod.raw:get('spec.containers.2.name')"), "side");
  EXPECT_EQ(value_of("pod.raw:get('spec.containers.0.name')"), "nil");
  EXPECT_EQ(value_of("pod.raw:get('spec.containers.3.name')"), "nil");
  EXPECT_EQ(value_of("pod.raw:get('spec.containers.x.name')"), "nil");
  EXPECT_EQ(value_of("#pod.raw:get('spec.containers')"), "2");
  EXPECT_EQ(value_of("pod.raw:get('spec.containers')[1]:get('name')"), "main");
  EXPECT_EQ(value_of("pod.raw:get('spec.priority') + 1"), "8");
  EXPECT_EQ(value_of("table.concat(table.keys(pod.raw), ',')"), "metadata,spec,status");
  EXPECT_EQ(value_of("pod.raw.spec"),
            "test.lua:2: pod.raw has no field 'spec'; read it with :get('spec')");
  EXPECT_THAT(value_of("pod.raw.get('x')"), HasSubstr("call it with a colon"));
  EXPECT_THAT(value_of("pod.raw.get(pod, 'x')"), HasSubstr("call it with a colon"));
  EXPECT_THAT(value_of("pod.raw:get(1)"), HasSubstr("must be a text"));
}

TEST(NodeInput, every_field) {
  EXPECT_EQ(value_of("node.name"), "n1");
  EXPECT_EQ(value_of("node.labels.rack"), "r2");
  EXPECT_EQ(value_of("node.annotations.x"), "nil");
  EXPECT_EQ(value_of("#node.taints .. node.taints[1].key .. node.taints[1].value"),
            "1node.kubernetes.io/unreachable");
  EXPECT_EQ(value_of("node.ready_status"), "unknown");
  EXPECT_EQ(value_of("node.not_ready_since"), "1767322800");
  EXPECT_EQ(value_of("node.unschedulable"), "true");
  EXPECT_EQ(value_of("node.exists"), "true");
  EXPECT_EQ(value_of("node.failures"), "1");
}

TEST(NodeInput, its_evidence_says_what_is_known_of_it) {
  EXPECT_EQ(value_of("node.evidence.silent"), "false");
  EXPECT_THAT(outcome("return fence.skip(tostring(node.evidence.dead))"),
              testing::HasSubstr("unknown field 'dead'"));
  const auto policy = load_text(policy_text(
      "local e = node.evidence return fence.skip(tostring(e.silent) .. tostring(e.unreachable) .. "
      "tostring(e.attested))"));
  ASSERT_TRUE(policy) << policy.error().text;
  policy::NodeFacts facts;
  facts.evidence.insert(policy::Evidence::Silent);
  facts.evidence.insert(policy::Evidence::Attested);
  const kube::Node node = node_of({{"metadata", {{"name", "n1"}}}});
  EXPECT_EQ(policy->decide(pod_of(sample_pod()), node, sample_cluster(), facts).value().reason,
            "truefalsetrue");
}

TEST(NodeInput, ready_status_is_one_of_five_words) {
  const auto policy = load_text(
      policy_text("return fence.skip(node.ready_status .. ' ' .. tostring(node.exists) .. ' ' .. "
                  "node.failures)"));
  ASSERT_TRUE(policy) << policy.error().text;
  const auto reason = [&](const nlohmann::json& conditions, policy::NodeFacts facts) {
    const kube::Node node =
        node_of({{"metadata", {{"name", "n1"}}}, {"status", {{"conditions", conditions}}}});
    return policy->decide(pod_of(sample_pod()), node, sample_cluster(), facts).value().reason;
  };
  const auto ready = [](const char* status) {
    return nlohmann::json::array({{{"type", "Ready"}, {"status", status}}});
  };
  EXPECT_EQ(reason(ready("True"), {}), "true true 1");
  EXPECT_EQ(reason(ready("False"), {.failures = 3}), "false true 3");
  EXPECT_EQ(reason(ready("Unknown"), {}), "unknown true 1");
  EXPECT_EQ(reason(ready("Perhaps"), {}), "unknown true 1");
  EXPECT_EQ(reason(nlohmann::json::array(), {}), "missing true 1");
  EXPECT_EQ(reason(ready("True"), {.exists = false}), "deleted false 1");
}

nlohmann::json full_node() {
  return nlohmann::json::parse(R"({
    "metadata": {"name": "n1", "uid": "node-uid", "creationTimestamp": "2026-01-01T00:00:00Z",
      "labels": {"topology.kubernetes.io/zone": "z1", "topology.kubernetes.io/region": "r1",
                 "failure-domain.beta.kubernetes.io/zone": "old"}},
    "spec": {"providerID": "aws:///i-1",
      "taints": [{"key": "a", "effect": "NoExecute", "timeAdded": "2026-01-02T03:00:05Z"},
                 {"key": "b", "effect": "NoSchedule"}]},
    "status": {
      "nodeInfo": {"bootID": "boot", "machineID": "machine", "systemUUID": "system"},
      "addresses": [{"type": "InternalIP", "address": "10.0.0.1"}, {"type": "Hostname"}],
      "conditions": [
        {"type": "MemoryPressure", "status": "False", "reason": "KubeletHasSufficientMemory",
         "message": "enough", "lastTransitionTime": "2026-01-02T03:00:00Z",
         "lastHeartbeatTime": "2026-01-02T03:00:30Z"},
        {"type": "Ready", "status": "Unknown"}, 7]}})");
}

std::string of_node(const nlohmann::json& node, const std::string& expression,
                    const policy::NodeFacts& facts = {}) {
  const auto policy = load_text(policy_text("return fence.skip(tostring(" + expression + "))"));
  EXPECT_TRUE(policy) << policy.error().text;
  const auto said = policy->decide(pod_of(sample_pod()), node_of(node), sample_cluster(), facts);
  return said ? said->reason : said.error().text;
}

TEST(NodeInput, what_its_object_says) {
  const auto of = [](const std::string& expression) { return of_node(full_node(), expression); };
  EXPECT_EQ(of("node.uid .. ' ' .. node.created_at"), "node-uid 1767225600");
  EXPECT_EQ(of("node.provider_id .. node.system_uuid .. node.machine_id .. node.boot_id"),
            "aws:///i-1systemmachineboot");
  EXPECT_EQ(of("node.zone .. node.region"), "z1r1");
  EXPECT_EQ(of("node.taints[1].time_added"), "1767322805");
  EXPECT_EQ(of("node.taints[2].time_added"), "nil");
  EXPECT_EQ(of("#node.addresses .. node.addresses[1].type .. node.addresses[1].address"),
            "2InternalIP10.0.0.1");
  EXPECT_EQ(of("'<' .. node.addresses[2].address .. '>'"), "<>");
  EXPECT_EQ(of("#node.conditions .. node.conditions[1].type .. node.conditions[1].status .. "
               "node.conditions[1].reason .. node.conditions[1].message"),
            "3MemoryPressureFalseKubeletHasSufficientMemoryenough");
  EXPECT_EQ(of("node.conditions[1].last_heartbeat_time - node.conditions[1].last_transition_time"),
            "30");
  EXPECT_EQ(of("node.conditions[2].last_transition_time"), "nil");
  EXPECT_EQ(of("'<' .. node.conditions[3].type .. '>'"), "<>");
  EXPECT_EQ(of("node.raw:get('status.nodeInfo.bootID')"), "boot");
}

TEST(NodeInput, a_node_that_is_gone_is_empty_and_no_error) {
  const nlohmann::json bare = {{"metadata", {{"name", "n1"}}}};
  const auto of = [&bare](const std::string& expression) {
    return of_node(bare, expression, {.exists = false});
  };
  EXPECT_EQ(of("'<' .. node.uid .. node.provider_id .. node.system_uuid .. node.machine_id .. "
               "node.boot_id .. node.zone .. node.region .. '>'"),
            "<>");
  EXPECT_EQ(of("#node.conditions + #node.addresses + #node.planned.types + #node.planned.unknown"),
            "0");
  EXPECT_EQ(of("node.created_at"), "nil");
  EXPECT_EQ(of("node.lease_age"), "nil");
  EXPECT_EQ(of("node.machine"), "not_observable");
  EXPECT_EQ(of("node.raw:get('spec.providerID')"), "nil");
}

TEST(NodeInput, a_zone_may_stand_in_the_label_that_had_this_meaning_before) {
  nlohmann::json node = full_node();
  node["metadata"]["labels"].erase("topology.kubernetes.io/zone");
  EXPECT_EQ(of_node(node, "node.zone"), "old");
}

TEST(NodeInput, the_age_of_its_lease_and_what_detection_says) {
  const policy::NodeFacts facts = {.lease_age = std::chrono::milliseconds(41'900),
                                   .machine = policy::Machine::Unsure};
  EXPECT_EQ(of_node(full_node(), "node.lease_age", facts), "41");
  EXPECT_EQ(of_node(full_node(), "node.machine", facts), "unsure");
}

nlohmann::json with_conditions(const nlohmann::json& conditions) {
  nlohmann::json node = full_node();
  node["status"]["conditions"] = conditions;
  return node;
}

nlohmann::json condition(const char* type, const char* status) {
  return {{"type", type},
          {"status", status},
          {"reason", "AdminRequested"},
          {"lastTransitionTime", "2026-01-02T03:00:00Z"}};
}

TEST(NodeInput, what_is_planned_is_what_is_true_and_unknown_is_said_separately) {
  const auto node =
      with_conditions({condition("MaintenanceInProgress", "Unknown"), condition("Drained", "False"),
                       condition("DrainInProgress", "True"), condition("Ready", "True"),
                       condition("MaintenancePlanned", "perhaps")});
  const auto of = [&node](const std::string& expression) { return of_node(node, expression); };
  EXPECT_EQ(of("node.planned.DrainInProgress.last_transition_time"), "1767322800");
  EXPECT_EQ(of("node.planned.DrainInProgress.reason"), "AdminRequested");
  EXPECT_EQ(of("node.planned.Drained"), "nil");
  EXPECT_EQ(of("node.planned.MaintenanceInProgress"), "nil");
  EXPECT_EQ(of("node.planned.GracefulNodeShutdownInProgress"), "nil");
  EXPECT_EQ(of("#node.planned.types .. node.planned.types[1]"), "1DrainInProgress");
  EXPECT_EQ(of("#node.planned.unknown .. node.planned.unknown[1] .. node.planned.unknown[2]"),
            "2MaintenancePlannedMaintenanceInProgress");
  EXPECT_THAT(of("node.planned.DrainInProgres"), HasSubstr("did you mean 'DrainInProgress'"));
}

TEST(NodeInput, of_a_condition_that_is_listed_twice_true_counts) {
  for (const auto& node :
       {with_conditions({condition("Drained", "Unknown"), condition("Drained", "True")}),
        with_conditions({condition("Drained", "True"), condition("Drained", "False")})}) {
    EXPECT_EQ(of_node(node,
                      "node.planned.Drained.status .. #node.planned.types .. "
                      "#node.planned.unknown"),
              "True10");
  }
}

TEST(NodeInput, a_condition_without_a_time_is_planned_all_the_same) {
  const auto node = with_conditions({{{"type", "Drained"}, {"status", "True"}}});
  EXPECT_EQ(of_node(node, "node.planned.Drained ~= nil"), "true");
  EXPECT_EQ(of_node(node, "node.planned.Drained.last_transition_time"), "nil");
}

TEST(NodeInput, a_node_without_its_json_has_a_name) {
  const auto policy = load_text(policy_text("return fence.skip(node.name .. node.ready_status)"));
  kube::Node node;
  node.name = NodeName("n9");
  EXPECT_EQ(policy->decide(pod_of(sample_pod()), node, sample_cluster())->reason, "n9missing");
}

TEST(ClusterInput, every_field) {
  EXPECT_EQ(value_of("cluster.now"), "1767330000");
  EXPECT_EQ(value_of("cluster.nodes_total"), "5");
  EXPECT_EQ(value_of("cluster.nodes_ready"), "4");
  EXPECT_EQ(value_of("cluster.nodes_schedulable"), "3");
  EXPECT_EQ(value_of("cluster.tally.seen .. cluster.tally.deleted .. cluster.tally.held"), "000");
  const auto policy = load_text(policy_text(
      "local t = cluster.tally return fence.skip(t.seen .. ' ' .. t.deleted .. ' ' .. t.held)"));
  auto cluster = sample_cluster();
  cluster.tally = {.seen = 9, .deleted = 4, .held = 2};
  EXPECT_EQ(policy->decide(pod_of(sample_pod()), node_of(sample_node()), cluster)->reason, "9 4 2");
}

}  // namespace
}  // namespace moonfence
