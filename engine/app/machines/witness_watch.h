#pragma once

// WitnessWatch follows what the other replicas tell of themselves in ConfigMap moonfence-status:
// where each can be asked what machines it hears, and the key that its answers are signed with. Its
// watch costs nothing while nothing changes, and what it knows is there when it is needed.

#include <functional>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "cluster/witness/witnesses.h"
#include "kube/watching/watcher.h"
#include "kube/wire/caller.h"
#include "loop/loop.h"
#include "port/log.h"
#include "port/random.h"

namespace moonfence::app {

// Of the data of that ConfigMap, without ourselves and without those that do not tell it, or tell
// what is neither an address nor a key.
[[nodiscard]] std::vector<cluster::Witnesses::Replica> witnesses_in(const nlohmann::json& data,
                                                                    const std::string& own);

class WitnessWatch final : public kube::WatchListener {
 public:
  struct Surroundings {
    loop::Loop& loop;
    kube::Caller& caller;
    port::Random& random;
    port::Log& log;
  };

  // All must outlive it.
  WitnessWatch(const Surroundings& around, const Namespace& space, std::string own,
               cluster::Witnesses& witnesses);
  WitnessWatch(const WitnessWatch&) = delete;
  WitnessWatch& operator=(const WitnessWatch&) = delete;

  void start() { watch_.start(); }

  void on_init() override { seen_ = nullptr; }
  void on_init_apply(const nlohmann::json& object) override { see(object); }
  void on_init_done() override { tell(); }
  void on_apply(const nlohmann::json& object) override;
  void on_delete(const nlohmann::json& object) override;

 private:
  void see(const nlohmann::json& object);
  void tell();

  const std::string own_;
  cluster::Witnesses& witnesses_;
  nlohmann::json seen_;  // the ConfigMap's data
  kube::Watcher watch_;
};

}  // namespace moonfence::app
