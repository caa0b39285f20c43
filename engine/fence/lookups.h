#pragma once

// Lookups reads each object of the API at most once in a pass, whoever asks for it how often, and a
// bounded number at a time: live reads of the node must find room beside them.

#include <cstddef>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "base/result.h"
#include "kube/caller.h"
#include "kube/reader.h"

namespace moonfence::fence {

class Lookups {
 public:
  static constexpr std::size_t kParallelReads = 32;

  using Body = std::shared_ptr<const nlohmann::json>;  // null: there is no such object (404)
  using Done = std::function<void(const Result<Body>&)>;

  explicit Lookups(kube::Reader& reader) : reader_(reader) {}
  Lookups(const Lookups&) = delete;
  Lookups& operator=(const Lookups&) = delete;

  // Calls back at once when the answer is here, else in a later turn; never after destruction. A
  // path that could not be made is answered by its error.
  void get(const Result<std::string>& path, Done done);
  // A collection: it may be large, and goes where it holds up no live read.
  void list(const Result<std::string>& path, const kube::Query& query, Done done);

  [[nodiscard]] std::size_t requests() const { return lookups_.size(); }

 private:
  struct Lookup {
    std::string path;
    kube::Query query;
    bool is_list = false;
    std::optional<Result<Body>> answer;
    std::vector<Done> waiting;
    kube::CallHandle call;
  };
  void look_up(const Result<std::string>& path, const kube::Query& query, bool is_list, Done done);
  void pump();
  void arrived(Lookup& lookup, Result<kube::ApiReply> reply);

  kube::Reader& reader_;
  std::map<std::string, Lookup> lookups_;  // by path and query; its elements stay where they are
  std::deque<Lookup*> queue_;
  std::size_t in_flight_ = 0;
};

}  // namespace moonfence::fence
