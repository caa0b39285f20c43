#pragma once

// Watcher keeps a Listener's picture of one resource up to date for ever: list, watch, resume,
// relist, back off. It performs what WatchMachine (kube/watching/watch.h) decides and decides
// nothing itself. The five words are kube-rs': a relist is Init, InitApply…, InitDone and can never
// look like a burst of deletions; the listener builds the new set beside the old one and swaps on
// InitDone.

#include <functional>
#include <memory>
#include <string>

#include <nlohmann/json_fwd.hpp>

#include "base/names.h"
#include "kube/text/object_parser.h"
#include "kube/watching/watch.h"
#include "kube/wire/caller.h"
#include "loop/loop.h"
#include "port/log.h"
#include "port/random.h"

namespace moonfence::kube {

struct WatchTarget {
  std::string resource;        // for messages and metrics: "nodes"
  std::string path;            // "/api/v1/nodes"
  std::string field_selector;  // "" or "metadata.name=moonfence-policies"
  std::string label_selector;
  // Of each object what the listener does not look at; it is not told of it.
  Omitted omitted = {};
  // Nor is it told again of an object in which nothing else has changed but its version.
  bool only_news = false;
  // The listener reads what it watches live as well: versions need not be compared.
  bool read_live = false;
};

// An Init without its InitDone is void: the next Init begins again, and an Apply or Delete after it
// belongs to the old set.
class WatchListener {
 public:
  virtual ~WatchListener() = default;
  virtual void on_init() = 0;
  virtual void on_init_apply(const nlohmann::json& object) = 0;
  virtual void on_init_done() = 0;
  virtual void on_apply(const nlohmann::json& object) = 0;
  virtual void on_delete(const nlohmann::json& object) = 0;
};

// What readiness and metrics want to know of a watch.
struct WatchHealth {
  bool synced = false;     // one full list was delivered since start
  bool connected = false;  // a watch stream is open and not stalled
  Moment last_heard{};     // last event, bookmark or list
  // What the listener knows is what the server had at this moment or later: by a list, or because
  // the watch has reached a version that was read live.
  Moment whole_at{};
  std::uint64_t lists = 0;  // that were read to their end
  std::string last_error;   // of the last failed attempt, empty after a success
  std::uint64_t relists = 0;
  std::uint64_t restarts = 0;
  std::uint64_t events = 0;
  std::uint64_t bookmarks = 0;
  std::uint64_t undecodable = 0;  // frames that were not understood; each forces a relist
  std::uint64_t stalls = 0;       // streams given up because they fell silent, or stood still
  // The collection's version went backwards: the cluster was restored from a backup, and what was
  // believed about it is void.
  std::uint64_t rewinds = 0;
};

class Watcher {
 public:
  // All references must outlive the watcher. Starts with start(); destroying it stops it, also
  // inside a listener's call.
  Watcher(loop::Loop& loop, Caller& caller, port::Random& random, port::Log& log,
          WatchTarget target, WatchListener& listener, WatchRules rules = {});
  ~Watcher();
  Watcher(const Watcher&) = delete;
  Watcher& operator=(const Watcher&) = delete;

  void start();
  // The same without a first list: it was made by somebody else, and ended at this version.
  void start_from(ResourceVersion version);
  // Lists the most recent state, whatever is known; a list under way does not count. Not from
  // inside a listener's call.
  void list_anew();
  [[nodiscard]] const WatchHealth& health() const;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace moonfence::kube
