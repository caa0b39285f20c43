#include "kube/leader_election/elector.h"

#include <algorithm>
#include <utility>

#include <nlohmann/json.hpp>

#include "base/overloaded.h"

namespace moonfence::kube {
namespace {

// Beside a write that takes long, so that somebody else's name is seen in time.
constexpr Duration kReadLimit = std::chrono::seconds(5);
// As long as the slowest webhooks may take: a renewal that succeeds late is a renewal.
constexpr Duration kWriteLimit = ServerPace::kLongestCall;
// Who asks for the Lease looks at nothing meanwhile, and may ask again.
constexpr Duration kAskLimit = std::chrono::seconds(2);

}  // namespace

Elector::Elector(Surroundings around, ObjectRef lease, std::string identity, ElectionRules rules,
                 Receivers receivers, Seats seats)
    : around_(around),
      ref_(std::move(lease)),
      rules_(rules),
      receivers_(std::move(receivers)),
      election_(std::move(identity), rules, std::move(seats)) {}

// In the last moment before a renewal is answered the term must still hold a whole call: it counts
// from when the renewal before that was sent.
Duration Elector::next_term() const {
  const Moment now = around_.loop.now();
  const Duration needed = around_.pace.longest_call_under_way(now) + kTravel + rules_.retry +
                          2 * renewals_.longest(now);
  const Duration whole = std::chrono::ceil<std::chrono::seconds>(needed);
  return std::max(rules_.duration, std::min<Duration>(whole, kLongestTerm));
}

void Elector::start() {
  perform(election_.start());
}

void Elector::release(std::function<void()> released) {
  released_ = std::move(released);
  if (election_.state() != Election::State::Releasing) {
    timer_.cancel();
    reading_.reset();
    writing_.clear();
  }
  perform(election_.release(around_.wall_clock.now()));
}

void Elector::deposed() {
  if (!leads()) {
    return;
  }
  perform(election_.deposed(around_.loop.now(), around_.random.unit()));
  if (leads() && !std::exchange(told_of_old_lease_, true)) {
    around_.log.error("admission_judges_by_an_old_lease", {{"lease", ref_.text()}});
  }
}

void Elector::hand_over() {
  if (!leads()) {
    return;
  }
  timer_.cancel();
  reading_.reset();
  writing_.clear();
  perform(election_.hand_over(around_.wall_clock.now()));
}

void Elector::perform(const Election::Effects& effects) {
  if (!election_.is_writing()) {
    writing_.clear();  // a renewal that succeeds says what was so before
  }
  for (const Election::Effect& effect : effects) {
    std::visit(Overloaded{
                   [this](const Election::Read&) { read(); },
                   [this](const Election::Write& what) { write(what); },
                   [this](const Election::SetTimer& timer) {
                     timer_ = around_.loop.after(timer.delay, [this] {
                       election_.set_term(next_term());
                       perform(election_.timer_fired(around_.loop.now(), around_.wall_clock.now(),
                                                     around_.random.unit()));
                     });
                   },
                   [this](const Election::Lead&) {
                     around_.log.info("leading",
                                      {{"lease", ref_.text()}, {"identity", election_.identity()}});
                     receivers_.lead();
                   },
                   [this](const Election::Lose& lost) {
                     told_of_old_lease_ = false;
                     around_.log.warning("leadership_lost", {{"lease", ref_.text()},
                                                             {"why", lost.why},
                                                             {"holder", election_.holder()}});
                     receivers_.lose(lost.why);
                   },
                   [this](const Election::Wanted&) {
                     around_.log.warning("leadership_wanted", {{"lease", ref_.text()}});
                     receivers_.wanted();
                   },
                   [this](const Election::Released&) {
                     if (const auto released = std::exchange(released_, nullptr)) {
                       released();
                     }
                   },
               },
               effect);
  }
}

void Elector::read() {
  auto path = lease_path(ref_);
  if (!path) {
    note_failure(path.error());
    perform(election_.read_failed(around_.loop.now(), around_.random.unit()));
    return;
  }
  ApiRequest request;
  request.path = *std::move(path);
  request.timeout = kReadLimit;
  const Moment sent = around_.loop.now();
  reading_ = around_.caller.call(std::move(request), [this, sent](const Result<ApiReply>& reply) {
    reading_.reset();
    election_.set_term(next_term());
    const Moment now = around_.loop.now();
    if (!reply && reply.error().kind == Error::Kind::NotFound) {
      perform(
          election_.read(std::nullopt, sent, now, around_.wall_clock.now(), around_.random.unit()));
      return;
    }
    auto lease = reply ? decode_lease(reply->body) : Result<Lease>(failure(reply.error()));
    if (!lease) {
      note_failure(lease.error());
      perform(election_.read_failed(now, around_.random.unit()));
      return;
    }
    problem_.clear();
    perform(election_.read(*lease, sent, now, around_.wall_clock.now(), around_.random.unit()));
  });
}

void Elector::write(const Election::Write& write) {
  const auto path = write.over ? lease_path(ref_) : leases_path(ref_.space);
  const Moment sent = around_.loop.now();
  ApiRequest request;
  request.method = write.over ? port::Method::Put : port::Method::Post;
  request.path = *path;  // read() has refused a path that cannot be
  const bool asks = write.record.holder != election_.identity() && !write.record.holder.empty();
  const Duration limit = asks ? kAskLimit : kWriteLimit;
  request.query = {{"timeout", format_duration(limit)}};
  request.body = lease_body(ref_, write.record, write.notes, write.over ? &*write.over : nullptr);
  request.content_type = "application/json";
  request.timeout = limit + kTravel;
  const std::uint64_t id = ++writes_;
  writing_.emplace(
      id, around_.caller.call(std::move(request), [this, id, sent](const Result<ApiReply>& reply) {
        written(id, reply, sent);
      }));
}

void Elector::written(std::uint64_t id, const Result<ApiReply>& reply, Moment sent) {
  const CallHandle ended = std::move(writing_.extract(id).mapped());
  if (reply || reply.error().http_status != 0) {  // silence shows nothing
    renewals_.note(around_.loop.now() - sent, around_.loop.now());
  }
  election_.set_term(next_term());
  const auto lease = reply ? decode_lease(reply->body) : Result<Lease>(failure(reply.error()));
  if (lease) {
    problem_.clear();
    receivers_.wrote(*lease, sent);
    perform(election_.written(*lease, sent, around_.loop.now(), around_.random.unit()));
    return;
  }
  note_failure(lease.error());
  Error error = lease.error();
  if (reply) {
    error.kind = Error::Kind::Unknown;  // done, and answered by something that is no Lease
  }
  perform(election_.write_failed(error, around_.loop.now(), around_.random.unit()));
}

void Elector::note_failure(const Error& error) {
  if (error.kind == Error::Kind::Conflict) {
    return;  // another replica's success
  }
  const bool told = !problem_.empty();
  problem_ = error.message();
  if (told) {
    return;
  }
  around_.log.warning("lease_unusable", {{"lease", ref_.text()}, {"error", error.message()}});
}

}  // namespace moonfence::kube
