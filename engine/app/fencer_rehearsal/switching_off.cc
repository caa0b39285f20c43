#include "app/fencer_rehearsal/switching_off.h"

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "base/text.h"

namespace moonfence::app {

using fence::PowerQuestion;
using policy::Power;

namespace {

std::string seconds(Duration duration) {
  return format_duration(std::chrono::floor<std::chrono::seconds>(duration));
}

}  // namespace

SwitchingOff::SwitchingOff(Surroundings surroundings,
                           const std::vector<fence::BoundFencer>& fencers)
    : around_(std::move(surroundings)), fencers_(fencers) {}

SwitchingOff::~SwitchingOff() = default;

void SwitchingOff::await_renewal(const NodeName& node, Done done) {
  node_.name = node;
  done_ = std::move(done);
  in_a_new_turn([this] {
    beat_.reset();
    began_ = around_.ask.loop.now();
    look_for_renewal();
  });
}

// Whoever waits for people, or for the API server, leaves the loop's time behind.
void SwitchingOff::in_a_new_turn(std::function<void()> action) {
  timer_ = around_.ask.loop.in_next_turn(std::move(action));
}

void SwitchingOff::look_for_renewal() {
  call_ = around_.ask.reader.get_node_lease(
      node_.name, PowerQuestion::kLimit,
      [this](const Result<kube::Lease>& lease) { renewal_read(lease); });
}

void SwitchingOff::renewal_read(const Result<kube::Lease>& lease) {
  if (lease) {
    const Beat beat = {.lease = lease->uid, .renewed = lease->record.renewed};
    if (beat_ && *beat_ != beat) {
      done_({});
      return;
    }
    beat_ = beat;
  }
  if (around_.ask.loop.now() - began_ >= kRenewal) {
    done_(failure(Error::Kind::Retryable, "its kubelet was not seen to renew its Lease within " +
                                              format_duration(kRenewal) +
                                              (lease ? "" : ": " + lease.error().message())));
    return;
  }
  timer_ = around_.ask.loop.after(kLook, [this] { look_for_renewal(); });
}

void SwitchingOff::question(Heard heard) {
  question_ = std::make_shared<PowerQuestion>(
      around_.ask, node_, fence::fencers_of(node_, fencers_), PowerQuestion::Until::FirstAnswer,
      [this, heard = std::move(heard)](const PowerQuestion& said) {
        auto ended = std::exchange(question_, nullptr);
        heard(said);
        PowerQuestion::leave(around_.ask.loop, std::move(ended));
      });
}

void SwitchingOff::ask(kube::Node node, Done done) {
  node_ = std::move(node);
  order_.reset();
  reader_.clear();
  const auto whom = fence::fencers_of(node_, fencers_);
  if (whom.empty()) {
    done(failure(Error::Kind::Invalid, "no fencer is bound to it",
                 "docs/proof.md, Fencers, says how"));
    return;
  }
  in_a_new_turn([this, done = std::move(done)] {
    question([this, done](const PowerQuestion& said) { done(take(said)); });
  });
}

Result<void> SwitchingOff::take(const PowerQuestion& said) {
  const fence::BoundFencer& by = said.last();
  const bool is_on = said.words().back().state.power == Power::On;
  if (!is_on || by.act_on(Power::On) != policy::FencerAct::SwitchOff) {
    const auto whom = fence::fencers_of(node_, fencers_);
    const bool any_may = std::any_of(whom.begin(), whom.end(), [](const auto* bound) {
      return bound->act_on(Power::On) == policy::FencerAct::SwitchOff;
    });
    return failure(Error::Kind::Invalid,
                   "no fencer that may switch the machine off says that it is on: " + said.told(),
                   any_may
                       ? "moonfence fencer check " + node_.name.text() + " says what is wrong"
                       : "give one of them switchOff: true; one that says on without it leaves the "
                         "machine to the next");
  }
  const PowerQuestion::Word& word = said.words().back();
  if (!word.order) {
    return failure(Error::Kind::Invalid, "fencer " + word.fencer + ": " + word.cannot);
  }
  if (!word.order->request.written_kind().empty()) {
    return failure(
        Error::Kind::Invalid,
        "fencer " + word.fencer + " has it switched off through the API server, by " +
            word.order->request.written_kind() + ", which is not rehearsed",
        "write to that object by hand, and see by moonfence fencer check whether it is off");
  }
  order_ = word.order->request;
  fencer_ = by.fencer->name();
  asked_ = said.began();
  return {};
}

void SwitchingOff::order(Ended ended) {
  MOONFENCE_CHECK(order_);
  ended_ = std::move(ended);
  in_a_new_turn([this] { tell_endpoint(); });
}

void SwitchingOff::tell_endpoint() {
  ordered_ = around_.ask.loop.now();
  sent_ = false;
  // Once: whatever carries the order repeats it by itself where a connection breaks.
  const auto may_send = [this] {
    const bool may = !sent_ && around_.ask.loop.live_now() - asked_ <= kLifetime;
    sent_ = sent_ || may;
    return may;
  };
  around_.tell("fencer " + fencer_ + " tells endpoint " + escaped(order_->endpoint, 64) +
               " to switch it off: POST " + escaped(order_->path, 256));
  call_ = around_.ask.endpoints->post(order_->endpoint,
                                      {.path = order_->path,
                                       .body = order_->body,
                                       .limit = PowerQuestion::kLimit,
                                       .may_send = may_send},
                                      [this](const Result<void>& accepted) { told(accepted); });
}

void SwitchingOff::told(const Result<void>& accepted) {
  if (accepted) {
    around_.tell("that was accepted, which proves nothing yet");
  } else if (accepted.error().kind == Error::Kind::Unknown ||
             (accepted.error().kind == Error::Kind::Cancelled && sent_)) {
    around_.tell("nobody knows whether that was accepted: " + accepted.error().message());
  } else if (accepted.error().kind == Error::Kind::Cancelled) {
    end(Came::Nowhere, "what its fencers had said was too old by then: ask again");
    return;
  } else if (accepted.error().http_status == 0) {
    end(Came::Nowhere, "nobody could be told: " + accepted.error().message());
    return;
  } else {
    end(Came::NotProven, "the order was refused: " + accepted.error().message());
    return;
  }
  read_power(0);
}

void SwitchingOff::read_power(std::size_t step) {
  timer_ = around_.ask.loop.after(kPauses.at(std::min(step, kPauses.size() - 1)), [this, step] {
    question([this, step](const PowerQuestion& said) { power_read(said, step); });
  });
}

void SwitchingOff::power_read(const PowerQuestion& said, std::size_t step) {
  around_.tell(said.told());
  if (said.words().back().state.power == Power::Off) {
    reader_ = said.last().fencer->name();
    beat_.reset();
    began_ = around_.ask.loop.now();
    look_for_silence();
  } else if (around_.ask.loop.now() - ordered_ < kLimit) {
    read_power(step + 1);
  } else {
    end(Came::NotProven, "nobody says that it is off, " + format_duration(kLimit) +
                             " after the order: " + said.told());
  }
}

void SwitchingOff::look_for_silence() {
  call_ = around_.ask.reader.get_node_lease(
      node_.name, PowerQuestion::kLimit,
      [this, sent = around_.ask.loop.now()](const Result<kube::Lease>& lease) {
        silence_read(lease, sent);
      });
}

void SwitchingOff::silence_read(const Result<kube::Lease>& lease, Moment sent) {
  const Moment now = around_.ask.loop.now();
  if (lease) {
    const Beat beat = {.lease = lease->uid, .renewed = lease->record.renewed};
    if (beat_ && *beat_ != beat) {
      end(Came::NotProven,
          "fencer " + reader_ +
              " says that the machine is off, and the node's kubelet has renewed its Lease since: "
              "the fencer looks at another machine, or lies. Hold the node, and take the fencer "
              "away from it, before anything is deleted by its word");
      return;
    }
    if (lease->record.duration > kLongestStill) {
      end(Came::NotProven, "its kubelet's Lease is for " + seconds(lease->record.duration) +
                               ", and stands still for that long before it shows anything; " +
                               seconds(kLongestStill) +
                               " are waited for at most: give its kubelet a shorter "
                               "nodeLeaseDurationSeconds");
      return;
    }
    if (!beat_) {
      beat_ = beat;
      still_since_ = now;
    }
    if (sent - *still_since_ >= std::max<Duration>(lease->record.duration, kShortestStill)) {
      around_.tell("its kubelet's Lease has stood still for " + seconds(sent - *still_since_));
      read_once_more();
      return;
    }
  } else {
    beat_.reset();  // nobody knows what it did meanwhile
  }
  if (now - began_ >= 2 * kLongestStill) {
    end(Came::NotProven, "its kubelet's Lease was not seen to stand still for long enough within " +
                             seconds(2 * kLongestStill) +
                             (lease ? std::string() : ": " + lease.error().message()));
    return;
  }
  timer_ = around_.ask.loop.after(kLook, [this] { look_for_silence(); });
}

void SwitchingOff::read_once_more() {
  question([this](const PowerQuestion& said) {
    around_.tell(said.told());
    if (said.words().back().state.power == Power::Off) {
      reader_ = said.last().fencer->name();
      end(Came::Proven, {});
    } else {
      end(Came::NotProven, "it was off, and now its fencers say: " + said.told() +
                               ". Does something switch it on by itself?");
    }
  });
}

void SwitchingOff::end(Came came, const std::string& why) {
  ended_({.came = came, .why = why, .reader = reader_});
}

}  // namespace moonfence::app
