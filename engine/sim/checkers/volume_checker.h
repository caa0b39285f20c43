#pragma once

// The data: two writers of one volume of a single writer, seen on the machines themselves, an
// attachment deleted under a consumer (invariant I3), and a volume said to be no longer in use
// before it is detached. Two writers are no violation when one of the
// machines was cut off alive: a policy that judges by the Ready condition alone cannot tell that
// from a machine without power; nor a writer beside a machine that does not write and that the
// attach/detach controller is not certain of. Those are counted.

#include <cstdint>
#include <set>
#include <string>
#include <tuple>
#include <utility>

#include "sim/truth/checker.h"

namespace moonfence::sim {

class VolumeChecker final : public Checker {
 public:
  explicit VolumeChecker(Bench& bench) : Checker(bench) {}
  void after_cluster_turn() override;
  void on_change(const Change& change) override;

  [[nodiscard]] int accepted() const { return accepted_; }
  // What was accepted last, for the story; "" for nothing new.
  [[nodiscard]] std::string take_news() { return std::exchange(news_, {}); }

 private:
  using Pair = std::tuple<std::string, std::string, std::string>;  // volume, machine, machine
  void on_detached(const Change& change);
  void on_released(const Change& change);
  void judge_release(const Change& change, const std::string& name);
  void judge(const std::string& volume, const Machine& one, const Machine& other, bool both_write);
  [[nodiscard]] bool may_be_attached_twice() const;
  [[nodiscard]] bool is_restored_lately() const;
  [[nodiscard]] bool is_stray(const Machine& machine) const;
  // Of what runs where and what is published where: most turns change neither.
  [[nodiscard]] std::uint64_t fingerprint() const;

  std::set<Pair> doubled_;  // now
  std::set<Pair> seen_;     // in the turn that is looked at
  std::uint64_t looked_at_ = 0;
  int accepted_ = 0;
  std::string news_;
};

}  // namespace moonfence::sim
