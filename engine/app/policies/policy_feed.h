#pragma once

// PolicyFeed keeps the policies in force up to date with ConfigMap `moonfence-policies` of the
// engine's namespace: it watches the ConfigMap, hands what it sees to policy::Reloader, and carries
// what that comes to where it belongs: the report into ConfigMap `moonfence-status` (one key a
// replica), the last good sources into `moonfence-lastgood`, news into events on the ConfigMap.
//
// A watch that stands still looks like one that has nothing to tell, and what it would tell may be
// that somebody has switched us off. So the ConfigMap is also read live, every few seconds and
// whenever prove() is called, and what differs is taken up as if the watch had told it.
//
// What an earlier run kept is read before the first look at the ConfigMap. While it cannot be read,
// nothing is in force: to start without it could put out of force what a faulty edit left running.

#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

#include "app/policies/bound_namespaces.h"
#include "app/policies/departed_replicas.h"
#include "fence/sources/source_state.h"
#include "kube/calls/config_map_keeper.h"
#include "kube/calls/config_maps.h"
#include "kube/calls/events.h"
#include "kube/watching/watcher.h"
#include "kube/wire/backoff.h"
#include "kube/wire/caller.h"
#include "loop/loop.h"
#include "policy/bundle/last_good.h"
#include "policy/bundle/reload.h"
#include "port/cpu_clock.h"
#include "port/log.h"
#include "port/random.h"

namespace moonfence::app {

class PolicyFeed final : public kube::WatchListener, public policy::Reloader::Listener {
 public:
  struct Surroundings {
    loop::Loop& loop;
    kube::Caller& caller;
    port::Random& random;
    port::Log& log;
    port::CpuClock& cpu_clock;
    kube::EventRecorder& events;
  };
  struct Receivers {
    std::function<WallTime()> now;  // for the report
    std::function<void(std::shared_ptr<const policy::PolicySet>)> activate;
    std::function<void(const policy::ReloadReport&, const std::vector<policy::ReloadNews>&)> report;
    // Nothing was reloaded, and it says something else all the same: a policy fails, or a namespace
    // that it names does not exist.
    std::function<void(const policy::ReloadReport&)> changed = {};
  };

  // `space` is the engine's namespace, `instance` our name among the replicas. All that is referred
  // to must outlive the feed.
  PolicyFeed(Surroundings around, Namespace space, std::string instance, policy::ReloadRules rules,
             Receivers receivers);
  ~PolicyFeed() override;
  PolicyFeed(const PolicyFeed&) = delete;
  PolicyFeed& operator=(const PolicyFeed&) = delete;

  void start();

  // Empty once the policies were read, whatever they were: a faulty edit must never restart us.
  [[nodiscard]] const std::string& not_ready() const { return not_ready_; }
  [[nodiscard]] const kube::WatchHealth& watch_health() const { return watch_.health(); }
  // As it was reloaded, and what is known of it since.
  [[nodiscard]] const policy::ReloadReport& last_report() const { return shown_; }
  // The policies that keep pods of open incidents from being dealt with.
  void tell_failing(std::set<std::string> names);

  // How the health sources of policies are heard: what is wrong with one is told once, until it is
  // over.
  void tell_sources(const std::vector<fence::SourceState>& states);

  // What else is told of this replica, beside the report: app/status/situation.h.
  void tell(nlohmann::ordered_json situation);

  // See fence::ProvePolicies. One read at a time; who comes meanwhile shares the next one.
  using Proven = std::function<void(const Result<void>&)>;
  void prove(std::weak_ptr<const void> alive, Proven done);
  // What is in force was the server's own then or later.
  [[nodiscard]] Moment proven_at() const { return proven_at_; }
  // The store went back in time: the policies are listed anew and read live, and what we had
  // written is looked at, until kept().
  void begin_anew();
  // Our status and the last good policies stand there.
  [[nodiscard]] bool kept() const { return status_.settled() && last_good_.settled(); }

  // Between two reads of our own accord, and after one that failed.
  static constexpr Duration kProveEvery = std::chrono::seconds(10);
  static constexpr Duration kProveAgain = std::chrono::seconds(2);

  void on_init() override;
  void on_init_apply(const nlohmann::json& object) override;
  void on_init_done() override;
  void on_apply(const nlohmann::json& object) override;
  void on_delete(const nlohmann::json& object) override;

  void activate(std::shared_ptr<const policy::PolicySet> set) override;
  void report(const policy::ReloadReport& report,
              const std::vector<policy::ReloadNews>& news) override;
  void persist(const policy::LastGood& good) override;

 private:
  struct Waiter {
    std::weak_ptr<const void> alive;
    Proven done;
  };
  void read_live();
  void live_arrived(Result<std::optional<kube::ConfigMap>> found);
  [[nodiscard]] Result<void> take_live(std::optional<kube::ConfigMap> found);
  void answer(const std::vector<Waiter>& waiters, const Result<void>& outcome);
  void read_last_good();
  void last_good_arrived(Result<kube::ConfigMap> map);
  void see(const nlohmann::json& object);
  void write_status();
  void show();
  [[nodiscard]] policy::ReloadReport as_known() const;
  void announce_absent(const policy::ReloadReport& before);
  void forget(const std::set<std::string>& replicas);
  void announce(kube::EventNews::Type type, std::string_view reason, const std::string& policy,
                const std::string& text);

  Surroundings around_;
  const Namespace space_;
  const std::string instance_;
  const policy::ReloadRules rules_;
  const Receivers receivers_;

  kube::ConfigMaps config_maps_;
  kube::ConfigMapKeeper status_;
  kube::ConfigMapKeeper last_good_;
  DepartedReplicas departed_;
  policy::ConfigMapData kept_;  // what stands in moonfence-lastgood
  kube::Watcher watch_;
  std::unique_ptr<policy::Reloader> reloader_;  // null until the last good was read
  std::optional<kube::ConfigMap> seen_;         // the ConfigMap, newest
  bool undecodable_ = false;                    // what is there now could not be read
  Uid last_uid_;                                // of the newest ever seen, for events
  policy::ReloadReport report_;                 // as it was reloaded
  policy::ReloadReport shown_;
  std::set<std::string> failing_;
  std::set<std::pair<std::string, std::string>> told_sources_;  // policies, and what was told
  BoundNamespaces namespaces_;
  nlohmann::ordered_json situation_;  // null: none was told yet
  bool reported_ = false;
  std::string not_ready_ = "the last good policies were not read yet";
  kube::Backoff backoff_;
  loop::Timer pause_;
  kube::CallHandle call_;

  Moment proven_at_{};
  Moment asked_at_{};            // the live read that is under way
  std::vector<Waiter> asking_;   // for whom it was sent
  std::vector<Waiter> waiting_;  // for the next one
  kube::CallHandle live_call_;
  loop::Timer prove_timer_;
  loop::Timer answer_timer_;
  std::shared_ptr<const void> alive_ = std::make_shared<int>(0);
};

}  // namespace moonfence::app
