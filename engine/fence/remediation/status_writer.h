#pragma once

// StatusWriter writes the status of remediations, in the order in which it is told that something
// is new there: it reads the object, has it decided what is to stand there, and patches it, on the
// condition that nobody changed it in between. Thousands of objects may be there: one write begins
// at a time and in its turn, and where the server refuses or does not answer, all wait.
//
// Nothing else waits for it, and only the replica that acts writes.

#include <deque>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>

#include <nlohmann/json.hpp>

#include "base/names.h"
#include "fence/leadership/leadership.h"
#include "kube/wire/backoff.h"
#include "kube/wire/caller.h"
#include "loop/loop.h"
#include "port/log.h"
#include "port/random.h"

namespace moonfence::fence {

class StatusWriter {
 public:
  static constexpr Duration kPace = std::chrono::milliseconds(25);
  // Before the same object is tried again, that somebody changed in between; and one that was
  // refused.
  static constexpr Duration kConflictPause = std::chrono::milliseconds(500);
  static constexpr Duration kRefusedPause = std::chrono::minutes(1);
  static constexpr Duration kTimeout = std::chrono::seconds(10);

  struct Surroundings {
    loop::Loop& loop;
    kube::Caller& caller;
    port::Random& random;
    port::Log& log;
    const Leadership& leadership;
  };
  // The patch of this object as it was just read; nullopt: it is right as it is.
  using Decide = std::function<std::optional<std::string>(const nlohmann::json& live)>;
  // It stands there now.
  using Wrote = std::function<void(const nlohmann::json& object)>;
  // The server, asked at that moment, has no such object.
  using Missed = std::function<void(const ObjectRef& ref, Moment asked)>;

  // All that is referred to must outlive it.
  StatusWriter(const Surroundings& around, Decide decide, Wrote wrote, Missed missed);
  StatusWriter(const StatusWriter&) = delete;
  StatusWriter& operator=(const StatusWriter&) = delete;

  // What was refused is not repeated by itself: whoever wants it says so once a second.
  void want(const ObjectRef& ref);
  // Nothing is to be written there any more.
  void forget(const ObjectRef& ref);
  // It stands there as it is to.
  void stands(const ObjectRef& ref);
  void stop();

  // Why the last write failed, "" when it did not.
  [[nodiscard]] const std::string& problem() const { return problem_; }

 private:
  void next_later(Duration pause);
  void next();
  void read(const ObjectRef& ref, const std::string& path);
  void patch(const ObjectRef& ref, const std::string& path, std::string body);
  void arrived(const ObjectRef& ref, const std::string& path, Moment asked,
               const Result<kube::ApiReply>& reply);
  void written(const ObjectRef& ref, const Result<kube::ApiReply>& reply);
  void failed(const ObjectRef& ref, const Error& error);
  void done();
  void tell(const ObjectRef& ref, const Error& error);
  [[nodiscard]] bool may_write(Moment now) const;

  const Surroundings around_;
  const Decide decide_;
  const Wrote wrote_;
  const Missed missed_;
  std::deque<ObjectRef> queue_;
  std::set<ObjectRef> wanted_;              // what is in it
  std::map<ObjectRef, Moment> not_before_;  // of those that were refused
  kube::Backoff backoff_;
  std::string problem_;
  ObjectRef problem_of_;
  std::optional<Error::Kind> told_;  // of the problem, by the log
  loop::Timer next_;
  kube::CallHandle call_;
};

}  // namespace moonfence::fence
