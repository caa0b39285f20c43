#pragma once

// Witnesses are the other replicas. They watch the same machines from other nodes, and are asked
// when we do not hear one (cluster/witness/testimony.h): a machine that another replica hears is
// alive, whatever we hear. While all machines answer us each is asked once a minute, about nothing,
// so that it is known before the night in which it is needed whether it can be asked.
//
// A witness can only keep us from something. That it does not hear a machine either is known
// (is_confirmed()), and never makes a machine silent that we have heard. One that lies, or hears
// somebody else in the machine's place, delays what should be done: the log names the machine.

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/names.h"
#include "cluster/detection/detection.h"
#include "cluster/detection/kernel.h"
#include "loop/loop.h"
#include "port/http.h"
#include "port/log.h"
#include "port/random.h"

namespace moonfence::cluster {

class Witnesses final : public Kernels {
 public:
  struct Replica {
    std::string name;     // of its pod
    std::string address;  // "10.244.1.5:8081", "[fd00::5]:8081"
    std::string public_key;

    friend bool operator==(const Replica&, const Replica&) = default;
  };

  // A machine that was quiet for less is not asked about.
  static constexpr Duration kAskAfter = std::chrono::seconds(1);
  // As long as one has been quiet for less than a minute, and later.
  static constexpr Duration kAskEvery = std::chrono::milliseconds(500);
  static constexpr Duration kAskSlowly = std::chrono::seconds(2);
  static constexpr Duration kTryEvery = std::chrono::minutes(1);
  static constexpr Duration kLimit = std::chrono::seconds(1);
  // A testimony counts for so long after it was asked for: one answer may be missed.
  static constexpr Duration kFresh = std::chrono::seconds(5);
  // A witness agrees that a machine is silent that it has not heard for longer, and has asked so
  // often. Its own clock of that machine may have begun a second after ours.
  static constexpr Duration kUnheard = std::chrono::seconds(3);
  static constexpr std::uint32_t kUnanswered = 10;
  // More replicas are not asked.
  static constexpr std::size_t kMost = 8;

  // All must outlive it.
  Witnesses(loop::Loop& loop, port::Http& http, port::Random& random, port::Log& log,
            const Detection& detection);
  ~Witnesses() override;
  Witnesses(const Witnesses&) = delete;
  Witnesses& operator=(const Witnesses&) = delete;

  // The other replicas, all of them. What those have said that are among them stays.
  void know(const std::vector<Replica>& others);
  // Once a second: whether there is something to ask.
  void look();

  // As Detection has it; but a machine answers that another replica hears. One that another has
  // heard within the last minute is unsure, until one says that it does not hear it any more: that
  // nobody can be asked for a moment must not free what was held.
  [[nodiscard]] Kernel kernel_of(const NodeName& node) const override;
  [[nodiscard]] std::optional<Moment> last_sign(const NodeName& node) const override;
  [[nodiscard]] std::optional<Moment> heard_at(const NodeName& node) const override;
  [[nodiscard]] std::vector<NodeName> silent() const override;
  [[nodiscard]] std::optional<Moment> silent_since(const NodeName& node) const override;
  // It is silent, and another replica that is well does not hear it either.
  [[nodiscard]] bool is_confirmed(const NodeName& node) const override;

  struct Counts {
    std::size_t replicas = 0;   // other ones that have told how to ask them
    std::size_t failing = 0;    // that did not answer, or not as they should, when asked last
    std::size_t confirmed = 0;  // machines that are silent and confirmed
    std::size_t heard = 0;      // machines that are silent to us and heard by another

    friend bool operator==(const Counts&, const Counts&) = default;
  };
  [[nodiscard]] Counts counts() const;

 private:
  class Other;
  using Quiet = std::vector<std::pair<Moment, NodeName>>;
  // What one replica has said of a machine.
  struct Said {
    Moment asked{};
    bool hears = false;
    bool agrees = false;
  };

  void ask();
  void try_out();
  void heard(const NodeName& node, Moment sign);
  [[nodiscard]] std::string fresh_nonce();
  // Whose testimony it is, of those that count; "" nobody's.
  template <typename Is>
  [[nodiscard]] std::string any_says(const NodeName& node, Is is) const;
  [[nodiscard]] bool is_heard(const NodeName& node) const;
  [[nodiscard]] bool is_unheard(const NodeName& node) const;
  void tell();

  loop::Loop& loop_;
  port::Http& http_;
  port::Log& log_;
  const Detection& detection_;
  std::map<std::string, std::unique_ptr<Other>> others_;
  std::string secret_;  // of which nonces are made
  std::uint64_t nonces_ = 0;
  Quiet quiet_;  // that are asked about
  // When a machine was last heard by another replica while it was quiet to us.
  std::map<NodeName, Moment> signs_;
  std::set<NodeName> told_heard_;
  std::optional<Moment> tried_at_;
  loop::Timer timer_;
};

}  // namespace moonfence::cluster
