#pragma once

// A health source is somebody other than Kubernetes whose word on a node's health a policy goes by:
// a storage back end, asked by the policy's `source`. An incident of that signal rests on nothing
// but this word, read anew before anything is done.

#include <functional>
#include <memory>
#include <string>

#include "base/names.h"
#include "base/result.h"
#include "base/time.h"
#include "policy/values/verdict.h"

namespace moonfence::fence {

class HealthSource {
 public:
  struct Word {
    policy::NodeHealth health = policy::NodeHealth::Unknown;
    Moment asked{};  // when the question left: it was true then or later
    // By the engine's own word: its machine was not heard for long enough, and its Lease is
    // overdue.
    bool lost = false;
  };
  using Done = std::function<void(const Result<Word>&)>;

  // A question under way. Destroying it takes it back: nothing is called any more.
  class Question {
   public:
    virtual ~Question() = default;
  };

  virtual ~HealthSource() = default;
  // Asks now. `done` is called once, in a later turn and before a reading is too old
  // (fence/leadership/limits.h). A node that the
  // source does not name is an error, like a source that does not answer.
  [[nodiscard]] virtual std::unique_ptr<Question> ask(const NodeName& node, Done done) = 0;
  // What tells it from the others: signal_of() of the bindings that go by it.
  [[nodiscard]] virtual const std::string& key() const = 0;
  // It calls a node failed before Kubernetes does, so that Kubernetes' taint is not there yet, and
  // may never come. Where the engine sets none itself (setting quarantine), a node that Kubernetes
  // calls Ready is dealt with all the same; but not by a word that is no more than a silence.
  [[nodiscard]] virtual bool goes_without_taint() const { return true; }
};

}  // namespace moonfence::fence
