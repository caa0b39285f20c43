#pragma once

// PodLedger is the biography of every pod of a run: where it ran, when it was deleted and by whom,
// and which pod took its place. Built from the store's writes; nothing of it is the engine's word.

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/time.h"
#include "sim/store/object_store.h"

namespace moonfence::sim {

struct PodLife {
  std::string space;
  std::string name;
  std::string uid;
  std::string workload;  // of its controller: "core" of core-0 and of core-5d8f-x2x; "" none
  std::string node;      // "" while it is not bound
  Duration created{};
  std::optional<Duration> running;  // first Ready
  std::optional<Duration> marked;   // has a deletionTimestamp since
  std::optional<Duration> deleted;  // gone
  std::string deleted_by;           // the actor of the write that removed it
  bool at_start = false;
  bool ready = false;    // as last seen
  bool by_node = false;  // a DaemonSet's or a static one: belongs to its node
  bool finished = false;

  [[nodiscard]] std::string path() const { return space + "/" + name; }
};

// What became of a pod that ran at the start.
struct Failover {
  const PodLife* pod = nullptr;
  const PodLife* replacement = nullptr;  // null: none yet
};

// Of a pod object.
[[nodiscard]] bool is_pod_ready(const Json& pod);
// The workload that controls it, "" for none.
[[nodiscard]] std::string workload_of(const Json& pod);

class PodLedger {
 public:
  // Begins with the pods that are there. Both must outlive it.
  PodLedger(ObjectStore& store, std::function<Duration()> elapsed);
  PodLedger(const PodLedger&) = delete;
  PodLedger& operator=(const PodLedger&) = delete;

  // In the order of creation; those of the start by name.
  [[nodiscard]] const std::vector<PodLife>& lives() const { return lives_; }
  [[nodiscard]] const PodLife* find(std::string_view uid) const;
  // For each pod that was on the node at the start, those that belong to the node left out. A
  // StatefulSet's pod is replaced by the next of its name, another by the next of its workload that
  // nobody else replaces.
  [[nodiscard]] std::vector<Failover> failovers(std::string_view node) const;

 private:
  void see(const Change& change);
  PodLife& life_of(const Json& pod);

  std::function<Duration()> elapsed_;
  std::vector<PodLife> lives_;
};

}  // namespace moonfence::sim
