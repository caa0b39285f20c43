#include "fence/read/endpoint_lookups.h"

namespace moonfence::fence {

void EndpointLookups::get(const std::string& endpoint, const std::string& path, Done done) {
  if (endpoints_ == nullptr) {
    done(tl::unexpected<cluster::EndpointFailure>(cluster::unconfigured(endpoint)));
    return;
  }
  const auto [entry, is_new] = lookups_.try_emplace({endpoint, path});
  Lookup& lookup = entry->second;
  if (lookup.answer) {
    done(*lookup.answer);
    return;
  }
  lookup.waiting.push_back(std::move(done));
  if (is_new) {
    lookup.endpoint = endpoint;
    lookup.path = path;
    queue_.push_back(&lookup);
    pump();
  }
}

void EndpointLookups::pump() {
  while (!queue_.empty() && in_flight_ < kParallelReads) {
    Lookup& next = *queue_.front();
    queue_.pop_front();
    ++in_flight_;
    next.call = endpoints_->get(
        next.endpoint, next.path,
        [this, &next](const cluster::EndpointResult& answer) { arrived(next, answer); },
        body_limit_);
  }
}

void EndpointLookups::arrived(Lookup& lookup, const cluster::EndpointResult& answer) {
  --in_flight_;
  lookup.answer = answer;
  pump();
  const std::vector<Done> waiting = std::exchange(lookup.waiting, {});
  for (const Done& done : waiting) {
    done(*lookup.answer);
  }
}

}  // namespace moonfence::fence
