#pragma once

// What a refusal of the API server means. The kind follows Status.reason and, where there is none,
// the HTTP status; messages are for people only, but for two that are ours
// (deploy/overlays/enforce/admission.yaml) and begin with a word, which the API server puts behind
// its own: "… denied request: moonfence-not-leader: this replica …". A 404 counts as "the object is
// not there" only when a Status names the object: the plain "404 page not found" of an API group
// that is not served, or of a proxy in between, must never pass for a successful deletion. Source:
// apimachinery pkg/api/errors.

#include <string_view>

#include <nlohmann/json_fwd.hpp>

#include "base/error.h"
#include "port/http.h"

namespace moonfence::kube {

// A reply that is not 2xx; the body may be anything and of any size.
[[nodiscard]] Error error_from_reply(const port::HttpHead& head, std::string_view body);

// A Status object: in a body, or inside a watch's ERROR frame. `http_status` 0: take Status.code.
[[nodiscard]] Error error_from_status(const nlohmann::json& status, int http_status = 0);

// The server is behind the version we asked for (504 Timeout with cause ResourceVersionTooLarge).
[[nodiscard]] bool is_too_large_version(const Error& error);

// Somebody else holds the Lease that says which replica acts.
constexpr std::string_view kNotLeader = "moonfence-not-leader";
// A deletion came without a UID.
constexpr std::string_view kNoUid = "moonfence-no-uid";
// An admission policy or a webhook refused it, and no missing right: by the API server's own words,
// for hints alone.
[[nodiscard]] bool is_denied_by_admission(const Error& error);
[[nodiscard]] bool is_denied_as(std::string_view word, const Error& error);

}  // namespace moonfence::kube
