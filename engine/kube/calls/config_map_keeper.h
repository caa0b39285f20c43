#pragma once

// ConfigMapKeeper writes keys of one ConfigMap of our own until they stand there: the newest text
// of each key wins, one request is under way at a time, and a failed one is repeated for ever with
// growing pauses. Nothing waits for it. Every request carries all keys it keeps, so that an object
// which somebody deleted, or another replica changed, becomes whole again; what asks for nothing
// new is not sent.
//
// That a write succeeded says nothing of a minute later: somebody may delete the object, and a
// store that is restored from a backup forgets it. So what stands there is looked at every minute,
// and what is missing is written again.

#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "kube/calls/config_maps.h"
#include "kube/wire/backoff.h"
#include "loop/loop.h"
#include "port/log.h"
#include "port/random.h"

namespace moonfence::kube {

class ConfigMapKeeper {
 public:
  using Data = std::map<std::string, std::optional<std::string>>;  // no value: remove the key

  // Who else writes the keys that it keeps: with several writers another text is theirs, and only a
  // key that is missing is written again.
  enum class Writers { OnlyWe, Several };

  // All references must outlive the keeper.
  ConfigMapKeeper(loop::Loop& loop, Caller& caller, port::Random& random, port::Log& log,
                  ObjectRef ref, Labels labels, Writers writers);
  ConfigMapKeeper(const ConfigMapKeeper&) = delete;
  ConfigMapKeeper& operator=(const ConfigMapKeeper&) = delete;

  // Returns at once; leaves in this turn unless a request is under way or a pause lasts. Keys that
  // are not named stay as they are.
  void keep(const Data& data);

  // What was written may be lost, or be what it was long ago: it is looked at now, and written
  // again where anything is missing or reads otherwise. Not settled until that is done.
  void doubt();

  // Everything asked for stands there.
  [[nodiscard]] bool settled() const { return stands_ == asked_ && !doubted_; }
  [[nodiscard]] std::uint64_t failures() const { return failures_; }

  // From the last write or look to the next look.
  static constexpr Duration kLookEvery = std::chrono::minutes(1);

 private:
  void send();
  void look();
  void on_found(const Result<std::optional<ConfigMap>>& found);
  [[nodiscard]] bool stands_in(const ConfigMap& map) const;
  void on_outcome(const Result<void>& outcome);
  void try_again(const Error& error);

  loop::Loop& loop_;
  ConfigMaps config_maps_;
  port::Random& random_;
  port::Log& log_;
  const ObjectRef ref_;
  const Labels labels_;
  const Writers writers_;
  Data kept_;                 // all that should stand there
  std::uint64_t asked_ = 0;   // changes of kept_
  std::uint64_t sent_ = 0;    // asked_ of what is under way or was sent last
  std::uint64_t stands_ = 0;  // asked_ of what stands there
  bool doubted_ = false;
  bool looking_ = false;  // what is under way is a look
  Backoff backoff_;
  loop::Timer pause_;
  loop::Timer next_look_;
  std::uint64_t failures_ = 0;
  CallHandle call_;
};

}  // namespace moonfence::kube
