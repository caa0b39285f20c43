#include "fence/lookups.h"

#include <utility>

#include "kube/url.h"

namespace moonfence::fence {

void Lookups::get(const Result<std::string>& path, Done done) {
  look_up(path, {}, /*is_list=*/false, std::move(done));
}

void Lookups::list(const Result<std::string>& path, const kube::Query& query, Done done) {
  look_up(path, query, /*is_list=*/true, std::move(done));
}

void Lookups::look_up(const Result<std::string>& path, const kube::Query& query, bool is_list,
                      Done done) {
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
    lookup.is_list = is_list;
    queue_.push_back(&lookup);
    pump();
  }
}

void Lookups::pump() {
  while (!queue_.empty() && in_flight_ < kParallelReads) {
    Lookup& next = *queue_.front();
    queue_.pop_front();
    ++in_flight_;
    const auto done = [this, &next](Result<kube::ApiReply> reply) {
      arrived(next, std::move(reply));
    };
    next.call =
        next.is_list ? reader_.get_list(next.path, next.query, done) : reader_.get(next.path, done);
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
