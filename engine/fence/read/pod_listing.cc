#include "fence/read/pod_listing.h"

#include <algorithm>
#include <utility>

namespace moonfence::fence {

PodListing::PodListing(Surroundings& surroundings, const PassContext& context,
                       const Authority& authority)
    : loop_(surroundings.access.loop),
      reader_(surroundings.access.reader),
      node_(authority.node),
      lists_(plan_lists(*context.set, context.downtime.fell, authority.source)),
      asked_at_(surroundings.access.loop.now()),
      pending_(lists_.size()),
      calls_(lists_.size()),
      answers_(lists_.size()) {}

void PodListing::ask() {
  if (std::exchange(has_asked_, true)) {
    return;
  }
  asked_at_ = loop_.now();
  for (std::size_t list = 0; list < lists_.size(); ++list) {
    calls_[list] = reader_.list_pods(
        {.node = node_, .space = lists_[list].space, .label_selector = lists_[list].label_selector},
        [this, list](Result<kube::ItemTexts> pods) { arrived(list, std::move(pods)); });
  }
}

void PodListing::retire() {
  has_asked_ = true;
  calls_.clear();
}

void PodListing::arrived(std::size_t list, Result<kube::ItemTexts> pods) {
  calls_[list].reset();
  --pending_;
  answers_[list].emplace(std::move(pods));
  told_(list, *answers_[list]);
}

void PodListing::tell(Arrived arrived) {
  told_ = std::move(arrived);
  for (std::size_t list = 0; list < answers_.size(); ++list) {
    if (answers_[list]) {
      told_(list, *answers_[list]);
    }
  }
}

bool PodListing::has_failed() const {
  return std::any_of(answers_.begin(), answers_.end(),
                     [](const auto& answer) { return answer && !answer->has_value(); });
}

}  // namespace moonfence::fence
