#pragma once

// The words of scenario texts, in tables that parser and writer share. Private to sim.

#include <span>
#include <string_view>
#include <vector>

#include "sim/ground/plan.h"

namespace moonfence::sim {

// What a step is about.
enum class Target {
  Nothing,
  Node,
  Pod,
  Namespace,
  PodOrWorkload,
  Workload,
  Server,
  Replica,
  Writes,
  Watches,
  Objects,
  Calls
};

struct VerbWord {
  std::string_view name;
  Verb verb;
  Target target;
  std::string_view argument;      // "" none
  bool needed = false;            // the argument
  std::string_view another = {};  // one that may be left out
};

struct TimingWord {
  std::string_view name;
  Duration Timings::*member;
};

struct ShareWord {
  std::string_view name;
  double Faults::*member;
};

struct RangeWord {
  std::string_view name;
  Range Faults::*member;
};

struct BmcWord {
  std::string_view name;
  BmcKind kind;
};

struct FenceWord {
  std::string_view name;
  FenceKind kind;
};

struct LiftingWord {
  std::string_view name;
  Lifting lifting;
};

struct WorkloadWord {
  std::string_view name;
  WorkloadKind kind;
};

[[nodiscard]] std::span<const VerbWord> verb_words();
[[nodiscard]] std::span<const TimingWord> timing_words();
[[nodiscard]] std::span<const ShareWord> share_words();
[[nodiscard]] std::span<const RangeWord> range_words();
[[nodiscard]] std::span<const BmcWord> bmc_words();
[[nodiscard]] std::span<const FenceWord> fence_words();
[[nodiscard]] std::span<const LiftingWord> lifting_words();
[[nodiscard]] std::span<const WorkloadWord> workload_words();
// Settings of the engine's --config: durations, and limits of the brake.
[[nodiscard]] std::span<const std::string_view> setting_words();
[[nodiscard]] std::span<const std::string_view> limit_words();
// Settings that are on or off.
[[nodiscard]] std::span<const std::string_view> switch_words();

// The entry of that name, nullptr when there is none.
template <class Word>
[[nodiscard]] const Word* find_word(std::span<const Word> words, std::string_view name) {
  for (const Word& word : words) {
    if (word.name == name) {
      return &word;
    }
  }
  return nullptr;
}

template <class Word>
void add_names(std::span<const Word> words, std::vector<std::string_view>& names) {
  names.reserve(names.size() + words.size());
  for (const Word& word : words) {
    names.push_back(word.name);
  }
}

}  // namespace moonfence::sim
