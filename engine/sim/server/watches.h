#pragma once

// The open watches of one API server. Each reads the store's log at its own place, as far as the
// server's watch cache sees; its selectors turn changes into ADDED, MODIFIED and DELETED.

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "loop/loop.h"
#include "sim/server/api_server.h"
#include "sim/server/selectors.h"
#include "sim/server/target.h"
#include "sim/server/watch_cache.h"

namespace moonfence::sim {

struct WatchWish {
  Route route;
  Selection selection;
  std::int64_t from = 0;             // events after this version
  std::vector<DocumentPtr> initial;  // told first, as ADDED
  std::optional<ApiFault> error;     // told instead of everything else, as ERROR
  bool bookmarks = false;
  bool marks_initial_end = false;  // WatchList: a bookmark says that `initial` is complete
  Duration length{};
  Duration bookmark_interval{};
};

class Watches {
 public:
  Watches(loop::Loop& loop, ObjectStore& store, WatchCache& cache);
  ~Watches();
  Watches(const Watches&) = delete;
  Watches& operator=(const Watches&) = delete;

  // The sink hears of it from the next turn of timers on, never inside this call.
  [[nodiscard]] std::unique_ptr<WatchStream> open(WatchWish wish, WatchSink& sink);
  // The cache has taken a change: feed when it is seen.
  void wake();
  void end_all();
  // Watches of `what` ("nodes", "pods", "policies" or "all") that are open until then stand still
  // for ever: they say nothing more, not that they end either, like those whose load balancer lost
  // its connection.
  void hush(const std::string& what, Moment until);
  void end_hushes();

 private:
  class Handle;
  struct Stream;
  // What a handle reaches its stream through; null once the server is gone.
  struct Link;

  void feed();
  bool feed_one(std::uint64_t id);
  void tick(std::uint64_t id);
  void schedule_tick(std::uint64_t id);
  // False when the sink has closed the watch meanwhile.
  bool say(std::uint64_t id, const std::string& line);
  [[nodiscard]] bool is_hushed(Stream& stream) const;
  bool say_change(std::uint64_t id, const Change& change);
  bool say_bookmark(std::uint64_t id, bool initial_end);
  bool begin(std::uint64_t id);
  void end(std::uint64_t id);
  [[nodiscard]] Stream* find(std::uint64_t id);

  loop::Loop& loop_;
  ObjectStore& store_;
  WatchCache& cache_;
  std::map<std::uint64_t, std::unique_ptr<Stream>> streams_;
  std::uint64_t next_id_ = 1;
  loop::Timer timer_;
  std::map<std::string, Moment> hushed_until_;  // by resource
  // Shared with the handles, which may outlive the server.
  std::shared_ptr<Link> link_;
};

}  // namespace moonfence::sim
