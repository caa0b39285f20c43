#include "fence/read/pod_news.h"

#include <initializer_list>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

namespace moonfence::fence {
namespace {

using namespace std::chrono_literals;
using nlohmann::json;

json pod_json(const std::string& name, int version) {
  return {{"metadata",
           {{"name", name},
            {"namespace", "db"},
            {"uid", "uid-" + name},
            {"resourceVersion", std::to_string(version)},
            {"labels", {{"app", "web"}}}}},
          {"status", {{"phase", "Running"}}}};
}

PodSight sight(const std::string& name, int version, std::size_t mark = 1) {
  return {.uid = Uid("uid-" + name),
          .space = Namespace("db"),
          .version = ResourceVersion(std::to_string(version)),
          .mark = mark};
}

struct PodNewsTest : testing::Test {
  PodNews news;
  Moment now = Moment{} + 1h;

  void read(std::initializer_list<PodSight> pods) {
    std::map<Uid, PodSight> all;
    for (const PodSight& pod : pods) {
      all.emplace(pod.uid, pod);
    }
    news.read(std::move(all));
  }
  // Nothing: no bell; else how long until it rings.
  [[nodiscard]] std::optional<Duration> wait() const {
    const auto due = news.due();
    return due ? std::optional(std::max(*due - now, Duration::zero())) : std::nullopt;
  }
};

TEST(PodSightTest, what_matters_of_a_pod_changes_its_mark_and_nothing_else_does) {
  const json before = pod_json("a", 5);
  const std::size_t mark = sight_of(before).mark;
  for (const auto& [path, value] : std::vector<std::pair<std::string, json>>{
           {"/metadata/deletionTimestamp", "2026-01-01T00:00:00Z"},
           {"/metadata/labels/app", "db"},
           {"/metadata/annotations", {{"a", "b"}}},
           {"/metadata/finalizers", {"x/y"}}}) {
    json after = before;
    after[json::json_pointer(path)] = value;
    EXPECT_NE(sight_of(after).mark, mark) << path;
  }
  json after = before;
  after["status"]["phase"] = "Failed";
  after["metadata"]["resourceVersion"] = "6";
  after["metadata"]["managedFields"] = json::array({{{"manager", "kubelet"}}});
  EXPECT_EQ(sight_of(after).mark, mark);
  EXPECT_EQ(sight_of(after).version, ResourceVersion("6"));
  EXPECT_EQ(sight_of(after).space, Namespace("db"));
  EXPECT_EQ(sight_of(json::array()).uid, Uid());
}

TEST_F(PodNewsTest, a_change_after_the_pass_rings_at_once) {
  read({sight("a", 5)});
  EXPECT_EQ(wait(), std::nullopt);
  news.seen(sight("a", 6));
  EXPECT_EQ(wait(), std::nullopt) << "it looks the same";
  news.seen(sight("a", 7, 2));
  EXPECT_EQ(wait(), Duration::zero());
}

TEST_F(PodNewsTest, what_the_pass_has_seen_already_does_not_ring) {
  read({sight("a", 7, 2)});
  news.seen(sight("a", 6, 1));
  EXPECT_EQ(wait(), std::nullopt) << "the watch is behind";
  news.seen(sight("a", 10, 3));
  EXPECT_TRUE(wait());
  read({sight("a", 10, 3)});
  EXPECT_EQ(wait(), std::nullopt);
}

TEST_F(PodNewsTest, what_happened_after_a_pass_had_listed_rings_when_it_is_over) {
  read({sight("a", 5), sight("b", 5)});
  news.seen(sight("a", 8, 2));
  news.seen(sight("b", 9, 2));
  read({sight("a", 8, 2), sight("b", 5)});  // its list was made in between
  EXPECT_TRUE(wait());
  read({sight("a", 8, 2), sight("b", 9, 2)});
  EXPECT_FALSE(wait());
}

TEST_F(PodNewsTest, a_new_pod_and_one_that_is_gone_ring) {
  read({sight("a", 5)});
  news.seen(sight("b", 6));
  EXPECT_TRUE(wait());
  news.gone(Uid("uid-b"));
  EXPECT_FALSE(wait()) << "it came and went, and no pass has seen it";
  news.gone(Uid("uid-a"));
  EXPECT_TRUE(wait());
  read({});
  EXPECT_FALSE(wait());
}

// The pass that the new pod began had listed it before it went.
TEST_F(PodNewsTest, a_new_pod_that_goes_while_a_pass_looks_at_it_rings) {
  read({sight("a", 5)});
  news.seen(sight("b", 6));
  news.rang(now);
  news.gone(Uid("uid-b"));
  read({sight("a", 5), sight("b", 6)});
  EXPECT_TRUE(wait());
}

TEST_F(PodNewsTest, a_pod_that_came_and_went_unseen_rings_once) {
  read({sight("a", 5)});
  news.seen(sight("b", 6));
  news.rang(now);
  read({sight("a", 5)});  // the watch was broken when it went
  EXPECT_FALSE(wait());
}

TEST_F(PodNewsTest, what_a_new_list_of_the_watch_lacks_is_gone) {
  PodSight shop = sight("c", 5);
  shop.space = Namespace("shop");
  read({sight("a", 5), shop});
  news.listed(Namespace("db"), {Uid("uid-a")});
  EXPECT_FALSE(wait()) << "the list is of one namespace";
  news.listed(Namespace(), {Uid("uid-a")});
  EXPECT_TRUE(wait());
}

TEST_F(PodNewsTest, a_pod_that_flaps_for_an_hour_rings_twelve_times_a_minute) {
  read({sight("a", 1)});
  int version = 1;
  int bells = 0;
  std::vector<std::string> first;
  const Moment start = now;
  for (; now < start + 1h; now += 10ms) {
    ++version;
    news.seen(sight("a", version, static_cast<std::size_t>(version)));
    if (wait() == Duration::zero()) {
      news.rang(now);
      ++bells;
      if (first.size() < 8) {
        first.push_back(format_duration(now - start));
      }
      read({sight("a", version, static_cast<std::size_t>(version))});
    }
  }
  EXPECT_EQ(first, (std::vector<std::string>{"0s", "100ms", "300ms", "700ms", "1s500ms", "3s100ms",
                                             "6s300ms", "11s300ms"}));
  EXPECT_LE(bells, 60 * 12 + 6);
  EXPECT_GE(bells, 60 * 12 - 2);
}

TEST_F(PodNewsTest, after_a_quiet_time_the_next_change_rings_at_once_again) {
  read({sight("a", 1)});
  for (int version = 2; version < 6; ++version) {
    news.seen(sight("a", version, static_cast<std::size_t>(version)));
    now = std::max(now, *news.due());
    news.rang(now);
    read({sight("a", version, static_cast<std::size_t>(version))});
  }
  now += 16s;
  news.seen(sight("a", 9, 9));
  EXPECT_EQ(wait(), Duration::zero());
  news.rang(now);
  read({sight("a", 9, 9)});
  news.seen(sight("a", 10, 10));
  EXPECT_EQ(wait(), 100ms);
}

}  // namespace
}  // namespace moonfence::fence
