#include "fence/remediation/status_writer.h"

#include <utility>

#include "fence/remediation/remediation_object.h"
#include "kube/wire/url.h"

namespace moonfence::fence {

StatusWriter::StatusWriter(const Surroundings& around, Decide decide, Wrote wrote)
    : around_(around), decide_(std::move(decide)), wrote_(std::move(wrote)) {}

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
  if (problem_of_ == ref) {
    problem_.clear();
  }
}

void StatusWriter::stop() {
  queue_.clear();
  wanted_.clear();
  not_before_.clear();
  next_.cancel();
  call_.reset();
  problem_.clear();
}

void StatusWriter::next_later(Duration pause) {
  next_ = around_.loop.after(pause, [this] { next(); });
}

bool StatusWriter::may_write(Moment now) const {
  const auto until = around_.leadership.acts_until();
  return until && now < *until;
}

void StatusWriter::next() {
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
  call_ = around_.caller.call(std::move(request),
                              [this, ref, path](const auto& reply) { arrived(ref, path, reply); });
}

void StatusWriter::arrived(const ObjectRef& ref, const std::string& path,
                           const Result<kube::ApiReply>& reply) {
  if (!reply) {
    written(ref, reply);
    return;
  }
  auto patch = decide_(reply->body);
  if (!patch) {
    done();
    return;
  }
  kube::ApiRequest request;
  request.method = port::Method::Patch;
  request.path = path + "/status";
  request.body = *std::move(patch);
  request.content_type = "application/merge-patch+json";
  request.lane = port::Lane::Bulk;
  request.timeout = kTimeout;
  request.may_send = [this] { return may_write(around_.loop.live_now()); };
  call_ = around_.caller.call(std::move(request), [this, ref](const auto& answer) {
    if (answer) {
      problem_.clear();
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
    return;
  }
  const Error& error = reply.error();
  switch (error.kind) {
    case Error::Kind::Conflict:   // somebody was faster: it is read again, and decided again
    case Error::Kind::Cancelled:  // we do not lead any more
      not_before_[ref] = around_.loop.now() + kConflictPause;
      done();
      return;
    case Error::Kind::NotFound:  // its watch tells
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
  if (std::exchange(problem_, problem).empty()) {
    around_.log.warning("remediation_not_told", {{"text", problem}});
  }
}

}  // namespace moonfence::fence
