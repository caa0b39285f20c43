// The states are those of the REST API "Virtual Machines - Instance View" and of
// cloud-provider-azure.

#include "unit/policy/fencers/shipped_fencer.h"

namespace moonfence::policy {
namespace {

using nlohmann::json;

constexpr const char* kUuid = "5b3e0e33-1f2a-4c5d-8e9f-0123456789ab";
constexpr const char* kSwapped = "330E3E5B-2A1F-5D4C-8E9F-0123456789AB";
constexpr const char* kVm =
    "/subscriptions/s1/resourceGroups/g(1)/providers/Microsoft.Compute/virtualMachines/n1";
const std::string kAsked =
    "http azure "
    "/subscriptions/s1/resourceGroups/g%281%29/providers/Microsoft.Compute/virtualMachines/n1"
    "?%24expand=instanceView&api-version=2024-07-01";

json vm(const json& codes) {
  json statuses = json::array();
  for (const json& code : codes) {
    statuses.push_back({{"code", code}, {"level", "Info"}});
  }
  return {{"name", "n1"},
          {"properties",
           {{"vmId", kUuid},
            {"provisioningState", "Succeeded"},
            {"instanceView", {{"statuses", statuses}}}}}};
}

kube::Node node(const std::string& uuid = kUuid) {
  return machine(std::string("azure://") + kVm, uuid);
}

TEST(Azure, what_each_state_means) {
  ShippedFencer fencer("azure");
  for (const char* power : {"starting", "running", "stopping", "stopped", "deallocating",
                            "deallocated", "unknown", "Stopped", ""}) {
    for (const char* provisioning :
         {"succeeded", "creating", "updating", "failed", "deleting", "migrating", ""}) {
      const std::string text = power;
      const bool settled = std::string(provisioning) == "succeeded";
      const std::string word = text == "running" ? "on"
                               : (text == "stopped" || text == "deallocated") && settled
                                   ? "off"
                                   : "unknown";
      const json body =
          vm({"ProvisioningState/" + std::string(provisioning), "PowerState/" + text});
      EXPECT_EQ(fencer.word(node(), {{kAsked, {.body = body}}}), word) << power << provisioning;
    }
  }
}

TEST(Azure, a_hibernated_machine_and_one_in_two_states_are_not_off) {
  ShippedFencer fencer("azure");
  for (const json& codes :
       {json{"ProvisioningState/succeeded", "PowerState/deallocated",
             "HibernationState/Hibernated"},
        json{"ProvisioningState/succeeded", "PowerState/stopped", "PowerState/running"},
        json{"PowerState/stopped"}, json{"ProvisioningState/succeeded"}, json::array()}) {
    EXPECT_EQ(fencer.word(node(), {{kAsked, {.body = vm(codes)}}}), "unknown") << codes;
  }
}

TEST(Azure, the_vm_id_says_whose_it_is) {
  ShippedFencer fencer("azure");
  const Cloud cloud = {
      {kAsked, {.body = vm({"ProvisioningState/succeeded", "PowerState/stopped"})}}};
  EXPECT_EQ(fencer.word(node(kSwapped), cloud), "off");
  for (const char* uuid : {"", "5b3e0e33-1f2a-4c5d-8e9f-0123456789ac", "x"}) {
    EXPECT_EQ(fencer.word(node(uuid), cloud), "failed") << uuid;
  }
}

TEST(Azure, the_provider_id_is_read_strictly) {
  ShippedFencer fencer("azure");
  const std::string vm_id = kVm;
  for (const std::string& bad :
       std::vector<std::string>{"", "azure://", vm_id, "azure:/" + vm_id, "azure:///" + vm_id,
                                "azure://" + vm_id + "/", "azure://" + vm_id + "/x",
                                "azure:///subscriptions//resourceGroups/g/providers/"
                                "Microsoft.Compute/virtualMachines/n1",
                                "azure:///subscriptions/s/resourceGroups/g/providers/"
                                "Microsoft.Network/virtualMachines/n1",
                                "azure:///subscriptions/s/resourceGroups/g/providers/"
                                "Microsoft.Compute/virtualMachines/..",
                                "azure:///subscriptions/s/resourceGroups/g/providers/"
                                "Microsoft.Compute/virtualMachineScaleSets/a"}) {
    EXPECT_EQ(fencer.word(machine(bad, kUuid), {}), "failed") << bad;
    EXPECT_TRUE(fencer.asked.empty()) << bad;
  }
  fencer.says(machine("azure:///subscriptions/s/resourceGroups/g/providers/Microsoft.Compute/"
                      "virtualMachineScaleSets/a/virtualMachines/3",
                      kUuid),
              {});
  ASSERT_EQ(fencer.asked.size(), 1U);
  EXPECT_EQ(fencer.asked[0],
            "http azure "
            "/subscriptions/s/resourceGroups/g/providers/Microsoft.Compute/virtualMachineScaleSets/"
            "a/virtualMachines/3"
            "?%24expand=instanceView&api-version=2024-07-01");
}

TEST(Azure, what_is_refused_says_what_to_do_and_nothing_else_is_off) {
  ShippedFencer fencer("azure");
  const auto says = [&fencer](const CloudAnswer& answer) {
    return fencer.says(node(), {{kAsked, answer}});
  };
  EXPECT_NE(says(refused(401)).find("valid secret of the service principal"), std::string::npos);
  EXPECT_TRUE(says({.status = 0, .error = "unauthorized"}).starts_with("failed: "));
  EXPECT_NE(says(refused(403)).find("failed: endpoint x: HTTP 403"), std::string::npos);
  EXPECT_TRUE(says({.status = 404}).starts_with("unknown: "));
  EXPECT_NE(says({.status = 404}).find("or the url of endpoint azure is wrong"), std::string::npos);
  for (const int status : {409, 429, 500, 503}) {
    EXPECT_EQ(says(refused(status)), "unknown: endpoint x: HTTP " + std::to_string(status));
  }
}

TEST(Azure, strange_answers_are_never_off) {
  ShippedFencer fencer("azure");
  for (const json& good : {vm({"ProvisioningState/succeeded", "PowerState/stopping"}),
                           vm({"ProvisioningState/updating", "PowerState/stopped"})}) {
    expect_never_off(good, [&](const std::string& place, const json& changed) {
      const std::string said = fencer.says(node(), {{kAsked, {.body = changed}}});
      EXPECT_FALSE(said.starts_with("off")) << place << ": " << said;
    });
  }
}

TEST(Azure, each_part_of_an_off_answer_matters) {
  ShippedFencer fencer("azure");
  expect_each_matters(vm({"ProvisioningState/succeeded", "PowerState/stopped"}),
                      {"/properties/vmId", "/properties/instanceView/statuses/0/code",
                       "/properties/instanceView/statuses/1/code"},
                      [&](const json& body) {
                        return fencer.says(node(), {{kAsked, {.body = body}}});
                      });
}

// What cannot be read might be that it is hibernated.
TEST(Azure, a_status_that_is_none_is_not_passed_over) {
  ShippedFencer fencer("azure");
  for (const json& strange :
       {json(), json(7), json::object(), json{{"code", nullptr}}, json{{"code", ""}}}) {
    for (const std::size_t place : {0U, 2U}) {
      json body = vm({"ProvisioningState/succeeded", "PowerState/stopped"});
      json& statuses = body["properties"]["instanceView"]["statuses"];
      statuses.insert(statuses.begin() + static_cast<std::ptrdiff_t>(place), strange);
      EXPECT_EQ(fencer.word(node(), {{kAsked, {.body = body}}}), "unknown") << strange;
    }
  }
}

TEST(Azure, it_is_powered_off_without_its_operating_system) {
  ShippedFencer fencer("azure");
  EXPECT_EQ(
      fencer.word(node(),
                  {{kAsked, {.body = vm({"ProvisioningState/succeeded", "PowerState/running"})}}}),
      "on");
  EXPECT_EQ(fencer.order(node()),
            "post azure "
            "/subscriptions/s1/resourceGroups/g%281%29/providers/Microsoft.Compute/virtualMachines/"
            "n1/powerOff"
            "?api-version=2024-07-01&skipShutdown=true {}");
}

}  // namespace
}  // namespace moonfence::policy
