// What kubeconfigs are made of: base64, PEM, URLs, bounded YAML.

#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "kube/auth/kubeconfig.h"
#include "kube/auth/server_url.h"
#include "kube/text/base64.h"
#include "kube/text/pem.h"
#include "kube/text/yaml.h"
#include "unit/kube/kubeconfig_texts.h"

namespace moonfence::kube {
namespace {

using testing::HasSubstr;

TEST(Base64, knows_the_vectors_of_rfc_4648) {
  const std::pair<std::string, std::string> vectors[] = {{"", ""},
                                                         {"f", "Zg=="},
                                                         {"fo", "Zm8="},
                                                         {"foo", "Zm9v"},
                                                         {"foob", "Zm9vYg=="},
                                                         {"fooba", "Zm9vYmE="},
                                                         {"foobar", "Zm9vYmFy"}};
  for (const auto& [plain, text] : vectors) {
    EXPECT_EQ(base64_encoded(plain), text);
    EXPECT_EQ(base64_decoded(text), plain);
  }
  EXPECT_EQ(base64_decoded(base64_encoded(std::string("\0\xff\x80", 3))),
            std::string("\0\xff\x80", 3));
}

TEST(Base64, skips_line_breaks_and_refuses_the_rest) {
  EXPECT_EQ(base64_decoded("Zm9v\r\nYmFy\n"), "foobar");
  for (const char* bad : {"Zg", "Zg=", "Z", "Zg==Zg==", "Zm 9v", "Zm-v", "====", "Zm9v="}) {
    EXPECT_EQ(base64_decoded(bad), std::nullopt) << bad;
  }
}

TEST(Pem, whole_blocks_of_the_right_kind_pass) {
  EXPECT_EQ(pem_fault(texts::certificate("a"), Pem::Certificate), std::nullopt);
  EXPECT_EQ(pem_fault("# a bundle\n" + texts::certificate("a") + texts::certificate("b"),
                      Pem::Certificate),
            std::nullopt);
  EXPECT_EQ(pem_fault(texts::pem("EC PARAMETERS", "p") + texts::key("k"), Pem::PrivateKey),
            std::nullopt);
}

TEST(Pem, empty_cut_off_swapped_and_encrypted_texts_are_told_apart) {
  const std::string whole = texts::certificate("a");
  EXPECT_THAT(*pem_fault(" \n", Pem::Certificate), HasSubstr("empty"));
  EXPECT_THAT(*pem_fault("text", Pem::Certificate), HasSubstr("no PEM block"));
  EXPECT_THAT(*pem_fault(whole, Pem::PrivateKey), HasSubstr("no PEM block"));
  // Cut off at any byte from the first block's begin on, it never passes.
  for (std::size_t length = 0; length + 1 < whole.size(); ++length) {
    EXPECT_TRUE(pem_fault(whole.substr(0, length), Pem::Certificate)) << length;
  }
  EXPECT_THAT(*pem_fault(whole + whole.substr(0, whole.size() / 2), Pem::Certificate),
              HasSubstr("cut off"));
  EXPECT_THAT(*pem_fault(whole.substr(0, whole.size() / 2) + whole, Pem::Certificate),
              HasSubstr("cut off"));
  EXPECT_THAT(
      *pem_fault("-----BEGIN CERTIFICATE-----\n%\n-----END CERTIFICATE-----\n", Pem::Certificate),
      HasSubstr("not base64"));
  EXPECT_THAT(*pem_fault(texts::pem("ENCRYPTED PRIVATE KEY", "k"), Pem::PrivateKey),
              HasSubstr("encrypted"));
}

TEST(ServerUrl, is_normalised) {
  EXPECT_EQ(*server_url("HTTPS://api.example:6443/"), "https://api.example:6443");
  EXPECT_EQ(*server_url("https://r/k8s/clusters/c-1//"), "https://r/k8s/clusters/c-1");
  EXPECT_EQ(*server_url("https://[::1]:6443/x"), "https://[::1]:6443/x");
  EXPECT_EQ(*server_url("http://10.0.0.1"), "http://10.0.0.1");
}

TEST(ServerUrl, what_is_no_server_is_refused) {
  for (const char* bad : {"",
                          "api",
                          "ftp://a",
                          "https://",
                          "https:///x",
                          "https://:6443",
                          "https://a:",
                          "https://a:0",
                          "https://a:65536",
                          "https://a:1x",
                          "https://a:-1",
                          "https://fd00::1",
                          "https://[fd00::1",
                          "https://[abc]",
                          "https://[::1]x",
                          "https://a b",
                          "https://a/b c",
                          "https://a?x=1",
                          "https://a/x#y",
                          "https://u@a",
                          "https://a/../b",
                          "https://a/\n"}) {
    EXPECT_FALSE(server_url(bad)) << bad;
  }
}

TEST(ProxyUrl, may_carry_a_password_that_no_message_shows) {
  EXPECT_EQ(*proxy_url("http://u:p@proxy:3128/"), "http://u:p@proxy:3128");
  EXPECT_EQ(*proxy_url("socks5h://[::1]:1080"), "socks5h://[::1]:1080");
  const auto bad = proxy_url("http://u:hush@proxy:99999");
  ASSERT_FALSE(bad);
  EXPECT_THAT(bad.error().message(), testing::Not(HasSubstr("hush")));
  EXPECT_FALSE(proxy_url("http://p/path"));
}

TEST(Yaml, is_a_tree_of_values_with_lines) {
  const auto yaml = parse_yaml("a: 1\nb:\n- \"true\"\n- ~\nc: {d: x}\n");
  ASSERT_TRUE(yaml);
  EXPECT_EQ(yaml->find("a")->text, "1");
  EXPECT_FALSE(yaml->find("a")->quoted);
  EXPECT_TRUE(yaml->find("b")->items.at(0).quoted);
  EXPECT_EQ(yaml->find("b")->items.at(1).kind, Yaml::Kind::Null);
  EXPECT_EQ(yaml->find("c")->find("d")->text, "x");
  EXPECT_EQ(yaml->find("c")->line, 5);
  EXPECT_EQ(yaml->find("e"), nullptr);
  EXPECT_EQ(yaml->key_lines, (std::vector<int>{1, 2, 5}));
}

TEST(Yaml, its_limits_hold) {
  EXPECT_EQ(parse_yaml("")->kind, Yaml::Kind::Null);
  EXPECT_EQ(parse_yaml("[[1]]", {.depth = 1}).error().kind, Error::Kind::Limit);
  EXPECT_EQ(parse_yaml("[1,2,3]", {.values = 3}).error().kind, Error::Kind::Limit);
  EXPECT_EQ(parse_yaml("abc", {.bytes = 2}).error().kind, Error::Kind::Limit);
  EXPECT_EQ(parse_yaml("? [a]\n: b\n").error().kind, Error::Kind::Malformed);
  EXPECT_EQ(parse_yaml("a: !!binary |\n  aGk=\n")->find("a")->quoted, true);
  EXPECT_EQ(parse_yaml("a: &b {c: 1}\n")->find("a")->kind, Yaml::Kind::Map);
  for (const char* text : {"a: &b 1\n", "a: &b [1]\n", "&b a: 1\n", "a: &b\n", "a: !!str 1\n",
                           "a: !x {b: 1}\n", "!x [1]\n"}) {
    EXPECT_EQ(parse_yaml(text, {.plain = true}).error().kind, Error::Kind::Malformed) << text;
  }
  EXPECT_TRUE(parse_yaml("a: ['1', \"2\", ~, x, {b: y}]\n", {.plain = true}));
}

// The parser yields empty documents for ever at these, without going on.
TEST(Yaml, a_stray_comma_or_bracket_is_refused) {
  for (const char* text : {",", "]", "}", "\n ,\n", "a: 1\n---\n,", "---\n---\n]"}) {
    EXPECT_EQ(parse_yaml(text).error().kind, Error::Kind::Malformed) << text;
  }
  EXPECT_EQ(parse_yaml("a: 1\n---\n---\n...\n")->find("a")->text, "1");
}

// Every prefix and every one-byte change of a real file ends in a value or an error, never worse.
TEST(Kubeconfig, broken_texts_never_do_harm) {
  const std::string whole = texts::gke() + texts::kubeadm().substr(14);
  for (std::size_t i = 0; i < whole.size(); ++i) {
    static_cast<void>(parse_kubeconfig(whole.substr(0, i), "f").has_value());
    // Every third of them at each place, all of them at three places that follow.
    const std::string marks("\0[{&*!|-:\"\xff\t", 12);
    for (std::size_t mark = i % 3; mark < marks.size(); mark += 3) {
      std::string changed = whole;
      changed[i] = marks[mark];
      static_cast<void>(parse_kubeconfig(changed, "f").has_value());
    }
  }
}

TEST(PathBeside, stays_a_path) {
  EXPECT_EQ(path_beside("/a/b", "c"), "/a/c");
  EXPECT_EQ(path_beside("/a/b", "../c"), "/c");
  EXPECT_EQ(path_beside("b", "./c"), "./c");
  EXPECT_EQ(path_beside("x/b", "../c"), "./c");
  EXPECT_EQ(path_beside("/b", "c"), "/c");
  EXPECT_EQ(path_beside("/a/b", "/c"), "/c");
  EXPECT_EQ(path_beside("/a/b", ""), "");
}

}  // namespace
}  // namespace moonfence::kube
