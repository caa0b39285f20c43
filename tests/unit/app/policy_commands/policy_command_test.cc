#include "app/policy_commands/policy_command.h"

#include <array>
#include <filesystem>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "app/cli/options.h"
#include "os/system/system_files.h"
#include "policy/kit/shipped.h"
#include "support/policies.h"
#include "support/temporary_folder.h"

namespace moonfence::app {
namespace {

constexpr const char* kPolicy = R"(return policy { api = 1, name = 'db', version = '1.2.3',
  summary = 'a policy', select = { labels = 'app=db' },
  settings = { mode = { type = 'enum', values = { 'a', 'b' }, default = 'a', doc = 'Which' },
               n = { type = 'integer', default = 1 } },
  pod = function(pod, s)
    log.info('mode ' .. s.mode)
    if pod.name == 'left' then
      return fence.skip('by name')
    end
    return fence.delete_pod('n is ' .. s.n)
  end })";

constexpr const char* kTests = R"(
local pod = { kind = 'Pod', metadata = { name = 'x', namespace = 'd', labels = { app = 'db' } } }
return tests { objects = pod,
  case { name = 'deleted', expect = { verdict = 'delete_pod' } },
  case { name = 'left', patch = { ['pod.name'] = 'left' }, expect = { verdict = 'skip' } } })";

constexpr const char* kPod =
    R"({"kind": "Pod", "metadata": {"name": "pg-0", "namespace": "d", "uid": "u", "labels": {"app": "db"}}})";

class PolicyCommand : public testing::Test {
 protected:
  // What `moonfence policy ARGUMENTS` does.
  PolicyOutput run(const std::vector<std::string>& arguments) {
    std::vector<const char*> words = {"moonfence", "policy"};
    for (const std::string& argument : arguments) {
      words.push_back(argument.c_str());
    }
    const Command command = parse_command_line(static_cast<int>(words.size()), words.data());
    if (const auto* leave = std::get_if<Leave>(&command)) {
      return {.code = static_cast<PolicyExit>(leave->code), .out = "", .err = leave->text};
    }
    return run_policy_command(std::get<PolicyOptions>(command),
                              {.files = files_, .clock = clock_, .now = {}});
  }
  int code(const std::vector<std::string>& arguments) {
    return static_cast<int>(run(arguments).code);
  }
  [[nodiscard]] std::string path(const std::string& name = "") const { return folder_.file(name); }

  test::TemporaryFolder folder_;
  os::SystemFiles files_;
  StoppedCpuClock clock_;
};

bool has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

TEST_F(PolicyCommand, check_accepts_a_file_and_a_folder) {
  folder_.write("db.lua", kPolicy);
  const auto output = run({"check", path("db.lua")});
  EXPECT_EQ(output.code, PolicyExit::Ok) << output.err;
  EXPECT_TRUE(has(output.out, "db 1.2.3  a policy"));
  std::filesystem::create_directory(path("db"));
  folder_.write("db/policy.lua", kPolicy);
  EXPECT_EQ(code({"check", path("db")}), 0);
  EXPECT_EQ(code({"check", path("db/policy.lua"), path("db.lua")}), 0);
}

TEST_F(PolicyCommand, check_tells_place_value_rule_and_next_step) {
  folder_.write("db.lua", "return policy {\n api = 1,\n nme = 'db' }");
  const auto output = run({"check", path("db.lua")});
  EXPECT_EQ(output.code, PolicyExit::Unusable);
  EXPECT_TRUE(has(output.err, "db.lua:")) << output.err;
  EXPECT_TRUE(has(output.err, "did you mean 'name'?"));
  EXPECT_TRUE(has(output.err, " | ")) << "the line itself is shown: " << output.err;
  EXPECT_EQ(code({"check", path("missing.lua")}), 2);
  EXPECT_EQ(code({"check", path()}), 2);
}

// A fresh object has next to nothing; a policy must survive it.
TEST_F(PolicyCommand, check_tries_a_minimal_pod) {
  folder_.write("db.lua",
                "return policy { api = 1, name = 'db', version = '1.0.0', summary = 's',\n"
                "pod = function(pod) return fence.skip(pod.labels.app .. 'x') end }");
  const auto output = run({"check", path("db.lua")});
  EXPECT_EQ(output.code, PolicyExit::Unusable);
  EXPECT_TRUE(has(output.err, "a pod with nothing but its name, its node")) << output.err;
  EXPECT_EQ(output.out, "");
}

// A policy that selects labels had to hold up for pods that it is never asked about.
TEST_F(PolicyCommand, check_tries_a_pod_that_the_policy_selects_on_a_node) {
  const std::string begin =
      "return policy { api = 1, name = 'db', version = '1.0.0', summary = 's',\n";
  folder_.write("db.lua", begin + R"(select = { labels = "app in (db, web),tier,!old,app!=db" },
pod = function(pod) return fence.skip(pod.labels.app .. pod.labels.tier .. pod.node_name) end })");
  EXPECT_EQ(code({"check", path("db.lua")}), 0) << run({"check", path("db.lua")}).err;
  folder_.write("db.lua", begin + R"(select = { labels = "app in (db, web),tier,!old,app!=db" },
pod = function(pod) if pod.labels.app == "web" then error("seen") end return fence.skip("x") end })");
  EXPECT_EQ(code({"check", path("db.lua")}), 2) << "it is asked about that pod";
  folder_.write("db.lua", begin + R"(select = { labels = "app,!app" },
pod = function(pod) error("never") end })");
  const auto nothing = run({"check", path("db.lua")});
  EXPECT_EQ(nothing.code, PolicyExit::Ok);
  EXPECT_TRUE(has(nothing.err, "no pod is selected by 'app,!app'")) << nothing.err;
}

// A message said that check reads moonfence.yaml; it took it for a policy.
TEST_F(PolicyCommand, check_reads_moonfence_yaml_and_what_it_binds) {
  const auto bind = [this](const std::string& bindings) {
    folder_.write("moonfence.yaml", "api: 1\nbindings: " + bindings + "\n");
    return run({"check", path("moonfence.yaml")});
  };
  folder_.write("db.lua", kPolicy);
  const auto fine = bind(
      "[{policy: noobaa, namespaces: [n]},\n"
      " {policy: db, source: db.lua, namespaces: ['*'], settings: {mode: b}}]");
  EXPECT_EQ(fine.code, PolicyExit::Ok) << fine.err;
  EXPECT_TRUE(has(fine.out, "db in namespaces *: observe")) << fine.out;
  const std::array<std::pair<std::string, std::string>, 5> faults = {
      {{"[{policy: nooba, namespaces: [n]}]", "did you mean 'noobaa'?"},
       {"[{policy: noobaa, namespaces: [n], settings: {bd: pod}}]", "did you mean 'db'?"},
       {"[{policy: db, source: db.lua, namespaces: [n], settings: {mode: c}}]", "mode"},
       {"[{policy: gone, source: gone.lua, namespaces: [n]}]", "gone.lua"},
       {"[{policy: db, namespace: [n]}]", "did you mean 'namespaces'?"}}};
  for (const auto& [bindings, part] : faults) {
    const auto output = bind(bindings);
    EXPECT_EQ(output.code, PolicyExit::Unusable) << bindings;
    EXPECT_TRUE(has(output.err, part)) << output.err;
    EXPECT_TRUE(has(output.err, "moonfence.yaml:2")) << output.err;
    EXPECT_EQ(output.out, "");
  }
  const auto empty = bind("[]");
  EXPECT_TRUE(has(empty.err, "binds no policy")) << empty.err;
  EXPECT_EQ(code({"check", "--strict", path("moonfence.yaml")}), 2);
}

// The engine refuses the whole file for it.
TEST_F(PolicyCommand, check_refuses_what_the_engine_s_configuration_does_not_permit) {
  const auto check = [this](const std::string& keys, std::vector<std::string> arguments = {}) {
    folder_.write("moonfence.yaml",
                  "api: 1\nbindings: [{policy: noobaa, namespaces: [n], " + keys + "}]\n");
    arguments.insert(arguments.begin(), {"check", path("moonfence.yaml")});
    return run(arguments);
  };
  const auto early = check("actOn: off, after: 6s");
  EXPECT_EQ(early.code, PolicyExit::Unusable);
  EXPECT_TRUE(has(early.err, "bindings[0].after: must be a duration from 12s to 1h, not '6s'"))
      << early.err;
  EXPECT_TRUE(has(early.err, "--least-after")) << early.err;
  EXPECT_EQ(early.out, "");
  EXPECT_EQ(check("actOn: off, after: 12s").err, "");
  EXPECT_EQ(check("actOn: off, after: 6s", {"--least-after", "6s"}).code, PolicyExit::Ok);
  EXPECT_EQ(check("actOn: off, after: 6s", {"--least-after=7s"}).code, PolicyExit::Unusable);
  EXPECT_EQ(check("actOn: lost, after: 12s", {"--least-after=30s"}).code, PolicyExit::Unusable);
  const auto lost = check("actOn: lost, after: 6s");
  EXPECT_EQ(lost.code, PolicyExit::Unusable);
  EXPECT_FALSE(has(lost.err, "--least-after")) << lost.err;  // no configuration permits that
  for (const char* wrong : {"soon", "5s", "61m", "-6s"}) {
    const auto refused = check("", {std::string("--least-after=") + wrong});
    EXPECT_EQ(refused.code, PolicyExit::Usage) << wrong;
    EXPECT_TRUE(has(refused.err, "--least-after")) << refused.err;
  }
}

TEST_F(PolicyCommand, doc_tells_what_a_policy_asks_for) {
  folder_.write("db.lua", R"(return policy { api = 1, name = "db", version = "1.0.0", summary = "s",
  fetch = function(pod, s, got)
    if got.a == nil then
      return { a = fence.get("v1", "persistentvolumeclaims", pod.namespace, "data") }
    end
  end,
  pod = function(pod) return fence.skip("x") end })");
  const std::string page = run({"doc", path("db.lua")}).out;
  EXPECT_TRUE(has(page, "- requests:\n  - line 4: `return { a = fence.get(")) << page;
  EXPECT_TRUE(has(run({"doc", "noobaa"}).out, "- requests: none\n"));
}

TEST_F(PolicyCommand, strict_makes_missing_tests_an_error) {
  folder_.write("db.lua", kPolicy);
  EXPECT_EQ(code({"check", path("db.lua")}), 0);
  const auto output = run({"check", "--strict", path("db.lua")});
  EXPECT_EQ(output.code, PolicyExit::Unusable);
  EXPECT_TRUE(has(output.err, "has no tests in"));
  folder_.write("db_test.lua", kTests);
  EXPECT_EQ(code({"check", "--strict", path("db.lua")}), 0);
}

TEST_F(PolicyCommand, test_finds_its_files_three_ways) {
  folder_.write("db.lua", kPolicy);
  folder_.write("db_test.lua", kTests);
  for (const std::string& what : {path(), path("db.lua"), path("db_test.lua")}) {
    const auto output = run({"test", what});
    EXPECT_EQ(output.code, PolicyExit::Ok) << output.out << output.err;
    EXPECT_TRUE(output.out.ends_with("\n2 passed, 0 failed\n")) << output.out;
  }
}

TEST_F(PolicyCommand, test_exit_codes) {
  folder_.write("db.lua", kPolicy);
  EXPECT_EQ(code({"test", path()}), 3) << "no test file";
  EXPECT_EQ(code({"test", path("db.lua")}), 2) << "named, and not there";
  folder_.write("db_test.lua", "return tests {}");
  EXPECT_EQ(code({"test", path()}), 3) << "no case";
  folder_.write("db_test.lua", kTests);
  EXPECT_EQ(code({"test", path(), "--run", "nothing*"}), 3);
  EXPECT_EQ(code({"test", path(), "--run", "l?ft"}), 0);
  EXPECT_EQ(code({"test", path(), "--run", "*et*"}), 0);
  EXPECT_EQ(code({"test", path(), "--coverage=100"}), 0);
  EXPECT_EQ(code({"test", path(), "--coverage"}), 0);
  EXPECT_EQ(code({"test", path(), "--coverage=100", "--run", "left"}), 4);
  EXPECT_EQ(code({"test", path(), "--coverage=101"}), 64);
  EXPECT_EQ(code({"test", path(), "--coverage=-5"}), 64);
  EXPECT_EQ(code({"test", path(), "--coverge"}), 64);
  EXPECT_EQ(code({"test", path(), "other"}), 64);
  EXPECT_EQ(code({}), 64);
  EXPECT_EQ(code({"frobnicate"}), 64);
  EXPECT_EQ(code({"test", "--help"}), 0);
  EXPECT_EQ(code({"--help"}), 0);
  folder_.write("db_test.lua", std::string(kTests) + "\n-- } ");
  EXPECT_EQ(code({"test", path()}), 0);
  folder_.write("db_test.lua",
                "return tests { case { name = 'a', expect = { verdict = 'skip' } } }");
  EXPECT_EQ(code({"test", path()}), 2) << "a case without a pod is malformed";
  folder_.write("db_test.lua", "return 3");
  EXPECT_EQ(code({"test", path()}), 2);
  folder_.write("db_test.lua", "while true do end");
  EXPECT_EQ(code({"test", path()}), 2);
}

TEST_F(PolicyCommand, a_failed_case_is_1_and_a_broken_file_outweighs_it) {
  folder_.write("db.lua", kPolicy);
  folder_.write("db_test.lua", R"(return tests { case { name = 'a', objects = { kind = 'Pod',
    metadata = { name = 'x', labels = { app = 'db' } } }, expect = { verdict = 'skip' } } })");
  const auto output = run({"test", path()});
  EXPECT_EQ(output.code, PolicyExit::CaseFailed);
  EXPECT_TRUE(has(output.out, "verdict: want skip, got delete_pod"));
  EXPECT_TRUE(has(output.out, "read: pod.name=\"x\"") || has(output.out, "pod.name=\"x\""));
  folder_.write("other_test.lua", kTests);
  EXPECT_EQ(code({"test", path()}), 2) << "other.lua is missing";
}

TEST_F(PolicyCommand, reports_for_machines) {
  folder_.write("db.lua", kPolicy);
  folder_.write("db_test.lua", kTests);
  const auto output = run({"test", path(), "--json", "--junit", path("out/junit.xml")});
  EXPECT_EQ(nlohmann::json::parse(output.out)["passed"], 2);
  EXPECT_TRUE(has(folder_.read("out/junit.xml"), "<testcase name=\"deleted\""));
}

TEST_F(PolicyCommand, automatic_cases_are_always_on_for_shipped_policies) {
  std::filesystem::create_directories(path("policies/db"));
  folder_.write("policies/db/policy.lua", kPolicy);
  folder_.write("policies/db/policy_test.lua", kTests);
  EXPECT_TRUE(has(run({"test", path("policies")}).out, "automatic cases"));
  folder_.write("db.lua", kPolicy);
  folder_.write("db_test.lua", kTests);
  EXPECT_FALSE(has(run({"test", path("db.lua")}).out, "automatic cases"));
  EXPECT_TRUE(has(run({"test", path("db.lua"), "--auto"}).out, "automatic cases"));
}

TEST_F(PolicyCommand, eval_decides_and_explains) {
  folder_.write("db.lua", kPolicy);
  folder_.write("pod.json", kPod);
  const auto output = run({"eval", path("db.lua"), "--pod", path("pod.json"), "--set", "n=5",
                           "--set", "mode=b", "--explain"});
  EXPECT_EQ(output.code, PolicyExit::Ok) << output.err;
  EXPECT_TRUE(output.out.starts_with("delete_pod\nreason: n is 5\nat: db.lua:10\ncost: "))
      << output.out;
  EXPECT_TRUE(has(output.out, "read: pod.name = \"pg-0\"\n"));
  EXPECT_TRUE(has(output.out, "mode b\n"));
}

TEST_F(PolicyCommand, eval_refuses_what_it_cannot_use) {
  folder_.write("db.lua", kPolicy);
  folder_.write("pod.json", kPod);
  folder_.write("bad.json", "{");
  const auto eval = [this](std::vector<std::string> more) {
    more.insert(more.begin(), {"eval", path("db.lua")});
    return code(more);
  };
  EXPECT_EQ(eval({}), 64);
  EXPECT_EQ(eval({"--pod", path("bad.json")}), 2);
  EXPECT_EQ(eval({"--pod", path("missing.json")}), 2);
  EXPECT_EQ(eval({"--pod", path("pod.json"), "--set", "n"}), 64);
  EXPECT_EQ(eval({"--pod", path("pod.json"), "--set", "n=x"}), 2);
  EXPECT_EQ(eval({"--pod", path("pod.json"), "--set", "mode=c"}), 2);
  EXPECT_EQ(eval({"--pod", path("pod.json"), "--set", "other=1"}), 2);
  EXPECT_EQ(eval({"--pod", path("pod.json"), "--now", "noon"}), 2);
  EXPECT_EQ(eval({"--pod", path("pod.json"), "--now", "2026-11-20T10:07:00Z"}), 0);
  EXPECT_EQ(eval({"--pod", path("pod.json"), "--with", path("nowhere")}), 2);
  EXPECT_EQ(eval({"--pod", path("pod.json"), "--pod-name", "other"}), 2);
}

TEST_F(PolicyCommand, eval_takes_further_objects_from_a_folder) {
  folder_.write("db.lua",
                "return policy { api = 1, name = 'db', version = '1.0.0', summary = 's', "
                "needs = { 'placement' }, pod = function(pod) return fence.skip("
                "#pod.placement.candidates .. ' nodes') end }");
  folder_.write("pod.json", kPod);
  EXPECT_EQ(code({"eval", path("db.lua"), "--pod", path("pod.json")}), 2) << "no Node is given";
  std::filesystem::create_directory(path("more"));
  folder_.write("more/nodes.json", R"({"kind": "List", "items": [{"kind": "Node", "metadata":
    {"name": "n"}, "status": {"conditions": [{"type": "Ready", "status": "True"}]}}]})");
  const auto output =
      run({"eval", path("db.lua"), "--pod", path("pod.json"), "--with", path("more")});
  EXPECT_TRUE(has(output.out, "reason: 1 nodes")) << output.out << output.err;
}

TEST_F(PolicyCommand, eval_of_a_policy_that_fails_is_1) {
  folder_.write("db.lua",
                "return policy { api = 1, name = 'db', version = '1.0.0', summary = 's', "
                "pod = function(pod) return 3 end }");
  folder_.write("pod.json", kPod);
  const auto output = run({"eval", path("db.lua"), "--pod", path("pod.json")});
  EXPECT_EQ(output.code, PolicyExit::CaseFailed);
  EXPECT_TRUE(output.out.starts_with("error: db.lua:1:")) << output.out;
}

TEST_F(PolicyCommand, list_and_doc_show_built_in_policies) {
  const auto listed = run({"list"});
  EXPECT_EQ(listed.code, PolicyExit::Ok) << listed.err;
  EXPECT_TRUE(has(listed.out, "noobaa"));
  const auto page = run({"doc", "noobaa"});
  EXPECT_TRUE(page.out.starts_with("# noobaa ")) << page.out;
  EXPECT_TRUE(has(page.out, "| `db` | enum: `skip`, `pod`, `pod-and-attachments` | `\"skip\"` |"));
  EXPECT_TRUE(
      has(page.out, "verdicts: `delete_pod`, `delete_pod_and_attachments`, `skip`, `wait`"));
  EXPECT_TRUE(has(run({"doc", "nooba"}).err, "did you mean 'noobaa'?"));
  folder_.write("db.lua", kPolicy);
  EXPECT_TRUE(run({"doc", path("db.lua")}).out.starts_with("# db 1.2.3\n"));
}

TEST_F(PolicyCommand, new_writes_a_policy_that_passes_at_once) {
  const auto output = run({"new", "my-db", "-o", path()});
  EXPECT_EQ(output.code, PolicyExit::Ok) << output.err;
  EXPECT_EQ(code({"check", "--strict", path("my-db")}), 0);
  const auto tested = run({"test", path("my-db"), "--coverage=100"});
  EXPECT_EQ(tested.code, PolicyExit::Ok) << tested.out;
  EXPECT_EQ(code({"new", "my-db", "-o", path()}), 2) << "it exists already";
  EXPECT_EQ(code({"new", "../x", "-o", path()}), 64);
  EXPECT_EQ(code({"new", "My_db", "-o", path()}), 64);
}

TEST_F(PolicyCommand, new_from_a_shipped_policy_brings_its_tests_and_they_pass) {
  for (const std::string_view shipped : policy::shipped_names()) {
    const std::string name = "my-" + std::string(shipped);
    const auto output = run({"new", name, "--from", std::string(shipped), "-o", path()});
    EXPECT_EQ(output.code, PolicyExit::Ok) << output.err;
    EXPECT_TRUE(has(folder_.read(name + "/policy.lua"), "  name = \"" + name + "\",\n"));
    const auto tested = run({"test", path(name)});
    EXPECT_EQ(tested.code, PolicyExit::Ok) << tested.out;
  }
  const auto unknown = run({"new", "my-db", "--from", "clodnative-pg", "-o", path()});
  EXPECT_EQ(unknown.code, PolicyExit::Usage);
  EXPECT_TRUE(has(unknown.err, "did you mean 'cloudnative-pg'?")) << unknown.err;
  EXPECT_TRUE(has(unknown.err, "one of: ceph, ")) << unknown.err;
  EXPECT_EQ(code({"new", "my-ceph", "--from", "ceph", "-o", path()}), 2) << "it exists already";
}

TEST_F(PolicyCommand, meta_writes_what_it_prints) {
  EXPECT_EQ(code({"meta", "-o", path("m")}), 0);
  EXPECT_TRUE(has(run({"meta"}).out, folder_.read("m/lib/fence.lua")));
  EXPECT_TRUE(run({"meta", "--markdown"}).out.starts_with("# Policy API, version 1\n"));
}

}  // namespace
}  // namespace moonfence::app
