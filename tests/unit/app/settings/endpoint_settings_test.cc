#include <gtest/gtest.h>

#include "app/settings/settings.h"

namespace moonfence::app {
namespace {

using namespace std::chrono_literals;
using cluster::EndpointRules;

// The text of the error, "" when it is read.
std::string fault(const std::string& endpoint) {
  const auto settings =
      parse_settings("api: 1\nendpoints:\n  vendor: " + endpoint + "\n", "engine.yaml");
  return settings ? "" : settings.error().text;
}

TEST(EndpointSettings, a_login_is_read_whole) {
  const auto settings = parse_settings(R"(api: 1
endpoints:
  vendor:
    url: https://vendor.space.svc:5705/api/
    timeout: 3s
    tls: {ca: /tls/ca.crt, clientCertificate: /tls/tls.crt, clientKey: /tls/tls.key}
    auth:
      type: login
      path: /v2/auth/login
      usernameFile: /secret/username
      passwordFile: /secret/password
      usernameField: user
      passwordField: pass
      tokenField: session.token
      expiresHeader: Authorization-Expires-Seconds
      lifetime: 2m
)",
                                       "f");
  ASSERT_TRUE(settings) << settings.error().message();
  ASSERT_EQ(settings->endpoints.size(), 1U);
  const EndpointRules& rules = settings->endpoints.at("vendor");
  EXPECT_EQ(rules.url, "https://vendor.space.svc:5705/api");
  EXPECT_EQ(rules.timeout, 3s);
  EXPECT_EQ(rules.ca_file, "/tls/ca.crt");
  EXPECT_EQ(rules.certificate_file, "/tls/tls.crt");
  EXPECT_EQ(rules.key_file, "/tls/tls.key");
  EXPECT_EQ(rules.auth, EndpointRules::Auth::Login);
  EXPECT_EQ(rules.username_file, "/secret/username");
  EXPECT_EQ(rules.password_file, "/secret/password");
  EXPECT_EQ(rules.login.path, "/v2/auth/login");
  EXPECT_EQ(rules.login.username_field, "user");
  EXPECT_EQ(rules.login.password_field, "pass");
  EXPECT_EQ(rules.login.token_field, "session.token");
  EXPECT_EQ(rules.login.expires_header, "Authorization-Expires-Seconds");
  EXPECT_EQ(rules.login.lifetime, 2min);
}

TEST(EndpointSettings, the_other_ways_to_authenticate) {
  EXPECT_EQ(fault("{url: http://v:1}"), "");
  EXPECT_EQ(fault("{url: http://v:1, auth: {type: none}}"), "");
  EXPECT_EQ(fault("{url: http://v:1, auth: {type: basic, usernameFile: /u, passwordFile: /p}}"),
            "");
  EXPECT_EQ(fault("{url: http://v:1, auth: {type: bearer, tokenFile: /t}}"), "");
}

TEST(EndpointSettings, a_login_in_clear_text_is_for_metadata_servers_and_endpoints_without_tls) {
  for (const char* server : {"http://169.254.169.254", "http://metadata.google.internal:80"}) {
    EXPECT_EQ(fault("{url: https://v, auth: {type: login, url: " + std::string(server) +
                    ", path: /l, send: nothing, tokenField: a}}"),
              "");
  }
  EXPECT_EQ(fault("{url: http://v, auth: {type: login, url: http://k, path: /l, usernameFile: /u, "
                  "passwordFile: /p, tokenField: a, sendHeader: authorization}}"),
            "");
}

// As docs/proof.md shows them.
TEST(EndpointSettings, the_logins_of_clouds) {
  const auto read = [](const std::string& endpoint) {
    const auto settings = parse_settings("api: 1\nendpoints: {v: " + endpoint + "}\n", "f");
    EXPECT_TRUE(settings) << endpoint << settings.error().message();
    return settings ? settings->endpoints.at("v") : EndpointRules();
  };
  const auto pve = read(
      "{url: https://pve:8006/api2/json, auth: {type: bearer, tokenFile: /t, sendPrefix: "
      "'PVEAPIToken='}}");
  EXPECT_EQ(pve.token_header, "Authorization");
  EXPECT_EQ(pve.token_prefix, "PVEAPIToken=");

  const auto nova =
      read(R"({url: https://nova:8774/v2.1, headers: {X-OpenStack-Nova-API-Version: "2.16"},
      auth: {type: login, url: https://keystone:5000, path: /v3/auth/tokens, usernameFile: /u, passwordFile: /p,
        body: {auth: {identity: {methods: [application_credential],
          application_credential: {id: "{username}", secret: "{password}"}}}},
        tokenHeader: X-Subject-Token, sendHeader: X-Auth-Token, lifetime: 30m}})");
  EXPECT_EQ(nova.headers.at(0).value, "2.16");
  EXPECT_EQ(nova.login.url, "https://keystone:5000");
  EXPECT_EQ(
      nova.login.body.dump(),
      R"({"auth":{"identity":{"application_credential":{"id":"{username}","secret":"{password}"},)"
      R"("methods":["application_credential"]}}})");
  EXPECT_EQ(nova.token_header, "X-Auth-Token");
  EXPECT_EQ(nova.token_prefix, "");

  const auto azure = read(R"({url: https://management.azure.com,
      auth: {type: login, url: https://login.microsoftonline.com, path: /TENANT/oauth2/v2.0/token, send: form,
        usernameFile: /u, passwordFile: /p, body: {grant_type: client_credentials, client_id: "{username}",
          client_secret: "{password}", scope: https://management.azure.com/.default},
        tokenField: access_token, expiresField: expires_in}})");
  EXPECT_EQ(azure.login.send, cluster::LoginRules::Send::Form);
  EXPECT_EQ(azure.token_prefix, "Bearer ");

  const auto vsphere = read(
      "{url: https://vc, auth: {type: login, path: /api/session, send: basic, usernameFile: /u, "
      "passwordFile: /p, tokenField: ., sendHeader: vmware-api-session-id}}");
  EXPECT_EQ(vsphere.login.send, cluster::LoginRules::Send::Basic);
  EXPECT_EQ(vsphere.token_prefix, "");

  const auto gce = read(
      "{url: https://compute.googleapis.com, auth: {type: login, url: "
      "http://metadata.google.internal, path: /computeMetadata/v1/token, send: nothing, headers: "
      "{Metadata-Flavor: Google}, tokenField: access_token, expiresField: expires_in}}");
  EXPECT_EQ(gce.login.headers.at(0).name, "Metadata-Flavor");
  EXPECT_EQ(gce.login.send, cluster::LoginRules::Send::Nothing);
}

TEST(EndpointSettings, a_key_of_aws) {
  const auto settings = parse_settings(R"(api: 1
endpoints:
  ec2:
    url: https://ec2.eu-central-1.amazonaws.com
    auth: {type: aws, region: eu-central-1, accessKeyFile: /a, secretKeyFile: /s}
  sts:
    url: https://sts.eu-central-1.amazonaws.com
    auth: {type: aws, region: eu-central-1, service: sts, accessKeyFile: /a, secretKeyFile: /s, sessionTokenFile: /t}
)",
                                       "f");
  ASSERT_TRUE(settings) << settings.error().message();
  const EndpointRules& rules = settings->endpoints.at("ec2");
  EXPECT_EQ(rules.auth, EndpointRules::Auth::Aws);
  EXPECT_EQ(rules.aws.region, "eu-central-1");
  EXPECT_EQ(rules.aws.service, "ec2");
  EXPECT_EQ(rules.aws.access_key_file, "/a");
  EXPECT_EQ(rules.aws.secret_key_file, "/s");
  EXPECT_EQ(rules.aws.session_token_file, "");
  EXPECT_EQ(settings->endpoints.at("sts").aws.service, "sts");
  EXPECT_EQ(settings->endpoints.at("sts").aws.session_token_file, "/t");
  for (const std::string& auth : {
           "{type: aws, accessKeyFile: /a, secretKeyFile: /s}",
           "{type: aws, region: x, accessKeyFile: /a}",
           "{type: aws, region: x, secretKeyFile: /s}",
           "{type: aws, region: 'x:y', accessKeyFile: /a, secretKeyFile: /s}",
           "{type: aws, region: '', accessKeyFile: /a, secretKeyFile: /s}",
           "{type: aws, region: x, service: 's3/..', accessKeyFile: /a, secretKeyFile: /s}",
           "{type: aws, region: x, accessKeyFile: AKID, secretKeyFile: /s}",
           "{type: aws, region: x, accessKeyFile: /a, secretKeyFile: /s, tokenFile: /t}",
           "{type: bearer, tokenFile: /t, region: x}",
       }) {
    EXPECT_NE(fault("{url: https://v, auth: " + auth + "}"), "") << auth;
  }
  EXPECT_NE(fault("{url: https://v, headers: {X-Amz-Date: x}, auth: {type: aws, region: x, "
                  "accessKeyFile: /a, secretKeyFile: /s}}")
                .find("headers has X-Amz-Date, which is part of a signature"),
            std::string::npos);
}

TEST(EndpointSettings, each_fault_has_one_clear_message) {
  const std::string login =
      "{url: http://v:1, auth: {type: login, path: /l, usernameFile: /u, "
      "passwordFile: /p, ";
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"x", "not a mapping"},
      {"{}", "endpoints: vendor has no url"},
      {"{url: ftp://v}", "must begin with https:// or http://"},
      {"{url: http://user:secret@v}", "must not hold a user or password"},
      {"{url: 'http://v/?a=b'}", "must not have a query"},
      {"{url: [a]}", "url"},
      {"{urll: http://v}", "unknown key 'urll' (did you mean 'url'?)"},
      {"{url: http://v, timeout: 5}", "timeout: '5' is no duration"},
      {"{url: http://v, timeout: 2m}", "timeout must be from 100ms to 1m"},
      {"{url: http://v, tls: {ca: /ca}}", "has tls, and its url is no https"},
      {"{url: https://v, tls: {ca: ca.crt}}", "ca: 'ca.crt' is no path of a file"},
      {"{url: https://v, tls: {clientKey: /k}}", "clientCertificate and clientKey together"},
      {"{url: https://v, tls: {insecure: true}}", "unknown key 'insecure'"},
      {"{url: http://v, auth: {tokenFile: /t}}", "auth: type is missing"},
      {"{url: http://v, auth: {type: digest}}", "type: 'digest' is no way to authenticate"},
      {"{url: http://v, auth: {type: none, tokenFile: /t}}", "type none takes no tokenFile"},
      {"{url: http://v, auth: {type: bearer}}", "type bearer needs tokenFile"},
      {"{url: http://v, auth: {type: basic, usernameFile: /u}}", "type basic needs passwordFile"},
      {login + "tokenHeader: A, tokenFile: /t}}", "type login takes no tokenFile"},
      {login + "lifetime: 1m}}", "a login needs tokenHeader or tokenField"},
      {login + "tokenHeader: A, tokenField: b}}", "a login needs tokenHeader or tokenField"},
      {login + "tokenHeader: 'A b'}}", "tokenHeader: 'A b' is no name of a header"},
      {login + "tokenHeader: A, expiresHeader: B, expiresField: c}}", "exclude each other"},
      {login + "tokenHeader: A, lifetime: 10ms}}", "lifetime: shorter than 1s"},
      {"{url: http://v, auth: {type: login, path: /l, tokenField: a, usernameFile: /u}}",
       "type login needs passwordFile"},
      {"{url: http://v, auth: {type: bearer, tokenFile: /t, send: json}}",
       "type bearer takes no send"},
      {"{url: http://v, auth: {type: basic, usernameFile: /u, passwordFile: /p, sendPrefix: x}}",
       "type basic takes no sendPrefix"},
      {"{url: http://v, auth: {type: bearer, tokenFile: /t, sendPrefix: \"a\\nb\"}}",
       "is no beginning of a header"},
      {login + "tokenField: a, send: xml}}", "send: 'xml' is no way to log in"},
      {login + "tokenField: a, send: nothing}}", "send nothing takes no usernameFile"},
      {login + "tokenField: a, send: basic, body: {a: b}}}", "send basic takes no body"},
      {login + "tokenField: a, send: basic, usernameField: b}}",
       "send basic takes no usernameField"},
      {login + "tokenField: a, body: {a: '{username}'}}}",
       "there is passwordFile and body has no '{password}'"},
      {login + "tokenField: a, body: {a: {username}, b: '{password}'}}}",
       "there is usernameFile and body has no '{username}'"},
      {login + "tokenField: a, body: {a: '{username}', b: '{token}'}}}",
       "'{token}' is neither {username} nor {password}"},
      {login + "tokenField: a, body: {a: '{username}', b: 'x {password}'}}}",
       "'x {password}' is neither {username} nor {password}"},
      {login + "tokenField: a, usernameField: x, body: {a: '{username}', b: '{password}'}}}",
       "body and usernameField exclude each other"},
      {login + "tokenField: a, send: form, body: {a: {b: '{username}'}, c: '{password}'}}}",
       "a form is a mapping of texts"},
      {login + "tokenField: a, body: x}}", "body: not a mapping"},
      {login + "tokenField: a, body: {}}}", "body: it is empty"},
      {login + "tokenField: a, sendHeader: Host}}", "sendHeader: Host is set by moonfence"},
      {"{url: http://v, auth: {type: bearer, tokenFile: /t, sendHeader: content-length}}",
       "sendHeader: content-length is set by moonfence"},
      {"{url: http://v, headers: {x-token: a}, auth: {type: bearer, tokenFile: /t, sendHeader: "
       "X-Token}}",
       "vendor: headers has x-token, which shows the token"},
      {"{auth: {type: login, url: http://k, path: /l, usernameFile: /u, passwordFile: /p, "
       "tokenField: a}, url: https://v}",
       "auth.url is http and url is https"},
      {"{url: https://v, auth: {type: login, url: http://169.254.169.254, path: /l, usernameFile: "
       "/u, passwordFile: /p, tokenField: a}}",
       "auth.url is http and url is https"},
      {"{url: https://v, auth: {type: login, url: http://metadata.google.internal.evil, path: /l, "
       "send: nothing, tokenField: a}}",
       "auth.url is http and url is https"},
      {login + "tokenField: a, body: {a: [[[[[[[[[b]]]]]]]]]}}}", "body: too deep"},
      {login + "tokenField: a, url: 'ftp://v'}}", "must begin with https:// or http://"},
      {login + "tokenField: a, headers: {Host: v}}}", "Host is set by moonfence"},
      {"{url: http://v, headers: {authorization: Basic}}", "authorization is set by moonfence"},
      {"{url: http://v, headers: {'a b': c}}", "'a b' is no header"},
      {"{url: http://v, headers: {a: \"b\\r\\nc: d\"}}", "'a' is no header"},
      {"{url: http://v, headers: x}", "headers: not a mapping"},
      {"{url: http://v, auth: {type: login, path: /l, usernameFile: /u, tokenField: a, body: {a: "
       "'{username}', b: '{password}'}}}",
       "body has {password} and there is no passwordFile"},
      {"{url: http://v, auth: {type: login, path: 'http://evil/', usernameFile: /u}}",
       "path: 'http://evil/' is no path below the url"},
      {"{url: http://v, auth: {type: login, path: /../x}}", "is no path below the url"}};
  for (const auto& [given, expected] : cases) {
    const std::string text = fault(given);
    EXPECT_NE(text.find(expected), std::string::npos) << given << ": " << text;
    EXPECT_NE(text.find("engine.yaml:"), std::string::npos) << given << ": " << text;
    EXPECT_EQ(text.find("secret"), std::string::npos) << text;
  }
}

TEST(EndpointSettings, a_name_is_what_a_policy_can_write) {
  for (const char* name : {"Vendor", "1a", "a_b", "''", "a.b"}) {
    const auto settings = parse_settings(
        "api: 1\nendpoints: {" + std::string(name) + ": {url: http://v}}\n", "engine.yaml");
    ASSERT_FALSE(settings) << name;
    EXPECT_NE(settings.error().text.find("is no name"), std::string::npos);
  }
  EXPECT_TRUE(parse_settings("api: 1\nendpoints: {a-1: {url: http://v}}\n", "f"));
}

}  // namespace
}  // namespace moonfence::app
