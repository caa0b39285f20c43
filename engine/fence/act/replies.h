#pragma once

// What an action came to, by the server's reply to it. That something is gone, or another one has
// its name, no refusal says: webhooks, proxies and load balancers answer 404 and 409 too.

#include "audit/reason.h"
#include "base/result.h"
#include "kube/calls/destroyer.h"

namespace moonfence::fence {

[[nodiscard]] audit::Reason reason_of(const Result<kube::DeleteReply>& reply);

// `overtaken`: one of the patch's tests failed.
[[nodiscard]] audit::Reason reason_of(const Result<kube::PatchReply>& reply,
                                      audit::Reason overtaken);

// That a pod's status says Failed. `pod_changed`: one of its preconditions failed, or it is gone.
[[nodiscard]] audit::Reason reason_of_failing(const Result<kube::PatchReply>& reply);

// One that is there already is as good as a new one: what it does is read in any case.
[[nodiscard]] audit::Reason reason_of(const Result<kube::CustomWriteReply>& reply);

// Of an endpoint that is no API server.
[[nodiscard]] audit::Reason reason_of(const Result<void>& accepted);

}  // namespace moonfence::fence
