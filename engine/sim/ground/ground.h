#pragma once

// Ground is what every part of the simulated cluster stands on: time, chance, the store, the
// machines, the story. Its owner, Cluster, outlives all of them.

#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "loop/loop.h"
#include "port/random.h"
#include "sim/ground/informer.h"
#include "sim/ground/machines.h"
#include "sim/ground/plan.h"
#include "sim/ground/story.h"
#include "sim/store/object_store.h"

namespace moonfence::sim {

struct Ground {
  loop::Loop& loop;
  port::Random& random;  // forked by name, never drawn from
  std::function<WallTime()> now;
  int kubernetes;  // the minor version
  Timings timings;
  Range informer_lag;
  ObjectStore& store;
  Machines& machines;
  Story& story;
  Moment start;

  [[nodiscard]] std::string stamp() const { return format_rfc3339(now()); }
  [[nodiscard]] std::string micro_stamp() const { return format_rfc3339_micro(now()); }

  // Whoever builds a costly text asks story.heard() first.
  void tell(Happening::Kind kind, std::string_view subject, std::string_view what,
            std::string_view detail = {}) const;

  // An informer of one process, with a lag stream of its own.
  [[nodiscard]] std::unique_ptr<Informer> informer(std::string_view process,
                                                   const std::string& resource) const;
};

// Uniform in [from, to).
[[nodiscard]] Duration between(port::Random& random, Duration from, Duration to);
// `duration` give or take `share` of it.
[[nodiscard]] Duration about(port::Random& random, Duration duration, double share);
[[nodiscard]] std::string make_uuid(port::Random& random);

}  // namespace moonfence::sim
