#include "kube/auth/config.h"

#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "kube/auth/in_cluster.h"
#include "support/fake_files.h"
#include "unit/kube/kubeconfig_texts.h"

namespace moonfence::kube {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

const std::string kMount(kServiceAccountFolder);

struct ConfigTest : testing::Test {
  test::FakeFiles files;

  void enter_cluster(const std::string& host = "10.0.0.1") {
    files.set("KUBERNETES_SERVICE_HOST", host);
    files.set("KUBERNETES_SERVICE_PORT", "443");
    files.write(kMount + "/token", "pod-token\n");
    files.write(kMount + "/ca.crt", texts::certificate("cluster"));
    files.write(kMount + "/namespace", "storage");
  }
  void enter_home() {
    files.set("HOME", "/home/me");
    files.write("/home/me/.kube/config", texts::pointing_at("home"));
  }
  std::string message_of(const ConfigOptions& options = {}) {
    const auto loaded = load_config(files, options);
    return loaded ? "no error" : loaded.error().message();
  }
  // What is wrong with one file at /etc/kube/config.
  std::string message_of_text(const std::string& text) {
    files.write("/etc/kube/config", text);
    return message_of({.kubeconfig = "/etc/kube/config", .context = {}});
  }
  Connection load_text(const std::string& text) {
    files.write("/etc/kube/config", text);
    auto loaded = load_config(files, {.kubeconfig = "/etc/kube/config", .context = {}});
    EXPECT_TRUE(loaded) << loaded.error().message();
    return loaded ? loaded->connection : Connection{};
  }
};

// Bit 0: --kubeconfig, 1: KUBECONFIG, 2: in a pod, 3: home file.
struct Precedence : ConfigTest, testing::WithParamInterface<unsigned> {};

TEST_P(Precedence, flag_then_environment_then_pod_then_home) {
  const unsigned given = GetParam();
  ConfigOptions options;
  std::string expected;
  if ((given & 8U) != 0) {
    enter_home();
    expected = "https://home";
  }
  if ((given & 4U) != 0) {
    enter_cluster();
    expected = "https://10.0.0.1:443";
  }
  if ((given & 2U) != 0) {
    files.set("KUBECONFIG", "/env");
    files.write("/env", texts::pointing_at("environment"));
    expected = "https://environment";
  }
  if ((given & 1U) != 0) {
    options.kubeconfig = "/flag";
    files.write("/flag", texts::pointing_at("flag"));
    expected = "https://flag";
  }
  const auto loaded = load_config(files, options);
  if (expected.empty()) {
    ASSERT_FALSE(loaded);
    EXPECT_EQ(loaded.error().kind, Error::Kind::NotFound);
    EXPECT_THAT(loaded.error().message(), HasSubstr("give --kubeconfig"));
    return;
  }
  ASSERT_TRUE(loaded) << loaded.error().message();
  EXPECT_EQ(loaded->connection.server, expected);
}
INSTANTIATE_TEST_SUITE_P(All, Precedence, testing::Range(0U, 16U));

TEST_F(ConfigTest, an_explicit_file_must_exist) {
  enter_cluster();
  EXPECT_THAT(message_of({.kubeconfig = "/nowhere", .context = {}}),
              AllOf(HasSubstr("kubeconfig: /nowhere"), HasSubstr("check the path")));
}

TEST_F(ConfigTest, a_kubeconfig_list_without_any_file_never_falls_back_to_another_cluster) {
  enter_cluster();
  files.set("KUBECONFIG", "/a:/b");
  EXPECT_THAT(message_of(), HasSubstr("KUBECONFIG names no file that exists: \"/a:/b\""));
}

TEST_F(ConfigTest, a_broken_home_file_is_an_error_and_so_is_what_it_names) {
  files.set("HOME", "/home/me");
  files.write("/home/me/.kube/config", "[");
  EXPECT_THAT(message_of(), HasSubstr("/home/me/.kube/config"));
  files.write("/home/me/.kube/config", texts::simple(texts::kHttps, "    tokenFile: t\n"));
  EXPECT_THAT(message_of(), HasSubstr("/home/me/.kube/t: no such file"));
}

TEST_F(ConfigTest, in_a_pod_token_and_authority_come_from_the_mount) {
  enter_cluster();
  const auto loaded = load_config(files, {});
  ASSERT_TRUE(loaded);
  const Connection& connection = loaded->connection;
  EXPECT_EQ(connection.identity.token, "pod-token");
  EXPECT_EQ(connection.identity.token_file, kMount + "/token");
  EXPECT_EQ(connection.ca_pem, texts::certificate("cluster"));
  EXPECT_EQ(connection.ca_file, kMount + "/ca.crt");
  EXPECT_EQ(connection.default_namespace, "storage");
  EXPECT_EQ(connection.origin, "in-cluster");
}

TEST_F(ConfigTest, in_a_pod_an_ipv6_host_gets_brackets) {
  enter_cluster("fd00::1");
  EXPECT_EQ(load_config(files, {})->connection.server, "https://[fd00::1]:443");
  enter_cluster("[fd00::1]");
  EXPECT_EQ(load_config(files, {})->connection.server, "https://[fd00::1]:443");
}

TEST_F(ConfigTest, one_variable_alone_makes_no_pod) {
  enter_cluster();
  files.unset("KUBERNETES_SERVICE_PORT");
  EXPECT_THAT(message_of(), HasSubstr("this is no pod"));
  enter_cluster();
  files.unset("KUBERNETES_SERVICE_HOST");
  EXPECT_THAT(message_of(), HasSubstr("this is no pod"));
}

TEST_F(ConfigTest, in_a_pod_every_missing_or_empty_piece_is_an_error_even_with_a_home_file) {
  enter_home();
  enter_cluster();
  files.remove(kMount + "/token");
  EXPECT_THAT(message_of(), HasSubstr("/token: no such file (set automount"));
  enter_cluster();
  files.write(kMount + "/token", " \n");
  EXPECT_THAT(message_of(), HasSubstr("/token is empty"));
  enter_cluster();
  files.remove(kMount + "/ca.crt");
  EXPECT_THAT(message_of(), HasSubstr("/ca.crt: no such file"));
  enter_cluster();
  files.write(kMount + "/ca.crt", "");
  EXPECT_THAT(message_of(), HasSubstr("/ca.crt is empty"));
  enter_cluster();
  files.write(kMount + "/ca.crt", "garbage");
  EXPECT_THAT(message_of(), HasSubstr("/ca.crt holds no PEM block"));
  enter_cluster();
  files.set("KUBERNETES_SERVICE_PORT", "https");
  EXPECT_THAT(message_of(), HasSubstr("its port must be a number"));
}

TEST_F(ConfigTest, in_a_pod_there_are_no_contexts) {
  enter_cluster();
  EXPECT_THAT(message_of({.kubeconfig = {}, .context = "prod"}), HasSubstr("no contexts"));
}

TEST_F(ConfigTest, of_colliding_users_the_first_file_wins_as_a_whole) {
  files.set("KUBECONFIG", "/1::/2:/missing:/3:/1");
  files.write("/1", "users:\n- name: red\n  user: {token: first}\n");
  files.write("/2",
              "current-context: second\n"
              "users:\n- name: red\n  user: {token: second, as: someone}\n"
              "contexts:\n- name: second\n  context: {cluster: k, user: red}\n");
  files.write("/3",
              "current-context: third\n"
              "users:\n- name: red\n  user: {username: u, password: p}\n"
              "clusters:\n- name: k\n  cluster: {server: 'https://k'}\n"
              "contexts:\n- name: second\n  context: {cluster: other, user: other}\n");
  const auto loaded = load_config(files, {});
  ASSERT_TRUE(loaded) << loaded.error().message();
  EXPECT_EQ(loaded->connection.identity.token, "first");
  EXPECT_THAT(loaded->connection.identity.username, IsEmpty());
  EXPECT_THAT(loaded->connection.identity.impersonation, IsEmpty());
  EXPECT_EQ(loaded->connection.server, "https://k");
  EXPECT_EQ(loaded->connection.origin, "context second of /2");
  EXPECT_THAT(loaded->warnings, testing::ElementsAre("KUBECONFIG: /missing does not exist"));
  EXPECT_EQ(files.reads("/1"), 1);
}

TEST_F(ConfigTest, an_unreadable_or_broken_file_of_the_list_is_an_error) {
  files.set("KUBECONFIG", "/good:/bad");
  files.write("/good", texts::pointing_at("good"));
  files.fail("/bad", Error::Kind::Forbidden, "permission denied");
  EXPECT_THAT(message_of(), HasSubstr("/bad: permission denied"));
  files.write("/bad", "users: {");
  EXPECT_THAT(message_of(), HasSubstr("/bad"));
}

TEST_F(ConfigTest, relative_paths_start_at_their_own_file) {
  files.set("KUBECONFIG", "conf/a:/etc/kube/b");
  files.write("conf/a",
              "current-context: c\ncontexts:\n- name: c\n  context: {cluster: k, user: u}\n"
              "clusters:\n- name: k\n  cluster: {server: 'https://k', certificate-authority: "
              "../pki/ca.crt}\n");
  files.write("/etc/kube/b",
              "users:\n- name: u\n  user: {tokenFile: ./token, client-certificate: tls/c.pem, "
              "client-key: tls/k.pem}\n");
  files.write("pki/ca.crt", texts::certificate("ca"));
  files.write("/etc/kube/token", "relative");
  files.write("/etc/kube/tls/c.pem", texts::certificate("c"));
  files.write("/etc/kube/tls/k.pem", texts::key("k"));
  // A path that has a slash is one; "pki/ca.crt" reads as "./pki/ca.crt" either way.
  const auto loaded = load_config(files, {});
  ASSERT_TRUE(loaded) << loaded.error().message();
  EXPECT_EQ(loaded->connection.ca_pem, texts::certificate("ca"));
  EXPECT_EQ(loaded->connection.identity.token, "relative");
  EXPECT_EQ(loaded->connection.identity.key_file, "/etc/kube/tls/k.pem");
}

TEST_F(ConfigTest, a_plugin_is_a_path_only_when_it_has_a_slash) {
  const auto command = [&](const std::string& written) {
    return load_text(texts::simple(texts::kHttps,
                                   "    exec: {apiVersion: client.authentication.k8s.io/v1, "
                                   "interactiveMode: Never, command: " +
                                       written + "}\n"))
        .identity.exec->command;
  };
  EXPECT_EQ(command("./bin/plugin"), "/etc/kube/bin/plugin");
  EXPECT_EQ(command("bin/plugin"), "/etc/kube/bin/plugin");
  EXPECT_EQ(command("plugin"), "plugin");
  EXPECT_EQ(command("/usr/bin/plugin"), "/usr/bin/plugin");
}

TEST_F(ConfigTest, kind_style) {
  const Connection connection = load_text(texts::kind());
  EXPECT_EQ(connection.server, "https://127.0.0.1:43210");
  EXPECT_EQ(connection.ca_pem, texts::certificate("kind ca"));
  EXPECT_THAT(connection.ca_file, IsEmpty());
  EXPECT_EQ(connection.identity.certificate_pem, texts::certificate("kind cert"));
  EXPECT_EQ(connection.identity.key_pem, texts::key("kind key"));
  EXPECT_EQ(connection.origin, "context kind-kind of /etc/kube/config");
}

TEST_F(ConfigTest, kubeadm_style_with_files_and_a_namespace) {
  files.write("/etc/kube/pki/ca.crt", texts::certificate("ca"));
  files.write("/var/lib/kubelet/pki/current.pem", texts::certificate("c") + texts::key("k"));
  const Connection connection = load_text(texts::kubeadm());
  EXPECT_EQ(connection.server, "https://[fd00::10]:6443");
  EXPECT_EQ(connection.ca_file, "/etc/kube/pki/ca.crt");
  EXPECT_EQ(connection.default_namespace, "storage");
  EXPECT_EQ(connection.identity.certificate_file, "/var/lib/kubelet/pki/current.pem");
}

TEST_F(ConfigTest, eks_and_gke_style_plugins) {
  const ExecPlugin eks = load_text(texts::eks()).identity.exec.value();
  EXPECT_EQ(eks.command, "aws");
  EXPECT_EQ(eks.arguments.size(), 6U);
  EXPECT_THAT(eks.environment, testing::ElementsAre(testing::Pair("AWS_PROFILE", "fencing")));
  EXPECT_FALSE(eks.provide_cluster_info);
  const ExecPlugin gke = load_text(texts::gke()).identity.exec.value();
  EXPECT_TRUE(gke.provide_cluster_info);
  EXPECT_EQ(gke.install_hint, "Install [31mgke-gcloud-auth-plugin for use with kubectl");
}

TEST_F(ConfigTest, rancher_style_keeps_the_path) {
  const Connection connection = load_text(texts::rancher());
  EXPECT_EQ(connection.server, "https://rancher.example/k8s/clusters/c-m-abcdefgh");
  EXPECT_EQ(connection.identity.token, "kubeconfig-user-abc:madeup");
  EXPECT_THAT(connection.ca_pem, IsEmpty());
}

TEST_F(ConfigTest, every_cluster_field_arrives) {
  const Connection connection = load_text(texts::simple(
      texts::kHttps + "    tls-server-name: inner.example\n    proxy-url: socks5://p:1080\n"
                      "    disable-compression: true\n    something-new: {a: [1]}\n",
      ""));
  EXPECT_EQ(connection.server_name, "inner.example");
  EXPECT_EQ(connection.proxy_url, "socks5://p:1080");
  EXPECT_FALSE(connection.insecure);
}

TEST_F(ConfigTest, data_beats_a_file_with_a_warning) {
  files.write("/etc/kube/config",
              texts::simple(texts::kHttps +
                                "    certificate-authority: /missing\n"
                                "    certificate-authority-data: " +
                                base64_encoded(texts::certificate("data")) + "\n",
                            ""));
  const auto loaded = load_config(files, {.kubeconfig = "/etc/kube/config", .context = {}});
  ASSERT_TRUE(loaded) << loaded.error().message();
  EXPECT_EQ(loaded->connection.ca_pem, texts::certificate("data"));
  EXPECT_THAT(loaded->connection.ca_file, IsEmpty());
  EXPECT_THAT(loaded->warnings, testing::ElementsAre(HasSubstr("is used and")));
}

TEST_F(ConfigTest, insecure_is_possible_and_loud) {
  files.write("/etc/kube/config",
              texts::simple(texts::kHttps + "    insecure-skip-tls-verify: true\n", ""));
  const auto loaded = load_config(files, {.kubeconfig = "/etc/kube/config", .context = {}});
  ASSERT_TRUE(loaded);
  EXPECT_TRUE(loaded->connection.insecure);
  EXPECT_THAT(loaded->warnings, testing::ElementsAre(HasSubstr("insecure-skip-tls-verify")));
}

TEST_F(ConfigTest, a_token_file_beats_the_token_that_is_the_last_resort) {
  files.write("/run/token", "fresh\n");
  const std::string text =
      texts::simple(texts::kHttps, "    tokenFile: /run/token\n    token: fixed\n");
  EXPECT_EQ(load_text(text).identity.token, "fresh");
  files.remove("/run/token");
  EXPECT_EQ(load_text(text).identity.token, "fixed");
  EXPECT_EQ(load_text(text).identity.token_file, "/run/token");
}

TEST_F(ConfigTest, impersonation_becomes_headers) {
  const Connection connection =
      load_text(texts::simple(texts::kHttps,
                              "    as: admin\n    as-uid: '7'\n    as-groups: [a, b]\n"
                              "    as-user-extra: {scopes/x: [one, two], plain: [y]}\n"));
  std::vector<std::string> lines;
  for (const port::Header& header : connection.identity.impersonation) {
    lines.push_back(header.name + "=" + header.value);
  }
  EXPECT_THAT(lines, testing::ElementsAre(
                         "Impersonate-User=admin", "Impersonate-Uid=7", "Impersonate-Group=a",
                         "Impersonate-Group=b", "Impersonate-Extra-plain=y",
                         "Impersonate-Extra-scopes%2Fx=one", "Impersonate-Extra-scopes%2Fx=two"));
}

TEST_F(ConfigTest, the_context_can_be_chosen) {
  files.write("/f", texts::pointing_at("a") + "");
  EXPECT_THAT(message_of({.kubeconfig = "/f", .context = "prod"}),
              HasSubstr("has no context \"prod\"; there are: c"));
  EXPECT_EQ(message_of({.kubeconfig = "/f", .context = "c"}), "no error");
}

// Plugins that want to know the cluster find there which audience or profile is theirs.
TEST_F(ConfigTest, what_a_cluster_keeps_for_exec_plugins_is_handed_on) {
  const Connection connection = load_text(texts::simple(
      texts::kHttps + "    extensions:\n    - {name: other, extension: {a: 1}}\n"
                      "    - {name: client.authentication.k8s.io/exec, extension: {audience: prod, "
                      "ports: [1, '2']}}\n",
      ""));
  EXPECT_EQ(connection.plugin_config, R"({"audience":"prod","ports":[1,"2"]})");
}

TEST_F(ConfigTest, plain_http_is_for_those_without_credentials) {
  const std::string http = "    server: http://localhost:8001\n";
  EXPECT_EQ(load_text(texts::simple(http, "")).server, "http://localhost:8001");
  const std::string certificate =
      "    client-certificate-data: " + base64_encoded(texts::certificate("c")) +
      "\n    client-key-data: " + base64_encoded(texts::key("k")) + "\n";
  for (const std::string& user :
       {std::string("    token: hush\n"), std::string("    username: u\n    password: hush\n"),
        std::string("    exec: {apiVersion: client.authentication.k8s.io/v1beta1, command: p}\n"),
        certificate}) {
    EXPECT_THAT(message_of_text(texts::simple(http, user)),
                AllOf(HasSubstr("in clear text"), Not(HasSubstr("hush"))));
  }
}

TEST_F(ConfigTest, only_allowed_plugins_run) {
  files.write("/etc/kube/config", texts::eks());
  ConfigOptions options{.kubeconfig = "/etc/kube/config", .context = {}};
  options.allowed_plugins = {"/usr/bin/aws", "./aws"};
  EXPECT_THAT(message_of(options), HasSubstr("\"aws\" is not among the allowed plugins"));
  options.allowed_plugins = {"aws"};
  EXPECT_EQ(message_of(options), "no error");
}

TEST_F(ConfigTest, own_namespace_comes_from_variable_mount_or_fallback) {
  EXPECT_EQ(own_namespace(files, "moonfence"), "moonfence");
  files.write(kMount + "/namespace", "mounted\n");
  EXPECT_EQ(own_namespace(files, "moonfence"), "mounted");
  files.set("POD_NAMESPACE", "variable");
  EXPECT_EQ(own_namespace(files, "moonfence"), "variable");
}

TEST_F(ConfigTest, a_folder_is_no_kubeconfig) {
  files.fail("/etc/kube/config", Error::Kind::Invalid, "is a folder");
  EXPECT_THAT(message_of({.kubeconfig = "/etc/kube/config", .context = {}}),
              HasSubstr("kubeconfig: /etc/kube/config: is a folder"));
}

TEST_F(ConfigTest, exec_words_that_only_others_use_do_no_harm) {
  const std::string text = texts::simple(texts::kHttps, "") +
                           "- name: other\n  user: {auth-provider: {name: gcp}, token: x}\n";
  EXPECT_EQ(message_of_text(text), "no error");
}

}  // namespace
}  // namespace moonfence::kube
