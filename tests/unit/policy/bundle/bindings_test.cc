#include "policy/bundle/bindings.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "kube/text/yaml.h"
#include "kube/text/yaml_values.h"

namespace moonfence::policy {
namespace {

using nlohmann::json;
using testing::HasSubstr;
using testing::StartsWith;

std::string error_of(const std::string& text) {
  const auto parsed = parse_bindings(text);
  return parsed.file ? "" : parsed.file.error().message();
}

// A file of one binding with these lines beside its policy and namespaces.
std::string one(const std::string& lines) {
  return "api: 1\nbindings:\n- policy: db\n  namespaces: [\"*\"]\n" + lines;
}

TEST(BindingsTest, whoever_acts_on_lost_nodes_says_so_and_waits_for_twelve_seconds_at_least) {
  using namespace std::chrono_literals;
  const auto allowed = [](const std::string& lines) {
    const Allowances allow = parse_bindings(one(lines)).file->bindings[0].reach().allow;
    return std::string(to_string(allow.act_on)) + " " + format_duration(allow.after);
  };
  EXPECT_EQ(allowed(""), "down 0s");
  EXPECT_EQ(allowed("  actOn: down\n"), "down 0s");
  EXPECT_EQ(allowed("  actOn: lost\n"), "lost 12s");
  EXPECT_EQ(allowed("  actOn: lost\n  after: 1m\n"), "lost 1m");
  EXPECT_EQ(allowed("  actOn: off\n"), "off 1m");
  EXPECT_EQ(allowed("  actOn: off\n  after: 20s\n"), "off 20s");
  for (const char* wrong : {"11s", "0s", "2h", "soon", "[12s]"}) {
    EXPECT_THAT(error_of(one(std::string("  actOn: lost\n  after: ") + wrong + "\n")),
                HasSubstr("bindings[0].after: must be a duration from 12s to 1h"))
        << wrong;
  }
  EXPECT_THAT(error_of(one("  actOn: lots\n")), HasSubstr("did you mean 'lost'"));
  EXPECT_THAT(error_of(one("  after: 12s\n")), HasSubstr("says nothing without actOn"));
}

// A machine that is alive may be switched off then, which whoever edits bindings does not decide.
TEST(BindingsTest, nobody_acts_sooner_than_the_engine_s_configuration_permits) {
  using namespace std::chrono_literals;
  const std::string off = "  actOn: off\n";
  const std::string lost = "  actOn: lost\n";
  const std::string six = "  after: 6s\n";
  const auto after = [](const std::string& lines, Duration least) {
    const ParsedBindings parsed = parse_bindings(one(lines), least);
    return parsed.file ? format_duration(parsed.file->bindings[0].allow.after)
                       : parsed.file.error().message();
  };
  EXPECT_THAT(error_of(one(off + six)),
              StartsWith("moonfence.yaml:6: bindings[0].after: must be a duration from 12s to 1h, "
                         "not '6s', since the engine's configuration says leastAfter: 12s "
                         "(write 12s or more"));
  EXPECT_EQ(after(off + six, 6s), "6s");
  EXPECT_THAT(after(off + "  after: 5s\n", 6s), HasSubstr("must be a duration from 6s to 1h, not"));
  EXPECT_THAT(after(off + "  after: 5s\n", 0s), HasSubstr("must be a duration from 6s to 1h, not"));
  EXPECT_THAT(after(lost + six, 6s), HasSubstr("must be a duration from 12s to 1h, not"));
  EXPECT_THAT(after(lost + "  after: 12s\n", 30s), HasSubstr("must be a duration from 30s to 1h"));
  EXPECT_EQ(after(lost, 30s), "30s");
  EXPECT_EQ(after(off, 30s), "1m");
  EXPECT_EQ(after(off, 2min), "2m");
  EXPECT_EQ(after("", 2min), "0s");
}

TEST(BindingsTest,
     a_kubelet_that_speaks_is_held_down_for_ten_seconds_unless_the_binding_says_otherwise) {
  using namespace std::chrono_literals;
  const auto held = [](const std::string& lines) {
    return parse_bindings(one(lines)).file->bindings[0].reach().hold_down;
  };
  EXPECT_EQ(held(""), 10s);
  EXPECT_EQ(held("  holdDown: 0s\n"), 0s);
  EXPECT_EQ(held("  holdDown: 2m\n"), 2min);
  for (const char* wrong : {"soon", "-1s", "25h", "[10s]"}) {
    EXPECT_THAT(error_of(one(std::string("  holdDown: ") + wrong + "\n")), HasSubstr("holdDown"))
        << wrong;
  }
}

TEST(BindingsTest, a_whole_file_is_read) {
  const auto parsed = parse_bindings(R"(# what the policies may do
api: 1
mode: observe
bindings:
- policy: longhorn
  source: builtin
  namespaces: ["*"]
  mode: enforce
  settings: {node_down_pod_deletion_policy: delete-statefulset-pod}
  allow: [out-of-service, finished-pods]
  onReject: disable
- policy: my-db
  source: my-db.lua
  namespaces: [shop, "db-1"]
)");
  ASSERT_TRUE(parsed.file) << parsed.file.error().message();
  EXPECT_EQ(parsed.mode, Mode::Observe);
  EXPECT_EQ(parsed.file->mode, Mode::Observe);
  ASSERT_EQ(parsed.file->bindings.size(), 2U);
  const BindingSpec& first = parsed.file->bindings[0];
  EXPECT_EQ(first.policy, "longhorn");
  EXPECT_EQ(first.source, kBuiltin);
  EXPECT_EQ(first.scope, NamespaceScope::everywhere());
  EXPECT_EQ(first.mode, Mode::Enforce);
  EXPECT_EQ(first.settings, json({{"node_down_pod_deletion_policy", "delete-statefulset-pod"}}));
  EXPECT_EQ(first.allow, (Allowances{.out_of_service = true, .finished_pods = true}));
  EXPECT_EQ(first.on_reject, BindingSpec::OnReject::Disable);
  const BindingSpec& second = parsed.file->bindings[1];
  EXPECT_EQ(second.source, "my-db.lua");
  EXPECT_EQ(second.scope, NamespaceScope::of({Namespace("db-1"), Namespace("shop")}));
  EXPECT_EQ(second.mode, Mode::Observe) << "nothing acts that was not told to";
  EXPECT_EQ(second.settings, json::object());
  EXPECT_EQ(second.allow, Allowances{});
  EXPECT_EQ(second.on_reject, BindingSpec::OnReject::Keep);
  EXPECT_EQ(second.place, "moonfence.yaml:12: bindings[1]");
}

TEST(BindingsTest, settings_are_typed_by_the_core_schema) {
  const auto parsed = parse_bindings(one(R"(  settings:
    a: 30
    b: "30"
    c: '0x1f'
    d: 0x1f
    e: 0o17
    f: -1.5e2
    g: no
    h: True
    i: 1:30
    j: 30s
    k: [1, "1", x, .5]
    l: +7
    m: 010
    n: ""
    o: ~
)"));
  ASSERT_TRUE(parsed.file) << parsed.file.error().message();
  EXPECT_EQ(parsed.file->bindings[0].settings, json::parse(R"({
    "a": 30, "b": "30", "c": "0x1f", "d": 31, "e": 15, "f": -150.0, "g": "no", "h": true,
    "i": "1:30", "j": "30s", "k": [1, "1", "x", 0.5], "l": 7, "m": 10, "n": "", "o": null})"));
}

TEST(BindingsTest, what_breaks_a_rule_is_named_with_its_line) {
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"", "moonfence.yaml:1: must be a map"},
      {"- a\n", "moonfence.yaml:1: must be a map with the keys api, mode and bindings, not a list"},
      {"bindings: []\n", "moonfence.yaml:1: api: is missing (begin the file with: api: 1)"},
      {"api: 2\nbindings: []\n", "moonfence.yaml:1: api: must be 1, not the number '2'"},
      {"api: \"1\"\nbindings: []\n", "moonfence.yaml:1: api: must be 1, not '1'"},
      {"api: 1\n", "bindings: is missing (write [] to bind nothing)"},
      {"api: 1\nbindings:\n", "moonfence.yaml:2: bindings: has no value"},
      {"api: 1\nbindings: {}\n", "moonfence.yaml:2: bindings: must be a list, not a map"},
      {"api: 1\nbindigns: []\n",
       "moonfence.yaml:2: unknown key 'bindigns' (did you mean "
       "'bindings'?) (known are api, mode, bindings)"},
      {"api: 1\napi: 1\nbindings: []\n", "moonfence.yaml:2: key 'api' is given twice"},
      {"api: 1\nmode: enfroce\nbindings: []\n",
       "moonfence.yaml:2: mode: 'enfroce' is no mode (did you mean 'enforce'?); until it is one, "
       "it counts as off (it must be one of off, observe, enforce)"},
      {"api: 1\nbindings: [~]\n", "bindings[0]: must be a map, not nothing"},
      {"api: 1\nbindings: [db]\n", "bindings[0]: must be a map, not 'db'"},
      {"api: 1\nbindings:\n- namespaces: [a]\n",
       "moonfence.yaml:3: bindings[0].policy: is missing"},
      {"api: 1\nbindings:\n- policy: db\n", "moonfence.yaml:3: bindings[0].namespaces: is missing"},
      {one("  setings: {}\n"),
       "moonfence.yaml:5: bindings[0]: unknown key 'setings' (did you mean "
       "'settings'?)"},
      {one("  mode: on\n"), "moonfence.yaml:5: bindings[0].mode: 'on' is no mode"},
      {one("  mode: true\n"), "bindings[0].mode: must be text, not the truth value 'true'"},
      {one("  mode:\n"), "moonfence.yaml:5: bindings[0].mode: has no value"},
      {one("  settings: [a]\n"), "bindings[0].settings: must be a map of settings, not a list"},
      {one("  settings: {a: .inf}\n"), "bindings[0].settings.a: is '.inf', a number that cannot"},
      {one("  settings: {a: 99999999999999999999}\n"), "bindings[0].settings.a: is '9999"},
      {one("  settings: {a: 1, a: 2}\n"), "moonfence.yaml:5: key 'a' is given twice"},
      {one("  allow: bare-pods\n"), "bindings[0].allow: must be a list, not 'bare-pods'"},
      {one("  allow: [bare-pod]\n"),
       "bindings[0].allow[0]: 'bare-pod' is no allowance (did you "
       "mean 'bare-pods'?)"},
      {one("  allow: [bare-pods, bare-pods]\n"), "allow[1]: 'bare-pods' is given twice"},
      {one("  onReject: kep\n"), "bindings[0].onReject: 'kep' is no answer (did you mean 'keep'?)"},
      {one("  source: dbb.lua\n"),
       "source: 'dbb.lua' cannot hold policy db (did you mean "
       "'db.lua'?)"},
      {one("  source: Builtin\n"),
       "source: 'Builtin' cannot hold policy db (did you mean "
       "'builtin'?)"},
      {one("  source: db_test.lua\n"), "cannot hold policy db"},
      {one("- policy: db\n  namespaces: [\"*\"]\n"),
       "moonfence.yaml:5: bindings[1]: policy 'db' is "
       "bound to these namespaces twice"},
  };
  for (const auto& [text, wanted] : cases) {
    EXPECT_THAT(error_of(text), HasSubstr(wanted)) << text;
    EXPECT_THAT(error_of(text), StartsWith("moonfence.yaml:")) << text;
  }
}

TEST(BindingsTest, a_policy_may_act_on_lost_nodes_and_beside_that_by_kubernetes_word) {
  const std::string lost = "- policy: db\n  namespaces: [\"*\"]\n  actOn: lost\n";
  const auto parsed = parse_bindings(one(lost));
  ASSERT_TRUE(parsed.file);
  const auto& bindings = parsed.file->bindings;
  ASSERT_EQ(bindings.size(), 2U);
  EXPECT_FALSE(bindings[0].is_same_place(bindings[1]));
  EXPECT_THAT(error_of(one(lost + lost + "  after: 20s\n")),
              HasSubstr("bindings[2]: policy 'db' is bound to these namespaces twice"));
}

TEST(BindingsTest, namespaces_are_names_or_a_star_alone) {
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"[]", "is empty, so the policy would run nowhere"},
      {"\"*\"", "must be a list of namespaces, not '*' (write [\"*\"] for all of them)"},
      {"[\"*\", a]", "'*' already means every namespace; it must stand alone"},
      {"[a, \"*\"]", "it must stand alone"},
      {"[Shop]", "namespaces[0]: 'Shop' is no namespace"},
      {"[a, \"db-*\"]", "namespaces[1]: 'db-*' is no namespace"},
      {"[-a]", "is no namespace"},
      {"[a.b]", "is no namespace"},
      {"[\"\"]", "'' is no namespace"},
      {"[" + std::string(64, 'a') + "]", "is no namespace"},
      {"[a, a]", "namespaces[1]: 'a' is given twice"},
      {"[1]", "namespaces[0]: must be text, not the number '1' (quote it if it is text)"},
      {"[[a]]", "namespaces[0]: must be text, not a list"},
      {"[*]", "in quotes it is text: \"*\""},
  };
  for (const auto& [list, wanted] : cases) {
    const std::string text = "api: 1\nbindings:\n- policy: db\n  namespaces: " + list + "\n";
    EXPECT_THAT(error_of(text), HasSubstr(wanted)) << list;
  }
  EXPECT_EQ(error_of("api: 1\nbindings:\n- policy: db\n  namespaces: [\"1\", a-b, " +
                     std::string(63, 'a') + "]\n"),
            "");
}

TEST(BindingsTest, names_are_those_a_file_can_have) {
  for (const char* name : {"Db", "../db", "db.lua", "\"\"", "1", "[db]"}) {
    EXPECT_NE(
        error_of("api: 1\nbindings:\n- policy: " + std::string(name) + "\n  namespaces: [\"*\"]\n"),
        "")
        << name;
  }
}

TEST(BindingsTest, one_policy_may_be_bound_in_several_places) {
  EXPECT_EQ(error_of(one("- policy: db\n  namespaces: [a]\n- policy: db\n  namespaces: [b]\n")),
            "");
}

TEST(BindingsTest, the_ceiling_is_read_from_a_file_that_is_refused) {
  EXPECT_EQ(parse_bindings("api: 1\nmode: off\nbindings: 5\n").mode, Mode::Off);
  EXPECT_EQ(parse_bindings("mode: observe\nbinding: []\n").mode, Mode::Observe);
  EXPECT_EQ(parse_bindings("api: 1\nmode: offf\nbindings: []\n").mode, Mode::Off)
      << "who wrote it wanted a limit";
  EXPECT_EQ(parse_bindings("api: 1\nmode: [off]\nbindings: []\n").mode, Mode::Off);
  EXPECT_EQ(parse_bindings("api: 1\nbindings: 5\n").mode, std::nullopt);
  EXPECT_EQ(parse_bindings("mode: off\n\tbindings: [\n").mode, std::nullopt);
}

TEST(BindingsTest, a_file_without_a_ceiling_sets_none) {
  const auto parsed = parse_bindings("api: 1\nbindings: []\n");
  ASSERT_TRUE(parsed.file);
  EXPECT_EQ(parsed.file->mode, Mode::Enforce);
  EXPECT_EQ(parsed.mode, std::nullopt);
}

// None of these may throw, hang or recurse deeply.
TEST(BindingsTest, hostile_files_are_refused) {
  std::string bomb = "a: &a [x,x,x,x,x,x,x,x,x]\n";
  for (char c = 'b'; c < 'j'; ++c) {
    const std::string before(1, static_cast<char>(c - 1));
    bomb += std::string(1, c) + ": &" + c + " [*" + before + ",*" + before + ",*" + before + "]\n";
  }
  std::string many = "api: 1\nbindings:\n";
  for (int i = 0; i < 65; ++i) {
    many += "- {policy: p" + std::to_string(i) + ", namespaces: [\"*\"]}\n";
  }
  const std::string large = "api: 1\nbindings: []\n#" + std::string(256U << 10U, 'x');
  std::string values = "api: 1\nbindings: [";
  for (int i = 0; i < 30'000; ++i) {
    values += "1,";
  }
  const std::vector<std::pair<std::string, std::string>> cases = {
      {bomb, "anchors are not accepted"},
      {"api: &x 1\nbindings: []\n", "anchors are not accepted"},
      {"api: !!int \"1\"\nbindings: []\n", "tags such as"},
      {std::string(100'000, '['), "a key must be a plain word"},
      {std::string(100'000, '{'), "moonfence.yaml"},
      {"api: " + std::string(100'000, '['), "a key must be a plain word"},
      {std::string(50'000, '-') + " a", "must be a map"},
      {[] {
         std::string text;
         for (int i = 0; i < 50'000; ++i) {
           text += "- ";
         }
         return text;
       }(),
       "nested deeper than 12"},
      {many, "has 65 entries, at most 64 are allowed"},
      {large, "larger than 262144 bytes"},
      {values + "]\n", "more than 20000 values"},
      {"api: 1\n---\napi: 1\n", "more than one YAML document"},
      {std::string("api: 1\0bindings", 15), "is not UTF-8 text"},
      {"api: 1\nbindings: [\"\xff\"]\n", "is not UTF-8"},
      {"\xff\xfe\0a", "is not UTF-8"},
      {"? [a]\n: b\n", "a key must be a plain word"},
      {"a: [b\n", "not YAML"},
      {"%YAML 9.9\n%TAG\n---\na\n", "moonfence.yaml"},
  };
  for (const auto& [text, wanted] : cases) {
    EXPECT_THAT(error_of(text), HasSubstr(wanted)) << text.substr(0, 60);
    EXPECT_THAT(error_of(text), StartsWith("moonfence.yaml:")) << text.substr(0, 60);
  }
}

TEST(YamlValuesTest, what_only_looks_like_a_number_is_text) {
  for (const char* text : {"1:30", "0b1", "1_000", "e5", ".", "+", "1e", "0x", "0o8", "--1",
                           "1.2.3", "yes", "off", "tRue", "-0x1f", "..5", ".e5"}) {
    const auto yaml = kube::parse_yaml("a: " + std::string(text));
    ASSERT_TRUE(yaml) << text;
    const auto value = to_json(*yaml);
    ASSERT_TRUE(value) << text;
    EXPECT_EQ(*value, json({{"a", text}}));
  }
}

}  // namespace
}  // namespace moonfence::policy
