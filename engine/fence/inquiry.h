#pragma once

// Inquiry asks the policies of one set about the pods of one node, records what each of them says,
// and comes to one decision a pod. It reads nothing and deletes nothing.
//
// Who is asked about a pod: every binding whose scope covers it, whose policy selects it and that
// may act on the node by now (fence/triggers, and the policy's own word on the node) and on such a
// pod (fence/selection). A guard is asked beside them before its own time as well: its trigger says
// when it may act, not when it may speak against somebody else of its mode. Only that it forbids,
// or could not say, counts then.

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "audit/reason.h"
#include "audit/trail.h"
#include "fence/actions.h"
#include "fence/gathering.h"
#include "fence/guard.h"
#include "fence/incident.h"
#include "fence/pulse.h"
#include "fence/resolution.h"
#include "fence/surroundings.h"
#include "fence/tallies.h"
#include "fence/triggers.h"
#include "kube/objects.h"
#include "policy/breaker.h"
#include "policy/policy_set.h"

namespace moonfence::fence {

// What a policy's verdict comes to for one pod.
struct Deed {
  PodDeletion deletion;
  bool deletes_pod = true;                        // false: only its attachments, before it
  std::vector<policy::VolumeFacts> volumes = {};  // whose attachments are to go
  bool releases = false;                          // what is detached is to be released
};

// An attachment that an incident wants gone.
struct Detachment {
  PodDeletion verdict;  // about the pod that held it
  policy::VolumeFacts volume;
  bool before_pod = false;               // attachments-first
  std::uint32_t wanted_in = 0;           // the last pass in which its policy wanted it
  std::optional<Uid> asked;              // the attachment that was handed over to be deleted
  bool inherited = false;                // planned by the leader before us, who deleted nothing yet
  std::optional<audit::Reason> refused;  // why it can never go
  std::string told;                      // what was last recorded of it
  bool releases = false;                 // once it is gone, its volume is to be released
  // As it was when external-attacher held it: without that "gone" proves nothing.
  std::optional<kube::Attachment> held = std::nullopt;
  std::optional<Moment> pod_gone_at = std::nullopt;
  bool alarmed = false;  // that it lasts too long
};

// A volume whose attachment is gone (fence/releasing).
struct PendingRelease {
  Detachment detachment;
  Moment gone_at{};
  std::string name = {};  // what the node's status calls it, once it is known
  std::optional<Moment> sent_at = std::nullopt;  // it was released, and is to be acknowledged
};

// What an incident remembers from one pass to the next.
struct Memory {
  // Of the bindings in one mode: a policy that fails or counts while it observes changes nothing
  // for one that enforces.
  struct Side {
    policy::Breaker breaker;  // policies that fail
    Tallies tallies;          // what each policy has come to
  };
  [[nodiscard]] Side& side(policy::Mode mode) {
    return mode == policy::Mode::Enforce ? enforcing : observing;
  }

  std::set<Uid> handled;  // pods that it has settled
  // The node's boot when the leader before us last read it, for as long as nobody has compared.
  std::optional<std::string> inherited_boot;
  PulseWatch pulse;
  std::map<std::string, Detachment> detachments;   // by the attachment's name
  Duration detach_pause{};                         // between looks at attachments that are going
  std::map<std::string, PendingRelease> releases;  // by the attachment's name
  Duration release_pause{};                        // between looks at those that cannot go on
  // Before which our taint was set: it is set again when somebody drops it.
  std::optional<PodDeletion> fenced_for;
  std::map<Uid, Moment> detaching_since;  // attachments-first: pods whose attachments are to go
  Side enforcing;
  Side observing;
  std::set<std::pair<std::string, audit::Reason>> mentioned;  // by binding: what is told once
  // What was last recorded of a pod, by binding and kind of record: the same again is no news, or
  // an incident that waits for one pod would tell of all the others in every pass.
  std::map<std::pair<std::string, Uid>, std::pair<audit::Reason, std::string>> told;
};

// What one pass is about.
struct Occasion {
  std::shared_ptr<const policy::PolicySet> set;  // in force when the pass began; it keeps this one
  Downtime downtime;
  IncidentId incident;
  std::uint32_t attempt = 1;
  bool unknown = false;  // Ready is believed to be Unknown: the roll is called beside the reads
};

class Inquiry {
 public:
  // All references must outlive it.
  Inquiry(Surroundings& surroundings, const Occasion& occasion,
          std::shared_ptr<const Authority> authority, Memory& memory);

  // Before the first pod: the node as the authority's reading shows it.
  void begin(kube::Node node);

  // What has to be known about the pod before it can be judged: all that the policies need which
  // select it.
  [[nodiscard]] Wants wants_of(const kube::Pod& pod) const;

  // What is to be done, if anything. What has to come later is added to `result`. A pod that no
  // binding selects leaves no trace. `known` is what was gathered about the pod; a policy that
  // needs more waits.
  [[nodiscard]] std::optional<Deed> judge(kube::Pod pod, const Gathered& known,
                                          const policy::ClusterFacts& cluster, PassResult& result);

 private:
  struct Case;
  [[nodiscard]] std::vector<std::size_t> selecting(const kube::Pod& pod) const;
  void ask_about_node(std::size_t index, const policy::ClusterFacts& cluster);
  void ask(std::size_t index, Case& asked);
  void ask_later(std::size_t index, Case& asked);
  [[nodiscard]] Opinion run(std::size_t index, Case& asked);
  [[nodiscard]] std::optional<Deed> enforce(Case& asked, PassResult& result);
  // A release begins with a pod whose volumes somebody will detach: the driver of whom nobody
  // knows that, "" when somebody will.
  [[nodiscard]] std::string silent_attacher(const Case& asked, const policy::Verdict& verdict);
  [[nodiscard]] Deed deed_of(Case& asked, const Opinion& by);
  void observe(const Case& asked, PassResult& result);
  void look_again(const Decision& decision, PassResult& result) const;
  void note_failures(const Decision& decision, const Case& asked, PassResult& result) const;
  void record_conflict(const Decision& decision, const kube::Pod& pod);
  void record_stop(const Decision& decision, const kube::Pod& pod);

  [[nodiscard]] const policy::Binding& binding(std::size_t index) const {
    return occasion_.set->bindings[index];
  }
  // These two write what is not known yet.
  void record_verdict(const kube::Pod& pod, const policy::Binding* by, audit::Reason reason,
                      const std::string& text);
  // Why what this opinion wants is not done.
  void record_refusal(const kube::Pod& pod, const Opinion& wanted, audit::Reason reason,
                      const std::string& text);
  void write_news(const std::string& about, const std::string& told, const audit::Record& record);
  [[nodiscard]] audit::Record record_of(audit::Record::Kind kind, audit::Reason reason,
                                        const policy::Binding* by) const;
  [[nodiscard]] policy::NodeFacts node_facts(std::size_t index) const;
  void mention_once(const policy::Binding& binding, audit::Reason reason, const std::string& text);

  Surroundings& around_;
  const Occasion& occasion_;
  std::shared_ptr<const Authority> authority_;
  Memory& memory_;
  kube::Node node_;
  std::vector<Standing> standings_;  // by binding
  std::vector<bool> node_judged_;    // by binding: it was asked about the node
};

}  // namespace moonfence::fence
