#include "os/net/environment_proxy.h"

#include <gtest/gtest.h>

namespace moonfence::os {
namespace {

struct Case {
  const char* exceptions;
  const char* host;
  const char* port;
  bool by_proxy;
};

class NoProxy : public testing::TestWithParam<Case> {};

// The rules and most cases are those of golang.org/x/net/http/httpproxy.
TEST_P(NoProxy, is_read_as_programs_in_go_read_it) {
  const Case& each = GetParam();
  const ProxyEnvironment environment = {
      .http = "http://other:1", .https = "http://proxy:3128", .none = each.exceptions};
  EXPECT_EQ(proxy_for({.scheme = "https", .host = each.host, .port = each.port}, environment),
            each.by_proxy ? "http://proxy:3128" : "")
      << each.exceptions << " and " << each.host << ":" << each.port;
}

INSTANTIATE_TEST_SUITE_P(
    Forms, NoProxy,
    testing::Values(
        Case{"", "api.example.com", "443", true},
        Case{"*.example.com", "api.example.com", "443", false},
        Case{"*.example.com", "example.com", "443", true},
        Case{".example.com", "api.example.com", "443", false},
        Case{".example.com", "example.com", "443", true},
        Case{"example.com", "example.com", "443", false},
        Case{"example.com", "api.example.com", "443", false},
        Case{"example.com", "badexample.com", "443", true},
        Case{" other , EXAMPLE.com ", "Api.Example.COM.", "443", false},
        Case{"example.com:6443", "example.com", "6443", false},
        Case{"example.com:6443", "example.com", "443", true},
        Case{"10.0.0.1:6443", "10.0.0.1", "6443", false},
        Case{"10.0.0.1:6443", "10.0.0.1", "443", true}, Case{"10.0.0.1", "10.0.0.1", "443", false},
        Case{"10.0.0.1", "10.0.0.10", "443", true}, Case{"10.0.0.0/8", "10.200.3.4", "443", false},
        Case{"10.0.0.0/9", "10.200.3.4", "443", true},
        Case{"10.0.0.0/8", "api.example.com", "443", true},
        Case{"10.0.0.0/40,10.0.0.1", "10.0.0.1", "443", false},
        Case{"fd00::/8", "fd12::1", "443", false}, Case{"fd00::/8", "fe80::1", "443", true},
        Case{"[fd00::1]:6443", "fd00::1", "6443", false},
        Case{"[fd00::1]:6443", "fd00::1", "443", true}, Case{"fd00::1", "fd00::1", "443", false},
        Case{"*", "10.0.0.1", "443", false}, Case{"", "localhost", "443", false},
        Case{"", "127.0.0.1", "6443", false}, Case{"", "::1", "6443", false},
        Case{":443,,", "example.com", "443", true}));

TEST(EnvironmentProxy, an_exception_with_a_port_is_for_that_port) {
  const ProxyEnvironment environment = {.http = "", .https = "p", .none = "10.0.0.1:6443"};
  EXPECT_EQ(proxy_for({.scheme = "https", .host = "10.0.0.1", .port = "6443"}, environment), "");
  EXPECT_EQ(proxy_for({.scheme = "https", .host = "10.0.0.1", .port = "443"}, environment), "p");
}

TEST(EnvironmentProxy, each_scheme_has_its_own) {
  const ProxyEnvironment environment = {.http = "http://a:1", .https = "", .none = ""};
  EXPECT_EQ(proxy_for({.scheme = "http", .host = "h", .port = "80"}, environment), "http://a:1");
  EXPECT_EQ(proxy_for({.scheme = "https", .host = "h", .port = "443"}, environment), "");
}

}  // namespace
}  // namespace moonfence::os
