#pragma once

// Informer is how a simulated controller sees the cluster: every change of one resource, in order,
// some time after it happened. Its cache is therefore sometimes old, as a real one is.

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>

#include "loop/loop.h"
#include "sim/store/object_store.h"

namespace moonfence::sim {

class Informer {
 public:
  // `before` is null when the object is new to the cache, `after` when it is gone.
  using Handler = std::function<void(const Object& before, const Object& after)>;
  using Objects = std::map<std::pair<std::string, std::string>, Object>;

  // What the store holds now is in the cache from the start; handlers hear of what comes after.
  // `lag` is asked for each change; the order of changes is kept whatever it says.
  Informer(loop::Loop& loop, ObjectStore& store, std::string resource,
           std::function<Duration()> lag);
  ~Informer();
  Informer(const Informer&) = delete;
  Informer& operator=(const Informer&) = delete;

  void on_change(Handler handler);
  // null when the cache has none.
  [[nodiscard]] Object find(const std::string& space, const std::string& name) const;
  [[nodiscard]] Object find_uid(const std::string& uid) const;
  // In the order of (space, name).
  [[nodiscard]] const Objects& all() const;

 private:
  struct State;
  // Shared with the store's listener alone, which outlives the informer and must then know it.
  std::shared_ptr<State> state_;
};

}  // namespace moonfence::sim
