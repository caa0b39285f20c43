#pragma once

// NamespaceReading reads the namespaces in which something is to be deleted, live and each once
// every kHoldFreshness at most: somebody may hold one (fence/rules/hold_annotations). The first
// read of one goes beside the write of the incident's record, so a deletion does not wait for it.
// What it hears goes into the authority, which the guard asks. One that cannot be read is as good
// as held.

#include <functional>
#include <map>
#include <memory>

#include "fence/read/surroundings.h"
#include "fence/rules/guard.h"
#include "fence/rules/pass_result.h"
#include "kube/calls/reader.h"

namespace moonfence::fence {

class NamespaceReading {
 public:
  // All references must outlive it. `arrived`: one was read, or could not be.
  NamespaceReading(Surroundings& surroundings, const PassContext& context,
                   std::shared_ptr<Authority> authority, std::function<void()> arrived);

  // At the beginning of a pass: what an old word says would keep its pods from being judged, and
  // nobody would ask again.
  void forget_old();
  // Reads it beside the node, where by then its word would not be fresh any more.
  void refresh(const Namespace& space);
  // Reads it, unless its word is fresh or on its way. Whether it is fresh.
  bool ask(const Namespace& space);
  // Calls nobody back from now on.
  void retire() { calls_.clear(); }

 private:
  // On a slow server a word is as old as the read took.
  [[nodiscard]] Duration freshness() const;
  [[nodiscard]] bool is_younger(const Namespace& space, Duration age) const;
  void read(const Namespace& space);
  void arrived(const Namespace& space, Moment sent, const Result<kube::ApiReply>& reply);

  Surroundings& around_;
  const PassContext& context_;
  std::shared_ptr<Authority> authority_;
  std::function<void()> arrived_;
  std::map<Namespace, kube::CallHandle> calls_;
};

}  // namespace moonfence::fence
