// The functions of a policy beside pod(): node, fetch, and those of its own health source.

#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "policy/host/policy.h"
#include "support/policies.h"

namespace moonfence {
namespace {

using nlohmann::json;
using policy::NodeHealth;
using policy::NodeVerdict;
using policy::Request;
using testing::ElementsAre;
using testing::EndsWith;
using testing::HasSubstr;
using testing::Pair;

policy::Policy with(const std::string& more) {
  auto policy = load_text(policy_text("return fence.skip('x')", more));
  EXPECT_TRUE(policy) << policy.error().text;
  return std::move(policy.value());
}

template <class T>
std::string error_of(const policy::Run<T>& run) {
  return run.result ? "" : run.result.error().text;
}

// ---- node ------------------------------------------------------------------------------------

policy::Run<NodeVerdict> judged(const std::string& body) {
  return with("node = function(node, s, cluster) " + body + " end,")
      .judge_node(node_of(sample_node()), sample_cluster(), {.failures = 4});
}

TEST(NodeHook, each_verdict_arrives) {
  EXPECT_EQ(judged("return fence.proceed('a')").result->kind, NodeVerdict::Kind::Proceed);
  const auto hold = judged("return fence.hold('a', 90)").result;
  EXPECT_EQ(hold->kind, NodeVerdict::Kind::Hold);
  EXPECT_EQ(hold->wait, std::chrono::seconds(90));
  EXPECT_EQ(hold->reason, "a");
  EXPECT_EQ(judged("return fence.hold('a', 0)").result->wait, std::chrono::seconds(1));
  EXPECT_EQ(judged("return fence.hold('a', math.huge)").result->wait, std::chrono::hours(1));
  EXPECT_EQ(judged("return fence.taint_out_of_service('a')").result->kind,
            NodeVerdict::Kind::TaintOutOfService);
}

TEST(NodeHook, it_sees_node_settings_and_cluster) {
  EXPECT_EQ(judged("return fence.proceed(node.name .. node.failures .. cluster.nodes_ready)")
                .result->reason,
            "n144");
}

TEST(NodeHook, without_one_the_node_proceeds) {
  const auto policy = with("");
  EXPECT_FALSE(policy.judges_node());
  const auto run = policy.judge_node(node_of(sample_node()), sample_cluster());
  ASSERT_TRUE(run.result);
  EXPECT_EQ(run.result->kind, NodeVerdict::Kind::Proceed);
  EXPECT_FALSE(run.result->reason.empty());
}

TEST(NodeHook, whatever_else_is_returned_is_refused) {
  EXPECT_EQ(error_of(judged("")),
            "test.lua:1: node returned nil; it must return a verdict, such as "
            "fence.proceed(reason)");
  EXPECT_THAT(error_of(judged("return true")), HasSubstr("node returned a boolean"));
  EXPECT_THAT(error_of(judged("return fence.skip('x')")),
              HasSubstr("a verdict is about one pod; make it inside of pod()"));
  EXPECT_THAT(error_of(judged("return fence.hold('x')")),
              EndsWith("argument 2 must be a number, not nothing"));
  EXPECT_THAT(error_of(judged("return fence.hold('x', 0/0)")), HasSubstr("0/0"));
  EXPECT_THAT(error_of(judged("return fence.hold('', 5)")), HasSubstr("empty text"));
  EXPECT_THAT(error_of(judged("return fence.http('a', '/')")),
              HasSubstr("requests are made inside of fetch(), node_fetch() and source.plan()"));
}

// ---- node_fetch ------------------------------------------------------------------------------

constexpr const char* kNodeFetch =
    "node_fetch = function(node, s, got) if got.rack then return nil end "
    "return { rack = fence.get('example.com/v1', 'racks', '', node.labels.rack) } end, ";

TEST(NodeFetch, what_it_asks_for_is_what_node_sees) {
  const auto policy = with(std::string(kNodeFetch) +
                           "node = function(node) "
                           "return fence.proceed(node.fetched.rack.body.power) end,");
  const kube::Node node = node_of(sample_node());
  const auto first = policy.plan_node_fetch(node, {}, json::object());
  ASSERT_TRUE(first.result) << first.result.error().text;
  EXPECT_EQ(first.result->at("rack").text(), "get example.com/v1 racks r2");
  const json got = {{"rack", {{"status", 200}, {"body", {{"power", "lost"}}}}}};
  EXPECT_TRUE(policy.plan_node_fetch(node, {}, got).result->empty());
  policy::NodeFacts facts;
  facts.fetched = std::make_shared<const json>(got);
  EXPECT_EQ(policy.judge_node(node, sample_cluster(), facts).result->reason, "lost");
}

TEST(NodeFetch, nobody_judges_a_node_whose_answers_were_not_read) {
  const auto policy =
      with(std::string(kNodeFetch) + "node = function() return fence.proceed('x') end,");
  EXPECT_EQ(policy.judge_node(node_of(sample_node()), sample_cluster()).result.error().text,
            "test.lua: node n1 was read without what node_fetch asks for");
}

TEST(NodeFetch, it_needs_a_node_function_and_only_that_sees_the_answers) {
  EXPECT_THAT(load_error(policy_text("return fence.skip('x')", kNodeFetch)),
              HasSubstr("node_fetch reads for a node function, and there is none"));
  EXPECT_THAT(load_error(policy_text("return fence.skip(node.fetched.x.body)")),
              HasSubstr("node.fetched: declare node_fetch = function(node, s, got) ... end"));
  EXPECT_THAT(outcome("return fence.skip(tostring(node.fetched))",
                      std::string(kNodeFetch) + "node = function() return fence.proceed('x') end,"),
              HasSubstr("node.fetched: is for node()"));
}

// ---- fetch -----------------------------------------------------------------------------------

policy::Run<policy::Requests> planned(const std::string& body, const json& got = json::object()) {
  return with("fetch = function(pod, s, got) " + body + " end,")
      .plan_fetch(pod_of(sample_pod()), {}, got);
}

TEST(Fetch, requests_arrive_by_their_names) {
  const auto run = planned(
      "return { vol = fence.http('storageos', '/v2/volumes', pod.name, { full = 1 }), "
      "pv = fence.get('longhorn.io/v1beta2', 'volumes', 'longhorn-system', 'pvc-1'), "
      "node = fence.get('v1', 'nodes', '', 'n1') }");
  ASSERT_TRUE(run.result) << run.result.error().text;
  ASSERT_EQ(run.result->size(), 3U);
  const Request& http = run.result->at("vol");
  EXPECT_EQ(http.kind, Request::Kind::Http);
  EXPECT_EQ(http.endpoint, "storageos");
  EXPECT_EQ(http.path, "/v2/volumes/web-0?full=1");
  EXPECT_EQ(http.text(), "http storageos /v2/volumes/web-0?full=1");
  const Request& object = run.result->at("pv");
  EXPECT_EQ(object.kind, Request::Kind::Object);
  EXPECT_EQ(object.text(), "get longhorn.io/v1beta2 volumes longhorn-system/pvc-1");
  EXPECT_EQ(run.result->at("node").text(), "get v1 nodes n1");
}

TEST(Fetch, a_failure_is_asked_for_by_try_of_a_request_of_http_alone) {
  const auto run =
      planned("return { a = fence.try(fence.http('s', '/v')), b = fence.http('s', '/v') }");
  ASSERT_TRUE(run.result) << run.result.error().text;
  EXPECT_TRUE(run.result->at("a").tries);
  EXPECT_FALSE(run.result->at("b").tries);
  EXPECT_EQ(run.result->at("a").text(), run.result->at("b").text()) << "asked once";
  EXPECT_THAT(error_of(planned("return { a = fence.try(fence.get('v1', 'nodes', '', 'n1')) }")),
              HasSubstr("must be a request made by fence.http"));
  EXPECT_THAT(error_of(planned("return { a = fence.try('x') }")),
              HasSubstr("a request made by fence.http"));
}

TEST(Fetch, the_next_round_sees_the_answers) {
  const std::string body =
      "if not got.vol then return { vol = fence.http('s', '/v') } end "
      "if got.vol.status == 404 then return nil end "
      "return { node = fence.http('s', '/n/' .. got.vol.body.nodes[2].id) }";
  EXPECT_EQ(planned(body).result->at("vol").path, "/v");
  const json found =
      json::parse(R"({"vol": {"status": 200, "body": {"nodes": [{"id": "a"}, {"id": "b"}]}}})");
  EXPECT_EQ(planned(body, found).result->at("node").path, "/n/b");
  EXPECT_TRUE(
      planned(body, json::parse(R"({"vol": {"status": 404, "body": null}})")).result->empty());
}

TEST(Fetch, nothing_or_an_empty_table_is_enough) {
  EXPECT_TRUE(planned("").result->empty());
  EXPECT_TRUE(planned("return nil").result->empty());
  EXPECT_TRUE(planned("return {}").result->empty());
  const auto none = with("").plan_fetch(pod_of(sample_pod()), {}, json::object());
  EXPECT_TRUE(none.result->empty());
}

TEST(Fetch, answers_are_walked_like_tables) {
  const json got = json::parse(
      R"({"v": {"status": 200, "body": {"list": [3, null, {"k": true}], "map": {"b": 2, "a": 1}}}})");
  const auto logged = [&](const std::string& expression) {
    const auto run = planned("log.info(tostring(" + expression + "))", got);
    return run.log.empty() ? error_of(run) : run.log.front();
  };
  EXPECT_EQ(logged("#got.v.body.list"), "info: 3");
  EXPECT_EQ(logged("got.v.body.list[2]"), "info: nil");
  EXPECT_EQ(logged("got.v.body.list[3].k"), "info: true");
  EXPECT_EQ(logged("got.v.body.list[9]"), "info: nil");
  EXPECT_EQ(logged("got.v.body.none"), "info: nil");
  EXPECT_EQ(logged("table.concat(table.keys(got.v.body.map), ',')"), "info: a,b");
  EXPECT_EQ(logged("table.concat(table.keys(got), ',')"), "info: v");
  EXPECT_THAT(logged("got.v.body.list.k"), HasSubstr("is a list; it has no field 'k'"));
  EXPECT_THAT(logged("got.v.body.none.deeper"), HasSubstr("attempt to index a nil value"));
  EXPECT_THAT(error_of(planned("got.v = 1", got)), HasSubstr("inputs are read-only"));
  EXPECT_EQ(planned("for k, v in pairs(got.v.body.map) do log.info(k .. v) end", got).log,
            (std::vector<std::string>{"info: a1", "info: b2"}));
}

TEST(Fetch, whatever_else_is_returned_is_refused) {
  const std::string where = "test.lua:1: fetch returned ";
  EXPECT_EQ(error_of(planned("return 7")),
            where + "an integer; it must return { name = request }, or nil when it has enough");
  EXPECT_EQ(error_of(planned("return { fence.http('a', '/') }")),
            where + "a table with an integer as a key; write { name = request }");
  EXPECT_EQ(error_of(planned("return { a = '/v2' }")),
            where +
                "'a', which is a text; it must be a request made by fence.http, fence.get "
                "or fence.list");
  EXPECT_EQ(error_of(planned("return { a = pod }")),
            where +
                "'a', which is pod; it must be a request made by fence.http, fence.get "
                "or fence.list");
  EXPECT_EQ(error_of(planned("return { [''] = fence.http('a', '/') }")),
            where + "'' as a name; a name has 1 to 253 bytes of plain text");
  EXPECT_EQ(error_of(planned("return { a = fence.http('a', '/') }", {{"a", {{"status", 200}}}})),
            where + "'a' again, which has its answer in got already");
  EXPECT_EQ(error_of(planned("return { b = 1, a = 2 }")),
            where +
                "'a', which is an integer; it must be a request made by fence.http, "
                "fence.get or fence.list");
}

TEST(Fetch, a_request_is_opaque) {
  EXPECT_THAT(error_of(planned("return fence.http('a', '/').path")),
              HasSubstr("a request has no fields; return it from fetch or plan under a name"));
  EXPECT_THAT(error_of(planned("fence.http('a', '/').path = 'x'")),
              HasSubstr("cannot change a request: it is read-only"));
}

struct BadRequest {
  const char* call;
  const char* says;
};

class RefusedRequest : public testing::TestWithParam<BadRequest> {};

TEST_P(RefusedRequest, says_which_argument_and_why) {
  EXPECT_EQ(error_of(planned(std::string("return { a = fence.") + GetParam().call + " }")),
            std::string("test.lua:1: fence.") + GetParam().says);
}

INSTANTIATE_TEST_SUITE_P(
    Arguments, RefusedRequest,
    testing::Values(
        BadRequest{"http('A', '/')",
                   "http: argument 1 'A' cannot name an endpoint; a name is [a-z][a-z0-9-]* of 40 "
                   "letters"},
        BadRequest{"http('a')", "http: argument 2 must be a text, not nothing"},
        BadRequest{"http('a', 'v2')", "http: argument 2 'v2' must begin with '/'"},
        BadRequest{"http('a', '/a/./b')",
                   "http: argument 2 '/a/./b' must not have '.' or '..' in it"},
        BadRequest{"http('a', '/a/..')",
                   "http: argument 2 '/a/..' must not have '.' or '..' in it"},
        BadRequest{"http('a', '/a', '')", "http: argument 3 '' cannot be a part of a path"},
        BadRequest{"http('a', '/a', 'b', '..')",
                   "http: argument 4 '..' cannot be a part of a path"},
        BadRequest{"http('a', '/a', 'b\\n')", "http: argument 3 'b\\\\n' has a control character"},
        BadRequest{"http('a', '/a', 1.5)",
                   "http: argument 3 must be a text or a whole number, not a number"},
        BadRequest{"http('a', '/a', { b = 1 }, 'c')",
                   "http: argument 3 must be a text or a whole number, not a table"},
        BadRequest{"http('a', '/a', { 'b' })", "http: a query is { name = value }, not a list"},
        BadRequest{"http('a', '/a', { b = {} })",
                   "http: 'b' of the query must be a text or a whole number, not a table"},
        BadRequest{"get('', 'pods', 'a', 'b')",
                   "get: argument 1 '' is no apiVersion such as v1 or apps/v1"},
        BadRequest{"get('../v1', 'pods', 'a', 'b')",
                   "get: argument 1 '../v1' is no apiVersion such as v1 or apps/v1"},
        BadRequest{"get('v1', 'Pods', 'a', 'b')",
                   "get: argument 2 'Pods' is no resource such as persistentvolumes"},
        BadRequest{"get('v1', 'secrets', 'a', 'b')",
                   "get: argument 2 'secrets' is never read for a policy"},
        BadRequest{"get('v1', 'pods', 'a/b', 'c')",
                   "get: argument 3 'a/b' is no namespace; leave it empty for an object that has "
                   "none"},
        BadRequest{"get('v1', 'pods', 'a', 'b/c')",
                   "get: argument 4 'b/c' is no name of an object"},
        BadRequest{"get('v1', 'pods', 'a', {})", "get: argument 4 must be a text, not a table"},
        BadRequest{
            "get('v1', 'pods', 'a')",
            "get: argument 4 must be the name of one object; fence.list reads all of a kind"}));

TEST(Fetch, a_request_is_built_from_parts_and_each_is_escaped) {
  const auto path = [](const std::string& call) {
    return planned("return { a = fence.http(" + call + ") }").result->at("a").path;
  };
  EXPECT_EQ(path("'a', '/v', 'vol-1?x=y#z&a/../b%2e'"), "/v/vol-1%3Fx%3Dy%23z%26a%2F..%2Fb%252e");
  EXPECT_EQ(path("'a', '/v/', 'b', 7"), "/v/b/7");
  EXPECT_EQ(path("'a', '/', 'b'"), "/b");
  EXPECT_EQ(path("'a', '/v', 'b', { z = 'a&b=c', a = true }"), "/v/b?a=true&z=a%26b%3Dc");
  EXPECT_EQ(path("'a', '/v', {}"), "/v");
}

// What a handle or an answer brings along must not choose which object is read.
TEST(Fetch, a_raw_path_with_a_reserved_character_is_refused) {
  for (const char* character : {"?", "#", "%", "&", "=", ";",  ":", "@", "+", ",",
                                "!", "$", "(", "*", " ", "\"", "<", "[", "|", "~/?"}) {
    const auto run =
        planned(std::string("return { a = fence.http('a', '/v/' .. '") + character + "x') }");
    EXPECT_THAT(error_of(run), HasSubstr("has the reserved character '")) << character;
    EXPECT_THAT(error_of(run), HasSubstr("give what comes from elsewhere as parts")) << character;
  }
}

TEST(Fetch, a_handle_with_a_slash_is_no_beginning_of_a_path) {
  const auto policy = with(
      "needs = { 'volumes' }, fetch = function(pod, s, got) local h = pod.volumes[1].handle "
      "if s.parts then return { a = fence.http('a', '/v', h) } end "
      "return { a = fence.http('a', '/v/' .. h) } end, "
      "settings = { parts = { type = 'boolean', default = false } },");
  policy::PodFacts facts;
  facts.volumes = {policy::VolumeFacts{.name = "data",
                                       .claim = "data",
                                       .space = "shop",
                                       .state = "bound",
                                       .pv = "pv-1",
                                       .driver = "d",
                                       .handle = "pool/vol-1"}};
  EXPECT_THAT(error_of(policy.plan_fetch(pod_of(sample_pod()), facts, json::object())),
              HasSubstr("has the handle 'pool/vol-1' in it"));
  const auto parts = policy.with_settings({{"parts", true}});
  EXPECT_EQ(parts->plan_fetch(pod_of(sample_pod()), facts, json::object()).result->at("a").path,
            "/v/pool%2Fvol-1");
}

// ---- source ----------------------------------------------------------------------------------

std::string source(const std::string& plan, const std::string& nodes) {
  return "source = { every = '5s', expiry = '1h', plan = function(s, got) " + plan +
         " end, nodes = function(s, got) " + nodes + " end },";
}

TEST(HealthSource, its_plan_and_its_nodes) {
  const auto policy = with(
      source("if not got.all then return { all = fence.http('s', '/v2/nodes') } end",
             "local t = {} for _, n in ipairs(got.all.body) do t[n.name] = n.health end return t"));
  ASSERT_TRUE(policy.health_source());
  EXPECT_EQ(policy.health_source()->every, std::chrono::seconds(5));
  EXPECT_EQ(policy.health_source()->expiry, std::chrono::hours(1));
  EXPECT_EQ(policy.plan_source(json::object()).result->at("all").path, "/v2/nodes");
  const json got = json::parse(R"({"all": {"status": 200, "body": [
    {"name": "n2", "health": "failed"}, {"name": "n1", "health": "healthy"},
    {"name": "n3", "health": "unknown"}, {"name": "n4"}]}})");
  EXPECT_TRUE(policy.plan_source(got).result->empty());
  const auto nodes = policy.nodes_of_source(got);
  ASSERT_TRUE(nodes.result) << nodes.result.error().text;
  EXPECT_THAT(*nodes.result, ElementsAre(Pair(NodeName("n1"), NodeHealth::Healthy),
                                         Pair(NodeName("n2"), NodeHealth::Failed),
                                         Pair(NodeName("n3"), NodeHealth::Unknown)));
}

TEST(HealthSource, it_may_be_a_function_of_the_settings) {
  const auto policy = with(
      "settings = { every = { type = 'duration', default = '10s' } }, "
      "source = function(s) return { every = s.every, expiry = '1h', "
      "plan = function(t) return { a = fence.http('s', '/' .. t.every) } end, "
      "nodes = function() return {} end } end,");
  EXPECT_EQ(policy.health_source()->every, std::chrono::seconds(10));
  const auto bound = policy.with_settings({{"every", "20s"}});
  ASSERT_TRUE(bound) << bound.error().text;
  EXPECT_EQ(bound->health_source()->every, std::chrono::seconds(20));
  EXPECT_EQ(bound->plan_source(json::object()).result->at("a").path, "/20");
  EXPECT_TRUE(bound->nodes_of_source(json::object()).result->empty());
  EXPECT_THAT(load_error(policy_text("", "source = function() end,")),
              HasSubstr("source returned nil; it must return a table"));
}

TEST(HealthSource, a_state_that_does_not_exist_is_refused) {
  const auto nodes = [](const std::string& body) {
    return error_of(with(source("", body)).nodes_of_source(json::object()));
  };
  EXPECT_EQ(nodes("return { n1 = 'healthy', n2 = 'dead', n3 = 'gone' }"),
            "test.lua:1: source.nodes returned node 'n2' as 'dead'; it must be 'healthy', 'failed' "
            "or 'unknown'");
  EXPECT_THAT(nodes("return { n1 = true }"), HasSubstr("returned node 'n1' as a boolean"));
  EXPECT_THAT(nodes("return { 'n1' }"), HasSubstr("a table with an integer as a key"));
  EXPECT_THAT(nodes("return { [''] = 'failed' }"), HasSubstr("cannot be the name of a node"));
  EXPECT_THAT(nodes(""), HasSubstr("source.nodes returned nil"));
  EXPECT_THAT(nodes("return fence.proceed('x')"), HasSubstr("make it inside of node()"));
}

TEST(HealthSource, a_policy_without_one_has_no_plan) {
  const auto policy = with("");
  EXPECT_FALSE(policy.health_source());
  EXPECT_EQ(error_of(policy.plan_source(json::object())),
            "test.lua: the policy has no health source");
  EXPECT_EQ(error_of(policy.nodes_of_source(json::object())),
            "test.lua: the policy has no health source");
}

}  // namespace
}  // namespace moonfence
