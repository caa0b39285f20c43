#pragma once

// KernelWatch decides what is known of one machine's kernel: a pure machine, told what was asked
// and answered, with the time.
//
// In the quiet one link to the kubelet's port is open, which the kernels of both sides keep alive.
// When it ends, the machine is asked every 100 ms, from a new port each time. Each answer counts, a
// refusal too: an RST comes from the machine's kernel. While it refuses, because its kubelet
// is gone, it is asked more slowly.
//
// A machine is silent only by proof: since its last sign at least `kEnough` questions were sent,
// none was answered within its limit, this lasts for at least `kSilentAfter`, and the newest of
// them ended within `kFresh`. A question that could not be sent proves nothing. When our own
// process was late, all of that begins anew: what was not heard may not have been listened for.
//
// Who was not heard within `kFirstLook` and `kEnough` questions, behind a firewall perhaps, is not
// observable. Nor is one of which nobody can find out for `kUnsureFor`, because our own machine
// sends nothing: then nothing is known of it, as if it were not watched at all.

#include <cstdint>
#include <optional>

#include "base/time.h"
#include "cluster/detection/kernel.h"
#include "port/links.h"

namespace moonfence::cluster {

class KernelWatch {
 public:
  static constexpr Duration kProbeEvery = std::chrono::milliseconds(100);
  static constexpr Duration kFirstProbes = std::chrono::milliseconds(200);  // of the first look
  static constexpr Duration kProbeLimit = std::chrono::milliseconds(800);
  // Of one that is silent, for the first minute: where half of the packets are lost four seconds
  // pass without an answer now and then, and whoever asks seldom then hears none for long.
  static constexpr Duration kSilently = std::chrono::milliseconds(250);
  static constexpr Duration kSlowly = std::chrono::seconds(1);  // silent for longer, or refuses
  static constexpr Duration kSlowest =
      std::chrono::seconds(10);  // refuses for longer than a minute
  static constexpr std::uint32_t kEnough = 20;
  static constexpr Duration kSilentAfter = std::chrono::seconds(4);
  static constexpr Duration kFirstLook = std::chrono::seconds(5);
  static constexpr Duration kFresh = std::chrono::seconds(3);
  static constexpr Duration kUnsureFor = std::chrono::seconds(60);
  // What the kernel has already waited in vain when it gives up a link, less what it may be off by.
  static constexpr Duration kWaitedByKernel = port::kLinkPatience - std::chrono::milliseconds(500);
  // Pauses of a machine that was never heard: they double up to this.
  static constexpr Duration kLongestPause = std::chrono::seconds(60);

  // It is watched from now on: nothing is known of it.
  void begin(Moment now) {
    *this = {};
    begun_ = now;
  }
  // A link to it is open.
  void opened(Moment now);
  // The link that was open has ended.
  void link_ended(port::LinkEnd end, Moment now);
  // A question that was asked at `asked` came to this; what opened is told to opened().
  void answered(port::LinkEnd end, Moment asked, Moment now);
  // We may not have listened: nothing that was asked before proves anything.
  void begin_anew(Moment now);

  [[nodiscard]] Kernel word(Moment now) const;
  [[nodiscard]] bool is_linked() const { return linked_; }
  // There was a sign of it once, and it has no link: it is asked now.
  [[nodiscard]] bool is_in_doubt() const { return !linked_ && heard_.has_value(); }
  // How long to wait until it is asked again; of a linked one nothing is asked.
  [[nodiscard]] Duration pause(Moment now) const;
  // The last sign of it; nullopt: never heard. Of a linked one the moment at which the link opened.
  [[nodiscard]] std::optional<Moment> heard() const { return heard_; }
  // Questions in a row that were left unanswered and count.
  [[nodiscard]] std::uint32_t unanswered() const { return linked_ ? 0 : unanswered_; }
  // Since when it has left unanswered what it was asked, as far as we listened; nullopt: it has
  // not.
  [[nodiscard]] std::optional<Moment> quiet_since() const {
    return is_quiet_ ? std::optional(clock_) : std::nullopt;
  }

 private:
  void hear(Moment now);
  [[nodiscard]] bool is_proven_silent(Moment now) const;

  Moment begun_{};
  bool linked_ = false;
  bool is_quiet_ = false;
  std::optional<Moment> heard_;
  Moment known_{};                       // when it was last heard, or proven silent
  Moment clock_{};                       // what was asked before counts for nothing
  std::uint32_t unanswered_ = 0;         // since then
  Moment unanswered_at_{};               // when the newest of them ended
  std::optional<Moment> refuses_since_;  // each answer since then is a refusal
  std::uint32_t in_vain_ = 0;            // of one that was never heard: questions so far
};

}  // namespace moonfence::cluster
