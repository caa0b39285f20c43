// Every way in which a kubeconfig can be wrong, and what the operator reads then.

#include <ostream>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "kube/auth/config.h"
#include "support/fake_files.h"
#include "unit/kube/kubeconfig_texts.h"

namespace moonfence::kube {
namespace {

using testing::HasSubstr;
using testing::Not;

struct Wrong {
  std::string name;
  std::string text;
  std::string expected;  // in the message, which also names the file and never says "hush"
};
void PrintTo(const Wrong& wrong, std::ostream* out) {
  *out << wrong.name;
}

struct Malformed : testing::TestWithParam<Wrong> {};

TEST_P(Malformed, is_refused_with_one_clear_message) {
  test::FakeFiles files;
  files.write("/etc/kube/config", GetParam().text);
  const auto loaded = load_config(files, {.kubeconfig = "/etc/kube/config", .context = {}});
  ASSERT_FALSE(loaded);
  const std::string message = loaded.error().message();
  EXPECT_THAT(message, HasSubstr(GetParam().expected));
  EXPECT_THAT(message, testing::ContainsRegex("^kubeconfig:? /etc/kube/config:? "));
  EXPECT_THAT(message, Not(HasSubstr("hush")));
  EXPECT_THAT(message, Not(testing::ContainsRegex("[\x01-\x1f]")));
}

std::vector<Wrong> wrong_texts() {
  const auto cluster = [](const std::string& fields) { return texts::simple(fields, ""); };
  const auto user = [](const std::string& fields) { return texts::simple(texts::kHttps, fields); };
  const std::string v1 = "apiVersion: client.authentication.k8s.io/v1, ";
  const std::string bad_pem = base64_encoded("hush, no PEM");
  const std::string good_cert = base64_encoded(texts::certificate("c"));
  return {
      {"empty", "", "has no current-context; there are no contexts"},
      {"binary",
       std::string("\x7f"
                   "ELF\0\1",
                   6),
       "is not UTF-8 text"},
      {"list", "- a\n", "must be a map"},
      {"scalar", "hello", "must be a map"},
      {"broken", "users: [\n", "not YAML"},
      {"deep", std::string(40, '[') + "1" + std::string(40, ']'), "nested deeper than 32"},
      {"deep_and_open", std::string(100000, '['), "line 1"},
      {"deep_blocks",
       [] {
         std::string text;
         for (int i = 0; i < 20000; ++i) {
           text += "- ";
         }
         return text;
       }(),
       "nested deeper than 32"},
      {"alias", "a: &a [x]\nb: [*a, *a]\n", "aliases are not accepted"},
      {"large", std::string((1U << 20U) + 1, ' '), "larger than"},
      {"twice", "users: []\nusers: []\n", "key 'users' is given twice"},
      {"documents", "users: []\n---\nusers: []\n", "more than one YAML document"},
      {"other_kind", "apiVersion: v1\nkind: Secret\n", "is no kubeconfig"},
      {"clusters_map", "clusters: {}\n", "clusters must be a list (line 1)"},
      {"nameless", "users:\n- user: {token: hush}\n", "users entry 1: has no name"},
      {"double_user", "users:\n- {name: u, user: {token: hush}}\n- {name: u, user: {}}\n",
       "user \"u\" is defined twice"},
      {"no_context", "current-context: gone\n", "has no context \"gone\""},
      {"context_without_cluster",
       "current-context: c\ncontexts:\n- {name: c, context: {user: u}}\n",
       "context \"c\": has no cluster"},
      {"cluster_missing", "current-context: c\ncontexts:\n- {name: c, context: {cluster: k}}\n",
       "cluster \"k\" is not defined"},
      {"user_missing",
       "current-context: c\ncontexts:\n- {name: c, context: {cluster: k, user: v}}\n"
       "clusters:\n- {name: k, cluster: {server: 'https://k'}}\n",
       "user \"v\" is not defined"},
      {"no_server", cluster("    tls-server-name: x\n"), "cluster \"k\": has no server"},
      {"no_scheme", cluster("    server: api.example\n"), "must begin with https://"},
      {"server_escape", cluster("    server: \"api\\e[31m\"\n"), "api\\x1b[31m"},
      {"userinfo", cluster("    server: https://me:hush@api\n"), "must not hold a user"},
      {"bad_port", cluster("    server: https://api:66000\n"), "port must be a number"},
      {"bad_proxy", cluster(texts::kHttps + "    proxy-url: ftp://p\n"), "proxy-url \"ftp://p\""},
      {"proxy_secret", cluster(texts::kHttps + "    proxy-url: ftp://u:hush@p\n"), "proxy-url"},
      {"ca_and_insecure",
       cluster(texts::kHttps + "    certificate-authority-data: " + good_cert +
               "\n    insecure-skip-tls-verify: true\n"),
       "together with insecure-skip-tls-verify"},
      {"insecure_text", cluster(texts::kHttps + "    insecure-skip-tls-verify: \"true\"\n"),
       "insecure-skip-tls-verify must be true or false"},
      {"ca_base64", cluster(texts::kHttps + "    certificate-authority-data: '%%hush'\n"),
       "certificate-authority-data is not base64"},
      {"ca_no_pem", cluster(texts::kHttps + "    certificate-authority-data: " + bad_pem + "\n"),
       "holds no PEM block of type CERTIFICATE"},
      {"ca_missing", cluster(texts::kHttps + "    certificate-authority: ca.crt\n"),
       "certificate-authority: /etc/kube/ca.crt: no such file"},
      {"token_map", user("    token: {a: hush}\n"), "token must be a string"},
      {"token_lines", user("    token: \"hush\\nX-Evil: 1\"\n"), "must not have line breaks"},
      {"token_and_exec",
       user("    token: hush\n    exec: {" + v1 + "command: p, interactiveMode: Never}\n"),
       "has token and exec"},
      {"token_and_basic", user("    token: hush\n    username: u\n"), "has token and username"},
      {"password_alone", user("    password: hush\n"), "password without a username"},
      {"token_file_missing", user("    tokenFile: t\n"), "tokenFile: /etc/kube/t: no such file"},
      {"cert_alone", user("    client-certificate-data: " + good_cert + "\n"),
       "client-certificate without client-key"},
      {"key_is_cert",
       user("    client-certificate-data: " + good_cert + "\n    client-key-data: " + good_cert +
            "\n"),
       "client-key-data holds no PEM block of type PRIVATE KEY"},
      {"auth_provider", user("    auth-provider: {name: oidc, config: {a: hush}}\n"),
       "auth-provider \"oidc\""},
      {"exec_version",
       user("    exec: {apiVersion: client.authentication.k8s.io/v1alpha1, "
            "command: p}\n"),
       "v1alpha1\" is not supported"},
      {"exec_no_command", user("    exec: {" + v1 + "interactiveMode: Never}\n"), "no command"},
      {"exec_no_mode", user("    exec: {" + v1 + "command: p}\n"), "no interactiveMode"},
      {"exec_always", user("    exec: {" + v1 + "command: p, interactiveMode: Always}\n"),
       "interactiveMode \"Always\" needs a person"},
      {"exec_env",
       user("    exec: {" + v1 +
            "command: p, interactiveMode: Never, env: [{name: 'A=B', value: hush}]}\n"),
       "exec env name \"A=B\""},
      {"groups_alone", user("    as-groups: [g]\n"), "without as"},
      {"as_lines", user("    as: \"a\\nb\"\n"), "has control characters"},
  };
}
INSTANTIATE_TEST_SUITE_P(All, Malformed, testing::ValuesIn(wrong_texts()),
                         [](const auto& wrong) { return wrong.param.name; });

struct Stricter {
  const char* text;
  const char* line;
  const char* difference;
};

// kubectl takes these; who is refused has to learn which line it is and what kubectl makes of it.
TEST(KubeconfigErrors, what_kubectl_would_take_is_refused_with_line_and_difference) {
  const std::string no_scheme = texts::simple("    server: api.example\n", "");
  const std::string user = texts::simple("    server: https://u:p@api.example\n", "");
  const std::string clear_text =
      texts::simple("    server: http://api.example\n", "    token: hush\n");
  const auto provider = [](const std::string& name) {
    return texts::simple(texts::kHttps, "    auth-provider: {name: " + name + "}\n");
  };
  const std::string oidc = provider("oidc");
  const std::string gcp = provider("gcp");
  const std::string other = provider("ours");
  const std::string both = texts::simple(
      texts::kHttps,
      "    token: hush\n    exec: {apiVersion: client.authentication.k8s.io/v1, command: p, "
      "interactiveMode: Never}\n");
  for (const auto& [text, line, difference] :
       {Stricter{"users: []\nusers: []\n", "line 2", "kubectl takes the last"},
        Stricter{"a: &a [x]\nb: [*a, *a]\n", "line 2", "kubectl follows them"},
        Stricter{"users: []\n---\nusers: []\n", "", "kubectl reads the first one"},
        Stricter{no_scheme.c_str(), ", line ", "kubectl guesses"},
        Stricter{user.c_str(), ", line ", "kubectl would send them"},
        Stricter{clear_text.c_str(), ", line ", "kubectl leaves them out"},
        Stricter{oidc.c_str(), ", line ", "kubectl renews its token by itself"},
        Stricter{gcp.c_str(), ", line ", "Kubernetes 1.26 removed it"},
        Stricter{other.c_str(), ", line ", "kubectl does not know it either"},
        Stricter{both.c_str(), ", line ", "kubectl takes the token and does not run the plugin"}}) {
    test::FakeFiles files;
    files.write("/etc/kube/config", text);
    const auto loaded = load_config(files, {.kubeconfig = "/etc/kube/config", .context = {}});
    ASSERT_FALSE(loaded);
    EXPECT_THAT(loaded.error().message(), HasSubstr(line));
    EXPECT_THAT(loaded.error().message(), HasSubstr(difference));
  }
}

}  // namespace
}  // namespace moonfence::kube
