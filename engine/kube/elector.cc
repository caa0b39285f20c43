#include "kube/elector.h"

#include <utility>

#include <nlohmann/json.hpp>

#include "base/overloaded.h"

namespace moonfence::kube {

Elector::Elector(Surroundings around, ObjectRef lease, std::string identity, ElectionRules rules,
                 Receivers receivers)
    : around_(around),
      ref_(std::move(lease)),
      // Two attempts fit into the deadline (k8s-client.md item 112).
      request_limit_(rules.renew_deadline / 2),
      receivers_(std::move(receivers)),
      election_(std::move(identity), rules) {}

void Elector::start() {
  perform(election_.start());
}

void Elector::release(std::function<void()> released) {
  released_ = std::move(released);
  timer_.cancel();
  call_.reset();
  perform(election_.release(around_.wall_clock.now()));
}

void Elector::deposed() {
  if (!leads()) {
    return;
  }
  call_.reset();  // a renewal that succeeds says what was so before
  perform(election_.deposed(around_.loop.now(), around_.random.unit()));
}

void Elector::perform(const Election::Effects& effects) {
  for (const Election::Effect& effect : effects) {
    std::visit(Overloaded{
                   [this](const Election::Read&) { read(); },
                   [this](const Election::Write& what) { write(what); },
                   [this](const Election::SetTimer& timer) {
                     timer_ = around_.loop.after(timer.delay, [this] {
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
                     around_.log.warning("leadership_lost", {{"lease", ref_.text()},
                                                             {"why", lost.why},
                                                             {"holder", election_.holder()}});
                     receivers_.lose(lost.why);
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
  request.timeout = request_limit_;
  call_ = around_.caller.call(std::move(request), [this](const Result<ApiReply>& reply) {
    call_.reset();
    const Moment now = around_.loop.now();
    if (!reply && reply.error().kind == Error::Kind::NotFound) {
      perform(election_.read(std::nullopt, now, around_.wall_clock.now(), around_.random.unit()));
      return;
    }
    auto lease = reply ? decode_lease(reply->body) : Result<Lease>(failure(reply.error()));
    if (!lease) {
      note_failure(lease.error());
      perform(election_.read_failed(now, around_.random.unit()));
      return;
    }
    problem_.clear();
    perform(election_.read(*lease, now, around_.wall_clock.now(), around_.random.unit()));
  });
}

void Elector::write(const Election::Write& write) {
  const auto path = write.over ? lease_path(ref_) : leases_path(ref_.space);
  const Moment sent = around_.loop.now();
  ApiRequest request;
  request.method = write.over ? port::Method::Put : port::Method::Post;
  request.path = *path;  // read() has refused a path that cannot be
  request.query = {{"timeout", format_duration(request_limit_)}};
  request.body = lease_body(ref_, write.record, write.over ? &*write.over : nullptr);
  request.content_type = "application/json";
  request.timeout = request_limit_;
  call_ = around_.caller.call(std::move(request), [this, sent](const Result<ApiReply>& reply) {
    call_.reset();
    written(reply, sent);
  });
}

void Elector::written(const Result<ApiReply>& reply, Moment sent) {
  const auto lease = reply ? decode_lease(reply->body) : Result<Lease>(failure(reply.error()));
  if (lease) {
    problem_.clear();
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
