#pragma once

// What the parts of one ApiServer share.

#include <utility>
#include <vector>

#include "loop/loop.h"
#include "port/random.h"
#include "sim/server/api_server.h"
#include "sim/server/hidden_objects.h"
#include "sim/server/watch_cache.h"
#include "sim/server/watches.h"
#include "sim/server/write_refusals.h"

namespace moonfence::sim {

struct ServerState {
  ServerState(loop::Loop& loop_given, ObjectStore& store_given, port::Random& random_given,
              ServerRules rules_given)
      : loop(loop_given),
        store(store_given),
        random(random_given),
        rules(std::move(rules_given)),
        cache(loop, store, rules.shared_versions),
        watches(loop, store, cache) {}

  loop::Loop& loop;
  ObjectStore& store;
  port::Random& random;
  const ServerRules rules;
  ServerMood mood;
  std::vector<WriteRefusal> refusals;
  std::vector<HiddenObjects> hidden;
  WatchCache cache;
  Watches watches;
  // Lists of exactly one version cannot reach further back.
  std::int64_t compacted = 0;

  // Chance decides; nothing is drawn for what never happens.
  [[nodiscard]] bool draw(double share) { return share > 0 && random.unit() < share; }
};

}  // namespace moonfence::sim
