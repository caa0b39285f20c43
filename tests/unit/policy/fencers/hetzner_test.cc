// The states are those of the API's documentation (server.status) and of hcloud-go (ServerStatus).

#include "unit/policy/fencers/shipped_fencer.h"

namespace moonfence::policy {
namespace {

using nlohmann::json;

constexpr const char* kServer = "http hetzner /servers/42";

json server(const std::string& status) {
  return {{"server",
           {{"id", 42},
            {"name", "n1"},
            {"status", status},
            {"created", "2026-01-30T23:55:00+00:00"},
            {"locked", false}}}};
}

TEST(Hetzner, what_each_state_means) {
  ShippedFencer fencer("hetzner");
  const std::map<std::string, std::string> words = {{"initializing", "unknown"},
                                                    {"starting", "unknown"},
                                                    {"running", "on"},
                                                    {"stopping", "unknown"},
                                                    {"off", "off"},
                                                    {"deleting", "unknown"},
                                                    {"migrating", "unknown"},
                                                    {"rebuilding", "unknown"},
                                                    {"unknown", "unknown"},
                                                    {"Off", "unknown"},
                                                    {"offline", "unknown"}};
  for (const auto& [status, word] : words) {
    EXPECT_EQ(fencer.says(machine("hcloud://42"), {{kServer, {.body = server(status)}}}),
              word + ": status " + status);
  }
}

TEST(Hetzner, another_server_is_a_failure) {
  ShippedFencer fencer("hetzner");
  json other = server("off");
  other["server"]["id"] = 43;
  EXPECT_EQ(fencer.word(machine("hcloud://42"), {{kServer, {.body = other}}}), "failed");
  json renamed = server("off");
  renamed["server"]["name"] = "n2";
  EXPECT_EQ(fencer.says(machine("hcloud://42"), {{kServer, {.body = renamed}}}),
            "failed: server 42 is called n2, which is not this node");
}

TEST(Hetzner, the_provider_id_is_read_strictly) {
  ShippedFencer fencer("hetzner");
  for (const char* id :
       {"", "hcloud://", "hcloud://42x", "hcloud://4 2", "hcloud:///42", "hcloud://42/",
        "hcloud://-42", "hcloud://042", "hcloud://4.2", "hcloud://0x2A", " hcloud://42",
        "aws:///hcloud://42", "hcloud://9999999999999999999", "hrobot://42", "hcloud://bm-42"}) {
    EXPECT_EQ(fencer.word(machine(id), {{kServer, {.body = server("off")}}}), "failed") << id;
    EXPECT_TRUE(fencer.asked.empty()) << id;
  }
  EXPECT_NE(fencer.says(machine("hrobot://42"), {}).find("dedicated server"), std::string::npos);
}

TEST(Hetzner, what_is_refused_says_what_to_do_and_nothing_else_is_off) {
  ShippedFencer fencer("hetzner");
  const auto says = [&fencer](const CloudAnswer& answer) {
    return fencer.says(machine("hcloud://42"), {{kServer, answer}});
  };
  EXPECT_EQ(says(refused(401)),
            "failed: endpoint x: HTTP 401: put a token that is valid into the tokenFile of "
            "endpoint hetzner");
  EXPECT_TRUE(says({.status = 0, .error = "unauthorized"}).starts_with("failed: "));
  EXPECT_TRUE(says(refused(403)).starts_with("failed: endpoint x: HTTP 403: the token"));
  EXPECT_EQ(
      says({.status = 404}),
      "unknown: there is no server 42: it is deleted, the token is one of another project, or the "
      "url of endpoint hetzner is wrong (it ends in /v1)");
  for (const int status : {423, 429, 500, 503}) {
    EXPECT_EQ(says(refused(status)), "unknown: endpoint x: HTTP " + std::to_string(status));
  }
  for (const char* error : {"timeout", "unreachable", "not_json", "too_large"}) {
    EXPECT_TRUE(says({.status = 0, .error = error}).starts_with("unknown: ")) << error;
  }
}

TEST(Hetzner, strange_answers_are_never_off) {
  ShippedFencer fencer("hetzner");
  expect_never_off(server("running"), [&](const std::string& place, const json& changed) {
    const std::string said = fencer.says(machine("hcloud://42"), {{kServer, {.body = changed}}});
    const bool is_state = place == "/server/status";
    EXPECT_TRUE(!said.starts_with("off") ||
                (is_state && changed.at("/server/status"_json_pointer) == "off"))
        << place << ": " << said;
  });
}

TEST(Hetzner, each_part_of_an_off_answer_matters) {
  ShippedFencer fencer("hetzner");
  expect_each_matters(server("off"), {"/server/id", "/server/name", "/server/status"},
                      [&](const json& body) {
                        return fencer.says(machine("hcloud://42"), {{kServer, {.body = body}}});
                      });
}

TEST(Hetzner, it_is_powered_off_and_not_asked_to_shut_down) {
  ShippedFencer fencer("hetzner", {{"endpoint", "fsn"}});
  const auto node = machine("hcloud://42");
  EXPECT_EQ(fencer.word(node, {{"http fsn /servers/42", {.body = server("running")}}}), "on");
  EXPECT_EQ(fencer.order(node), "post fsn /servers/42/actions/poweroff {}");
}

}  // namespace
}  // namespace moonfence::policy
