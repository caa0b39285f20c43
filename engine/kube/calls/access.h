#pragma once

// Whether our own account has a right, asked of the API server (SelfSubjectAccessReview). Every
// authenticated account may ask that by Kubernetes' own role system:basic-user.

#include <functional>
#include <string>

#include "kube/wire/caller.h"

namespace moonfence::kube {

// In the whole cluster, of a resource of the core group.
struct Right {
  std::string verb;
  std::string resource;
  std::string subresource;
};

[[nodiscard]] CallHandle ask_access(Caller& caller, const Right& right,
                                    std::function<void(Result<bool>)> done);

}  // namespace moonfence::kube
