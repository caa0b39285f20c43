#pragma once

// OutOfServiceSetter puts a node out of service: when a policy wants it, no guard speaks against it
// for any pod of the node (fence/rules/eviction), and the server heeds it, the node gets
// Kubernetes' taint node.kubernetes.io/out-of-service. Kubernetes then evicts its pods and detaches
// their volumes by itself; what policies want deleted is deleted by the next pass, which begins at
// once. Once in a pass, after its pods were judged:
//
//   server's version read ──▶ written into the incident's record ──▶ one patch of the node
//
// It is set again when somebody drops it, with pauses that grow. fence/lift/taint_lifter takes it
// off.

#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <string>

#include "fence/act/incident_context.h"
#include "fence/judge/pod_evaluation.h"
#include "fence/rules/action.h"
#include "fence/rules/eviction.h"
#include "kube/calls/reader.h"

namespace moonfence::fence {

class OutOfServiceSetter {
 public:
  // How often in a pass the taint is tried to be set.
  static constexpr int kAttempts = 3;
  // How often in an incident it is set before it is told that somebody takes it off each time.
  static constexpr unsigned kTimes = 5;

  // All references must outlive it. `changed`: go_on() has something to do.
  OutOfServiceSetter(IncidentContext& surroundings, const PassContext& context,
                     std::shared_ptr<const Authority> authority, Memory& memory,
                     const PodEvaluation& pod_evaluation, std::function<void()> changed);

  // Every pod of the node, with its JSON.
  void saw(const kube::Pod& pod);

  enum class Next {
    Nothing,   // no policy wants it, or it is settled for this pass
    Wait,      // until `changed`
    ReadNode,  // and call it again
  };
  // When the pods were asked for, and how long it took to know what policies need to know of them.
  struct Picture {
    Moment listed;
    Duration took;
  };
  // When nothing else is to be done in the pass.
  // `complete`: these are all.
  [[nodiscard]] Next go_on(const kube::Node& node, bool complete, const Picture& picture,
                           PassResult& result);
  // Of the pods that go_on() would have evicted; none when it has nothing to do.
  [[nodiscard]] std::set<Namespace> spaces() const;
  // Nobody is called back from now on.
  void retire();

 private:
  [[nodiscard]] std::optional<TaintWish> wish() const;
  void read_version();
  void record(const TaintWish& wish);
  [[nodiscard]] std::shared_ptr<const Eviction> eviction(const TaintWish& wish, bool complete,
                                                         const Picture& picture) const;
  [[nodiscard]] Next attempt(const TaintWish& wish, const kube::Node& node,
                             std::shared_ptr<const Eviction> eviction, PassResult& result);
  void send(const TaintWish& wish, const kube::Node& node,
            std::shared_ptr<const Eviction> eviction);
  // What came of the attempt.
  [[nodiscard]] Next after(const TaintWish& wish, const ActionOutcome& outcome, PassResult& result);
  Next succeed(const TaintWish& wish, PassResult& result);
  Next end(const ActionOutcome& outcome, PassResult& result);
  void tell(const TaintWish& wish, audit::Reason reason, const kube::Pod* about,
            const std::string& more);
  [[nodiscard]] std::string evidence(const TaintWish& wish) const;
  [[nodiscard]] std::string text_of(const TaintWish& wish, audit::Reason reason) const;

  IncidentContext& around_;
  const PassContext& context_;
  std::shared_ptr<const Authority> authority_;
  Memory& memory_;
  const PodEvaluation& pod_evaluation_;
  std::function<void()> changed_;
  const bool may_taint_;
  std::vector<kube::Pod> evicted_;
  kube::CallHandle version_call_;
  std::optional<int> version_;
  std::optional<ActionOutcome> outcome_;  // not looked at yet
  int attempts_ = 0;
  bool version_asked_ = false;
  bool recorded_ = false;  // or it was tried
  bool waits_ = false;
  bool sending_ = false;
  bool ended_ = false;
  std::shared_ptr<const void> alive_;
};

}  // namespace moonfence::fence
