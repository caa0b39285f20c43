#pragma once

// NextPass decides when the next pass over a failed node begins.
//
// While something failed, a pass starts as RetryRules say, from the first one on that could act. A
// pass that could not read the node or its pods does not use the window up; such passes back off up
// to `unreadable_interval_max`.
//
// After a pass that deleted something and left nothing to be tried again there are three `looks`,
// one after the other: the replacement may be bound to the dead node, when the scheduler had not
// seen the taint yet. What a look finds is dealt with like anything else, but begins no further
// looks: whatever binds pods to a tainted node for ever is not fought for ever. An incident that
// has deleted nothing looks once, at the end of the longest of them.

#include <cstddef>
#include <cstdint>
#include <optional>

#include "base/time.h"
#include "fence/incident/incident_rules.h"
#include "fence/rules/pass_result.h"

namespace moonfence::fence {

// Something is to be tried again, or pods are held because policies fail.
[[nodiscard]] bool has_failed(const PassResult& result);

class NextPass {
 public:
  explicit NextPass(const IncidentRules& rules) : rules_(rules) {}

  // The pass that began at `started` has read what it needs, and acts.
  void pass_acts(Moment started, Moment now);
  // However it ended.
  void note_deletions(const PassResult& result);
  // When the next one begins after a pass that acted; nullopt: nothing asks for one. `fell_silent`:
  // its kubelet did so while we were judging, and policies wait for that.
  [[nodiscard]] std::optional<Moment> after(Moment started, const PassResult& result,
                                            bool fell_silent, Moment now);
  // When the next one begins after a pass that could not read. `unused_since`: it began then and
  // did not act.
  [[nodiscard]] Moment after_unreadable(std::optional<Moment> unused_since, Moment now);
  // When to look once more, where nothing was deleted; nullopt: somebody has looked late enough.
  [[nodiscard]] std::optional<Moment> last_look(Moment now) const;

  // It has read what it could not read before.
  void is_readable() { unreadable_ = 0; }
  // Another reason keeps it now: the pauses grow from the start again.
  void end_pauses();
  // The next pass that acts begins a window of its own.
  void end_window();
  // The next pass is not what follows the one before.
  void begin_anew();
  // A pass begins before its time: if it was to be a look, that one is still to come.
  void keep_look();

  // For how long passes could not read, in all.
  [[nodiscard]] Duration unread() const { return unread_; }
  // Grows when the passes that come have nothing to do with what failed before.
  [[nodiscard]] std::uint32_t stretch() const { return stretch_; }
  // The next pass repeats at short intervals what failed.
  [[nodiscard]] bool is_in_window() const { return first_acting_ && unreadable_ == 0; }
  // Neither that, nor because something could not be read.
  [[nodiscard]] bool is_free() const { return !first_acting_ && unreadable_ == 0; }

 private:
  [[nodiscard]] std::optional<Moment> retry(Moment started, const PassResult& result, Moment now);
  [[nodiscard]] std::optional<Moment> look(const PassResult& result,
                                           const std::optional<Moment>& next, Moment now);
  [[nodiscard]] Duration unreadable_pause();  // doubles

  IncidentRules rules_;
  std::uint32_t stretch_ = 0;
  Duration unread_{};
  std::uint32_t unreadable_ = 0;           // passes in a row that could not read
  std::optional<std::size_t> looks_left_;  // none: nothing was deleted
  // The next pass or the one under way is one of them. It stays so while it holds in between.
  bool looking_ = false;
  std::optional<Moment> acts_since_;    // the first time
  std::optional<Moment> first_acting_;  // the retry window starts here
  Duration retry_pause_{};              // the last one after the window; zero: inside
};

}  // namespace moonfence::fence
