#pragma once

// Which proxy the environment wants for an address, as kubectl and every other program in Go read
// it (golang.org/x/net/http/httpproxy). libcurl's own reading differs: it knows neither
// "*.example.com" nor "10.0.0.1:6443" in NO_PROXY, and asks a proxy also for localhost.

#include <string>
#include <string_view>

namespace moonfence::os {

struct ProxyEnvironment {
  std::string http;   // HTTP_PROXY, else http_proxy
  std::string https;  // HTTPS_PROXY, else https_proxy
  std::string none;   // NO_PROXY, else no_proxy

  // The variables of this process.
  [[nodiscard]] static ProxyEnvironment of_process();
};

struct ProxyTarget {
  std::string_view scheme;  // "https" or "http"
  std::string_view host;    // without brackets
  std::string_view port;
};

// "" for none.
[[nodiscard]] std::string proxy_for(const ProxyTarget& target, const ProxyEnvironment& environment);

}  // namespace moonfence::os
