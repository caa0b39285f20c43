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
           {.body = {{{"host", "host-9"}, {"connection_state", "CONNECTED"}},
                     {{"host", "host-10"}, {"connection_state", state}}}}},
          {"http vsphere /api/vcenter/vm?hosts=host-10&vms=vm-42", {.body = json::array()}},
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

// What vCenter shows of a host that it does not hear is what it knew last.
TEST(VSphere, a_machine_on_a_host_that_is_not_connected_is_neither_on_nor_off) {
  ShippedFencer fencer("vsphere");
  for (const char* state : {"DISCONNECTED", "NOT_RESPONDING", "x"}) {
    for (const char* power : {"POWERED_OFF", "POWERED_ON"}) {
      Cloud all = cloud(vm(power), state);
      EXPECT_NE(fencer.word(node(), all), "unknown") << "it is on another host";
      all["http vsphere /api/vcenter/vm?hosts=host-10&vms=vm-42"].body = {{{"vm", "vm-42"}}};
      EXPECT_EQ(fencer.word(node(), all), "unknown") << state << power;
      all["http vsphere /api/vcenter/vm?hosts=host-10&vms=vm-42"] = refused(503);
      EXPECT_EQ(fencer.word(node(), all), "unknown") << state << power;
    }
  }
  Cloud many = cloud(vm("POWERED_OFF"));
  many[kHosts].body = json::array();
  for (int i = 0; i < 7; ++i) {
    many[kHosts].body.push_back(
        {{"host", "host-" + std::to_string(i)}, {"connection_state", "DISCONNECTED"}});
  }
  EXPECT_TRUE(fencer.says(node(), many).starts_with("unknown: hosts: more than 6"))
      << fencer.says(node(), many);
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
TEST(VSphere, a_list_of_hosts_that_is_none_proves_nothing) {
  ShippedFencer fencer("vsphere");
  for (const json& hosts : {json(), json(1), json("x"), json::object(), json::array(),
                            json{{"value", json::array()}}}) {
    Cloud all = cloud(vm("POWERED_OFF"));
    all[kHosts].body = hosts;
    EXPECT_EQ(fencer.word(node(), all), "unknown") << hosts;
  }
}

}  // namespace
}  // namespace moonfence::policy
