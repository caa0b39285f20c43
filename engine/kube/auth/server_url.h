#pragma once

// The two URLs of a kubeconfig. Messages quote a URL only when it cannot carry a password.

#include <string>
#include <string_view>

#include "base/result.h"

namespace moonfence::kube {

// "https://host:port/prefix": http or https, host, optional port and path; no user, query or
// fragment. Comes back with its scheme in lower case and without a trailing slash.
[[nodiscard]] Result<std::string> server_url(std::string_view text);

// A proxy by http, https or socks5 (socks5h); may carry a user and password.
[[nodiscard]] Result<std::string> proxy_url(std::string_view text);

// "host:port" for a URL's authority; an IPv6 address gets its brackets.
[[nodiscard]] std::string host_and_port(std::string_view host, std::string_view port);

}  // namespace moonfence::kube
