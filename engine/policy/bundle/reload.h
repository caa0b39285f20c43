#pragma once

// Reloader turns what is seen of ConfigMap `moonfence-policies` into the PolicySet in force. A
// faulty edit of one policy touches that policy only: what ran before goes on, marked stale. It
// never widens anything: a guard that cannot be loaded holds its scope, an unreadable mode is off,
// a missing ConfigMap is off, one that was deleted and made again, which its UID tells, takes
// nothing over from the one before, and a moonfence.yaml that cannot be read changes nothing but,
// at most, lowers the mode. What runs in place of a rejected edit goes no further than it was let
// go when it was accepted, nor than the edit would let it; a policy that only forbids goes as far
// as either, but for mode: off, which takes it out.
//
// Time: an edit is taken up when the ConfigMap has been quiet for 200 ms, or 500 ms after the first
// change; the newest wins. Validation runs in slices, one compilation or one smoke test a turn. A
// lower mode does not wait for any of this: it is in force in the next turn, and so is what a sound
// file takes away from policies that are no guards. A run that newer ones have replaced for 5 s is
// left to end. Nothing is called back inside observe().

#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <variant>
#include <vector>

#include "base/time.h"
#include "kube/calls/config_maps.h"
#include "loop/loop.h"
#include "policy/bundle/bindings.h"
#include "policy/bundle/bundle.h"
#include "policy/bundle/last_good.h"
#include "policy/bundle/policy_set.h"
#include "policy/bundle/reload_report.h"
#include "policy/bundle/validation.h"
#include "port/cpu_clock.h"

namespace moonfence::policy {

struct ReloadRules {
  Mode ceiling = Mode::Enforce;                 // --mode
  std::map<std::string, std::string> builtins;  // source by name
  ValidationRules validation;
  // Why a binding with `actOn: lost` or `off` will do nothing, or wait for Kubernetes all the same;
  // "" it works.
  std::string lost_is_inert = {};
  std::string off_is_inert = {};      // the same of `off` alone
  Duration least_after = kLostAfter;  // what the engine's configuration demands of `after`
  Duration quiet = std::chrono::milliseconds(200);
  Duration patience = std::chrono::milliseconds(500);
};

class Reloader {
 public:
  class Listener {
   public:
    virtual ~Listener() = default;
    // Only when the set differs from the one before; first with whatever the start came to, even
    // nothing.
    virtual void activate(std::shared_ptr<const PolicySet> set) = 0;
    // After each reload and each change of the mode, after activate().
    virtual void report(const ReloadReport& report, const std::vector<ReloadNews>& news) = 0;
    // What to keep for a restart has changed.
    virtual void persist(const LastGood& good) = 0;
  };

  // `good`: what was persisted by the run before. All references must outlive the reloader.
  Reloader(loop::Loop& loop, port::CpuClock& clock, Listener& listener, ReloadRules rules,
           LastGood good = {});
  Reloader(const Reloader&) = delete;
  Reloader& operator=(const Reloader&) = delete;

  // The ConfigMap as it is now, null when it does not exist; `now` is for the records. A change of
  // its metadata alone does nothing.
  void observe(const kube::ConfigMap* map, WallTime now);

  [[nodiscard]] const ReloadReport& last_report() const { return report_; }
  // Nothing is waiting and nothing is being validated.
  [[nodiscard]] bool is_idle() const {
    return !quiet_timer_.pending() && !slice_timer_.pending() && !urgent_timer_.pending();
  }
  // How many slices of validation have run: what a reload costs, for tests and metrics.
  [[nodiscard]] std::uint64_t slices() const { return slices_; }

 private:
  // One look at the ConfigMap, read.
  struct Sight {
    std::string resource_version;
    Uid map_uid;
    WallTime at;
    bool exists = false;
    Bundle bundle;
    std::optional<ParsedBindings> bindings;  // absent: there is no text of moonfence.yaml

    // "" when something is bound; else why nothing is: the configuration is not there.
    [[nodiscard]] std::string missing() const;
    [[nodiscard]] bool is_sound() const;      // it can be taken up
    [[nodiscard]] std::string fault() const;  // why not
  };
  struct Ceiling {
    Mode mode = Mode::Off;
    std::string set_by;
  };
  // A candidate and its key, which is dear to compute.
  struct Attempt {
    Candidate candidate;
    std::string key;
    std::string source_name;  // "builtin" or a key of the ConfigMap
    Reach reach;              // it is, or was when it was accepted, to have
  };
  // A binding and what becomes of it.
  struct Entry {
    BindingSpec spec;
    std::optional<Attempt> wanted;         // what the ConfigMap asks for; absent: not to be had
    std::optional<Rejection> rejection;    // of what is wanted
    std::optional<Attempt> substitute;     // last good, once that is rejected
    std::shared_ptr<const Policy> policy;  // what runs; null: nothing does
    std::string digest;                    // of what runs
    Reach reach;                           // of what runs or holds
    std::vector<std::string> warnings;
    bool is_stale = false;  // the substitute runs
    bool holds = false;     // nothing runs, and it is or may be a guard
  };
  struct Run {
    std::shared_ptr<const Sight> sight;
    std::vector<Entry> entries;
    std::size_t next = 0;
  };

  // Taking up what was seen.
  void on_quiet();
  void start_run(const BindingsFile& file, const std::string& fault);
  void slice();
  void finish_run();
  void clear_all();
  bool narrow_to(const Sight& sight);  // true: less is in force than before

  // One binding of a run.
  [[nodiscard]] std::optional<Attempt> wanted_by(Entry& entry, const Bundle& bundle) const;
  [[nodiscard]] bool decide(Entry& entry);  // false: a slice was used, more are needed
  static void stand_in(Entry& entry, const std::shared_ptr<const Policy>& policy);
  [[nodiscard]] bool is_guarding(const BindingSpec& spec) const;
  [[nodiscard]] const Validation::Outcome* outcome_of(const Attempt& attempt);
  [[nodiscard]] std::optional<Attempt> last_good_for(const BindingSpec& spec) const;
  void forget_outcomes();

  // What is in force.
  [[nodiscard]] Ceiling ceiling_of(const Sight& sight) const;
  [[nodiscard]] PolicySet make_set() const;
  [[nodiscard]] ReloadReport make_report(const std::string& set_digest) const;
  [[nodiscard]] std::string act_on_fault(ActOn act_on, const Policy* policy) const;
  [[nodiscard]] PolicyStatus status_of(const Entry& entry) const;
  [[nodiscard]] LastGood make_last_good() const;
  void keep(LastGood good);
  void publish();

  loop::Loop& loop_;
  port::CpuClock& clock_;
  Listener& listener_;
  const ReloadRules rules_;
  std::set<std::string> builtin_names_;

  std::shared_ptr<const Sight> latest_;   // newest, taken up or not
  std::shared_ptr<const Sight> current_;  // the newest that was taken up
  Mode file_mode_ = Mode::Enforce;        // of the last sound moonfence.yaml, or lower
  Ceiling ceiling_;                       // in force
  std::vector<Entry> entries_;            // in force
  bool has_read_bindings_ = false;        // the entries come from a file that was read in this life
  LastGood good_;
  Uid map_uid_;          // of the ConfigMap that the entries and the last good come from
  bool is_new_ = false;  // the newest is another ConfigMap than that

  std::optional<Run> run_;
  std::optional<Moment> working_since_;     // when this run, or those that it replaced, began
  std::unique_ptr<Validation> validation_;  // what is being validated, and its key
  std::string validation_key_;
  std::map<std::string, Validation::Outcome> outcomes_;  // by key

  std::optional<Moment> first_change_;
  loop::Timer quiet_timer_;
  loop::Timer slice_timer_;
  loop::Timer urgent_timer_;
  std::optional<std::string> active_digest_;
  ReloadReport report_;
  Newsroom newsroom_;
  std::uint64_t slices_ = 0;
};

}  // namespace moonfence::policy
