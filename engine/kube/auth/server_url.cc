#include "kube/auth/server_url.h"

#include <algorithm>
#include <charconv>
#include <initializer_list>

#include "base/text.h"

namespace moonfence::kube {
namespace {

constexpr std::string_view kServerHint =
    "write it as https://HOST:PORT, with a path when a proxy needs one";

bool is_host_character(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' ||
         c == '.' || c == '_';
}

bool is_address_character(char c) {
  return (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F') || (c >= '0' && c <= '9') || c == ':' ||
         c == '.';
}

bool is_path_character(char c) {
  return c > 0x20 && c < 0x7F && c != '"' && c != '\\';
}

bool is_port(std::string_view text) {
  int port = 0;
  const auto [end, fault] = std::from_chars(text.data(), text.data() + text.size(), port);
  return fault == std::errc() && end == text.data() + text.size() && text.front() != '-' &&
         port >= 1 && port <= 65535;
}

// What is wrong with "host", "host:port" or "[address]:port"; "" when nothing is.
std::string_view authority_fault(std::string_view authority) {
  std::string_view rest;
  if (authority.starts_with('[')) {
    const auto close = authority.find(']');
    if (close == std::string_view::npos) {
      return "its IPv6 address lacks the closing bracket";
    }
    const std::string_view address = authority.substr(1, close - 1);
    if (address.find(':') == std::string_view::npos ||
        !std::all_of(address.begin(), address.end(), is_address_character)) {
      return "what stands in brackets must be an IPv6 address";
    }
    rest = authority.substr(close + 1);
  } else {
    const auto colon = authority.find(':');
    const std::string_view host = authority.substr(0, colon);
    rest = colon == std::string_view::npos ? std::string_view{} : authority.substr(colon);
    if (host.empty()) {
      return "it has no host";
    }
    if (!std::all_of(host.begin(), host.end(), is_host_character)) {
      return "its host has characters that no host has";
    }
    if (rest.find(':', rest.empty() ? 0 : 1) != std::string_view::npos) {
      return "an IPv6 address must stand in brackets";
    }
  }
  if (!rest.empty() && (!rest.starts_with(':') || rest.size() < 2 || !is_port(rest.substr(1)))) {
    return "its port must be a number from 1 to 65535";
  }
  return {};
}

struct Parts {
  std::string scheme;  // lower case
  std::string_view authority;
  std::string_view path;  // with its slash, or empty
};

Parts take_apart(std::string_view text) {
  Parts parts;
  const auto scheme_end = text.find("://");
  if (scheme_end == std::string_view::npos) {
    return parts;
  }
  parts.scheme = lower_cased(text.substr(0, scheme_end));
  text.remove_prefix(scheme_end + 3);
  const auto end = text.find_first_of("/?#");
  parts.authority = text.substr(0, end);
  parts.path = end == std::string_view::npos ? std::string_view{} : text.substr(end);
  return parts;
}

std::string_view path_fault(std::string_view path) {
  if (path.find_first_of("?#") != std::string_view::npos) {
    return "it must not have a query or a fragment";
  }
  if (!std::all_of(path.begin(), path.end(), is_path_character)) {
    return "its path has characters that must be percent-encoded";
  }
  for (const std::string_view segment : split(path, '/')) {
    if (segment == "." || segment == "..") {
      return "its path must not have the segments . and ..";
    }
  }
  return {};
}

Failure refused(std::string_view what, std::string_view text, std::string_view fault,
                std::string_view hint) {
  // Everything before an @ may be a password.
  const std::string value =
      text.find('@') == std::string_view::npos ? " \"" + escaped(text, 256) + "\"" : "";
  return failure(Error::Kind::Invalid, std::string(what) + value + ": " + std::string(fault),
                 std::string(hint));
}

}  // namespace

Result<std::string> server_url(std::string_view text) {
  const Parts parts = take_apart(text);
  if (parts.scheme != "https" && parts.scheme != "http") {
    return refused("server", text, "must begin with https:// or http://",
                   std::string(kServerHint) + "; kubectl guesses where there is no scheme");
  }
  if (parts.authority.find('@') != std::string_view::npos) {
    return refused("server", text, "must not hold a user or password",
                   "put credentials into the user entry; kubectl would send them");
  }
  std::string_view fault = authority_fault(parts.authority);
  if (fault.empty()) {
    fault = path_fault(parts.path);
  }
  if (!fault.empty()) {
    return refused("server", text, fault, kServerHint);
  }
  std::string url = parts.scheme + "://" + std::string(parts.authority) + std::string(parts.path);
  while (url.ends_with('/')) {
    url.pop_back();
  }
  return url;
}

Result<std::string> proxy_url(std::string_view text) {
  constexpr std::string_view kHint = "write it as http://HOST:PORT, https:// or socks5://";
  const Parts parts = take_apart(text);
  if (parts.scheme != "http" && parts.scheme != "https" && parts.scheme != "socks5" &&
      parts.scheme != "socks5h") {
    return refused("proxy-url", text, "must begin with http://, https:// or socks5://", kHint);
  }
  const auto at = parts.authority.rfind('@');
  const std::string_view fault = authority_fault(
      at == std::string_view::npos ? parts.authority : parts.authority.substr(at + 1));
  if (!fault.empty()) {
    return refused("proxy-url", text, fault, kHint);
  }
  if (!parts.path.empty() && parts.path != "/") {
    return refused("proxy-url", text, "must not have a path", kHint);
  }
  if (!std::all_of(text.begin(), text.end(), is_path_character)) {
    return refused("proxy-url", text, "has characters that must be percent-encoded", kHint);
  }
  return parts.scheme + "://" + std::string(parts.authority);
}

std::string host_and_port(std::string_view host, std::string_view port) {
  const bool bare_address = host.find(':') != std::string_view::npos && !host.starts_with('[');
  return (bare_address ? "[" + std::string(host) + "]" : std::string(host)) + ":" +
         std::string(port);
}

}  // namespace moonfence::kube
