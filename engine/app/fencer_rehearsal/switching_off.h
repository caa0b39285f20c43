#pragma once

// SwitchingOff has a fencer switch the machine of a drained node off, once, and finds out whether
// that is what has happened: as the engine would in the night (fence/act/fencer_orders,
// fence/fencers/power_watch), and beside that by the kubelet. Its Lease was renewed before, and
// stands still after. Whoever says off of a machine whose kubelet goes on speaking looks at another
// one. It never switches anything on. Nothing of it is linked into the daemon.
//
// What has to be so of the node is for others to find out (rehearsal_facts), between ask() and
// order(): what was asked counts for ten seconds.

#include <array>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "cluster/endpoints/endpoint.h"
#include "fence/fencers/power_question.h"
#include "fence/fencers/power_watch.h"
#include "kube/leases/lease.h"
#include "kube/objects/objects.h"
#include "loop/loop.h"

namespace moonfence::app {

class SwitchingOff {
 public:
  // From the order on: until then the machine is to be read off.
  static constexpr Duration kLimit = std::chrono::seconds(60);
  // Between the order and the readings that follow, each counted from the end of the one before;
  // the last of them again and again.
  static constexpr std::array<Duration, 4> kPauses = {
      std::chrono::seconds(1), std::chrono::seconds(2), std::chrono::seconds(3),
      std::chrono::seconds(5)};
  // How old the answers may be by which it is told.
  static constexpr Duration kLifetime = fence::PowerWatch::kLifetime;
  // A kubelet renews every ten seconds, by default.
  static constexpr Duration kRenewal = std::chrono::seconds(45);
  static constexpr Duration kLook = std::chrono::seconds(1);  // at the Lease
  // How long the Lease has to stand still: for its duration, in which a kubelet renews four times,
  // without a reading that failed. Bounded, since what it names comes from the kubelet.
  static constexpr Duration kShortestStill = std::chrono::seconds(20);
  static constexpr Duration kLongestStill = std::chrono::seconds(120);

  enum class Came {
    Nowhere,    // nothing has left: nobody was told
    NotProven,  // it may be off, or not
    Proven,
  };
  struct End {
    Came came = Came::Nowhere;
    std::string why = {};     // for people
    std::string reader = {};  // the fencer that reads it off: mostly the one that was told
  };
  struct Surroundings {
    fence::PowerQuestion::Surroundings ask;
    std::function<void(const std::string&)> tell;  // a step, for people, when it has happened
  };
  using Done = std::function<void(const Result<void>&)>;
  using Ended = std::function<void(const End&)>;

  // All must outlive it. One thing at a time: each says when it is done, in a later turn or at
  // once.
  SwitchingOff(Surroundings surroundings, const std::vector<fence::BoundFencer>& fencers);
  ~SwitchingOff();
  SwitchingOff(const SwitchingOff&) = delete;
  SwitchingOff& operator=(const SwitchingOff&) = delete;

  // Whether the kubelet of a node renews its Lease.
  void await_renewal(const NodeName& node, Done done);
  // Whether the machine is on, by fencers in their order, and how the one that says so switches it
  // off. An error says why that cannot be. The node must carry its raw JSON.
  void ask(kube::Node node, Done done);
  // Who that is, and whom it would tell.
  [[nodiscard]] const std::string& fencer() const { return fencer_; }
  [[nodiscard]] const std::string& endpoint() const { return order_->endpoint; }
  [[nodiscard]] const std::string& path() const { return order_->path; }
  // Tells it, once, and looks what comes of it. Only after ask() has succeeded.
  void order(Ended ended);

 private:
  struct Beat {
    Uid lease;
    std::optional<WallTime> renewed;
    friend bool operator==(const Beat&, const Beat&) = default;
  };
  using Heard = std::function<void(const fence::PowerQuestion&)>;

  void in_a_new_turn(std::function<void()> action);
  void question(Heard heard);
  [[nodiscard]] Result<void> take(const fence::PowerQuestion& question);
  void look_for_renewal();
  void renewal_read(const Result<kube::Lease>& lease);
  void tell_endpoint();
  void told(const Result<void>& accepted);
  void read_power(std::size_t step);
  void power_read(const fence::PowerQuestion& question, std::size_t step);
  void look_for_silence();
  void silence_read(const Result<kube::Lease>& lease, Moment sent);
  void read_once_more();
  void end(Came came, const std::string& why);

  const Surroundings around_;
  const std::vector<fence::BoundFencer>& fencers_;
  kube::Node node_;
  std::optional<policy::Request> order_;
  std::string fencer_;
  std::string reader_;  // who says off; "": nobody has
  bool sent_ = false;   // the order may have left
  Moment asked_{};
  Moment began_{};  // of what is waited for
  Moment ordered_{};
  std::optional<Beat> beat_;
  std::optional<Moment> still_since_;
  Done done_;
  Ended ended_;
  std::shared_ptr<fence::PowerQuestion> question_;
  kube::CallHandle call_;
  loop::Timer timer_;
};

}  // namespace moonfence::app
