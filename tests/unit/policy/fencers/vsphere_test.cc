// The states are those of the vSphere Automation API (Vm.Power.State, Host.ConnectionState).

#include "unit/policy/fencers/shipped_fencer.h"

namespace moonfence::policy {
namespace {

using nlohmann::json;

constexpr const char* kList = "http vsphere /api/vcenter/vm?names=n1";
constexpr const char* kHosts = "http vsphere /api/vcenter/host";
constexpr const char* kVm = "http vsphere /api/vcenter/vm/vm-42";
constexpr const char* kUuid = "5b3e0e33-1f2a-4c5d-8e9f-0123456789ab";
constexpr const char* kSwapped = "330E3E5B-2A1F-5D4C-8E9F-0123456789AB";

json vm(const std::string& power, const std::string& uuid = kUuid) {
  return {{"name", "n1"},
          {"power_state", power},
          {"identity", {{"bios_uuid", uuid}, {"instance_uuid", "50"}}}};
}

Cloud cloud(const json& machine, const std::string& state = "CONNECTED") {
  return {{kList, {.body = {{{"vm", "vm-42"}, {"name", "n1"}, {"power_state", "POWERED_ON"}}}}},
          {kHosts,
           {.body = {{{"host", "host-9"}, {"name", "esx9"}, {"connection_state", "CONNECTED"}},
                     {{"host", "host-10"}, {"name", "esx10"}, {"connection_state", state}}}}},
          {kVm, {.body = machine}}};
}

kube::Node node(const std::string& provider_id = std::string("vsphere://") + kUuid,
                const std::string& uuid = kSwapped) {
  return machine(provider_id, uuid);
}

TEST(VSphere, what_each_state_means) {
  ShippedFencer fencer("vsphere");
  const std::map<std::string, std::string> words = {{"POWERED_ON", "on"},
                                                    {"POWERED_OFF", "off"},
                                                    {"SUSPENDED", "unknown"},
                                                    {"powered_off", "unknown"}};
  for (const auto& [power, word] : words) {
    EXPECT_EQ(fencer.says(node(), cloud(vm(power))), word + ": power_state " + power);
  }
}

// vSphere HA registers a machine of a host that it does not hear on another one, while the old host
// may still run it. So no list of machines by host says that one is off.
TEST(VSphere, while_a_host_is_not_connected_no_machine_is_on_or_off) {
  ShippedFencer fencer("vsphere");
  for (const json& state :
       json::array({"DISCONNECTED", "NOT_RESPONDING", "connected", "", nullptr, 1})) {
    for (const char* power : {"POWERED_OFF", "POWERED_ON"}) {
      Cloud all = cloud(vm(power));
      all[kHosts].body[1]["connection_state"] = state;
      EXPECT_EQ(fencer.says(node(), all),
                std::string("unknown: power_state ") + power +
                    ", but 1 host is not connected to vCenter (esx10) and may run any machine: "
                    "connect them again, or remove from vCenter those that are gone for good");
    }
  }
  Cloud many = cloud(vm("POWERED_OFF"));
  for (int i = 0; i < 7; ++i) {
    many[kHosts].body.push_back({{"host", "host-" + std::to_string(i)},
                                 {"name", "esx" + std::to_string(i)},
                                 {"connection_state", "DISCONNECTED"}});
  }
  EXPECT_NE(
      fencer.says(node(), many).find("7 hosts are not connected to vCenter (esx0, esx1, esx2, …)"),
      std::string::npos)
      << fencer.says(node(), many);
  many[kHosts].body = {nullptr, {{"host", "host-9"}, {"connection_state", "CONNECTED"}}};
  EXPECT_EQ(fencer.word(node(), many), "unknown");
}

// A providerID that outlived its machine proves the wrong one off.
TEST(VSphere, the_uuid_that_the_kubelet_reports_is_the_machine_s) {
  ShippedFencer fencer("vsphere");
  const std::string provider_id = std::string("vsphere://") + kUuid;
  for (const char* uuid : {kUuid, kSwapped, "5b3e0e331f2a4c5d8e9f0123456789ab"}) {
    EXPECT_EQ(fencer.word(node(provider_id, uuid), cloud(vm("POWERED_OFF"))), "off") << uuid;
  }
  for (const char* uuid : {"", "x", "5b3e0e33-1f2a-4c5d-8e9f-0123456789ac"}) {
    EXPECT_EQ(fencer.word(node(provider_id, uuid), cloud(vm("POWERED_OFF"))), "failed") << uuid;
  }
}

TEST(VSphere, the_bios_uuid_says_whose_it_is) {
  ShippedFencer fencer("vsphere");
  EXPECT_EQ(fencer.word(node(), cloud(vm("POWERED_OFF", kSwapped))), "off");
  EXPECT_EQ(fencer.word(node("", kSwapped), cloud(vm("POWERED_OFF"))), "off")
      << "without a providerID by the kubelet's";
  for (const char* uuid : {"5b3e0e33-1f2a-4c5d-8e9f-0123456789ac", "", "x"}) {
    EXPECT_EQ(fencer.word(node(), cloud(vm("POWERED_OFF", uuid))), "failed") << uuid;
  }
  Cloud two = cloud(vm("POWERED_OFF", "5b3e0e33-1f2a-4c5d-8e9f-0123456789ac"));
  two[kList].body.push_back({{"vm", "vm-7"}, {"name", "n1"}});
  two["http vsphere /api/vcenter/vm/vm-7"] = {.body = vm("POWERED_ON")};
  EXPECT_EQ(fencer.word(node(), two), "on") << "of two of one name it is the one with the UUID";
  EXPECT_EQ(fencer.order(node()), "post vsphere /api/vcenter/vm/vm-7/power?action=stop {}");
  two[kVm].body = vm("POWERED_OFF");
  EXPECT_EQ(fencer.says(node(), two), "failed: several machines have its UUID");
  two[kVm] = refused(503);
  EXPECT_EQ(fencer.word(node(), two), "unknown");
  Cloud none = cloud(vm("POWERED_OFF"));
  none[kList].body = json::array();
  EXPECT_EQ(fencer.word(node(), none), "failed");
}

TEST(VSphere, the_provider_id_is_read_strictly) {
  ShippedFencer fencer("vsphere");
  const std::string uuid = kUuid;
  for (const std::string& bad :
       std::vector<std::string>{"vsphere://", "vsphere:///" + uuid, "vsphere://" + uuid + "0",
                                "x://" + uuid, "vsphere://n1"}) {
    EXPECT_EQ(fencer.word(node(bad), cloud(vm("POWERED_OFF"))), "failed") << bad;
  }
  EXPECT_EQ(fencer.word(node("", ""), cloud(vm("POWERED_OFF", ""))), "failed");
  ShippedFencer labelled("vsphere", {{"name_label", "vm-name"}});
  EXPECT_EQ(labelled.says(node(), {}), "failed: the node lacks the label vm-name");
}

TEST(VSphere, what_is_refused_says_what_to_do_and_nothing_else_is_off) {
  ShippedFencer fencer("vsphere");
  for (const char* place : {kList, kHosts, kVm}) {
    const auto says = [&](const CloudAnswer& answer) {
      Cloud all = cloud(vm("POWERED_OFF"));
      all[place] = answer;
      return fencer.says(node(), all);
    };
    EXPECT_TRUE(says(refused(401))
                    .starts_with("failed: endpoint x: HTTP 401: put the name and the password"))
        << place;
    EXPECT_TRUE(says(refused(403)).starts_with("failed: ")) << place;
    EXPECT_TRUE(says({.status = 404}).starts_with("unknown: ")) << place;
    EXPECT_NE(says({.status = 404}).find("the url of endpoint vsphere is wrong"),
              std::string::npos);
    EXPECT_TRUE(says(refused(503)).starts_with("unknown: ")) << place;
    EXPECT_TRUE(says({.status = 0, .error = "timeout"}).starts_with("unknown: ")) << place;
  }
}

TEST(VSphere, strange_answers_are_never_off) {
  ShippedFencer fencer("vsphere");
  for (const char* place : {kList, kHosts, kVm}) {
    for (const json& good :
         {vm("SUSPENDED"), vm("POWERED_OFF", "5b3e0e33-1f2a-4c5d-8e9f-0123456789ac")}) {
      const Cloud all = cloud(good);
      expect_never_off(all.at(place).body, [&](const std::string& at, const json& changed) {
        Cloud odd = all;
        odd[place].body = changed;
        const std::string said = fencer.says(node(), odd);
        EXPECT_FALSE(said.starts_with("off")) << place << at << ": " << said;
      });
    }
  }
}

// The list of hosts decides whether the power is news: what is not a list of hosts proves nothing.
// Nor does a list of machines that is none say that there is no other of the name.
TEST(VSphere, a_list_that_is_none_proves_nothing) {
  ShippedFencer fencer("vsphere");
  for (const json& strange : {json(), json(1), json("x"), json(""), json::object(), json(false),
                              json{{"value", json::array()}}}) {
    for (const char* place : {kHosts, kList}) {
      Cloud all = cloud(vm("POWERED_OFF"));
      all[place].body = strange;
      EXPECT_EQ(fencer.word(node(), all), "unknown") << place << strange;
    }
  }
  Cloud all = cloud(vm("POWERED_OFF"));
  all[kHosts].body = json::array();
  EXPECT_EQ(fencer.word(node(), all), "unknown");
  all = cloud(vm("POWERED_OFF"));
  all[kList].body = {{{"vm", "vm-42"}}, nullptr};
  EXPECT_EQ(fencer.word(node(), all), "unknown");
  for (int i = 0; i < 6; ++i) {
    all[kList].body[1] = {{"vm", "vm-7"}};
    all[kList].body.push_back({{"vm", "vm-" + std::to_string(i)}});
  }
  EXPECT_TRUE(fencer.says(node(), all).starts_with("unknown: 8 machines have the node's name"));
}

TEST(VSphere, each_part_of_an_off_answer_matters) {
  ShippedFencer fencer("vsphere");
  const Cloud good = cloud(vm("POWERED_OFF"));
  const std::map<std::string, std::vector<std::string>> fields = {
      {kList, {"/0/vm"}},
      {kHosts, {"/0/connection_state", "/1/connection_state"}},
      {kVm, {"/power_state", "/identity/bios_uuid"}}};
  for (const auto& each : fields) {
    const std::string& place = each.first;
    expect_each_matters(good.at(place).body, each.second, [&](const json& body) {
      Cloud all = good;
      all[place].body = body;
      return fencer.says(node(), all);
    });
  }
}

}  // namespace
}  // namespace moonfence::policy
