#pragma once

// Revisions tells since when an object of one resource cannot have been written, by nobody's clock
// but our own: which versions the API server's store had reached when. The versions of a resource
// are ordered (KEP-5504), so that an object whose version was reached by some moment was written
// before it and not since. What is asked is a consistent list without an item, which costs little
// and comes from no cache.

#include <deque>
#include <optional>
#include <string>

#include "base/names.h"
#include "base/time.h"
#include "kube/wire/caller.h"
#include "loop/loop.h"
#include "port/log.h"

namespace moonfence::kube {

class Revisions {
 public:
  // Longer than the Lease of any kubelet stands still before something is made of it.
  static constexpr Duration kRemembered = std::chrono::minutes(2);

  // The store has reached it, as an answer says that was asked for and arrived then. False: the
  // store went back in time, and everything before is worthless.
  [[nodiscard]] bool note(const ResourceVersion& reached, Moment sent, Moment arrived);
  // It has reached more than this.
  [[nodiscard]] bool is_beyond(const ResourceVersion& version) const;
  // What was reached when is not known any more: the store may be another one.
  void forget() { reached_.clear(); }
  // The first moment by which it was reached; nullopt: not yet, or nobody knows.
  [[nodiscard]] std::optional<Moment> since(const ResourceVersion& version) const;
  // The last moment of which we know that the store was not beyond it: whoever shows this version
  // shows nothing older than that. nullopt: nobody knows.
  [[nodiscard]] std::optional<Moment> not_beyond(const ResourceVersion& version) const;
  // Between which moments an object of this version was written: the store was last seen without
  // it, and first with it. nullopt: nobody knows.
  struct Written {
    std::optional<Moment> after;
    std::optional<Moment> by;
  };
  [[nodiscard]] Written written(const ResourceVersion& version) const {
    return {.after = last_before(version, false), .by = since(version)};
  }

 private:
  struct Reached {
    ResourceVersion version;
    Moment at;      // first
    Moment last{};  // the store had no newer one yet
  };
  // When the store was last seen before this version, or also at it.
  [[nodiscard]] std::optional<Moment> last_before(const ResourceVersion& version, bool or_at) const;
  // Of what the store had reached, in order. An odd version is beyond all.
  [[nodiscard]] std::deque<Reached>::const_iterator first_beyond(const ResourceVersion& version,
                                                                 bool not_at) const;
  std::deque<Reached> reached_;
};

// Asks for the version of all Leases of kubelets, and notes it. It need not ask while others hear
// it anyway.
class LeaseRevisions {
 public:
  static constexpr Duration kEvery = std::chrono::seconds(2);
  static constexpr Duration kAfterFailure = std::chrono::seconds(10);

  LeaseRevisions(loop::Loop& loop, Caller& caller, port::Log& log)
      : loop_(loop), caller_(caller), log_(log) {}
  LeaseRevisions(const LeaseRevisions&) = delete;
  LeaseRevisions& operator=(const LeaseRevisions&) = delete;

  void start() { ask(); }
  // The answer to something else says that the store had reached it: a Lease was written.
  void heard(const ResourceVersion& reached, Moment sent);
  [[nodiscard]] const Revisions& revisions() const { return revisions_; }
  void forget() { revisions_.forget(); }
  // Why they are not known, "" when they are. Without them a silent kubelet takes longer to tell.
  [[nodiscard]] const std::string& problem() const { return problem_; }

 private:
  void ask();

  loop::Loop& loop_;
  Caller& caller_;
  port::Log& log_;
  Revisions revisions_;
  std::string problem_;
  loop::Timer next_;
  CallHandle call_;
};

}  // namespace moonfence::kube
