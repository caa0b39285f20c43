#pragma once

// What a policy is told of a request that it made by fence.try and that nobody answered well. The
// words are closed: a policy compares with them, and a test names them.

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include <nlohmann/json.hpp>

namespace moonfence::policy {

struct FailedAnswer {
  std::string error;               // one of kFailures
  std::string message;             // for people; quotes nothing that the service said
  std::int64_t since = 0;          // whole seconds since the first failure in a row
  std::optional<int> status = {};  // of HTTP, where there was one
  std::string code = {};           // the service's own word, of AWS: UnauthorizedOperation
};

inline constexpr std::array<std::string_view, 6> kFailures = {
    "timeout",       // nothing, or not all of it, came within the endpoint's timeout
    "unreachable",   // no connection, or it broke
    "status",        // an HTTP status other than 2xx and 404
    "unauthorized",  // we have nothing to show who we are, or to recognise it by
    "not_json",      // the answer cannot be read
    "too_large",     // it is larger than an answer may be
};

// {"status": 200, "body": …}; null: without a body.
[[nodiscard]] nlohmann::json answer_json(int status, const nlohmann::json* body);
// The same of a request made by fence.try: it also says that nothing failed.
[[nodiscard]] nlohmann::json tried_json(int status, const nlohmann::json* body);
// {"error": …, "message": …, "since": …, "status": …, "code": …}.
[[nodiscard]] nlohmann::json failed_json(const FailedAnswer& failed);

}  // namespace moonfence::policy
