#include "cluster/detection/kernel_watch.h"

#include <algorithm>

namespace moonfence::cluster {

void KernelWatch::hear(Moment now) {
  heard_ = now;
  known_ = std::max(known_, now);
  clock_ = now;
  unanswered_ = 0;
  is_quiet_ = false;
}

void KernelWatch::opened(Moment now) {
  hear(now);
  linked_ = true;
  refuses_since_.reset();
}

void KernelWatch::link_ended(port::LinkEnd end, Moment now) {
  if (linked_) {
    linked_ = false;
    // However it ended: until then the kernels have kept it alive. Only an end that the peer has
    // set is a sign of it.
    hear(end == port::LinkEnd::Closed ? now : now - kWaitedByKernel);
    is_quiet_ = end == port::LinkEnd::Silent;
  }
}

void KernelWatch::answered(port::LinkEnd end, Moment asked, Moment now) {
  const bool is_sign = end == port::LinkEnd::Refused || end == port::LinkEnd::Closed;
  if (linked_) {
    return;
  }
  if (is_sign) {
    hear(now);
    refuses_since_ = refuses_since_.value_or(now);
  } else if (!heard_) {
    ++in_vain_;
  } else if (end == port::LinkEnd::Silent && asked >= clock_) {
    refuses_since_.reset();
    is_quiet_ = true;
    ++unanswered_;
    unanswered_at_ = now;
    if (is_proven_silent(now)) {
      known_ = now;
    }
  }
}

void KernelWatch::begin_anew(Moment now) {
  clock_ = std::max(clock_, now);
  unanswered_ = 0;
}

bool KernelWatch::is_proven_silent(Moment now) const {
  return unanswered_ >= kEnough && now - clock_ >= kSilentAfter && now - unanswered_at_ <= kFresh;
}

Kernel KernelWatch::word(Moment now) const {
  if (linked_) {
    return Kernel::Answers;
  }
  if (!heard_) {
    const bool is_looked_at = now - begun_ >= kFirstLook && in_vain_ >= kEnough;
    return is_looked_at || now - begun_ >= kUnsureFor ? Kernel::NotObservable : Kernel::Unsure;
  }
  if (is_proven_silent(now)) {
    return Kernel::Silent;
  }
  const Duration until_next = refuses_since_ ? pause(now) + kProbeLimit : Duration::zero();
  if (now - *heard_ < kSilentAfter + until_next) {
    return Kernel::Answers;
  }
  return now - known_ < kUnsureFor ? Kernel::Unsure : Kernel::NotObservable;
}

Duration KernelWatch::pause(Moment now) const {
  if (!heard_) {
    constexpr std::uint32_t kMostDoublings = 6;
    if (in_vain_ < kEnough) {
      return kFirstProbes;
    }
    return std::min(kSlowly * (1U << std::min(in_vain_ - kEnough, kMostDoublings)), kLongestPause);
  }
  if (refuses_since_) {
    return now - *refuses_since_ < std::chrono::minutes(1) ? kSlowly : kSlowest;
  }
  if (!is_proven_silent(now)) {
    return kProbeEvery;
  }
  return now - *heard_ < std::chrono::minutes(1) ? kSilently : kSlowly;
}

}  // namespace moonfence::cluster
