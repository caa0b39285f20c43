#include "fence/lookups.h"

#include <utility>

#include "kube/url.h"

namespace moonfence::fence {

void Lookups::get(const Result<std::string>& path, const kube::Query& query, Done done) {
  if (!path) {
    done(failure(Error(path.error())));
    return;
  }
  const auto [entry, is_new] = lookups_.try_emplace(*path + "?" + kube::encoded_query(query));
  Lookup& lookup = entry->second;
  if (lookup.answer) {
    done(*lookup.answer);
    return;
  }
  lookup.waiting.push_back(std::move(done));
  if (is_new) {
    lookup.path = *path;
    lookup.query = query;
    queue_.push_back(&lookup);
    pump();
  }
}

void Lookups::pump() {
  while (!queue_.empty() && in_flight_ < kParallelReads) {
    Lookup& next = *queue_.front();
    queue_.pop_front();
    ++in_flight_;
    next.call = reader_.get(next.path, next.query, [this, &next](Result<kube::ApiReply> reply) {
      arrived(next, std::move(reply));
    });
  }
}

void Lookups::arrived(Lookup& lookup, Result<kube::ApiReply> reply) {
  --in_flight_;
  if (reply) {
    lookup.answer = std::make_shared<const nlohmann::json>(std::move(reply->body));
  } else if (reply.error().kind == Error::Kind::NotFound) {
    lookup.answer = Body();
  } else {
    lookup.answer = failure(std::move(reply.error()).within("GET " + lookup.path));
  }
  pump();
  const std::vector<Done> waiting = std::exchange(lookup.waiting, {});
  for (const Done& done : waiting) {
    done(*lookup.answer);
  }
}

}  // namespace moonfence::fence
