#pragma once

// PodListing asks for the lists of a failed node's pods (fence/read/pod_lists), side by side, and
// keeps what arrives until somebody takes it.
//
// The first page of each is small unless all of it is wanted at once: the first pods are there,
// decided about, recorded and on their way while the server has hardly begun with hundreds of
// others. Those are asked for when somebody wants them: on the cores on which the server would
// write them it has to answer first what the first deletion waits for (docs/decisions/0008). From a
// server that is far away all is asked for at once: each page would cost its way.

#include <cstddef>
#include <deque>
#include <functional>
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
  // So many pods are decided about in one turn (fence/judge/pod_queue), and what policies need to
  // know about them is read one by one (fence/read/lookups).
  static constexpr int kFirstPage = 8;
  static constexpr Duration kFar = std::chrono::milliseconds(20);  // there and back

  // Of one list, or one of its pages. The texts may be moved out.
  using Arrived = std::function<void(std::size_t list, Result<kube::ItemTexts>& pods)>;

  // What the surroundings name must outlive it.
  PodListing(Surroundings& surroundings, const PassContext& context, const Authority& authority);
  PodListing(const PodListing&) = delete;
  PodListing& operator=(const PodListing&) = delete;

  // For the most recent state; why not for "not older than the event" is told in
  // docs/decisions/0004. Once: nothing happens when it has asked.
  void ask();
  // All pages are wanted as soon as they may be asked for; before ask(), large ones from the first.
  void go_on();
  // Who is told from now on: at once of what is here already.
  void tell(Arrived arrived);
  // Nobody is told any more, and nothing is asked. It may be inside of telling.
  void retire();

  [[nodiscard]] const std::vector<PodList>& lists() const { return lists_; }
  // When it was made, until it has asked.
  [[nodiscard]] Moment asked_at() const { return asked_at_; }
  // Lists that have not arrived whole, asked for or not.
  [[nodiscard]] std::size_t pending() const { return pending_; }
  // Some list could not be read.
  [[nodiscard]] bool has_failed() const;

 private:
  void arrived(std::size_t list, Result<kube::ItemTexts> pods);
  void tell_of(std::size_t list, Result<kube::ItemTexts> pods);

  loop::Loop& loop_;
  kube::Reader& reader_;
  const Leadership& leadership_;
  const NodeName node_;
  const std::vector<PodList> lists_;
  Moment asked_at_;
  bool has_asked_ = false;
  bool goes_on_ = false;
  std::size_t pending_;
  std::vector<kube::CallHandle> calls_;            // null: it has arrived, or failed
  std::vector<std::function<void()>> next_pages_;  // that wait for somebody who wants them
  struct Answer {
    std::size_t list = 0;
    Result<kube::ItemTexts> pods;
  };
  std::deque<Answer> answers_;  // of lists and pages, as they came
  Arrived told_;
};

}  // namespace moonfence::fence
