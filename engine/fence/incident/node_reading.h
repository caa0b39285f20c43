#pragma once

// NodeReading looks at the node of an incident: it reads the node live, side by side with what says
// whether its kubelet is silent, which is its Lease or, when the incident goes by the word of a
// health source, that word. What they come to is the authority's reading.
//
// A node whose Ready is Unknown may be the first of many: before anything is done, the Leases of
// all nodes are read beside it, once a pass (fence/leases/peer_lease_reader).
//
// What a pass does rests on policies and a mode that were proven to be the server's own beside its
// first reading: somebody may have switched us off, and the watch that would tell may stand still.
//
// That the API server knows no Node of that name is a reading too where a binding acts on deleted
// nodes (trigger `deleted`): only its own 404, which names the node, arrived within a second.
// Everything else that keeps us from reading it says nothing.
//
// A Node that was made anew under the same name, by another machine, does not end what was begun:
// pods of the old one are bound to it, and nobody else will move them.

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "fence/judge/pod_evaluation.h"
#include "fence/read/health_source.h"
#include "fence/read/surroundings.h"
#include "fence/rules/guard.h"
#include "kube/calls/reader.h"

namespace moonfence::fence {

class NodeReading {
 public:
  // nullopt: the node, or what else the reading needs, could not be read. That a node is gone is
  // kept as the authority's reading only where a binding acts on it. May destroy this.
  using Arrived = std::function<void(const std::optional<Reading>&)>;

  // Who only foresees does not pull the brake.
  enum class Purpose { ToAct, ToForesee };
  // All references must outlive it.
  NodeReading(Surroundings& surroundings, const PassContext& context,
              std::shared_ptr<Authority> authority, Memory& memory, Arrived arrived,
              Purpose purpose = Purpose::ToAct);

  void begin();
  [[nodiscard]] bool is_under_way() const { return under_way_; }
  // At least one has arrived.
  [[nodiscard]] bool has_one() const { return has_one_; }
  // As it was read last; of a node that is gone, as this incident read it last. With has_one()
  // only.
  [[nodiscard]] const kube::Node& node() const { return node_; }
  // Calls nobody back from now on.
  void retire();

 private:
  void read_peer_leases();
  void prove_policies();
  [[nodiscard]] bool are_policies_proven() const;
  void ask_for_the_lease();
  void look_again();
  void node_arrived(Result<kube::Node> node);
  void vanished();
  // Another machine has taken the name, and ours is known to be dead or gone: what is left of ours
  // goes on. One that has the same boot is the same machine, which merely joined again.
  [[nodiscard]] bool is_succeeded_by(const kube::Node& node) const;
  void lease_arrived(Result<kube::Lease> lease);
  void word_arrived(Result<HealthSource::Word> word);
  // Of the one that has just arrived.
  [[nodiscard]] cluster::Readiness readiness() const;
  [[nodiscard]] bool awaits_lease() const;
  [[nodiscard]] bool awaits_policies() const;
  [[nodiscard]] bool needs_peer_leases() const;
  void take_if_complete();
  [[nodiscard]] bool peers_are_readable() const;
  void heed_peer_leases(Duration stood_still);
  // What the answers come to; an error when that is nothing to go by.
  [[nodiscard]] Result<Reading> by_source() const;
  [[nodiscard]] bool stands_still() const;
  [[nodiscard]] Reading by_lease();
  void take(Reading reading);
  [[nodiscard]] AttestationCheck read_attestation() const;
  void tell_evidence() const;
  void note_silence();
  void note_boot(const std::string& boot_id);

  Surroundings& around_;
  const PassContext& context_;
  std::shared_ptr<Authority> authority_;
  Memory& memory_;
  Arrived arrived_;
  const Purpose purpose_;

  kube::CallHandle node_call_;
  kube::CallHandle lease_call_;
  // In place of the Lease, when the incident goes by the word of a health source.
  std::unique_ptr<HealthSource::Question> question_;
  // As they arrived.
  std::optional<kube::Node> fresh_;
  std::optional<WallTime> successor_;  // made under its name since
  std::optional<std::string> successor_hold_;
  bool gone_ = false;  // it is what was known of a node that does not exist
  std::optional<Result<kube::Lease>> lease_;
  std::optional<Result<HealthSource::Word>> word_;
  std::optional<Result<void>> peer_leases_;  // how that reading ended
  std::optional<Result<void>> policies_;     // whether they were proven, beside the first reading
  kube::Node node_;
  Moment sent_{};  // the newest one's
  // How long the newest one may take. What is slow all of a sudden is read again: by then it may be
  // known for slow, and the second reading is as good as it gets.
  Duration lifetime_{};
  bool under_way_ = false;
  bool has_one_ = false;
  bool peers_read_ = false;
  std::shared_ptr<const void> alive_;  // a reading of them must not call back after our end
};

}  // namespace moonfence::fence
