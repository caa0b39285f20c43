#include "os/net/environment_proxy.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdlib>
#include <optional>
#include <utility>
#include <vector>

#include <arpa/inet.h>

#include "base/text.h"

namespace moonfence::os {
namespace {

// An address as 16 bytes; IPv4 mapped into IPv6, so that both forms of it compare equal.
using Address = std::array<unsigned char, 16>;
constexpr std::size_t kMapped = 12;

std::optional<Address> address_of(std::string_view text) {
  const std::string whole(text);
  Address address{};
  if (inet_pton(AF_INET, whole.c_str(), &address[kMapped]) == 1) {
    address[10] = address[11] = 0xff;
    return address;
  }
  return inet_pton(AF_INET6, whole.c_str(), address.data()) == 1 ? std::optional(address)
                                                                 : std::nullopt;
}

bool is_loopback(const Address& address) {
  const Address six = *address_of("::1");
  const Address mapped = *address_of("0.0.0.0");
  return address == six || (std::equal(mapped.begin(), mapped.begin() + kMapped, address.begin()) &&
                            address[kMapped] == 127);
}

// Nullopt: `text` is no "address/bits".
std::optional<bool> is_in_network(const std::optional<Address>& address, std::string_view text) {
  const std::size_t slash = text.find('/');
  if (slash == std::string_view::npos) {
    return std::nullopt;
  }
  const auto network = address_of(text.substr(0, slash));
  const std::string_view digits = text.substr(slash + 1);
  std::size_t bits = 0;
  const auto [end, fault] = std::from_chars(digits.data(), digits.data() + digits.size(), bits);
  const bool is_four = text.substr(0, slash).find(':') == std::string_view::npos;
  if (!network || fault != std::errc() || end != digits.data() + digits.size() ||
      bits > (is_four ? 32U : 128U)) {
    return std::nullopt;
  }
  if (!address) {
    return false;
  }
  const std::size_t compared = bits + (is_four ? kMapped * 8 : 0);
  for (std::size_t i = 0; i < compared; ++i) {
    const auto mask = static_cast<unsigned char>(0x80U >> (i % 8));
    if (((*address)[i / 8] & mask) != ((*network)[i / 8] & mask)) {
      return false;
    }
  }
  return true;
}

// "host:port", "[::1]:port" or a host alone.
std::pair<std::string_view, std::string_view> host_and_port(std::string_view entry) {
  const std::size_t colon = entry.rfind(':');
  const bool bracketed = entry.starts_with('[');
  const bool has_port = colon != std::string_view::npos &&
                        (bracketed ? entry[colon - 1] == ']' : entry.find(':') == colon);
  std::string_view host = has_port ? entry.substr(0, colon) : entry;
  if (bracketed && host.ends_with(']')) {
    host = host.substr(1, host.size() - 2);
  }
  return {host, has_port ? entry.substr(colon + 1) : std::string_view()};
}

// "example.com" is that name and all below it, ".example.com" and "*.example.com" what is below.
bool covers_name(std::string_view pattern, const std::string& host) {
  if (pattern.starts_with("*.")) {
    pattern.remove_prefix(1);
  }
  if (pattern.starts_with('.')) {
    return host.ends_with(pattern);
  }
  return host == pattern || host.ends_with("." + std::string(pattern));
}

bool is_excepted(const ProxyTarget& target, std::string_view exceptions) {
  std::string host = lower_cased(trimmed(target.host));
  if (host.ends_with('.')) {
    host.pop_back();
  }
  const auto address = address_of(host);
  if (host == "localhost" || (address && is_loopback(*address))) {
    return true;
  }
  for (const std::string_view each : split(exceptions, ',')) {
    const std::string entry = lower_cased(trimmed(each));
    if (entry == "*") {
      return true;
    }
    if (const auto inside = is_in_network(address, entry)) {
      if (*inside) {
        return true;
      }
      continue;
    }
    const auto [pattern, port] = host_and_port(entry);
    if (pattern.empty() || (!port.empty() && port != target.port)) {
      continue;
    }
    const auto named = address_of(pattern);
    if (named ? named == address : covers_name(pattern, host)) {
      return true;
    }
  }
  return false;
}

std::string variable(const char* upper, const char* lower) {
  for (const char* name : {upper, lower}) {
    const char* text = std::getenv(name);  // NOLINT(concurrency-mt-unsafe): nobody sets variables
    if (text != nullptr && *text != '\0') {
      return text;
    }
  }
  return {};
}

}  // namespace

ProxyEnvironment ProxyEnvironment::of_process() {
  return {.http = variable("HTTP_PROXY", "http_proxy"),
          .https = variable("HTTPS_PROXY", "https_proxy"),
          .none = variable("NO_PROXY", "no_proxy")};
}

std::string proxy_for(const ProxyTarget& target, const ProxyEnvironment& environment) {
  const std::string& proxy = target.scheme == "https" ? environment.https : environment.http;
  return proxy.empty() || is_excepted(target, environment.none) ? std::string() : proxy;
}

}  // namespace moonfence::os
