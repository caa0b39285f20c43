#pragma once

// SelfDoubt asks "is it me?": whether what we believe of the nodes may be wrong because something
// is wrong with ourselves or with our line to the API server. A pure machine: the signs go in once
// a second, and what the guard wants to know, whether we may act, comes out. While in doubt nothing
// destructive is done and every incident holds. When the last cause has passed the nodes are listed
// anew, and when that list is through, hold-downs and evidence begin anew and we act again. A doubt
// lasts as long as its cause and that list.
//
//   Stopped            our own loop did not turn for `longest_pause`: frozen, starved, or the
//                      machine was suspended (our clock counts that). Known to the guard at once,
//                      not at the next second.
//   CallsFail          more than half of the API calls of `window` got no answer or a 5xx, and
//   there
//                      were `fewest_calls` of them. Kubelets may be cut off as we are, and their
//                      silence proves nothing.
//   NodesUnwatched     that we had heard of every node's changes was last proven
//                      (kube::WatchHealth::whole_at) longer than `longest_silence` ago while a
//                      stream is open, `longest_gap` while none is. Then we do not see how many
//                      nodes are down. Bytes prove nothing: a stream that opens and says nothing
//                      looks like a quiet one.
//   PoliciesUnwatched  the policies in force were last compared with the server's own longer than
//                      `longest_unverified` ago: somebody may have switched us off and waits for
//                      it.
//   WentBack           the store of the API server went back in time: it was restored from a
//   backup.
//                      What we know of anything may be of a time that never was. It lasts until
//                      everything was read anew, and what we had written and is missing stands
//                      there again (app/engine/rewind.h). Known to the guard at once.
//   RenewsLate         we lead, and the last renewal of our Lease that is known to have succeeded
//                      is older than `latest_renewal`, and than half of its term. The term itself
//                      is the guard's own business.

#include <cstdint>
#include <deque>
#include <optional>
#include <set>
#include <string_view>

#include "base/time.h"

namespace moonfence::fence {

struct DoubtRules {
  // The loop is told to turn once a second. Half of a kubelet's heartbeat.
  Duration longest_pause = std::chrono::seconds(5);
  Duration window = std::chrono::seconds(10);
  std::int64_t fewest_calls = 8;  // of heartbeats alone there are some ten
  // The watch itself lists anew when it stands still for 75 s, found within 15 s
  // (kube/watching/watch.h).
  Duration longest_silence = std::chrono::seconds(120);
  Duration longest_gap = std::chrono::seconds(30);
  Duration longest_unverified = std::chrono::seconds(30);
  // A short term is over by then and the guard lets nothing through; what it means is that kubelets
  // may be cut off as we are.
  Duration latest_renewal = std::chrono::milliseconds(7500);
};

class SelfDoubt {
 public:
  enum class Cause { Stopped, CallsFail, NodesUnwatched, PoliciesUnwatched, WentBack, RenewsLate };

  struct Signs {
    Duration nodes_silent{};     // since the moment for which it was proven
    bool nodes_watched = true;   // a stream is open
    std::uint64_t node_lists{};  // that were read to their end
    std::optional<Duration> policies_silent = std::nullopt;  // absent: nobody watches them
    // Of our Lease, while we lead: its duration, and what is left of the term.
    std::optional<Duration> term = std::nullopt;
    Duration term_left{};
    bool went_back = false;  // and what follows from it is not over
  };
  // What is to be done after a look.
  struct Outcome {
    std::set<Cause> begun;      // causes that were not there at the last look
    bool list_nodes = false;    // list them anew; what is being read does not count
    bool trusts_again = false;  // the doubt is over: evidence begins anew
  };

  explicit SelfDoubt(DoubtRules rules = {}) : rules_(rules) {}
  SelfDoubt(const SelfDoubt&) = delete;
  SelfDoubt& operator=(const SelfDoubt&) = delete;

  // Of each API call, when its answer begins or it has failed without one.
  void call_ended(bool failed, Moment now);
  // From this moment on, whenever the next look comes.
  void went_back() { causes_.insert(Cause::WentBack); }
  [[nodiscard]] Outcome look(const Signs& signs, Moment now);

  // Why we must not act; nullopt: nothing speaks against us. Until the first look nothing speaks
  // for us.
  [[nodiscard]] std::optional<Cause> cause(Moment now) const;
  // When the API server had been out of our reach for the last time; nullopt: it never was. It may
  // have been out of the kubelets' reach as well: the Lease of a living one is as old as that of a
  // dead one then, until it is renewed.
  [[nodiscard]] std::optional<Moment> outage_ended() const { return outage_ended_; }
  // All that is wrong, or was while the nodes are being listed.
  [[nodiscard]] const std::set<Cause>& causes() const { return causes_; }

 private:
  enum class State { Trusting, Doubting, CatchingUp };
  struct Calls {
    Moment since;
    std::int64_t all = 0;
    std::int64_t failed = 0;
  };
  [[nodiscard]] std::set<Cause> causes_of(const Signs& signs, Moment now);
  [[nodiscard]] bool calls_fail(Moment now);

  const DoubtRules rules_;
  State state_ = State::Trusting;
  std::optional<Moment> looked_;
  std::set<Cause> present_;  // at the last look
  std::set<Cause> causes_;   // and while the nodes are being listed, the last that there were
  bool outage_ = false;      // the doubt, or a part of it, was that the server did not answer
  std::optional<Moment> outage_ended_;
  std::uint64_t lists_before_ = 0;  // CatchingUp: more than these must have been read
  std::deque<Calls> calls_;         // by the second
};

// "stopped", "calls_fail" …: for records, logs and metrics.
[[nodiscard]] std::string_view to_string(SelfDoubt::Cause cause);

}  // namespace moonfence::fence
