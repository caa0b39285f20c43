#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "policy/host/policy.h"
#include "support/policies.h"

namespace moonfence::policy {
namespace {

using nlohmann::json;

StoppedCpuClock& clock() {
  static StoppedCpuClock stopped;
  return stopped;
}

Result<Policy> fencer(const std::string& off) {
  return Policy::load(R"(return fencer { api = 1, name = "bmc", version = "1.0.0", summary = "asks",
    plan = function() end,
    state = function() return "on", "it says so" end,)" +
                          off + " }",
                      "bmc.lua", clock());
}

kube::Node node() {
  kube::Node made;
  made.name = NodeName("n1");
  made.raw = std::make_shared<const json>(json{{"metadata", {{"name", "n1"}}}});
  return made;
}

// What off() comes to with this body: the request's text, why there is none, or the error.
std::string ordered(const std::string& body, const json& got = {{"system", {{"status", 200}}}}) {
  const auto loaded = fencer("off = function(node, s, got) " + body + " end");
  EXPECT_TRUE(loaded) << loaded.error().message();
  const auto run = loaded->order(node(), got);
  if (!run.result) {
    return "error " + run.result.error().text;
  }
  return run.result->request ? run.result->request->text() : "not: " + run.result->why_not;
}

TEST(Fencer, off_is_optional_and_a_function) {
  EXPECT_EQ(fencer("")->act(), FencerAct::None);
  EXPECT_EQ(fencer("off = function() end")->act(), FencerAct::SwitchOff);
  EXPECT_FALSE(fencer("off = 5"));
  EXPECT_FALSE(fencer("")->order(node(), {}).result) << "it has none";
}

TEST(Fencer, an_order_is_a_post_of_a_flat_table) {
  EXPECT_EQ(ordered(R"(return fence.post("bmc", "/off", { b = true, a = 5, c = "x" }))"),
            R"(post bmc /off {"a":5,"b":true,"c":"x"})");
  EXPECT_EQ(ordered(R"(return fence.post("bmc", "/off", {}))"), "post bmc /off {}");
}

TEST(Fencer, what_follows_the_body_is_escaped_as_with_http) {
  EXPECT_EQ(
      ordered(R"(return fence.post("bmc", "/vm", {}, "a/b", 7, "off", { hard = true, a = "&" }))"),
      "post bmc /vm/a%2Fb/7/off?a=%26&hard=true {}");
}

TEST(Fencer, who_cannot_says_why) {
  EXPECT_EQ(ordered("return nil, 'its button is stuck'"), "not: its button is stuck");
}

TEST(Fencer, anything_else_is_an_error) {
  for (
      const char* body :
      {"return nil", "return 'off'", "return true, 'x'", "error('x')",
       R"(return fence.post("bmc", "/off", { 5 }))",
       R"(return fence.post("bmc", "/off", { a = {} }))",
       R"(return fence.post("bmc", "/off", { a = 1.5 }))", R"(return fence.post("bmc", "/off"))",
       R"(return fence.post("bmc", "off", {}))", R"(return fence.post("bmc", "/a/../b", {}))",
       R"(return fence.post("bmc", "https://elsewhere/off", {}))",
       R"(return fence.post("BMC", "/off", {}))", R"(return fence.http("bmc", "/off"))",
       R"(local long = 'x' for i = 1, 13 do long = long .. long end return fence.post("bmc", "/off", { a = long }))"}) {
    EXPECT_TRUE(ordered(body).starts_with("error ")) << body << ": " << ordered(body);
  }
}

// What isolate() comes to with this body.
std::string isolated(const std::string& body) {
  const auto loaded = fencer("isolate = function(node, s, got) " + body + " end");
  EXPECT_TRUE(loaded) << loaded.error().message();
  const auto run = loaded->order(node(), json::object());
  if (!run.result) {
    return "error " + run.result.error().text;
  }
  std::string drivers;
  for (const std::string& driver : run.result->drivers) {
    drivers += " " + driver;
  }
  return run.result->request ? run.result->request->text() + drivers
                             : "not: " + run.result->why_not;
}

TEST(Fencer, isolate_makes_an_object_for_the_storage_of_some_drivers) {
  EXPECT_EQ(fencer("isolate = function() end")->act(), FencerAct::Isolate);
  EXPECT_EQ(isolated(R"(return fence.create("x.example.com/v1", "fences", "", {
              kind = "Fence", metadata = { name = "f-1" },
              spec = { list = { "a", "b" }, deep = { yes = true, n = 5 }, none = {} } }),
              { drivers = { "rbd.example.com" } })"),
            R"(create x.example.com/v1 fences f-1 {"apiVersion":"x.example.com/v1","kind":"Fence",)"
            R"("metadata":{"name":"f-1"},"spec":{"deep":{"n":5,"yes":true},"list":["a","b"],)"
            R"("none":{}}} rbd.example.com)");
  EXPECT_EQ(isolated(R"(return fence.create("x.example.com/v1", "fences", "storage", {
              kind = "Fence", metadata = { name = "f", namespace = "other" } }),
              { drivers = { "a" } })"),
            R"(create x.example.com/v1 fences storage/f {"apiVersion":"x.example.com/v1",)"
            R"("kind":"Fence","metadata":{"name":"f","namespace":"storage"}} a)");
  EXPECT_EQ(isolated("return nil, 'nothing is left'"), "not: nothing is left");
}

TEST(Fencer, a_fencer_switches_off_or_isolates_and_not_both) {
  EXPECT_FALSE(fencer("isolate = function() end, off = function() end"));
}

TEST(Fencer, what_is_no_custom_object_with_a_name_and_drivers_is_an_error) {
  // Its length is 2^30; and a long name that is copied a million times.
  const std::string hostile =
      "local sparse, shared, inner, rows, long = {}, {}, {}, {}, 'x' "
      "for i = 0, 30 do sparse[1 << i] = 1 end for i = 1, 14 do long = long .. long end "
      "inner[long] = 'x' for i = 1, 100 do rows[i] = inner end "
      "for i = 1, 100 do shared[i] = rows end ";
  const auto of = [&](const std::string& api, const std::string& object,
                      const std::string& more = ", { drivers = { 'a' } }") {
    return isolated(hostile + "return fence.create('" + api + "', 'fences', '', " + object + ")" +
                    more);
  };
  const std::string good = "{ kind = 'F', metadata = { name = 'f' } }";
  const std::string api = "x.example.com/v1";
  EXPECT_TRUE(of(api, good).starts_with("create "));
  for (const char* own : {"v1", "apps/v1", "batch/v1", "rbac.authorization.k8s.io/v1",
                          "storage.k8s.io/v1", "k8s.io/v1", "x.example.com", "../v1"}) {
    EXPECT_TRUE(of(own, good).starts_with("error ")) << own;
  }
  for (const char* object :
       {"{}", "{ kind = 'F' }", "{ metadata = { name = 'f' } }", "{ 'a' }", "'a'",
        "{ kind = 5, metadata = { name = 'f' } }", "{ kind = 'F', metadata = { name = '../f' } }",
        "{ kind = 'F', metadata = { name = 5 } }", "{ kind = 'F', metadata = 'f' }",
        "{ kind = 'F', metadata = { name = 'f' }, x = 1.5 }",
        "{ kind = 'F', metadata = { name = 'f' }, x = string.len }",
        "{ kind = 'F', metadata = { name = 'f' }, x = { 'a', b = 'c' } }",
        "{ kind = 'F', metadata = { name = 'f' }, x = { 'a', [3] = 'c' } }",
        "{ kind = 'F', metadata = { name = 'f' }, x = sparse }",
        "{ kind = 'F', metadata = { name = 'f' }, x = shared }",
        "{ kind = 'F', metadata = { name = 'f' }, [true] = 'x' }",
        "{ kind = 'F', metadata = { name = 'f' }, x = {{{{{{{{{{ 'x' }}}}}}}}}} }",
        "{ kind = 'F', metadata = { name = 'f' }, x = long }"}) {
    EXPECT_TRUE(of(api, object).starts_with("error ")) << object << of(api, object);
  }
  for (const char* more : {"", ", 'x'", ", {}", ", { drivers = {} }", ", { drivers = { 5 } }"}) {
    EXPECT_TRUE(of(api, good, more).starts_with("error ")) << more;
  }
}

TEST(Fencer, off_may_be_annotations_of_an_object_that_is_meant) {
  EXPECT_EQ(ordered(R"(return fence.annotate("x.example.com/v1", "hosts", "ns", "h-1", "u1",
                       { ["a/off"] = '{"mode":"hard"}' }))"),
            R"(annotate x.example.com/v1 hosts ns/h-1 {"a/off":"{\"mode\":\"hard\"}"})");
  for (const char* arguments : {R"("v1", "nodes", "", "n1", "u1", { a = "b" })",
                                R"("x.example.com/v1", "hosts", "ns", "h", "", { a = "b" })",
                                R"("x.example.com/v1", "hosts", "ns", "../h", "u1", { a = "b" })",
                                R"("x.example.com/v1", "hosts", "ns", "h", "u1", {})",
                                R"("x.example.com/v1", "hosts", "ns", "h", "u1", { a = 5 })",
                                R"("x.example.com/v1", "hosts", "ns", "h", "u1", { "a" })",
                                R"("x.example.com/v1", "hosts", "ns", "h", "u1", { a = {} })",
                                R"("x.example.com/v1", "hosts", "ns", "h", "u1")"}) {
    EXPECT_TRUE(
        ordered(std::string("return fence.annotate(") + arguments + ")").starts_with("error "))
        << arguments;
  }
}

// What state() comes to with this body.
Result<PowerState> stated(const std::string& body) {
  const auto loaded = Policy::load(R"(return fencer { api = 1, name = "bmc", version = "1.0.0",
      summary = "asks", plan = function() end,
      state = function() )" + body + " end }",
                                   "bmc.lua", clock());
  EXPECT_TRUE(loaded) << loaded.error().message();
  return loaded->power_of(node(), json::object()).result;
}

TEST(Fencer, isolated_names_the_drivers) {
  const auto state = stated("return 'isolated', 'x', { drivers = { 'b.example.com', 'A', 'A' } }");
  ASSERT_TRUE(state) << state.error().message();
  EXPECT_EQ(state->power, Power::Isolated);
  EXPECT_EQ(state->drivers, (std::set<std::string>{"A", "b.example.com"}));
  EXPECT_TRUE(stated("return 'off', 'x', { drivers = { 'b' } }")->drivers.empty());
}

TEST(Fencer, isolated_without_drivers_is_an_error) {
  for (const char* more :
       {"", ", nil", ", {}", ", 5", ", { 'a' }", ", { drivers = 'a' }", ", { drivers = {} }",
        ", { drivers = { 5 } }", ", { drivers = { '' } }", ", { drivers = { 'a/b' } }",
        ", { drivers = { '*' } }", ", { drivers = { string.len } }",
        ", { drivers = { '1', '2', '3', '4', '5', '6', '7', '8', '9', '10', '11',"
        " '12', '13', '14', '15', '16', '17' } }"}) {
    EXPECT_FALSE(stated(std::string("return 'isolated', 'x'") + more)) << more;
  }
}

TEST(Fencer, lists_are_read_where_power_is_read_and_never_secrets) {
  const auto planned = [](const std::string& request, bool of_fencer = true) {
    const std::string plan = "plan = function() return { x = " + request + " } end";
    const auto loaded = Policy::load(
        "return fencer { api = 1, name = 'bmc', version = '1.0.0', summary = 'asks', " +
            std::string("state = function() return 'on', 'x' end,") + plan +
            ", off = function() return " + request + " end }",
        "bmc.lua", clock());
    EXPECT_TRUE(loaded) << loaded.error().message();
    if (!of_fencer) {
      const auto run = loaded->order(node(), json::object());
      return run.result ? std::string("made") : "error";
    }
    const auto run = loaded->plan_power(node(), json::object());
    return run.result ? run.result->at("x").text() : "error";
  };
  EXPECT_EQ(planned("fence.list('v1', 'nodes')"), "list v1 nodes");
  EXPECT_EQ(planned("fence.list('a.example.com/v1', 'things', 'db')"),
            "list a.example.com/v1 things db");
  EXPECT_EQ(planned("fence.list('v1', 'pods', '', { labels = ' app=db, tier in (a, b)' })"),
            "list v1 pods labels: app=db, tier in (a, b)");
  EXPECT_EQ(planned("fence.list('v1', 'pods', 'db', { labels = 'app', metadata = true })"),
            "list-metadata v1 pods db labels: app");
  EXPECT_EQ(planned("fence.list('v1', 'nodes')", false), "error");
  for (const char* request :
       {"fence.list('v1', 'secrets')", "fence.list('v1', '')", "fence.list('v1', 'a/b')",
        "fence.list('', 'nodes')", "fence.list('v1', 'nodes', '..')", "fence.list('v1')",
        "fence.list('v1', 'pods', '', 'app=db')", "fence.list('v1', 'pods', '', { labels = '' })",
        "fence.list('v1', 'pods', '', { labels = '  ' })",
        "fence.list('v1', 'pods', '', { labels = 'app=(' })",
        "fence.list('v1', 'pods', '', { label = 'app=db' })",
        "fence.list('v1', 'pods', '', { metadata = 1 })", "fence.try(fence.list('v1', 'nodes'))"}) {
    EXPECT_EQ(planned(request), "error") << request;
  }
}

TEST(Fencer, nothing_is_ordered_where_power_is_read_or_pods_are_judged) {
  const auto reads = Policy::load(R"(return fencer { api = 1, name = "bmc", version = "1.0.0",
      summary = "asks", state = function() return "on", "x" end,
      plan = function() return { x = fence.post("bmc", "/off", {}) } end })",
                                  "bmc.lua", clock());
  ASSERT_TRUE(reads);
  EXPECT_FALSE(reads->plan_power(node(), json::object()).result);
  const auto judges =
      load_text(policy_text(R"(fence.post("bmc", "/off", {}) return fence.skip("x"))"));
  ASSERT_TRUE(judges);
}

}  // namespace
}  // namespace moonfence::policy
