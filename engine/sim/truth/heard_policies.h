#pragma once

// What one replica has heard of the policies' ConfigMap in one life, and which versions of it may
// rule there. Behind a version that is refused that is the last good one; who was cut off while
// that stood cannot know it, and goes on with the last that it has seen, or, when it has only just
// started, with what was kept in moonfence-lastgood. A deletion ends whatever was bound before it.

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/time.h"
#include "sim/truth/reach.h"
#include "sim/truth/truth.h"

namespace moonfence::sim {

class HeardPolicies {
 public:
  // From the moment when a replica heard of an edit: 500 ms until it takes it up, and the slices of
  // its validation.
  static constexpr Duration kReloadTime = std::chrono::seconds(1);

  // However the watch is, the policies are read live before a deletion, at least every 30 s, and a
  // live read, its way and the turn in which it is taken up take some time.
  static constexpr Duration kLongestUnheard = std::chrono::seconds(36);

  // A text from the API server about the ConfigMap: a list, or a line of the watch; from a store
  // that had gone back in time so often.
  void heard(std::string_view text, int restores, Moment at);
  // The answer to a reading of moonfence-lastgood.
  void read_kept(std::string_view text);

  // Every version that may rule: what was heard of within the last second, and what was the newest
  // before.
  [[nodiscard]] std::vector<std::shared_ptr<const Reach>> in_force(
      const std::vector<PolicyEdit>& edits, Moment now) const;
  // The newest edit that must be known by now, whatever was heard, is one by which nothing may act.
  [[nodiscard]] static bool must_rest(const std::vector<PolicyEdit>& edits, Moment now);

 private:
  struct Hearing {
    std::pair<int, std::int64_t> version;  // as of an edit, behind the count of restores
    Moment at{};
  };
  using Reaches = std::vector<std::shared_ptr<const Reach>>;

  void add_behind(const std::vector<PolicyEdit>& edits, std::size_t edit, Reaches& found) const;
  // How long it was the newest that this replica knew; nothing when it never was.
  [[nodiscard]] std::optional<Duration> stood(const std::vector<PolicyEdit>& edits,
                                              std::size_t edit) const;

  std::vector<Hearing> hearings_;
  std::string kept_;  // the moonfence.yaml of what was kept when this life began
};

}  // namespace moonfence::sim
