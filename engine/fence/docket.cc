#include "fence/docket.h"

#include <iterator>
#include <utility>

#include "kube/decode.h"

namespace moonfence::fence {

Docket::Docket(Surroundings& surroundings, Court& court)
    : around_(surroundings), court_(court), alive_(std::make_shared<int>(0)) {}

void Docket::retire() {
  next_slice_.cancel();
  gathering_ = nullptr;
  alive_.reset();
}

void Docket::add(std::vector<std::string> pods) {
  const bool idle = next_pod_ >= pods_.size() && known_.empty();
  pods_.insert(pods_.end(), std::make_move_iterator(pods.begin()),
               std::make_move_iterator(pods.end()));
  if (has_begun() && idle) {
    go_on(kPodsPerTurn);  // otherwise a slice is due in the next turn
  }
}

void Docket::begin(Gathering& gathering, std::size_t first) {
  gathering_ = &gathering;
  go_on(first);
}

bool Docket::is_done() const {
  return next_pod_ >= pods_.size() && gathering_pods_ == 0 && known_.empty();
}

void Docket::go_on(std::size_t most) {
  const policy::ClusterFacts facts = around_.cluster_facts();
  const Moment enough = around_.loop.live_now() + kSliceTime;
  while (most > 0 && around_.loop.live_now() < enough) {
    if (!known_.empty()) {
      Known known = std::move(known_.front());
      known_.pop_front();
      court_.judge(std::move(known.pod), known.gathered, facts);
      --most;
    } else if (next_pod_ < pods_.size()) {
      take_up(std::exchange(pods_[next_pod_], {}));
      ++next_pod_;
    } else {
      break;
    }
  }
  if (!known_.empty() || next_pod_ < pods_.size()) {
    go_on_soon();
  } else {
    next_slice_.cancel();  // what came at once was judged at once
  }
  court_.slice_ended();
}

void Docket::go_on_soon() {
  if (!next_slice_.pending()) {
    next_slice_ = around_.loop.in_next_turn([this] { go_on(kPodsPerTurn); });
  }
}

void Docket::take_up(const std::string& text) {
  auto pod = kube::decode_pod_text(text);
  if (!pod) {
    court_.undecodable(pod.error());
    return;
  }
  const auto [seen, is_new] = seen_.try_emplace(pod->uid, pod->resource_version);
  if (!is_new) {
    if (std::exchange(seen->second, pod->resource_version) != pod->resource_version) {
      court_.came_again(*pod);
    }
    return;
  }
  Wants wants = court_.taken_up(*pod);
  if (wants.nothing()) {
    known_.push_back({.pod = *std::move(pod), .gathered = {}});
    return;
  }
  ++gathering_pods_;
  gathering_->gather(*pod, std::move(wants),
                     [this, pod = *pod, alive = std::weak_ptr<const void>(alive_)](Gathered known) {
                       if (alive.expired()) {
                         return;
                       }
                       --gathering_pods_;
                       court_.gathered(pod, known);
                       known_.push_back({.pod = pod, .gathered = std::move(known)});
                       go_on_soon();
                     });
}

}  // namespace moonfence::fence
