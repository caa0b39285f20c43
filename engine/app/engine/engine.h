#pragma once

// Engine is the graph of objects that fences, built in one place so that it can be read there. It
// owns no rule; what it does is connect, start and stop. Everything outside comes through ports:
// app/daemon/daemon.h gives it the real network and clocks, app/simulate/sim_replica.h a simulated
// cluster.

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "app/settings/settings.h"
#include "app/status/status_board.h"
#include "app/telling/health.h"
#include "app/telling/metrics.h"
#include "base/ed25519.h"
#include "fence/fencers/power_watch.h"
#include "fence/read/surroundings.h"
#include "kube/auth/config.h"
#include "loop/loop.h"
#include "policy/host/policy.h"
#include "policy/values/mode.h"
#include "port/cpu_clock.h"
#include "port/files.h"
#include "port/http.h"
#include "port/links.h"
#include "port/log.h"
#include "port/processes.h"
#include "port/random.h"
#include "port/wall_clock.h"

namespace moonfence::kube {
class Caller;
}

namespace moonfence::app {

// What an engine is told before it starts.
struct Assignment {
  Settings settings;
  std::shared_ptr<const policy::Policy> policy;  // of --policy; null: the ConfigMap decides
  std::vector<fence::BoundFencer> fencers = {};  // of the settings, loaded
  std::string policy_namespace;                  // of --policy
  Duration hold_down = policy::kHoldDown;        // likewise
  // With `policy` its mode (default observe), else the ceiling of what the ConfigMap says.
  std::optional<policy::Mode> mode;
  kube::LoadedConfig config;
  std::string engine_namespace;
  bool leader_elect = true;  // else this is the only replica, and somebody else sees to that
  std::string instance;      // our name among the replicas: POD_NAME, else the host's
  std::string node_name;     // on which we run; empty: not known
  // Where other replicas may ask what machines we hear (cluster/witness/testimony.h):
  // "10.0.0.1:8081". Empty: nowhere.
  std::string witness_address = {};
  SigningKey::Secret witness_secret = {};  // its answers are signed with it
  // Looks at no node by itself, only at those that suppose_fallen() names: a rehearsal
  // (app/rehearsal/rehearsal.h).
  bool on_demand = false;
};

class Engine {
 public:
  struct Surroundings {
    loop::Loop& loop;
    port::Http& http;
    port::Files& files;
    port::Processes& processes;
    port::WallClock& wall_clock;
    port::CpuClock& cpu_clock;
    port::Random& random;
    port::Log& log;
    // Appends one audit record, a line without its newline; empty: the log is the record.
    std::function<Result<void>(std::string_view line)> append_audit;
    // Where the status page reads; null: nobody wants to see one.
    StatusBoard* status_board = nullptr;
    fence::EvaluationWatch on_evaluation = {};  // nobody listens by default
    port::Links* links = nullptr;               // null: machines cannot be watched from here
  };

  // Nothing happens before start(). What `around` refers to must outlive the engine.
  Engine(Assignment assignment, const Surroundings& around);
  ~Engine();
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;

  void start();
  // Accepts no more work, waits for what has left (6 s at most), then calls `left`, in a later turn
  // or in this one.
  void drain(std::function<void()> left);

  // As if the node had been seen to fall in this moment; one that Kubernetes calls Ready and no
  // health source failed only with `although_up`, and then to every source. Deleted is for those
  // who see, afterwards, that an unknown one had an incident all the same: a record named it.
  enum class Supposed { Unknown, Up, Fallen, Deleted };
  Supposed suppose_fallen(const NodeName& name, bool although_up);
  [[nodiscard]] std::shared_ptr<const policy::PolicySet> policies() const;

  // What we answer to another replica's question about machines. From any thread; an Error
  // where machines are not watched.
  [[nodiscard]] Result<std::string> testify(std::string_view nonce, std::string_view nodes,
                                            Moment now) const;

  // For questions to the API server that others cause. They are slow at others' will, so the
  // engine's limits do not follow them (kube/wire/server_pace.h), and they have a lane of their own
  // (port::Lane::Guests). Ends with the engine.
  [[nodiscard]] kube::Caller& guests_caller();

  // Both may be read from another thread.
  [[nodiscard]] Metrics& metrics();
  [[nodiscard]] Health& health();

 private:
  class Graph;
  std::unique_ptr<Graph> graph_;
};

}  // namespace moonfence::app
