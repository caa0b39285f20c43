#include "fence/remediation/status_writer.h"

#include <utility>

#include "fence/remediation/remediation_object.h"
#include "kube/wire/url.h"

namespace moonfence::fence {

StatusWriter::StatusWriter(const Surroundings& around, Decide decide, Wrote wrote, Missed missed)
    : around_(around),
      decide_(std::move(decide)),
      wrote_(std::move(wrote)),
      missed_(std::move(missed)) {}

void StatusWriter::want(const ObjectRef& ref) {
  const auto refused = not_before_.find(ref);
  const bool waits = refused != not_before_.end() && around_.loop.now() < refused->second;
  if (!waits && wanted_.insert(ref).second) {
    queue_.push_back(ref);
    if (!next_.pending() && call_ == nullptr) {
      next_later(Duration(1));
    }
  }
}

void StatusWriter::forget(const ObjectRef& ref) {
  not_before_.erase(ref);
  if (wanted_.erase(ref) > 0) {
    std::erase(queue_, ref);
  }
  stands(ref);
}

void StatusWriter::stands(const ObjectRef& ref) {
  if (problem_of_ == ref) {
    problem_.clear();
    told_.reset();
  }
}

void StatusWriter::stop() {
  queue_.clear();
  wanted_.clear();
  not_before_.clear();
  next_.cancel();
  call_.reset();
  problem_.clear();
  told_.reset();
}

void StatusWriter::next_later(Duration pause) {
  next_ = around_.loop.after(pause, [this] { next(); });
}

bool StatusWriter::may_write(Moment now) const {
  const auto until = around_.leadership.acts_until();
  return until && now < *until;
}

void StatusWriter::next() {
  std::erase_if(not_before_,
                [now = around_.loop.now()](const auto& each) { return each.second <= now; });
  if (queue_.empty()) {
    return;
  }
  const ObjectRef ref = queue_.front();
  queue_.pop_front();
  wanted_.erase(ref);
  const auto path = kube::object_path(kRemediationApi, kRemediationResource, ref.space, ref.name);
  if (!path) {
    not_before_[ref] = around_.loop.now() + kRefusedPause;
    tell(ref, path.error());
    done();
    return;
  }
  read(ref, *path);
}

void StatusWriter::read(const ObjectRef& ref, const std::string& path) {
  kube::ApiRequest request;
  request.path = path;
  request.lane = port::Lane::Bulk;
  request.timeout = kTimeout;
  request.observed = false;  // what becomes of it says nothing of the server's health
  call_ = around_.caller.call(std::move(request),
                              [this, ref, path, asked = around_.loop.now()](const auto& reply) {
                                arrived(ref, path, asked, reply);
                              });
}

void StatusWriter::arrived(const ObjectRef& ref, const std::string& path, Moment asked,
                           const Result<kube::ApiReply>& reply) {
  if (!reply) {
    const Error& error = reply.error();
    if (error.kind == Error::Kind::NotFound) {
      missed_(ref, asked);
    }
    failed(ref, error);
    return;
  }
  auto body = decide_(reply->body);
  if (!body) {
    stands(ref);
    done();
    return;
  }
  patch(ref, path, *std::move(body));
}

void StatusWriter::patch(const ObjectRef& ref, const std::string& path, std::string body) {
  kube::ApiRequest request;
  request.method = port::Method::Patch;
  request.path = path + "/status";
  request.body = std::move(body);
  request.content_type = "application/merge-patch+json";
  request.lane = port::Lane::Bulk;
  request.timeout = kTimeout;
  request.observed = false;  // a webhook that hangs makes nobody doubt the watches
  request.may_send = [this] { return may_write(around_.loop.live_now()); };
  call_ = around_.caller.call(std::move(request), [this, ref](const auto& answer) {
    if (answer) {
      stands(ref);
      backoff_.forget();
      not_before_.erase(ref);
      wrote_(answer->body);
    }
    written(ref, answer);
  });
}

void StatusWriter::written(const ObjectRef& ref, const Result<kube::ApiReply>& reply) {
  if (reply) {
    done();
  } else {
    failed(ref, reply.error());
  }
}

void StatusWriter::failed(const ObjectRef& ref, const Error& error) {
  switch (error.kind) {
    case Error::Kind::Conflict:   // somebody was faster: it is read again, and decided again
    case Error::Kind::Cancelled:  // we do not lead any more
      not_before_[ref] = around_.loop.now() + kConflictPause;
      done();
      return;
    case Error::Kind::NotFound:
    case Error::Kind::Gone:
      not_before_[ref] = around_.loop.now() + kRefusedPause;
      done();
      return;
    case Error::Kind::Invalid:
    case Error::Kind::Malformed:
    case Error::Kind::Limit:
      not_before_[ref] = around_.loop.now() + kRefusedPause;
      tell(ref, error);
      done();
      return;
    case Error::Kind::Forbidden:  // of all, or of this one by a webhook
      not_before_[ref] = around_.loop.now() + kRefusedPause;
      [[fallthrough]];
    case Error::Kind::Retryable:
    case Error::Kind::Unauthorized:
    case Error::Kind::Unknown:
      tell(ref, error);
      next_later(backoff_.next(around_.loop.now(), around_.random.unit(), error.retry_after));
      call_.reset();
      return;
  }
}

void StatusWriter::done() {
  next_later(kPace);
  call_.reset();  // last: it may be what called us
}

void StatusWriter::tell(const ObjectRef& ref, const Error& error) {
  const std::string problem =
      "status of MoonfenceRemediation " + ref.text() + ": " + error.message();
  problem_of_ = ref;
  problem_ = problem;
  if (std::exchange(told_, error.kind) != error.kind) {
    around_.log.warning("remediation_not_told", {{"text", problem}});
  }
}

}  // namespace moonfence::fence
