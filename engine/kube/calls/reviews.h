#pragma once

// What the API server says of somebody who asks us: whose token it is (TokenReview), and whether
// that account may get a path (SubjectAccessReview). Takes the right to create both, which
// Kubernetes' role system:auth-delegator gives.

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "kube/wire/caller.h"

namespace moonfence::kube {

// As the API server names it.
struct ReviewedUser {
  std::string name;
  std::string uid;
  std::vector<std::string> groups;
  std::map<std::string, std::vector<std::string>> extra;
};

// nullopt: nobody's token, or not for this API server. The token stands in no error.
[[nodiscard]] CallHandle review_token(
    Caller& caller, const std::string& token,
    std::function<void(Result<std::optional<ReviewedUser>>)> done);

[[nodiscard]] CallHandle review_access(Caller& caller, const ReviewedUser& user,
                                       const std::string& path,
                                       std::function<void(Result<bool>)> done);

}  // namespace moonfence::kube
