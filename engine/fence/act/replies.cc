#include "fence/act/replies.h"

#include <optional>

#include "kube/text/status.h"

namespace moonfence::fence {

using audit::Reason;

namespace {

Reason reason_of(const Error& error) {
  switch (error.kind) {
    case Error::Kind::Unknown:
      return Reason::OutcomeLost;
    case Error::Kind::NotFound:
    case Error::Kind::Conflict:
    case Error::Kind::Forbidden:
    case Error::Kind::Invalid:
    case Error::Kind::Malformed:
      return Reason::Refused;
    case Error::Kind::Retryable:
    case Error::Kind::Gone:
    case Error::Kind::Unauthorized:
    case Error::Kind::Limit:
    case Error::Kind::Cancelled:
      return Reason::Retryable;
  }
  return Reason::Retryable;
}

// By our own admission policies.
std::optional<Reason> denial_of(const Error& error) {
  if (kube::is_denied_as(kube::kNotLeader, error)) {
    return Reason::Deposed;
  }
  return kube::is_denied_as(kube::kNoUid, error) ? std::optional(Reason::NoUid) : std::nullopt;
}

}  // namespace

Reason reason_of(const Result<kube::DeleteReply>& reply) {
  if (reply) {
    return reply->found_gone      ? Reason::AlreadyGone
           : reply->found_another ? Reason::Replaced
           : reply->marked_only   ? Reason::MarkedOnly
                                  : Reason::Done;
  }
  const Error& error = reply.error();
  if (const auto denial = denial_of(error)) {
    return *denial;
  }
  return reason_of(error);
}

Reason reason_of(const Result<kube::PatchReply>& reply, Reason overtaken) {
  if (reply) {
    return Reason::Done;
  }
  const Error& error = reply.error();
  if (const auto denial = denial_of(error)) {
    return *denial;
  }
  // A failed test is told like any other object that the server does not accept: 422. Whether the
  // node is gone its next reading tells.
  return error.kind == Error::Kind::Conflict || error.kind == Error::Kind::NotFound ||
                 (error.kind == Error::Kind::Invalid && error.reason == "Invalid")
             ? overtaken
             : reason_of(error);
}

// Its preconditions are answered by Conflict. Whatever is Invalid was refused by an admission
// policy.
Reason reason_of_failing(const Result<kube::PatchReply>& reply) {
  if (reply) {
    return Reason::Done;
  }
  const Error& error = reply.error();
  if (const auto denial = denial_of(error)) {
    return *denial;
  }
  return error.kind == Error::Kind::Conflict || error.kind == Error::Kind::NotFound
             ? Reason::PodChanged
             : reason_of(error);
}

Reason reason_of(const Result<kube::CustomWriteReply>& reply) {
  if (reply) {
    return Reason::Done;
  }
  const auto denial = denial_of(reply.error());
  return denial ? *denial : reason_of(reply.error());
}

Reason reason_of(const Result<void>& accepted) {
  return accepted ? Reason::Done : reason_of(accepted.error());
}

}  // namespace moonfence::fence
