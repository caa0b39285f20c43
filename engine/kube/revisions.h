#pragma once

// Revisions tells since when an object of one resource cannot have been written, by nobody's clock
// but our own: which versions the API server's store had reached when. The versions of a resource
// are ordered (KEP-5504), so that an object whose version was reached by some moment was written
// before it and not since. What is asked is a consistent list without an item, which costs little
// and comes from no cache.

#include <deque>
#include <optional>

#include "base/names.h"
#include "base/time.h"
#include "kube/caller.h"
#include "loop/loop.h"

namespace moonfence::kube {

class Revisions {
 public:
  // Longer than the Lease of any kubelet stands still before something is made of it.
  static constexpr Duration kRemembered = std::chrono::minutes(2);

  // The store has reached it, as an answer says that arrived then. False: the store went back in
  // time, and everything before is worthless.
  [[nodiscard]] bool note(const ResourceVersion& reached, Moment arrived);
  // What was reached when is not known any more: the store may be another one.
  void forget() { reached_.clear(); }
  // The first moment by which it was reached; nullopt: not yet, or nobody knows.
  [[nodiscard]] std::optional<Moment> since(const ResourceVersion& version) const;

 private:
  struct Reached {
    ResourceVersion version;
    Moment at;
  };
  std::deque<Reached> reached_;
};

// Asks for the version of all Leases of kubelets, and notes it.
class LeaseRevisions {
 public:
  static constexpr Duration kEvery = std::chrono::seconds(2);
  static constexpr Duration kAfterFailure = std::chrono::seconds(10);

  LeaseRevisions(loop::Loop& loop, Caller& caller) : loop_(loop), caller_(caller) {}
  LeaseRevisions(const LeaseRevisions&) = delete;
  LeaseRevisions& operator=(const LeaseRevisions&) = delete;

  void start() { ask(); }
  [[nodiscard]] const Revisions& revisions() const { return revisions_; }
  void forget() { revisions_.forget(); }

 private:
  void ask();

  loop::Loop& loop_;
  Caller& caller_;
  Revisions revisions_;
  loop::Timer next_;
  CallHandle call_;
};

}  // namespace moonfence::kube
