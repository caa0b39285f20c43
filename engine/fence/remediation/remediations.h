#pragma once

// Remediations makes moonfence a remediator of medik8s' NodeHealthCheck: it watches
// MoonfenceRemediation objects, has the engine look at the nodes that they are about, and writes
// into their conditions how far that is (fence/remediation/remediation_standing).
//
// The object is a detector's word. It makes nothing deletable: only a node that Kubernetes calls
// down, too, is looked at, with everything that holds for any other incident. Where the object goes
// or is given up, an incident that only it had opened ends.
//
// Everything is known from the objects: a leader that begins reads them, and what was said last is
// never said again. It watches and writes only while it leads; NodeHealthCheck deletes the objects,
// and we never do.

#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "audit/trail.h"
#include "fence/remediation/remediation_object.h"
#include "fence/remediation/remediation_standing.h"
#include "fence/remediation/status_writer.h"
#include "kube/watching/watcher.h"

namespace moonfence::fence {

class Remediations final : public kube::WatchListener {
 public:
  static constexpr Duration kAskEvery = std::chrono::seconds(10);
  // A Node that was made a moment ago may not have been heard of.
  static constexpr Duration kAbsence = std::chrono::seconds(10);
  // Where no status changes, another reason and another message are written at most so often.
  static constexpr Duration kReasonEvery = std::chrono::seconds(5);
  static constexpr Duration kMessageEvery = std::chrono::minutes(1);
  // Where the kind is not installed, or may not be read.
  static constexpr Duration kProbeEvery = std::chrono::minutes(1);
  // What was not heard of for longer may be long gone: it asks for nothing, and takes nothing back.
  static constexpr Duration kStale = std::chrono::minutes(5);
  // Of more objects the rest is left out: one for each node is meant.
  static constexpr std::size_t kMost = 2000;

  // What it needs of the engine.
  class Host {
   public:
    virtual ~Host() = default;
    // All nodes and policies are known, and what other leaders left open.
    [[nodiscard]] virtual bool is_informed() const = 0;
    [[nodiscard]] virtual const cluster::NodeView* find(const NodeName& name) const = 0;
    // The node is to be looked at. False: it never was Ready, or is Ready now.
    virtual bool ask(const NodeName& name) = 0;
    // Of all others nobody asks for anything any more.
    virtual void withdraw_all_but(const std::set<NodeName>& asked) = 0;
    [[nodiscard]] virtual std::vector<IncidentStatus> incidents() const = 0;
    // The open one by Kubernetes' own word, "": there is none.
    [[nodiscard]] virtual IncidentId incident_of(const NodeName& name) const = 0;
    [[nodiscard]] virtual WallTime now() const = 0;
  };

  // All that is referred to must outlive it. Nothing happens before lead().
  Remediations(const StatusWriter::Surroundings& around, Host& host);
  Remediations(const Remediations&) = delete;
  Remediations& operator=(const Remediations&) = delete;
  ~Remediations() override = default;

  void lead();
  void step_down();
  // Once a second.
  void look();
  // Every audit record.
  void hear(const audit::Record& record);

  // What whoever runs the cluster has to know; "" when all is well.
  [[nodiscard]] std::string problem() const;

  void on_init() override;
  void on_init_apply(const nlohmann::json& object) override;
  void on_init_done() override;
  void on_apply(const nlohmann::json& object) override;
  void on_delete(const nlohmann::json& object) override;

 private:
  struct Entry {
    RemediationObject object;
    Moment heard{};                                     // by its watch
    std::optional<Moment> absent_since = std::nullopt;  // its node
    std::optional<EndedIncidents> ended = std::nullopt;
    std::optional<Moment> told = std::nullopt;  // when it was last written
  };
  // What came of it, which is the same for all objects of a node.
  struct Asked {
    Moment at{};
    bool in_vain = false;
    bool joining = false;
  };
  // What is known of an open incident.
  struct UnderWay {
    bool done = false;
    std::map<Uid, Kept> kept;    // by pod or attachment
    std::set<Uid> deleted = {};  // likewise
  };
  using Open = std::map<NodeName, IncidentStatus>;

  void probe();
  void probed(const Result<kube::ApiReply>& reply);
  void unwatched(Error::Kind kind, std::string problem);
  [[nodiscard]] bool may_judge() const;
  // What the watch says is not too old to go by.
  [[nodiscard]] bool is_current() const;
  void look_soon(const ObjectRef& ref);
  void look_at_news();
  static void renew(Entry& entry, RemediationObject object);
  // Nothing where it cannot be understood.
  [[nodiscard]] std::optional<RemediationObject> read(const nlohmann::json& object);
  [[nodiscard]] Entry entry_of(RemediationObject object) const;
  [[nodiscard]] Open open_incidents() const;
  [[nodiscard]] RemediationStanding standing_in(const Entry& entry, const Open& open) const;
  void note_node(Entry& entry, const Open& open);
  void ask(const Entry& entry, const Open& open);
  void tell(const ObjectRef& ref, const Entry& entry, const Open& open);
  void missed(const ObjectRef& ref, Moment asked);
  static void note(UnderWay& incident, const audit::Record& record);
  void ended(const UnderWay& incident, const audit::Record& record);
  [[nodiscard]] std::optional<std::string> patch_of(const nlohmann::json& live);
  void wrote(const nlohmann::json& object);

  const StatusWriter::Surroundings around_;
  Host& host_;
  StatusWriter writer_;
  std::map<ObjectRef, Entry> entries_;
  std::map<ObjectRef, RemediationObject> incoming_;  // the list being received
  std::size_t unknown_ = 0;                          // of these
  std::set<ObjectRef> news_;
  std::map<IncidentId, UnderWay> under_way_;  // by Kubernetes' own word
  std::map<NodeName, Asked> asked_;           // the last time
  std::optional<kube::Watcher> watch_;        // absent: not installed, or we do not lead
  Moment listed_{};                           // the last time
  bool left_out_ = false;                     // there are more than kMost
  kube::CallHandle probe_call_;
  kube::Backoff probe_backoff_;
  loop::Timer probe_later_;
  loop::Timer look_soon_;
  std::string problem_;
  std::optional<Error::Kind> told_;  // of the problem, by the log
  bool leads_ = false;
};

}  // namespace moonfence::fence
