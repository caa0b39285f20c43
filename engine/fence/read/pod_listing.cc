#include "fence/read/pod_listing.h"

#include <algorithm>
#include <utility>

namespace moonfence::fence {

PodListing::PodListing(Surroundings& surroundings, const PassContext& context,
                       const Authority& authority)
    : loop_(surroundings.access.loop),
      reader_(surroundings.access.reader),
      leadership_(surroundings.in_force.leadership),
      node_(authority.node),
      lists_(plan_lists(*context.set, context.downtime.fell, authority.source,
                        authority.powers != nullptr && authority.powers->may_act())),
      asked_at_(surroundings.access.loop.now()),
      pending_(lists_.size()),
      calls_(lists_.size()) {}

void PodListing::ask() {
  if (std::exchange(has_asked_, true)) {
    return;
  }
  asked_at_ = loop_.now();
  goes_on_ = goes_on_ || leadership_.limits().round_trip >= kFar;
  for (std::size_t list = 0; list < lists_.size(); ++list) {
    calls_[list] = reader_.list_pods(
        {.node = node_, .space = lists_[list].space, .label_selector = lists_[list].label_selector},
        [this, list](Result<kube::ItemTexts> pods) { arrived(list, std::move(pods)); },
        {.first = goes_on_ ? kube::ListPlan::kPageLimit : kFirstPage,
         .come = [this, list](kube::ItemTexts pods, const auto& next) {
           if (goes_on_) {
             next();
           } else {
             next_pages_.push_back(next);
           }
           tell_of(list, std::move(pods));
         }});
  }
}

void PodListing::go_on() {
  goes_on_ = true;
  for (const auto& next : std::exchange(next_pages_, {})) {
    next();
  }
}

void PodListing::retire() {
  has_asked_ = true;
  next_pages_.clear();
  calls_.clear();
}

void PodListing::arrived(std::size_t list, Result<kube::ItemTexts> pods) {
  calls_[list].reset();
  --pending_;
  tell_of(list, std::move(pods));
}

void PodListing::tell_of(std::size_t list, Result<kube::ItemTexts> pods) {
  answers_.push_back({.list = list, .pods = std::move(pods)});
  told_(list, answers_.back().pods);
}

void PodListing::tell(Arrived arrived) {
  told_ = std::move(arrived);
  for (Answer& answer : answers_) {
    told_(answer.list, answer.pods);
  }
}

bool PodListing::has_failed() const {
  return std::any_of(answers_.begin(), answers_.end(),
                     [](const Answer& answer) { return !answer.pods.has_value(); });
}

}  // namespace moonfence::fence
