#pragma once

// Signatures of Standard Webhooks (https://www.standardwebhooks.com, "v1"): HMAC-SHA256 over
// "id.timestamp.body", by each of the receiver's secrets. A receiver of that specification checks
// them with its library.
//
// The secrets stand in a file that is read for each attempt, so that they can be rotated: one a
// line, and two while the receiver changes from one to the other. A line is whsec_ and base64 of
// 24 to 64 bytes. Nothing else is taken: libraries do not agree what it would mean. Nothing of the
// file is ever quoted.

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "base/time.h"
#include "port/files.h"
#include "port/http.h"

namespace moonfence::app {

constexpr std::size_t kMostSecrets = 2;
constexpr std::size_t kShortestSecret = 24;
constexpr std::size_t kLongestSecret = 64;

// The keys, decoded.
[[nodiscard]] Result<std::vector<std::string>> read_signing_secrets(port::Files& files,
                                                                    const std::string& path);

// "v1,…", or several of them with a space between. `at`: seconds since the epoch.
[[nodiscard]] std::string webhook_signature(const std::vector<std::string>& secrets,
                                            std::string_view id, std::int64_t at,
                                            std::string_view body);

// webhook-id, webhook-timestamp and webhook-signature.
[[nodiscard]] std::vector<port::Header> webhook_headers(const std::vector<std::string>& secrets,
                                                        const std::string& id, WallTime at,
                                                        std::string_view body);

}  // namespace moonfence::app
