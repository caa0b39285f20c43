#pragma once

// PodListing asks for the lists of a failed node's pods (fence/read/pod_lists), side by side, and
// keeps what arrives until somebody takes it.

#include <cstddef>
#include <functional>
#include <optional>
#include <vector>

#include "fence/read/pod_lists.h"
#include "fence/read/surroundings.h"
#include "fence/rules/guard.h"
#include "fence/rules/pass_result.h"
#include "kube/calls/reader.h"
#include "loop/loop.h"

namespace moonfence::fence {

class PodListing {
 public:
  // Of one list. The texts may be moved out.
  using Arrived = std::function<void(std::size_t list, Result<kube::ItemTexts>& pods)>;

  // What the surroundings name must outlive it.
  PodListing(Surroundings& surroundings, const PassContext& context, const Authority& authority);
  PodListing(const PodListing&) = delete;
  PodListing& operator=(const PodListing&) = delete;

  // For the most recent state; why not for "not older than the event" is told in
  // docs/decisions/0004. Once: nothing happens when it has asked.
  void ask();
  // Who is told from now on: at once of what is here already.
  void tell(Arrived arrived);
  // Nobody is told any more, and nothing is asked. It may be inside of telling.
  void retire();

  [[nodiscard]] const std::vector<PodList>& lists() const { return lists_; }
  // When it was made, until it has asked.
  [[nodiscard]] Moment asked_at() const { return asked_at_; }
  // Lists that have not arrived, asked for or not.
  [[nodiscard]] std::size_t pending() const { return pending_; }
  // Some list could not be read.
  [[nodiscard]] bool has_failed() const;

 private:
  void arrived(std::size_t list, Result<kube::ItemTexts> pods);

  loop::Loop& loop_;
  kube::Reader& reader_;
  const NodeName node_;
  const std::vector<PodList> lists_;
  Moment asked_at_;
  bool has_asked_ = false;
  std::size_t pending_;
  std::vector<kube::CallHandle> calls_;  // null: it has arrived, or failed
  std::vector<std::optional<Result<kube::ItemTexts>>> answers_;
  Arrived told_;
};

}  // namespace moonfence::fence
