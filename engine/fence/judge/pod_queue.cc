#include "fence/judge/pod_queue.h"

#include <utility>

namespace moonfence::fence {

PodQueue::PodQueue(Surroundings& surroundings, PodQueueUser& user)
    : around_(surroundings), user_(user), alive_(std::make_shared<int>(0)) {}

void PodQueue::retire() {
  next_slice_.cancel();
  fact_reader_ = nullptr;
  alive_.reset();
}

template <class Pod>
void PodQueue::append(std::vector<Pod> pods) {
  const bool idle = pods_.empty() && known_.empty();
  for (Pod& pod : pods) {
    pods_.emplace_back(std::move(pod));
  }
  if (has_begun() && idle) {
    go_on(kPodsPerTurn);  // otherwise a slice is due in the next turn
  }
}

template void PodQueue::append(std::vector<std::string> pods);
template void PodQueue::append(std::vector<kube::Pod> pods);

std::vector<std::string> PodQueue::take_texts() {
  std::vector<std::string> texts;
  for (Brought& brought : std::exchange(pods_, {})) {
    if (auto* text = std::get_if<std::string>(&brought)) {
      texts.push_back(std::move(*text));
    }
  }
  return texts;
}

void PodQueue::begin(FactReader& fact_reader, std::size_t first) {
  fact_reader_ = &fact_reader;
  go_on(first);
}

bool PodQueue::is_done() const {
  return pods_.empty() && reading_facts_of_ == 0 && known_.empty();
}

void PodQueue::go_on(std::size_t most) {
  const policy::ClusterFacts facts = around_.access.cluster_facts();
  const Moment began = around_.access.loop.live_now();
  const Duration slice = pods_.size() + known_.size() <= kFew ? kFewTime : kSliceTime;
  Duration time = kTakingUpTime;
  {
    const Lookups::Together together = fact_reader_->together();
    while (most > 0 && around_.access.loop.live_now() - began < time) {
      if (!known_.empty()) {
        Known known = std::move(known_.front());
        known_.pop_front();
        time = slice;
        user_.judge(std::move(known.pod), known.gathered, facts);
        --most;
      } else if (!pods_.empty()) {
        Brought brought = std::move(pods_.front());
        pods_.pop_front();
        take_up(std::move(brought));
      } else {
        break;
      }
    }
  }
  if (goes_on()) {
    go_on_soon();
  } else {
    next_slice_.cancel();  // what came at once was judged at once
  }
  user_.slice_ended();
}

void PodQueue::go_on_soon() {
  if (!next_slice_.pending()) {
    next_slice_ = around_.access.loop.in_next_turn([this] { go_on(kPodsPerTurn); });
  }
}

Result<kube::Pod> PodQueue::decoded(Brought brought) {
  if (auto* pod = std::get_if<kube::Pod>(&brought)) {
    return std::move(*pod);
  }
  return decoder_.decode(std::get<std::string>(brought));
}

void PodQueue::take_up(Brought brought) {
  auto pod = decoded(std::move(brought));
  if (!pod) {
    user_.undecodable(pod.error());
    return;
  }
  const auto [seen, is_new] = seen_.try_emplace(pod->uid, pod->resource_version);
  if (!is_new) {
    if (std::exchange(seen->second, pod->resource_version) != pod->resource_version) {
      user_.came_again(*pod);
    }
    return;
  }
  Wants wants = user_.taken_up(*pod);
  if (wants.nothing()) {
    known_.push_back({.pod = *std::move(pod), .gathered = {}});
    return;
  }
  ++reading_facts_of_;
  fact_reader_->gather(
      *pod, std::move(wants),
      [this, pod = *pod, alive = std::weak_ptr<const void>(alive_)](Gathered known) {
        if (alive.expired()) {
          return;
        }
        --reading_facts_of_;
        user_.gathered(pod, known);
        known_.push_back({.pod = pod, .gathered = std::move(known)});
        go_on_soon();
      });
}

}  // namespace moonfence::fence
