#include "unit/policy/reload_fixture.h"

namespace moonfence::policy {
namespace {

using std::chrono::seconds;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;
using State = PolicyStatus::State;

TEST_F(ReloadTest, a_start_brings_the_bindings_into_force_in_their_order) {
  rules.builtins = {{"longhorn", deleting("longhorn")}};
  data = {{"moonfence.yaml", file_of(bind("my-db", "allow: [bare-pods]") +
                                     "- {policy: longhorn, namespaces: [b, a]}\n")},
          {"my-db.lua", deleting("my-db")}};
  apply();
  ASSERT_THAT(sets, SizeIs(1));
  EXPECT_EQ(in_force(), "my-db enforce, longhorn observe");
  EXPECT_TRUE(binding(0).scope.is_everywhere());
  EXPECT_TRUE(binding(0).allow.bare_pods);
  EXPECT_EQ(binding(1).scope, NamespaceScope::of({Namespace("a"), Namespace("b")}));
  EXPECT_EQ(binding(0).digest, binding(0).policy->digest());
  EXPECT_EQ(says(0), "gone");
  EXPECT_EQ(status(0).state, State::Active);
  EXPECT_EQ(status(1).state, State::Observe);
  EXPECT_EQ(status(1).source, "builtin");
  EXPECT_EQ(reports.back().resource_version, "1");
  EXPECT_EQ(reports.back().active_set, sets.back()->digest);
  EXPECT_EQ(reports.back().mode, Mode::Enforce);
  EXPECT_THAT(news, SizeIs(2));
  EXPECT_EQ(persists, 1);
}

// Somebody relies on twelve seconds and gets fifty.
TEST_F(ReloadTest, whoever_acts_on_lost_nodes_is_told_when_the_engine_cannot) {
  rules.lost_is_inert = "does nothing: machines are not watched";
  data = {{"moonfence.yaml", file_of(bind("a", "actOn: lost, after: 12s") + bind("b"))},
          {"a.lua", deleting("a")},
          {"b.lua", deleting("b")}};
  apply();
  EXPECT_EQ(in_force(), "a enforce, b enforce");
  EXPECT_THAT(status(0).warnings,
              ElementsAre("actOn: lost does nothing: machines are not watched"));
  EXPECT_THAT(status(1).warnings, IsEmpty());
}

TEST_F(ReloadTest, whoever_waits_for_a_fencer_s_word_is_told_when_there_is_none) {
  rules.off_is_inert = "deletes nothing: no fencer";
  data = {{"moonfence.yaml", file_of(bind("a", "actOn: off") + bind("b", "actOn: lost"))},
          {"a.lua", deleting("a")},
          {"b.lua", deleting("b")}};
  apply();
  EXPECT_THAT(status(0).warnings, ElementsAre("actOn: off deletes nothing: no fencer"));
  EXPECT_THAT(status(1).warnings, IsEmpty());
}

TEST_F(ReloadTest, whoever_acts_on_lost_nodes_with_a_source_of_its_own_is_told) {
  rules.validation.needs = {"source"};
  data = {{"moonfence.yaml", file_of(bind("a", "actOn: lost, after: 12s"))},
          {"a.lua", R"(return policy {
  api = 1, name = "a", version = "1.0.0", summary = "by its own source",
  source = { every = "5s", expiry = "1h", nodes = function(s, got) return {} end,
             plan = function(s, got)
               if not got.all then return { all = fence.http("array", "/v1/hosts") } end
             end },
  pod = function() return fence.delete_pod("gone") end,
})"}};
  apply();
  ASSERT_EQ(status(0).state, State::Active) << status(0).error->text();
  EXPECT_THAT(status(0).warnings, ElementsAre(HasSubstr("goes by its own source")));
}

TEST_F(ReloadTest, what_was_accepted_once_acts_no_sooner_than_the_configuration_permits_now) {
  rules.least_after = seconds(6);
  data = {{"moonfence.yaml", file_of(bind("a", "actOn: off, after: 6s") + bind("b"))},
          {"a.lua", deleting("a")},
          {"b.lua", deleting("b")}};
  apply();
  EXPECT_EQ(binding(0).allow.after, seconds(6));
  rules.least_after = seconds(20);
  start();
  apply();
  EXPECT_THAT(reports.back().faults, ElementsAre(HasSubstr("leastAfter: 20s")));
  EXPECT_EQ(in_force(), "a enforce, b enforce");
  EXPECT_EQ(binding(0).allow.after, seconds(20));
  EXPECT_EQ(binding(1).allow, Allowances());
}

TEST_F(ReloadTest, a_broken_file_changes_nothing_but_the_status) {
  bind_three();
  apply();
  data["moonfence.yaml"] = "api: 1\nbindings: [\n";
  data["a.lua"] = deleting("a", "other");
  apply();
  EXPECT_THAT(sets, SizeIs(1));
  EXPECT_EQ(says(0), "gone");
  EXPECT_EQ(reports.back().resource_version, "2");
  EXPECT_THAT(reports.back().faults, ElementsAre(HasSubstr("moonfence.yaml:")));
  EXPECT_THAT(reports.back().policies, SizeIs(3));
  EXPECT_EQ(persists, 1);
  data["moonfence.yaml"] = file_of(bind("a"));
  apply();
  EXPECT_EQ(in_force(), "a enforce");
  EXPECT_EQ(says(0), "other");
  EXPECT_THAT(reports.back().faults, IsEmpty());
}

TEST_F(ReloadTest, one_bad_policy_of_three_leaves_the_others_alone) {
  bind_three();
  apply();
  const auto before = sets.back();
  data["a.lua"] = deleting("a", "new");
  data["b.lua"] = std::string("\n") + kBroken;
  apply();
  EXPECT_EQ(in_force(), "a enforce, b enforce, c enforce");
  EXPECT_EQ(says(0), "new");
  EXPECT_EQ(binding(1).policy, before->bindings[1].policy) << "its last good goes on";
  EXPECT_EQ(binding(1).digest, before->bindings[1].digest);
  EXPECT_EQ(status(1).state, State::Stale);
  ASSERT_TRUE(status(1).error);
  EXPECT_EQ(status(1).error->stage, "load");
  EXPECT_EQ(status(1).error->line, 2);
  EXPECT_EQ(status(2).state, State::Active);
  EXPECT_EQ(status(2).since, kStart + seconds(1)) << "nothing has happened to it";
  EXPECT_EQ(status(1).since, kStart + seconds(2));
}

TEST_F(ReloadTest, a_fix_is_taken_up) {
  bind_three();
  apply();
  data["b.lua"] = kBroken;
  apply();
  data["b.lua"] = deleting("b", "fixed");
  apply();
  EXPECT_EQ(says(1), "fixed");
  EXPECT_EQ(status(1).state, State::Active);
  EXPECT_FALSE(status(1).error);
}

TEST_F(ReloadTest, a_key_that_was_renamed_is_named_with_the_nearest_one) {
  bind_three();
  apply();
  data["bb.lua"] = data["b.lua"];
  data.erase("b.lua");
  apply();
  EXPECT_EQ(status(1).state, State::Stale);
  EXPECT_EQ(status(1).error->text(),
            "moonfence.yaml:4: bindings[1].source: 'b.lua' is no key of the ConfigMap (did you "
            "mean 'a.lua'?) (add the key, or remove the binding)");
  EXPECT_THAT(reports.back().unknown_keys, ElementsAre("bb.lua (no binding names it)"));
  EXPECT_THAT(reports.back().unbound, ElementsAre("bb"));
}

TEST_F(ReloadTest, a_missing_config_map_at_the_start_is_off_and_last_good_is_not_used) {
  bind_three();
  apply();
  start();
  see_nothing();
  settle();
  ASSERT_THAT(sets, SizeIs(1));
  EXPECT_EQ(in_force(), "");
  EXPECT_EQ(reports.back().mode, Mode::Off);
  EXPECT_EQ(persisted, LastGood{});
}

TEST_F(ReloadTest, a_missing_moonfence_yaml_is_a_configuration_that_was_taken_away) {
  bind_three();
  apply();
  data.erase("moonfence.yaml");
  apply();
  EXPECT_EQ(in_force(), "");
  EXPECT_EQ(reports.back().mode_set_by, "no key moonfence.yaml");
}

TEST_F(ReloadTest, a_removed_binding_is_removed) {
  bind_three();
  apply();
  data["moonfence.yaml"] = file_of(bind("c") + bind("a"));
  apply();
  EXPECT_EQ(in_force(), "c enforce, a enforce");
  EXPECT_THAT(persisted.entries, SizeIs(2));
  data["moonfence.yaml"] = file_of("");
  apply();
  EXPECT_EQ(in_force(), "");
}

TEST_F(ReloadTest, a_restart_during_a_bad_edit_uses_what_was_persisted) {
  bind_three();
  apply();
  const std::string digest = binding(1).digest;
  data["b.lua"] = kBroken;
  start();
  apply();
  EXPECT_EQ(in_force(), "a enforce, b enforce, c enforce");
  EXPECT_EQ(binding(1).digest, digest);
  EXPECT_EQ(status(1).state, State::Stale);
  start();
  apply();
  EXPECT_EQ(status(1).state, State::Stale) << "it is not forgotten while it is stale";
}

TEST_F(ReloadTest, a_restart_with_a_broken_file_goes_on_with_the_last_good_bindings) {
  bind_three();
  data["moonfence.yaml"] = file_of(bind("a") + bind("c"), "mode: observe\n");
  apply();
  data["moonfence.yaml"] = "api: 1\nbindigns: []\n";
  data["a.lua"] = deleting("a", "other");
  start();
  apply();
  EXPECT_EQ(in_force(), "a observe, c observe");
  EXPECT_EQ(says(0), "gone") << "nothing of a bundle that cannot be read is used";
  EXPECT_EQ(status(0).state, State::Stale);
  EXPECT_EQ(status(0).error->stage, "bindings");
  EXPECT_EQ(reports.back().mode_set_by, "moonfence.yaml");
  EXPECT_EQ(persisted.entries.size(), 2U);
}

TEST_F(ReloadTest, a_first_start_with_a_broken_file_does_nothing) {
  data = {{"moonfence.yaml", "- x"}, {"a.lua", deleting("a")}};
  apply();
  ASSERT_THAT(sets, SizeIs(1));
  EXPECT_EQ(in_force(), "");
  EXPECT_THAT(reports.back().faults, SizeIs(1));
}

TEST_F(ReloadTest, a_persisted_policy_that_does_not_load_any_more_is_not_used) {
  bind_three();
  apply();
  persisted.entries[1].source = kBroken;
  data["b.lua"] = kBroken;
  start();
  apply();
  EXPECT_EQ(in_force(), "a enforce, c enforce");
  EXPECT_EQ(status(1).state, State::Rejected);
}

TEST_F(ReloadTest, on_reject_disable_takes_a_faulty_policy_out) {
  data = {{"moonfence.yaml", file_of(bind("a", "onReject: disable") + bind("b"))},
          {"a.lua", deleting("a")},
          {"b.lua", deleting("b")}};
  apply();
  data["a.lua"] = deleting("a") + kBroken;
  apply();
  EXPECT_EQ(in_force(), "b enforce");
  EXPECT_EQ(status(0).state, State::Rejected);
  EXPECT_FALSE(status(0).holds);
}

TEST_F(ReloadTest, on_reject_disable_lifts_no_guard) {
  const std::string binding = "- {policy: a, source: a.lua, namespaces: [x], onReject: disable, ";
  data = {{"moonfence.yaml", file_of(binding + "mode: enforce}\n")}, {"a.lua", guard("a")}};
  apply();
  data["a.lua"] = kBroken;  // does not say any more that it forbids
  apply();
  EXPECT_EQ(in_force(), "a enforce held");
  data["a.lua"] = std::string(kBroken) + " ";
  apply();
  EXPECT_EQ(in_force(), "a enforce held") << "the last good one is not forgotten";
  start();
  apply();
  EXPECT_EQ(in_force(), "a enforce held");
  data["moonfence.yaml"] = file_of(binding + "mode: \"off\"}\n");
  apply();
  EXPECT_EQ(in_force(), "");
}

TEST_F(ReloadTest, a_missing_configuration_is_told_once) {
  const auto missing = [this] {
    return std::count_if(news.begin(), news.end(), [](const ReloadNews& item) {
      return item.kind == ReloadNews::Kind::PoliciesMissing;
    });
  };
  start();
  see_nothing();
  settle();
  EXPECT_THAT(reports.back().faults, ElementsAre("no ConfigMap"));
  EXPECT_EQ(missing(), 1);
  data = {{"a.lua", deleting("a")}};
  apply();
  EXPECT_THAT(reports.back().faults, ElementsAre("no key moonfence.yaml"));
  EXPECT_EQ(missing(), 2);
  data["b.lua"] = "";
  apply();
  EXPECT_EQ(missing(), 2);
  bind_three();
  apply();
  EXPECT_THAT(reports.back().faults, IsEmpty());
  see_nothing();
  settle();
  EXPECT_EQ(missing(), 3);
}

TEST_F(ReloadTest, a_rejected_guard_without_a_last_good_holds_its_scope) {
  data = {{"moonfence.yaml", file_of(bind("a") + bind("b"))},
          {"a.lua", guard("a") + kBroken},
          {"b.lua", deleting("b") + kBroken}};
  apply();
  EXPECT_EQ(in_force(), "a enforce held") << "what cannot forbid is just not there";
  EXPECT_NE(binding(0).error, "");
  EXPECT_EQ(binding(0).digest, "");
  EXPECT_TRUE(status(0).holds);
  EXPECT_FALSE(status(1).holds);
  data["a.lua"] = guard("a");
  apply();
  EXPECT_EQ(in_force(), "a enforce");
}

TEST_F(ReloadTest, a_source_that_is_not_there_may_be_a_guard) {
  data = {{"moonfence.yaml", file_of(bind("a") + "- {policy: nobaa, namespaces: [\"*\"]}\n")}};
  rules.builtins = {{"noobaa", deleting("noobaa")}};
  apply();
  EXPECT_EQ(in_force(), "a enforce held, nobaa observe held");
  EXPECT_EQ(status(1).error->text(),
            "moonfence.yaml:4: bindings[1].source: there is no built-in "
            "policy 'nobaa' (did you mean 'noobaa'?)");
}

TEST_F(ReloadTest, a_guard_with_a_last_good_goes_on_guarding) {
  data = {{"moonfence.yaml", file_of(bind("a"))}, {"a.lua", guard("a")}};
  apply();
  data["a.lua"] = guard("a") + kBroken;
  apply();
  EXPECT_EQ(in_force(), "a enforce");
  EXPECT_EQ(status(0).state, State::Stale);
}

TEST_F(ReloadTest, two_bindings_of_one_policy_have_settings_of_their_own) {
  const std::string source =
      source_of("a", "return fence.delete_pod(s.why)",
                "settings = { why = { type = 'string', default = 'nothing' } },");
  const auto two = [](const std::string& first, const std::string& second) {
    return file_of("- {policy: a, source: a.lua, namespaces: [x], settings: " + first +
                   "}\n- {policy: a, source: a.lua, namespaces: [y], settings: " + second + "}\n");
  };
  data = {{"moonfence.yaml", two("{why: one}", "{why: two}")}, {"a.lua", source}};
  apply();
  ASSERT_EQ(in_force(), "a observe, a observe");
  EXPECT_EQ(says(0), "one");
  EXPECT_EQ(says(1), "two");
  EXPECT_NE(binding(0).digest, binding(1).digest);
  data["moonfence.yaml"] = two("{why: other}", "{wy: two}");
  apply();
  EXPECT_EQ(says(0), "other");
  EXPECT_EQ(says(1), "two") << "last good is source and settings of this binding";
  EXPECT_EQ(status(0).state, State::Observe);
  EXPECT_EQ(status(1).state, State::Stale);
  EXPECT_EQ(status(1).error->stage, "settings");
  EXPECT_THAT(status(1).error->text(), HasSubstr("moonfence.yaml:4: bindings[1]: a.lua: "));
  EXPECT_THAT(status(1).error->text(), HasSubstr("did you mean 'why'?"));
}

TEST_F(ReloadTest, last_good_is_the_source_with_its_settings) {
  const auto source = [](const std::string& setting) {
    return source_of("a", "return fence.delete_pod(s." + setting + ")",
                     "settings = { " + setting + " = { type = 'string', default = 'd' } },");
  };
  data = {{"moonfence.yaml", file_of(bind("a", "settings: {old: x}"))}, {"a.lua", source("old")}};
  apply();
  // The new settings do not fit the old source: neither half may be used alone.
  data["moonfence.yaml"] = file_of(bind("a", "settings: {new: y}"));
  data["a.lua"] = source("new") + kBroken;
  apply();
  EXPECT_EQ(says(0), "x");
}

}  // namespace
}  // namespace moonfence::policy
