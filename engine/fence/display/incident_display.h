#pragma once

// IncidentDisplay writes FencingIncident objects (fence/display/incident_object) beside the records
// of incidents, with `incidentObjects: on`. It hears of each record when that stands in the
// cluster, so the object never says more.
//
// It only tells. One object at a time is read and written, on the lane of the lists and without
// counting for what is known of the API server; not while calls that act are under way, and what is
// under way is given up when an incident opens. An object is written every five seconds at most,
// but for its end, and not at all where it says the same already. Open ones and those that have
// just ended go first. Only the replica that acts writes. Where the kind is not installed, or may
// not be written, it asks again a minute later.
//
// Nothing that stands there is believed. One of that name which is not of this very record is left
// alone and told. Kubernetes removes an object when its record is gone; what was there once is not
// made again beside the same record.

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "base/names.h"
#include "fence/display/incident_object.h"
#include "fence/incident/trouble.h"
#include "fence/leadership/leadership.h"
#include "fence/record/journal.h"
#include "kube/wire/backoff.h"
#include "kube/wire/caller.h"
#include "loop/loop.h"
#include "port/log.h"
#include "port/random.h"

namespace moonfence::fence {

class IncidentDisplay final : public Journal::Listener {
 public:
  static constexpr Duration kPace = std::chrono::milliseconds(100);  // between two calls
  static constexpr Duration kTimeout = std::chrono::seconds(3);
  // After an incident has opened nothing is begun for this long, nor while calls act.
  static constexpr Duration kGiveWay = std::chrono::seconds(1);
  // What changed is written after this, another text alone after a minute.
  static constexpr Duration kWriteEvery = std::chrono::seconds(5);
  static constexpr Duration kTextEvery = std::chrono::minutes(1);
  // An open one is looked at again, for somebody may have changed it; one that is over once.
  static constexpr Duration kVerifyEvery = std::chrono::minutes(5);
  // One that failed, then twice as long; and where the kind is not there or not ours to write.
  static constexpr Duration kPause = std::chrono::seconds(5);
  static constexpr Duration kLongest = std::chrono::minutes(5);
  static constexpr Duration kProbeEvery = std::chrono::minutes(1);

  struct Surroundings {
    loop::Loop& loop;
    kube::Caller& caller;
    port::Random& random;
    port::Log& log;
    const Leadership& leadership;
  };
  // What it needs of the engine.
  class Host {
   public:
    virtual ~Host() = default;
    [[nodiscard]] virtual std::vector<IncidentStatus> incidents() const = 0;
    [[nodiscard]] virtual std::map<IncidentId, JudgedPods> judged() const = 0;
    // Calls that act are under way.
    [[nodiscard]] virtual bool is_acting() const = 0;
    [[nodiscard]] virtual WallTime now() const = 0;
  };

  // All that is referred to must outlive it. Nothing happens before lead().
  IncidentDisplay(const Surroundings& around, Namespace space, Host& host);
  IncidentDisplay(const IncidentDisplay&) = delete;
  IncidentDisplay& operator=(const IncidentDisplay&) = delete;
  ~IncidentDisplay() override = default;

  void lead();
  void step_down();
  void stands(const IncidentRecord& record, const Uid& config_map) override;
  void removed(const IncidentId& id) override;
  // Once a second.
  void look();
  // An incident has opened.
  void give_way();

  // What whoever runs the cluster has to know, the first of it; "" when all is well.
  [[nodiscard]] std::string problem() const;

 private:
  struct Entry {
    ShownRecord record;
    std::optional<ShownStand> stand = {};
    Trouble trouble = {};
    bool past = false;                   // it was over when we came, or its end is shown
    bool seen = false;                   // its object was there
    Moment due{};                        // max: nothing is to be written
    Duration wanted{};                   // how soon after the last, since it was read; max: not
    std::optional<Moment> written = {};  // when it was last written, or seen to be right
    Moment not_before{};                 // it failed
    Duration pause{};                    // zero: it did not
    std::string problem = {};
  };
  using Entries = std::map<IncidentId, Entry>;
  using Answered = std::function<void(const Result<kube::ApiReply>& reply)>;

  void probe();
  void probed(const Result<kube::ApiReply>& reply);
  void not_there(const Error& error);
  void follow(Entry& entry, const IncidentStatus* status, const JudgedPods* pods) const;
  void hurry(Entry& entry, Duration after_the_last) const;
  void next_later(Duration pause);
  void pause(Duration duration);
  [[nodiscard]] bool waits(Entry& entry);
  void next();
  [[nodiscard]] Entries::iterator first_due();
  void read(const IncidentId& id);
  void arrived(const Result<kube::ApiReply>& reply);
  void create(Entry& entry);
  void compare(Entry& entry, const nlohmann::json& object);
  void patch(Entry& about, std::string body);
  void shown(Entry& entry);
  void failed(const Error& error);
  void put_off(Duration at_least);
  void done();
  void tell(const IncidentId& about, const Error& error);
  void quiet(const IncidentId& about);
  // The entry under way; null: it is gone meanwhile.
  [[nodiscard]] Entry* current();
  void send(kube::ApiRequest request, Answered answered);
  [[nodiscard]] bool may_write(Moment now) const;

  const Surroundings around_;
  const Namespace space_;
  Host& host_;
  Entries entries_;
  bool leads_ = false;
  bool is_installed_ = false;
  IncidentId current_;               // that the call is about
  std::string path_;                 // of its object
  std::string problem_;              // of all of them
  Moment not_before_{};              // the server, or the kind
  std::optional<Error::Kind> told_;  // of the problem, by the log
  kube::Backoff backoff_;
  loop::Timer next_;
  kube::CallHandle call_;
};

}  // namespace moonfence::fence
