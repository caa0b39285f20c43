// The states are those of `qm status --verbose` and of QEMU's RunState (qapi/run-state.json).

#include "unit/policy/fencers/shipped_fencer.h"

namespace moonfence::policy {
namespace {

using nlohmann::json;

constexpr const char* kList = "http proxmox /cluster/resources?type=vm";
constexpr const char* kCurrent = "http proxmox /nodes/pve2/qemu/107/status/current";
constexpr const char* kConfig = "http proxmox /nodes/pve2/qemu/107/config?current=1";
constexpr const char* kUuid = "5B3E0E33-1F2A-4C5D-8E9F-0123456789AB";

json list() {
  return {{"data",
           {{{"id", "qemu/106"}, {"vmid", 106}, {"type", "qemu"}, {"node", "pve1"}},
            {{"id", "lxc/107"}, {"vmid", 107}, {"type", "lxc"}, {"node", "pve1"}},
            {{"id", "qemu/107"}, {"vmid", 107}, {"type", "qemu"}, {"node", "pve2"}}}}};
}

json current(const std::string& status, const std::string& qemu) {
  return {{"data",
           {{"vmid", 107},
            {"name", "n1"},
            {"status", status},
            {"qmpstatus", qemu},
            {"ha", {{"managed", 1}}},
            {"uptime", 5}}}};
}

json config(const std::string& smbios =
                "manufacturer=UXVtdWx1cw==,base64=1,uuid=5b3e0e33-1f2a-4c5d-8e9f-0123456789ab") {
  return {{"data", {{"name", "n1"}, {"smbios1", smbios}, {"memory", "2048"}}}};
}

Cloud cloud(const json& state, const json& settings = config()) {
  return {{kList, {.body = list()}}, {kCurrent, {.body = state}}, {kConfig, {.body = settings}}};
}

kube::Node node() {
  return machine("proxmox://dc1/107", kUuid);
}

TEST(Proxmox, what_each_state_means) {
  ShippedFencer fencer("proxmox", {{"region", "dc1"}});
  const std::vector<std::string> qemu = {
      "colo",           "debug",      "finish-migrate", "guest-panicked", "inmigrate",
      "internal-error", "io-error",   "paused",         "postmigrate",    "prelaunch",
      "preconfig",      "restore-vm", "running",        "save-vm",        "shutdown",
      "suspended",      "watchdog",   "stopped",        "unknown",        ""};
  for (const char* status : {"running", "stopped", "paused", "unknown", ""}) {
    for (const std::string& each : qemu) {
      const bool same = each == status && (each == "running" || each == "stopped");
      const std::string word = !same ? "unknown" : each == "running" ? "on" : "off";
      EXPECT_EQ(fencer.word(node(), cloud(current(status, each))), word) << status << " " << each;
    }
  }
}

TEST(Proxmox, a_machine_with_a_lock_is_not_off) {
  ShippedFencer fencer("proxmox", {{"region", "dc1"}});
  for (const char* lock : {"backup", "clone", "create", "migrate", "rollback", "snapshot",
                           "snapshot-delete", "suspending", "suspended"}) {
    json state = current("stopped", "stopped");
    state["data"]["lock"] = lock;
    EXPECT_EQ(fencer.says(node(), cloud(state)),
              std::string("unknown: status stopped, qmpstatus stopped, lock ") + lock);
  }
}

TEST(Proxmox, the_uuid_of_its_firmware_says_whose_it_is) {
  ShippedFencer fencer("proxmox", {{"region", "dc1"}});
  for (const char* smbios : {"uuid=5b3e0e33-1f2a-4c5d-8e9f-0123456789ac", "manufacturer=x", "",
                             "uuid=", "serial=uuid=5b3e0e33-1f2a-4c5d-8e9f-0123456789ab"}) {
    EXPECT_EQ(fencer.word(node(), cloud(current("stopped", "stopped"), config(smbios))), "failed")
        << smbios;
  }
  EXPECT_EQ(fencer.word(machine("proxmox://dc1/107", ""),
                        cloud(current("stopped", "stopped"), config(""))),
            "failed");
  json other = current("stopped", "stopped");
  other["data"]["vmid"] = 106;
  EXPECT_EQ(fencer.word(node(), cloud(other)), "failed");
}

TEST(Proxmox, the_provider_id_is_read_strictly) {
  ShippedFencer fencer("proxmox", {{"region", "dc1"}});
  for (const char* id :
       {"", "proxmox://107", "proxmox://5b3e0e33-1f2a-4c5d-8e9f-0123456789ab", "proxmox://dc1/0107",
        "proxmox://dc1/0", "proxmox://dc1/-7", "proxmox://dc1/107/", "proxmox://dc1/x/107",
        "proxmox://dc1/1e2", "proxmox://dc1/ 107", "proxmox://dc1/1234567890", "proxmox:///",
        "x://dc1/107"}) {
    EXPECT_EQ(fencer.word(machine(id, kUuid), cloud(current("stopped", "stopped"))), "failed")
        << id;
    EXPECT_TRUE(fencer.asked.empty()) << id;
  }
  ShippedFencer elsewhere("proxmox", {{"region", "dc2"}});
  EXPECT_EQ(elsewhere.word(node(), cloud(current("stopped", "stopped"))), "failed");
  ShippedFencer nowhere("proxmox");
  EXPECT_NE(nowhere.says(node(), cloud(current("stopped", "stopped")))
                .find("failed: it is in region 'dc1', and any cluster may have a machine 107"),
            std::string::npos);
  EXPECT_TRUE(nowhere.asked.empty());
  EXPECT_EQ(nowhere.word(machine("proxmox:///107", kUuid), cloud(current("stopped", "stopped"))),
            "off");
}

TEST(Proxmox, a_label_may_say_the_vmid) {
  ShippedFencer fencer("proxmox", {{"vmid_label", "rack/vmid"}});
  const auto labelled = [](const char* id) {
    return machine("proxmox://5b3e0e33", kUuid, {{"labels", {{"rack/vmid", id}}}});
  };
  EXPECT_EQ(fencer.word(labelled("107"), cloud(current("stopped", "stopped"))), "off");
  EXPECT_EQ(fencer.word(labelled("x"), cloud(current("stopped", "stopped"))), "failed");
  EXPECT_EQ(fencer.says(node(), {}), "failed: the node lacks the label rack/vmid");
}

TEST(Proxmox, what_is_refused_says_what_to_do_and_nothing_else_is_off) {
  ShippedFencer fencer("proxmox", {{"region", "dc1"}});
  for (const char* place : {kList, kCurrent, kConfig}) {
    const auto says = [&](const CloudAnswer& answer) {
      Cloud all = cloud(current("stopped", "stopped"));
      all[place] = answer;
      return fencer.says(node(), all);
    };
    EXPECT_NE(
        says(refused(401)).find("failed: endpoint x: HTTP 401: put USER@REALM!TOKENID=SECRET"),
        std::string::npos);
    EXPECT_NE(says(refused(403)).find("needs VM.Audit"), std::string::npos);
    EXPECT_TRUE(says({.status = 404}).starts_with("unknown: ")) << place;
    EXPECT_NE(says({.status = 404}).find("or the url of endpoint proxmox is wrong"),
              std::string::npos);
    // 595, 596: the host that has the machine does not answer.
    for (const int status : {500, 501, 503, 595, 596}) {
      EXPECT_EQ(says(refused(status)), "unknown: endpoint x: HTTP " + std::to_string(status));
    }
    EXPECT_TRUE(says({.status = 0, .error = "timeout"}).starts_with("unknown: "));
  }
}

TEST(Proxmox, a_machine_that_is_not_listed_or_listed_twice_is_not_off) {
  ShippedFencer fencer("proxmox", {{"region", "dc1"}});
  Cloud all = cloud(current("stopped", "stopped"));
  json twice = list();
  twice["data"].push_back({{"vmid", 107}, {"type", "qemu"}, {"node", "pve3"}});
  all[kList].body = twice;
  EXPECT_EQ(fencer.says(node(), all), "unknown: machine 107 is listed twice");
  for (const std::size_t place : {0U, 2U}) {
    json holed = list();
    holed["data"].insert(holed["data"].begin() + static_cast<std::ptrdiff_t>(place), nullptr);
    all[kList].body = holed;
    EXPECT_EQ(fencer.word(node(), all), "unknown") << "a hole hides what stands behind it";
  }
  all[kList].body = {{"data", json::array()}};
  EXPECT_EQ(fencer.word(node(), all), "failed");
  for (const char* host : {"..", "a/b", "a b", "pve2?x=1"}) {
    json hostile = list();
    hostile["data"][2]["node"] = host;
    all[kList].body = hostile;
    EXPECT_EQ(fencer.word(node(), all), "unknown") << host;
  }
}

TEST(Proxmox, strange_answers_are_never_off) {
  ShippedFencer fencer("proxmox", {{"region", "dc1"}});
  for (const char* place : {kList, kCurrent, kConfig}) {
    const Cloud good = cloud(current("stopped", "running"));
    expect_never_off(good.at(place).body, [&](const std::string& at, const json& changed) {
      Cloud all = good;
      all[place].body = changed;
      const std::string said = fencer.says(node(), all);
      EXPECT_TRUE(!said.starts_with("off") || at == "/data/qmpstatus")
          << place << at << ": " << said;
    });
  }
}

TEST(Proxmox, each_part_of_an_off_answer_matters) {
  ShippedFencer fencer("proxmox", {{"region", "dc1"}});
  const Cloud good = cloud(current("stopped", "stopped"));
  const std::map<std::string, std::vector<std::string>> fields = {
      {kList, {"/data/2/vmid", "/data/2/type", "/data/2/node"}},
      {kCurrent, {"/data/vmid", "/data/status", "/data/qmpstatus"}},
      {kConfig, {"/data/smbios1"}}};
  for (const auto& each : fields) {
    const std::string& place = each.first;
    expect_each_matters(good.at(place).body, each.second, [&](const json& body) {
      Cloud all = good;
      all[place].body = body;
      return fencer.says(node(), all);
    });
  }
}

TEST(Proxmox, it_is_stopped_and_not_asked_to_shut_down) {
  ShippedFencer fencer("proxmox", {{"region", "dc1"}});
  EXPECT_EQ(fencer.word(node(), cloud(current("running", "running"))), "on");
  EXPECT_EQ(fencer.order(node()), "post proxmox /nodes/pve2/qemu/107/status/stop {}");
}

}  // namespace
}  // namespace moonfence::policy
