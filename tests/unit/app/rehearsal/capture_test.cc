#include "app/rehearsal/capture.h"

#include <filesystem>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "app/cli/options.h"
#include "app/policy_commands/policy_command.h"
#include "os/system/system_files.h"
#include "support/policies.h"
#include "support/temporary_folder.h"

namespace moonfence::app {
namespace {

using nlohmann::json;
using testing::HasSubstr;

TEST(Capture, NoValueOfTheEnvironmentIsKept) {
  const json pod = redacted(json::parse(R"({
      "metadata": {"name": "db-0", "managedFields": [1], "annotations": {"kept": "yes",
        "kubectl.kubernetes.io/last-applied-configuration": "s3cret"}},
      "spec": {"nodeName": "n1",
        "containers": [{"name": "main", "env": [{"name": "P", "value": "s3cret"}]}],
        "initContainers": [{"env": [{"name": "Q", "value": "s3cret"}]}]}})"));
  EXPECT_THAT(pod.dump(), testing::Not(HasSubstr("s3cret")));
  EXPECT_FALSE(pod["metadata"].contains("managedFields"));
  EXPECT_EQ(pod["metadata"]["annotations"]["kept"], "yes");
  EXPECT_EQ(pod["spec"]["nodeName"], "n1");
  EXPECT_EQ(pod["spec"]["containers"][0]["env"][0]["name"], "P");
}

json pod_json(const std::string& name, const std::string& labels, const std::string& owner) {
  return json::parse(R"({"kind": "Pod", "metadata": {"namespace": "db", "name": ")" + name +
                     R"(", "uid": ")" + name + R"(-uid", "labels": )" + labels +
                     R"(, "ownerReferences": [{"controller": true, "apiVersion": "apps/v1",
                       "name": "o", "uid": "o-uid", "kind": ")" +
                     owner +
                     R"("}]}, "spec": {"nodeName": "n1"}, "status": {"phase": "Running"}})");
}

std::shared_ptr<const policy::Policy> load(const std::string& body, const json& settings,
                                           port::CpuClock& clock) {
  auto policy = policy::Policy::load(
      "return policy { api = 1, name = 'a', version = '1.0.0', "
      "summary = 'x', " +
          body + " }",
      "a.lua", clock);
  EXPECT_TRUE(policy) << policy.error().message();
  auto set = policy->with_settings(settings);
  EXPECT_TRUE(set) << set.error().message();
  return std::make_shared<const policy::Policy>(*std::move(set));
}

TEST(Capture, KeepsWhatEachPolicySaid) {
  Plan::Node node;
  node.name = "n1";
  Plan::Pod pod = {.space = "db", .name = "db-0", .uid = "u", .because = {}};
  pod.opinions = {{.word = {.reason = "policy_waits", .policy = "a", .digest = "", .text = "soon"}},
                  {.word = {.reason = "daemon_set_pod", .policy = "", .digest = "", .text = ""}}};
  Plan::Pod left = {.space = "db", .name = "ds", .uid = "v", .because = {}};
  left.opinions = {{.word = {.reason = "daemon_set_pod", .policy = "", .digest = "", .text = ""}}};
  node.pods = {pod, left};
  const json objects = {
      {"items", {pod_json("db-0", "{}", "StatefulSet"), pod_json("ds", "{}", "DaemonSet")}}};
  const auto decisions = decisions_of(node, {}, objects, *parse_rfc3339("2026-11-20T10:00:00Z"));
  EXPECT_EQ(decisions["at"], "2026-11-20T10:00:00Z");
  ASSERT_EQ(decisions["pods"].size(), 1U);
  EXPECT_EQ(decisions["pods"][0]["policies"].dump(), R"({"a":{"verdict":"wait","reason":"soon"}})");
}

TEST(Capture, KeepsWhoWasNotAskedAndTheBindings) {
  StoppedCpuClock clock;
  policy::PolicySet set;
  set.bindings.push_back({.name = "a",
                          .policy = load("select = { labels = 'app=db' }, settings = { "
                                         "grace = { type = 'duration', default = '1m' }, "
                                         "kept = { type = 'integer', default = 3 } }, "
                                         "pod = function() return fence.skip('no') end",
                                         {{"grace", "1500ms"}}, clock),
                          .scope = policy::NamespaceScope::of({Namespace("db")}),
                          .allow = {.bare_pods = true}});
  Plan::Node node;
  node.name = "n1";
  node.holds = {{.reason = "policy_holds_node", .policy = "a", .digest = "", .text = "away"}};
  const json objects = {{"items",
                         {pod_json("db-0", R"({"app": "db"})", "StatefulSet"),
                          pod_json("web-0", R"({"app": "web"})", "StatefulSet"),
                          pod_json("ds", R"({"app": "db"})", "DaemonSet")}}};
  const auto decisions = decisions_of(node, set, objects, {});
  EXPECT_EQ(decisions["bindings"].dump(),
            R"([{"policy":"a","namespaces":["db"],"allow":["bare-pods"],)"
            R"("settings":{"grace":"1s500ms"}}])");
  EXPECT_EQ(decisions["held"].dump(),
            R"([{"policy":"a","reason":"policy_holds_node","text":"away"}])");
  EXPECT_EQ(decisions["pods"].dump(), R"([{"namespace":"db","name":"db-0",)"
                                      R"("policies":{"a":{"verdict":"not_asked","reason":""}}}])");
}

class Replay : public testing::Test {
 protected:
  Replay() {
    folder.write("n1.objects.json", R"({"kind":"List","items":[
      {"kind":"Pod","metadata":{"namespace":"db","name":"db-0","labels":{"app":"db"}},
       "spec":{"nodeName":"n1"},"status":{"phase":"Running"}},
      {"kind":"Pod","metadata":{"namespace":"db","name":"web-0","labels":{"app":"web"}},
       "spec":{"nodeName":"n1"},"status":{"phase":"Pending"}}]})");
    folder.write("n1.decisions.json", R"({"node":"n1","at":"2026-11-20T10:00:00Z","pods":[
      {"namespace":"db","name":"db-0","policies":{"db":{"verdict":"delete_pod"}}},
      {"namespace":"db","name":"web-0","policies":{"db":{"verdict":"skip"}}}]})");
  }
  PolicyOutput replay(const std::string& body, const std::vector<const char*>& more = {}) {
    const std::string policy = folder.write(
        "db.lua",
        "return policy { api = 1, name = 'db', version = '1.0.0', summary = 'x', " + body + " }");
    const std::string records = folder.file("");
    std::vector<const char*> words = {"moonfence",    "policy",    "replay",
                                      policy.c_str(), "--records", records.c_str()};
    words.insert(words.end(), more.begin(), more.end());
    const Command command = parse_command_line(static_cast<int>(words.size()), words.data());
    return run_policy_command(std::get<PolicyOptions>(command),
                              {.files = files, .clock = clock, .now = {}});
  }

  // Beside the two pods that the policy was asked about, one that it did not select, one that
  // nobody is asked about, and one of another node.
  void grow(const std::string& more = "{}") {
    json objects = json::parse(*files.read(folder.file("n1.objects.json")));
    objects["items"].push_back(pod_json("new-0", R"({"app": "new"})", "StatefulSet"));
    objects["items"].push_back(pod_json("ds-0", R"({"app": "new"})", "DaemonSet"));
    json far = pod_json("far-0", R"({"app": "new"})", "StatefulSet");
    far["spec"]["nodeName"] = "n2";
    objects["items"].push_back(far);
    folder.write("n1.objects.json", objects.dump());
    record(more);
  }
  // Beside what else is recorded.
  void record(const std::string& more) {
    json decisions = json::parse(*files.read(folder.file("n1.decisions.json")));
    decisions.update(json::parse(more));
    folder.write("n1.decisions.json", decisions.dump());
  }

  test::TemporaryFolder folder;
  os::SystemFiles files;
  StoppedCpuClock clock;
};

TEST_F(Replay, TheSameVerdictsAreNoChange) {
  const PolicyOutput output = replay(
      "pod = function(pod) if pod.phase == 'Running' then return fence.delete_pod('runs') end "
      "return fence.skip('no') end");
  EXPECT_EQ(output.out, "2 decided again, 0 changed\n") << output.err;
  EXPECT_EQ(output.code, PolicyExit::Ok);
}

TEST_F(Replay, ChangesAreListed) {
  const PolicyOutput output = replay(
      "select = { labels = 'app=db' }, pod = function(pod) return fence.wait('later', 30) end");
  EXPECT_EQ(output.out,
            "POD        WAS          IS             WHY\n"
            "db/db-0    delete_pod   wait           later\n"
            "db/web-0   skip         not_selected   -\n"
            "2 decided again, 2 changed\n")
      << output.err;
  EXPECT_EQ(output.code, PolicyExit::CaseFailed);
}

TEST_F(Replay, AFailureIsAChange) {
  const PolicyOutput output = replay("pod = function(pod) error('broken') end");
  EXPECT_THAT(output.out, HasSubstr("error"));
  EXPECT_THAT(output.out, HasSubstr("broken"));
  EXPECT_EQ(output.code, PolicyExit::CaseFailed);
}

TEST_F(Replay, ComparesWithAnotherPolicyWhenAsked) {
  EXPECT_THAT(
      replay("pod = function(pod) return fence.skip('no') end", {"--instead-of", "other"}).out,
      HasSubstr("db/db-0    not_selected   skip"));
}

TEST_F(Replay, APodThatIsNewlySelectedIsAChange) {
  grow();
  const PolicyOutput output = replay(
      "pod = function(pod) if pod.phase == 'Pending' then return fence.skip('no') end "
      "return fence.delete_pod('runs') end");
  EXPECT_EQ(output.out,
            "POD        WAS            IS           WHY\n"
            "db/new-0   not_selected   delete_pod   runs\n"
            "3 decided again, 1 changed\n")
      << output.err;
  EXPECT_EQ(output.code, PolicyExit::CaseFailed);
}

TEST_F(Replay, OnlyWhereThePolicyIsBound) {
  grow(R"({"bindings": [{"policy": "db", "namespaces": ["web"], "allow": ["bare-pods"]},
                        {"policy": "other", "namespaces": ["*"]}]})");
  const std::string deletes = "pod = function(pod) return fence.delete_pod('all') end";
  EXPECT_EQ(replay(deletes).code, PolicyExit::NothingRun);
  EXPECT_THAT(replay(deletes, {"--instead-of", "other"}).out, HasSubstr("db/new-0"));
}

TEST_F(Replay, WhatTheBindingAllowsIsDecided) {
  json objects = json::parse(*files.read(folder.file("n1.objects.json")));
  objects["items"][0]["metadata"]["name"] = "bare-0";
  folder.write("n1.objects.json", objects.dump());
  const std::string deletes = "pod = function(pod) return fence.delete_pod('all') end";
  const std::string listed = "db/bare-0   not_selected   delete_pod";
  EXPECT_THAT(replay(deletes).out, HasSubstr(listed)) << "what a binding allows is not known";
  record(R"({"bindings": [{"policy": "db", "namespaces": ["*"], "allow": []}]})");
  EXPECT_THAT(replay(deletes).out, testing::Not(HasSubstr("bare-0")));
  record(R"({"bindings": [{"policy": "db", "namespaces": ["*"], "allow": ["bare-pods"]}]})");
  EXPECT_THAT(replay(deletes).out, HasSubstr(listed));
}

TEST_F(Replay, WhatOthersLackDoesNotMatter) {
  grow();
  const PolicyOutput output = replay(
      "select = { labels = 'app=db' }, needs = { 'placement' }, "
      "pod = function(pod) return fence.skip('no') end");
  EXPECT_EQ(output.code, PolicyExit::Unusable);
  EXPECT_THAT(output.err, HasSubstr("db/db-0: the policy needs 'placement'"));
  EXPECT_EQ(replay("select = { labels = 'app=none' }, needs = { 'placement' }, "
                   "pod = function(pod) return fence.skip('no') end")
                .code,
            PolicyExit::CaseFailed);
}

TEST_F(Replay, TheSettingsAreThoseOfTheBinding) {
  grow(R"({"bindings": [{"policy": "db", "namespaces": ["*"],
                         "settings": {"grace": "90s", "gone": 1}}]})");
  const std::string says_grace =
      "settings = { grace = { type = 'duration', default = '1s' } }, "
      "pod = function(pod, s) return fence.skip('grace ' .. s.grace) end";
  const PolicyOutput output = replay(says_grace);
  EXPECT_THAT(output.out, HasSubstr("grace 90")) << output.err;
  EXPECT_EQ(output.err, "note: n1: the binding of db sets 'gone', which db.lua does not declare\n");
  EXPECT_THAT(replay(says_grace, {"--set", "grace=5s"}).out, HasSubstr("grace 5"));
}

TEST_F(Replay, WhatThePolicyFetchesIsGiven) {
  const std::string fetches =
      "fetch = function(pod, s, got) if not got.node then "
      "return { node = fence.http('vendor', '/v/' .. pod.name) } end end, "
      "pod = function(pod) return fence.skip(pod.fetched.node.body.state) end";
  const PolicyOutput lacking = replay(fetches);
  EXPECT_EQ(lacking.code, PolicyExit::Unusable);
  EXPECT_THAT(lacking.err, HasSubstr("asks for 'http vendor /v/db-0', which has no response"));
  EXPECT_THAT(lacking.err, HasSubstr("--responses FILE"));
  const std::string path = folder.write("responses.json", R"({
      "http vendor /v/db-0": {"status": 200, "body": {"state": "lost"}},
      "http vendor /v/web-0": {"status": 503}})");
  const PolicyOutput output = replay(fetches, {"--responses", path.c_str()});
  EXPECT_EQ(output.out,
            "POD        WAS          IS         WHY\n"
            "db/db-0    delete_pod   skip       lost\n"
            "db/web-0   skip         deferred   http vendor /v/web-0 answered 503\n"
            "2 decided again, 2 changed\n")
      << output.err;
}

TEST_F(Replay, SaysWhatIsNotDecidedAgain) {
  grow(R"({"bindings": [{"policy": "db", "namespaces": ["*"]}],
           "held": [{"policy": "db", "reason": "policy_holds_node", "text": "away"}],
           "pods": [{"namespace": "db", "name": "new-0",
                     "policies": {"db": {"verdict": "not_asked"}}}]})");
  const PolicyOutput output = replay(
      "node = function(node) return fence.hold('away', 30) end, "
      "pod = function(pod) return fence.delete_pod('all') end");
  EXPECT_THAT(output.out, HasSubstr("db/new-0   not_asked   delete_pod   all\n"));
  EXPECT_EQ(
      output.err,
      "note: the node function of db.lua is not called: pods are decided as if it said proceed\n"
      "note: n1: db was not asked about 1 pods that it selects: policy_holds_node, away\n");
  EXPECT_EQ(output.code, PolicyExit::CaseFailed);
}

TEST_F(Replay, AnEmptyFolderIsNoSuccess) {
  std::filesystem::remove(folder.file("n1.decisions.json"));
  const PolicyOutput output = replay("pod = function(pod) return fence.skip('no') end");
  EXPECT_EQ(output.code, PolicyExit::NothingRun);
  EXPECT_THAT(output.err, HasSubstr("moonfence policy capture NODE"));
}

TEST_F(Replay, WhatCannotBeReadSaysWhatToDo) {
  folder.write("n1.objects.json", "{");
  const PolicyOutput output = replay("pod = function(pod) return fence.skip('no') end");
  EXPECT_EQ(output.code, PolicyExit::Unusable);
  EXPECT_THAT(output.err, HasSubstr("record it anew with moonfence policy capture"));
}

}  // namespace
}  // namespace moonfence::app
