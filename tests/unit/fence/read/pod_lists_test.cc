#include "fence/read/pod_lists.h"

#include <set>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "support/policies.h"

namespace moonfence::fence {
namespace {

using Lines = std::vector<std::string>;

// "" is everywhere; otherwise the namespaces, "a b".
policy::Binding binding(const std::string& spaces, const std::string& labels = "",
                        const std::string& more = "") {
  const std::string select = labels.empty() ? "" : "select = { labels = '" + labels + "' },";
  auto loaded = load_text(policy_text("return fence.skip('no')", select + more));
  policy::Binding made;
  made.policy = std::make_shared<const policy::Policy>(*std::move(loaded));
  made.scope = policy::NamespaceScope::everywhere();
  if (!spaces.empty()) {
    std::set<Namespace> names;
    for (const char name : spaces) {
      if (name != ' ') {
        names.insert(Namespace(std::string(1, name)));
      }
    }
    made.scope = policy::NamespaceScope::of(names);
  }
  return made;
}

// "a app=db": namespace and label selector; "*" for all namespaces.
Lines planned(std::vector<policy::Binding> bindings, bool fell = true) {
  Lines lines;
  for (const PodList& list : plan_lists({.bindings = std::move(bindings), .digest = {}}, fell)) {
    const std::string space = list.space.empty() ? "*" : list.space.text();
    lines.push_back(space + (list.label_selector.empty() ? "" : " " + list.label_selector));
  }
  return lines;
}

TEST(PodLists, one_binding_is_one_list_a_namespace) {
  EXPECT_EQ(planned({binding("a")}), Lines{"a"});
  EXPECT_EQ(planned({binding("b a", "app=db")}), (Lines{"a app=db", "b app=db"}));
}

TEST(PodLists, a_binding_that_covers_everything_makes_one_list_of_all) {
  EXPECT_EQ(planned({binding("")}), Lines{"*"});
  EXPECT_EQ(planned({binding("", "app=db")}), Lines{"* app=db"});
  EXPECT_EQ(planned({binding("a"), binding(""), binding("b")}), Lines{"*"});
}

TEST(PodLists, up_to_four_namespaces_are_listed_one_by_one) {
  EXPECT_EQ(planned({binding("a b"), binding("c"), binding("b d")}), (Lines{"a", "b", "c", "d"}));
  EXPECT_EQ(planned({binding("a b"), binding("c"), binding("b d"), binding("e")}), Lines{"*"});
  EXPECT_EQ(planned({binding("a b c d e", "app=db")}), Lines{"* app=db"});
}

TEST(PodLists, a_selector_is_left_to_the_server_only_if_all_of_the_list_select_by_it) {
  EXPECT_EQ(planned({binding("a", "app=db"), binding("a", "app=db")}), Lines{"a app=db"});
  EXPECT_EQ(planned({binding("a", "app=db"), binding("a", "app=web")}), Lines{"a"});
  EXPECT_EQ(planned({binding("a", "app=db"), binding("a")}), Lines{"a"});
  EXPECT_EQ(planned({binding("", "app=db"), binding("a", "app=web")}), Lines{"*"});
  // Each list for itself.
  EXPECT_EQ(planned({binding("a b", "app=db"), binding("b", "app=web")}), (Lines{"a app=db", "b"}));
}

TEST(PodLists, who_acts_on_nothing_here_lists_nothing) {
  policy::Binding broken = binding("c");
  broken.policy = nullptr;
  const policy::Binding seen_falling = binding("b", "", "trigger = { sweep = false },");
  EXPECT_EQ(planned({}), Lines{});
  EXPECT_EQ(planned({broken}), Lines{});
  EXPECT_EQ(planned({binding("a", "app=db"), broken, seen_falling}, true),
            (Lines{"a app=db", "b"}));
  EXPECT_EQ(planned({binding("a", "app=db"), broken, seen_falling}, false), Lines{"a app=db"});
}

}  // namespace
}  // namespace moonfence::fence
