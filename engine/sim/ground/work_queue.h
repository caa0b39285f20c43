#pragma once

// WorkQueue is a controller's queue of keys: a key that is waiting is not queued twice, and it is
// worked on some milliseconds later, with what the informers know by then.

#include <functional>
#include <map>
#include <memory>
#include <string>

#include "sim/ground/ground.h"

namespace moonfence::sim {

class WorkQueue final {
 public:
  using Work = std::function<void(const std::string& key)>;

  WorkQueue(const Ground& ground, std::string_view name, Work work);
  WorkQueue(const WorkQueue&) = delete;
  WorkQueue& operator=(const WorkQueue&) = delete;

  void add(const std::string& key) { add_after(key, Duration::zero()); }
  // No later than that; what is due sooner stays so.
  void add_after(const std::string& key, Duration delay);
  void drop(const std::string& key) { waiting_.erase(key); }

 private:
  struct Waiting {
    Moment due{};
    loop::Timer timer;
  };
  const Ground& ground_;
  std::unique_ptr<port::Random> random_;
  Work work_;
  std::map<std::string, Waiting> waiting_;
};

}  // namespace moonfence::sim
