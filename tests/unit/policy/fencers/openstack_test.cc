// The states are those of Nova's API guide (server.status) and of nova.compute.power_state.

#include "unit/policy/fencers/shipped_fencer.h"

namespace moonfence::policy {
namespace {

using nlohmann::json;

constexpr const char* kId = "9e5476bd-a4ec-4653-93d6-72c93aa682ba";
const std::string kServer = std::string("http openstack /servers/") + kId;

json server(const std::string& status, const json& power, const json& host = "UP") {
  json made = {{"server",
                {{"id", kId},
                 {"name", "n1"},
                 {"status", status},
                 {"updated", "2026-11-26T10:00:00Z"},
                 {"OS-EXT-STS:power_state", power},
                 {"OS-EXT-STS:vm_state", "stopped"},
                 {"OS-EXT-STS:task_state", nullptr}}}};
  if (!host.is_null()) {
    made["server"]["host_status"] = host;
  }
  return made;
}

kube::Node node(const std::string& id = std::string("openstack:///") + kId,
                const std::string& uuid = kId) {
  return machine(id, uuid);
}

TEST(OpenStack, what_each_state_means) {
  ShippedFencer fencer("openstack");
  for (const char* status : {"ACTIVE",
                             "BUILD",
                             "DELETED",
                             "ERROR",
                             "HARD_REBOOT",
                             "MIGRATING",
                             "PASSWORD",
                             "PAUSED",
                             "REBOOT",
                             "REBUILD",
                             "RESCUE",
                             "RESIZE",
                             "REVERT_RESIZE",
                             "SHELVED",
                             "SHELVED_OFFLOADED",
                             "SHUTOFF",
                             "SOFT_DELETED",
                             "SUSPENDED",
                             "UNKNOWN",
                             "VERIFY_RESIZE",
                             "shutoff",
                             ""}) {
    for (const int power : {0, 1, 3, 4, 6, 7, 9, -1}) {
      const std::string text = status;
      const std::string word = text == "SHUTOFF" && power == 4  ? "off"
                               : text == "ACTIVE" && power == 1 ? "on"
                                                                : "unknown";
      EXPECT_EQ(fencer.word(node(), {{kServer, {.body = server(status, power)}}}), word)
          << status << power;
    }
  }
}

TEST(OpenStack, what_is_being_done_to_a_server_makes_it_neither_on_nor_off) {
  ShippedFencer fencer("openstack");
  for (const char* task : {"powering-off", "powering-on", "suspending", "shelving", "migrating",
                           "rebuilding", "deleting"}) {
    for (const auto& [status, power] : {std::pair("SHUTOFF", 4), std::pair("ACTIVE", 1)}) {
      json body = server(status, power);
      body["server"]["OS-EXT-STS:task_state"] = task;
      EXPECT_EQ(fencer.word(node(), {{kServer, {.body = body}}}), "unknown") << task;
    }
  }
}

// An order to a dead compute host is done when it is back: nobody may be told `on`.
TEST(OpenStack, a_machine_on_a_dead_compute_host_is_not_on) {
  ShippedFencer fencer("openstack");
  for (const json& host : json::array({"DOWN", "UNKNOWN", "MAINTENANCE", "", nullptr})) {
    EXPECT_EQ(fencer.word(node(), {{kServer, {.body = server("ACTIVE", 1, host)}}}), "unknown")
        << host;
  }
  ShippedFencer trusting("openstack", {{"host_status", false}});
  EXPECT_EQ(trusting.word(node(), {{kServer, {.body = server("ACTIVE", 1, nullptr)}}}), "on");
  EXPECT_EQ(trusting.word(node(), {{kServer, {.body = server("ACTIVE", 1, "DOWN")}}}), "unknown");
}

// A providerID that outlived its machine proves the wrong one off.
TEST(OpenStack, the_uuid_that_the_kubelet_reports_is_the_server_s) {
  ShippedFencer fencer("openstack");
  const std::string provider_id = std::string("openstack:///") + kId;
  const Cloud cloud = {{kServer, {.body = server("SHUTOFF", 4)}}};
  EXPECT_EQ(fencer.word(node(provider_id, "9E5476BD-A4EC-4653-93D6-72C93AA682BA"), cloud), "off");
  ShippedFencer ironic("openstack", {{"system_uuid", false}});
  for (const char* uuid : {"", "x", "9e5476bd-a4ec-4653-93d6-72c93aa682bb"}) {
    EXPECT_EQ(fencer.word(node(provider_id, uuid), cloud), "failed") << uuid;
    EXPECT_EQ(ironic.word(node(provider_id, uuid), cloud), "off") << uuid;
  }
}

// With a dead compute host Nova shows what it knew last.
TEST(OpenStack, a_dead_compute_host_proves_nothing) {
  ShippedFencer fencer("openstack");
  for (const json& host : json::array({"DOWN", "UNKNOWN", "MAINTENANCE", "", 1, "up"})) {
    EXPECT_EQ(fencer.word(node(), {{kServer, {.body = server("SHUTOFF", 4, host)}}}), "unknown")
        << host;
  }
  EXPECT_NE(fencer.says(node(), {{kServer, {.body = server("SHUTOFF", 4, nullptr)}}})
                .find("X-OpenStack-Nova-API-Version 2.16"),
            std::string::npos);
  ShippedFencer trusting("openstack", {{"host_status", false}});
  EXPECT_EQ(trusting.word(node(), {{kServer, {.body = server("SHUTOFF", 4, nullptr)}}}), "off");
  EXPECT_EQ(trusting.word(node(), {{kServer, {.body = server("SHUTOFF", 4, "DOWN")}}}), "unknown")
      << "it is known to be dead";
}

TEST(OpenStack, the_provider_id_is_read_strictly) {
  ShippedFencer fencer("openstack", {{"region", "one"}});
  const std::string id = kId;
  const Cloud cloud = {{kServer, {.body = server("SHUTOFF", 4)}}};
  EXPECT_EQ(fencer.word(node("openstack:///" + id), cloud), "off");
  EXPECT_EQ(fencer.word(node("openstack://one/" + id), cloud), "off");
  for (const std::string& bad : std::vector<std::string>{
           "", "openstack://" + id, "openstack:///" + id + "/", "openstack:///" + id.substr(1),
           "openstack:////" + id, "openstack:///9e5476bd-a4ec-4653-93d6-72c93aa682bz",
           "openstack:///9e5476bda4ec465393d672c93aa682ba----", "openstack://two/" + id,
           "aws:///" + id}) {
    EXPECT_EQ(fencer.word(node(bad), cloud), "failed") << bad;
    EXPECT_TRUE(fencer.asked.empty()) << bad;
  }
}

TEST(OpenStack, another_server_is_a_failure) {
  ShippedFencer fencer("openstack");
  json other = server("SHUTOFF", 4);
  other["server"]["id"] = "9e5476bd-a4ec-4653-93d6-72c93aa682bb";
  EXPECT_EQ(fencer.word(node(), {{kServer, {.body = other}}}), "failed");
}

TEST(OpenStack, what_is_refused_says_what_to_do_and_nothing_else_is_off) {
  ShippedFencer fencer("openstack");
  const auto says = [&fencer](const CloudAnswer& answer) {
    return fencer.says(node(), {{kServer, answer}});
  };
  EXPECT_TRUE(says(refused(401))
                  .starts_with("failed: endpoint x: HTTP 401: put a valid application credential"));
  EXPECT_TRUE(says({.status = 0, .error = "unauthorized"}).starts_with("failed: "));
  EXPECT_TRUE(says(refused(403)).starts_with("failed: "));
  EXPECT_TRUE(says({.status = 404}).starts_with("unknown: there is no server"));
  EXPECT_NE(says({.status = 404}).find("or the url of endpoint openstack is wrong"),
            std::string::npos);
  for (const int status : {400, 409, 429, 500, 503}) {
    EXPECT_EQ(says(refused(status)), "unknown: endpoint x: HTTP " + std::to_string(status));
  }
}

TEST(OpenStack, strange_answers_are_never_off) {
  ShippedFencer fencer("openstack");
  for (const json& good :
       {server("SHUTOFF", 1), server("ACTIVE", 4), server("SHUTOFF", 4, "DOWN")}) {
    expect_never_off(good, [&](const std::string& place, const json& changed) {
      const std::string said = fencer.says(node(), {{kServer, {.body = changed}}});
      EXPECT_FALSE(said.starts_with("off")) << place << ": " << said;
    });
  }
}

TEST(OpenStack, each_part_of_an_off_answer_matters) {
  ShippedFencer fencer("openstack");
  expect_each_matters(
      server("SHUTOFF", 4),
      {"/server/id", "/server/status", "/server/OS-EXT-STS:power_state", "/server/host_status"},
      [&](const json& body) {
        return fencer.says(node(), {{kServer, {.body = body}}});
      });
  json task = server("SHUTOFF", 4);
  for (const json& strange : strange_values()) {
    task["server"]["OS-EXT-STS:task_state"] = strange;
    EXPECT_EQ(fencer.word(node(), {{kServer, {.body = task}}}),
              strange.is_null() ? "off" : "unknown")
        << strange;
  }
}

TEST(OpenStack, it_is_stopped) {
  ShippedFencer fencer("openstack");
  EXPECT_EQ(fencer.word(node(), {{kServer, {.body = server("ACTIVE", 1)}}}), "on");
  EXPECT_EQ(fencer.order(node()),
            "post openstack /servers/" + std::string(kId) + R"(/action {"os-stop":true})");
}

}  // namespace
}  // namespace moonfence::policy
