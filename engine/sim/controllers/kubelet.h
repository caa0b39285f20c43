#pragma once

// A machine and its kubelet. The kubelet registers the node, renews its Lease, posts its status,
// runs the pods bound to it once their volumes are attached, and removes pods that are being
// deleted after their containers have stopped. Cut off from the API server it goes on running what
// it runs; back again it learns what became of its pods, stops what is gone, and writes its own
// list of volumes in use over whatever stands in the API. Frozen it does nothing, nor do its
// containers, until all go on. Restarted, it never again reports what
// runs on with a volume that the API does not call attached. At its own API it says what it means
// to run, what runs, and since when it lives.

#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "sim/ground/ground.h"
#include "sim/ground/volumes.h"
#include "sim/server/api_server.h"

namespace moonfence::sim {

// What the kubelets of all machines see; each has its own part of it.
struct KubeletViews {
  Informer& nodes;
  Informer& pods;
  Informer& attachments;
};

class Kubelet final {
 public:
  // The machine is in ground.machines; its Node and Lease exist.
  Kubelet(const Ground& ground, NodePlan plan, const KubeletViews& views);
  Kubelet(const Kubelet&) = delete;
  Kubelet& operator=(const Kubelet&) = delete;

  // A pod that runs here already, its volumes attached.
  void adopt(const Object& pod);

  // Told by the views, for what concerns this node.
  void saw_pod(const Object& before, const Object& after);
  void saw_node();
  void saw_attachment();

  // A GET at its own API, through an API server (kubelet_api.cc).
  [[nodiscard]] ServerAnswer answer(std::string_view path);

  // What happens to the machine. Each is harmless when it is so already.
  void power_off();
  void cut_off();
  void stop_kubelet();
  void freeze();
  void turn_not_ready();
  void take_ready_away();
  void be_called_unknown();
  void step_clock(Duration by) { clock_offset_ += by; }
  void heal();
  // Somebody presses the button: whatever else is wrong with it stays.
  void switch_on();
  // Registers the node anew, the old object being gone.
  void register_again();

 private:
  enum class Stage {
    Unresolved,  // its claims are not known yet
    Waiting,     // for its volumes
    Starting,
    Running,
    Stopping,
    Stopped,
  };
  struct Work {
    Object pod;  // as last seen
    bool gone = false;
    Stage stage = Stage::Unresolved;
    std::vector<Volume> volumes;
    std::set<std::string> unreported = {};  // of them, by unique name: see forget_detached()
    loop::Timer timer;
  };
  using Works = std::map<std::string, Work>;

  [[nodiscard]] bool is_awake() const;
  [[nodiscard]] bool is_at_work() const;
  [[nodiscard]] bool may_write() const { return machine_.sound(); }
  void change(std::string_view what);

  // By its own clock.
  [[nodiscard]] WallTime wall_now() const { return ground_.now() + clock_offset_; }

  // Heartbeats
  void reconnect();
  void fall_silent();
  void renew_lease();
  void tick();
  void post_status();
  [[nodiscard]] bool is_posted(const Json& node) const;
  [[nodiscard]] std::vector<std::string> volumes_in_use() const;
  void register_node();
  // Its power is there. False: it takes no time to boot.
  bool begin_to_boot();
  void come_up(bool booted, bool restarted);
  void boot();
  // The event that tells of a started kubelet.
  void tell_start();

  // Its own API (kubelet_api.cc)
  [[nodiscard]] Json wanted_pods() const;
  [[nodiscard]] const Json& running_pods();

  // Pods (kubelet_pods.cc)
  void relist();
  void forget_detached();
  void look_at(const std::string& uid);
  void resolve(const std::string& uid);
  [[nodiscard]] std::optional<std::vector<Volume>> resolved(const Json& pod) const;
  void mount(const std::string& uid);
  [[nodiscard]] bool is_attached(const Work& work) const;
  [[nodiscard]] bool is_refused(const Work& work) const;
  void start(const std::string& uid);
  void run(Work& work);
  void stop(const std::string& uid);
  void finish(const std::string& uid);
  void post_running(const Work& work);
  void post_stopped(const Json& pod);
  void keep_mirror(const Json& pod);

  const Ground& ground_;
  NodePlan plan_;
  KubeletViews views_;
  std::string actor_;
  std::unique_ptr<port::Random> random_;
  Machine& machine_;
  bool was_sound_ = true;
  bool did_answer_ = true;  // its machine's kernel
  bool was_powered_ = true;
  Duration clock_offset_{};  // of the machine's wall clock
  bool unheard_ = false;     // what it posts does not come through; its Lease does
  // After a start it keeps the API's list of volumes in use until it knows its pods.
  bool knows_pods_ = true;
  bool restarted_ = false;  // its process, not the machine
  bool is_registering_ = false;
  bool starts_untold_ = false;  // while nothing reaches the API server
  Moment posted_{};
  // What runs, as the container runtime said it then.
  std::optional<Moment> runtime_asked_;
  Json runtime_said_;
  Works works_;
  std::map<std::string, Json> mirrors_;  // static pods' shadows, by path
  std::map<std::string, loop::Timer> mirror_timers_;
  loop::Timer boots_;
  loop::Timer lease_;
  loop::Timer status_;
  loop::Timer relist_;
};

// What an API server answers for a kubelet that it cannot reach.
[[nodiscard]] ServerAnswer unreachable_kubelet();

}  // namespace moonfence::sim
