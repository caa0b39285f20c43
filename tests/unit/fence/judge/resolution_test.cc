#include "fence/judge/resolution.h"

#include <algorithm>
#include <array>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

namespace moonfence::fence {
namespace {

using namespace std::chrono_literals;
using policy::Mode;
using policy::Verdict;

Verdict verdict(Verdict::Kind kind, Duration wait = {}) {
  return {.kind = kind, .reason = "because", .wait = wait};
}

// "skip", "wait7", "fail" (to be asked again), "failing" (not to be), "delete", "forbid", "hold5",
// "due9" (it can be asked in 9 s), "taint" (nobody knows when).
Opinion opinion(const std::string& word, std::size_t binding, Mode mode = Mode::Enforce) {
  Opinion made = {.binding = binding, .mode = mode};
  if (word == "skip") {
    made.verdict = verdict(Verdict::Kind::Skip);
  } else if (word.starts_with("wait")) {
    made.verdict = verdict(Verdict::Kind::Wait, std::chrono::seconds(std::stoi(word.substr(4))));
  } else if (word == "delete") {
    made.verdict = verdict(Verdict::Kind::DeletePod);
  } else if (word == "forbid") {
    made.verdict = verdict(Verdict::Kind::Forbid);
  } else if (word.starts_with("hold")) {
    made.verdict = verdict(Verdict::Kind::Hold, std::chrono::seconds(std::stoi(word.substr(4))));
  } else if (word.starts_with("due")) {
    made.yields = true;
    made.verdict = verdict(Verdict::Kind::Wait, std::chrono::seconds(std::stoi(word.substr(3))));
  } else if (word == "taint") {
    made.yields = true;
  } else {
    made.failed = true;
    made.ask_again = word == "fail";
  }
  return made;
}

using Words = std::vector<std::string>;

std::vector<Opinion> opinions(const Words& words, Mode mode = Mode::Enforce) {
  std::vector<Opinion> made;
  for (const std::string& word : words) {
    made.push_back(opinion(word, made.size(), mode));
  }
  return made;
}

// "act by 1", "wait 7s again", "forbidden by 0 stops 2".
std::string printed(const Decision& decision) {
  constexpr std::array kWords = {"none", "skip", "wait", "act", "held", "forbidden"};
  std::string text = kWords.at(static_cast<std::size_t>(decision.kind));
  if (decision.look_again) {
    text += " " + format_duration(*decision.look_again);
  }
  if (decision.by != nullptr) {
    text += " by " + std::to_string(decision.by->binding);
  }
  if (decision.stopped != nullptr) {
    text += " stops " + std::to_string(decision.stopped->binding);
  }
  return text + (decision.ask_again ? " again" : "");
}

std::string decided(const Words& words, Mode side = Mode::Enforce) {
  const auto all = opinions(words);
  return printed(resolve(all, side));
}

TEST(Resolution, one_policy_decides_alone) {
  EXPECT_EQ(decided({}), "none");
  EXPECT_EQ(decided({"skip"}), "skip by 0");
  EXPECT_EQ(decided({"wait7"}), "wait 7s by 0");
  EXPECT_EQ(decided({"fail"}), "held by 0 again");
  EXPECT_EQ(decided({"failing"}), "held by 0");
  EXPECT_EQ(decided({"delete"}), "act by 0");
  EXPECT_EQ(decided({"hold5"}), "held 5s by 0");
  EXPECT_EQ(decided({"forbid"}), "forbidden 1m by 0");
  EXPECT_EQ(decided({"due9"}), "wait 9s by 0");
  EXPECT_EQ(decided({"taint"}), "wait");
}

TEST(Resolution, of_several_the_careful_word_decides_whoever_stands_first) {
  EXPECT_EQ(decided({"delete", "forbid"}), "forbidden 1m by 1 stops 0");
  EXPECT_EQ(decided({"forbid", "delete"}), "forbidden 1m by 0 stops 1");
  EXPECT_EQ(decided({"hold5", "fail", "delete", "forbid"}), "forbidden 5s by 3 stops 2");
  EXPECT_EQ(decided({"delete", "hold5", "fail"}), "held 5s by 1 stops 0");
  EXPECT_EQ(decided({"hold9", "hold5", "wait3"}), "held 3s by 0");
  EXPECT_EQ(decided({"fail", "delete"}), "held by 0 stops 1 again");
  EXPECT_EQ(decided({"delete", "failing"}), "held by 1 stops 0");
  EXPECT_EQ(decided({"wait7", "fail", "delete"}), "held 7s by 1 stops 2 again");
  EXPECT_EQ(decided({"wait7", "skip", "delete"}), "wait 7s by 0 stops 2");
  EXPECT_EQ(decided({"delete", "wait7"}), "wait 7s by 1 stops 0");
  EXPECT_EQ(decided({"wait7", "wait3", "skip"}), "wait 3s by 1");
  EXPECT_EQ(decided({"skip", "delete", "delete"}), "act by 1");
  EXPECT_EQ(decided({"skip", "failing"}), "held by 1");
  EXPECT_EQ(decided({"skip", "skip"}), "skip by 0");
}

TEST(Resolution, who_was_not_asked_about_the_pod_keeps_nobody_from_acting) {
  EXPECT_EQ(decided({"due9", "delete"}), "act by 1");
  EXPECT_EQ(decided({"taint", "delete"}), "act by 1");
  EXPECT_EQ(decided({"due9", "skip"}), "wait 9s by 0");
  EXPECT_EQ(decided({"due9", "wait12"}), "wait 9s by 1");
}

const Words kWords = {"skip",   "wait7",  "wait3", "fail", "failing",
                      "delete", "forbid", "hold5", "due9", "taint"};

// Every choice of three words, each sorted: the orders of it are tried by the test.
std::vector<Words> triples() {
  std::vector<Words> all;
  for (std::size_t a = 0; a < kWords.size(); ++a) {
    for (std::size_t b = a; b < kWords.size(); ++b) {
      for (std::size_t c = b; c < kWords.size(); ++c) {
        Words words = {kWords[a], kWords[b], kWords[c]};
        std::sort(words.begin(), words.end());
        all.push_back(words);
      }
    }
  }
  return all;
}

TEST(Resolution, in_all_orders_of_three_the_same_is_decided_and_the_first_is_named) {
  for (Words words : triples()) {
    const auto count = [&words](const std::string& word) {
      return std::count(words.begin(), words.end(), word);
    };
    using Kind = Decision::Kind;
    const Kind expected = count("forbid") > 0                                     ? Kind::Forbidden
                          : count("hold5") + count("fail") + count("failing") > 0 ? Kind::Held
                          : count("wait7") + count("wait3") > 0                   ? Kind::Wait
                          : count("delete") > 0                                   ? Kind::Act
                          : count("skip") == 3                                    ? Kind::Skip
                                                                                  : Kind::Wait;
    do {
      const auto all = opinions(words);
      const Decision decision = resolve(all, Mode::Enforce);
      SCOPED_TRACE(words[0] + " " + words[1] + " " + words[2]);
      EXPECT_EQ(decision.kind, expected);
      const auto first_delete = std::find(words.begin(), words.end(), "delete") - words.begin();
      if (expected == Kind::Act) {
        EXPECT_EQ(first_delete, static_cast<std::ptrdiff_t>(decision.by->binding));
      } else {
        EXPECT_EQ(decision.stopped != nullptr, count("delete") > 0);
      }
      if (expected == Kind::Wait && count("due9") == 0) {
        EXPECT_EQ(decision.look_again, count("wait3") > 0   ? std::optional<Duration>(3s)
                                       : count("wait7") > 0 ? std::optional<Duration>(7s)
                                                            : std::nullopt);
      }
      EXPECT_EQ(decision.ask_again,
                count("fail") > 0 && count("forbid") == 0 && count("hold5") == 0);
    } while (std::next_permutation(words.begin(), words.end()));
  }
}

TEST(Resolution, what_observes_and_what_enforces_do_not_see_each_other) {
  for (const std::string& watching : kWords) {
    for (const std::string& acting : kWords) {
      const std::vector<Opinion> alone = {opinion(acting, 1)};
      const std::vector<Opinion> watched_alone = {opinion(watching, 0, Mode::Observe)};
      const std::vector<Opinion> both = {watched_alone[0], alone[0]};
      SCOPED_TRACE(watching + " " + acting);
      EXPECT_EQ(printed(resolve(both, Mode::Enforce)), printed(resolve(alone, Mode::Enforce)));
      EXPECT_EQ(printed(resolve(both, Mode::Observe)),
                printed(resolve(watched_alone, Mode::Observe)));
    }
  }
}

// Which opinion is overruled; "-" for none.
std::string overruled(const std::vector<Verdict>& verdicts) {
  std::vector<Opinion> all;
  for (const Verdict& verdict : verdicts) {
    all.push_back({.binding = all.size(), .mode = Mode::Enforce, .verdict = verdict});
  }
  const Decision decision = resolve(all, Mode::Enforce);
  return decision.overruled == nullptr ? "-" : std::to_string(decision.overruled->binding);
}

TEST(Resolution, two_that_want_different_actions_are_a_conflict) {
  const Verdict pod = verdict(Verdict::Kind::DeletePod);
  Verdict both = verdict(Verdict::Kind::DeletePodAndAttachments);
  both.volumes = {{.pv = "pv-1"}};
  Verdict release = both;
  release.release = true;
  Verdict fewer = both;
  fewer.volumes.clear();
  const Verdict skip = verdict(Verdict::Kind::Skip);
  EXPECT_EQ(overruled({pod, both}), "1");
  EXPECT_EQ(overruled({both, skip, pod, pod}), "2");
  EXPECT_EQ(overruled({both, release}), "1");
  EXPECT_EQ(overruled({both, fewer}), "1");
  // It is one also when nobody acts in the end.
  EXPECT_EQ(overruled({pod, both, verdict(Verdict::Kind::Forbid)}), "1");
}

TEST(Resolution, the_same_action_twice_is_no_conflict) {
  Verdict pod = verdict(Verdict::Kind::DeletePod);
  pod.reason = "another reason";
  EXPECT_EQ(overruled({verdict(Verdict::Kind::DeletePod), pod}), "-");
  Verdict both = verdict(Verdict::Kind::DeletePodAndAttachments);
  both.volumes = {{.pv = "pv-1"}, {.pv = "pv-2"}};
  Verdict swapped = both;
  std::swap(swapped.volumes[0], swapped.volumes[1]);
  EXPECT_EQ(overruled({both, swapped}), "-");
}

}  // namespace
}  // namespace moonfence::fence
