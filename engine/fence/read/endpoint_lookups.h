#pragma once

// EndpointLookups asks each endpoint for each path at most once in a pass, whoever asks how often,
// and a bounded number at a time.

#include <cstddef>
#include <deque>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/result.h"
#include "cluster/endpoints/endpoint.h"
#include "kube/wire/caller.h"

namespace moonfence::fence {

class EndpointLookups {
 public:
  static constexpr std::size_t kParallelReads = 8;

  using Done = std::function<void(const cluster::EndpointResult&)>;

  // Null: no endpoint can be asked. `body_limit`: of each answer.
  explicit EndpointLookups(cluster::Endpoints* endpoints,
                           std::size_t body_limit = cluster::Endpoints::kBodyLimit)
      : endpoints_(endpoints), body_limit_(body_limit) {}
  EndpointLookups(const EndpointLookups&) = delete;
  EndpointLookups& operator=(const EndpointLookups&) = delete;

  // Calls back at once when the answer is here, else in a later turn; never after destruction.
  void get(const std::string& endpoint, const std::string& path, Done done);

 private:
  struct Lookup {
    std::string endpoint;
    std::string path;
    std::optional<cluster::EndpointResult> answer;
    std::vector<Done> waiting;
    kube::CallHandle call;
  };
  void pump();
  void arrived(Lookup& lookup, const cluster::EndpointResult& answer);

  cluster::Endpoints* endpoints_;
  const std::size_t body_limit_;
  std::map<std::pair<std::string, std::string>, Lookup> lookups_;  // its elements stay in place
  std::deque<Lookup*> queue_;
  std::size_t in_flight_ = 0;
};

}  // namespace moonfence::fence
