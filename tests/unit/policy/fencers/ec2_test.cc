// The shape is that of the documentation (DescribeInstances, API version 2016-11-15) as the engine
// hands it over: XML as JSON, with texts for leaves.

#include "unit/policy/fencers/shipped_fencer.h"

namespace moonfence::policy {
namespace {

using nlohmann::json;

constexpr const char* kDescribe =
    "http ec2 /?Action=DescribeInstances&InstanceId.1=i-1234567890abcdef0&Version=2016-11-15";
constexpr const char* kNode = "get v1 nodes n1";
constexpr const char* kProviderId = "aws:///eu-west-1c/i-1234567890abcdef0";
constexpr const char* kInstance = "/DescribeInstancesResponse/reservationSet/0/instancesSet/0";

json instance(const std::string& state, const std::string& code) {
  return {
      {"instanceId", "i-1234567890abcdef0"},
      {"imageId", "ami-bff32ccc"},
      {"instanceState", {{"code", code}, {"name", state}}},
      {"privateDnsName", "ip-192-168-1-88.eu-west-1.compute.internal"},
      {"reason", ""},
      {"launchTime", "2026-01-08T16:46:19.000Z"},
      {"placement", {{"availabilityZone", "eu-west-1c"}, {"groupName", ""}}},
      {"privateIpAddress", "192.168.1.88"},
      {"rootDeviceType", "ebs"},
      {"networkInterfaceSet", {{{"privateIpAddress", "192.168.1.88"}, {"ipv6AddressesSet", ""}}}},
      {"hibernationOptions", {{"configured", "false"}}}};
}
json running() {
  return instance("running", "16");
}
json stopped(const std::string& code = "Client.UserInitiatedShutdown") {
  json made = instance("stopped", "80");
  made["reason"] = "User initiated (2026-01-30 23:54:00 GMT)";
  made["stateReason"] = {{"code", code}, {"message", code + ": why"}};
  return made;
}
json terminated(const std::string& reason = "User initiated (2026-01-30 23:54:00 GMT)") {
  json made = instance("terminated", "48");
  made["reason"] = reason;
  made.erase("privateIpAddress");
  made["networkInterfaceSet"] = "";
  return made;
}
CloudAnswer described(const json& of) {
  return {.body = {{"DescribeInstancesResponse",
                    {{"requestId", "8f7724cf"},
                     {"reservationSet", {{{"reservationId", "r-1"}, {"instancesSet", {of}}}}}}}}};
}
json node_object(const std::string& heard = "2026-01-30T23:53:00Z") {
  return {{"metadata", {{"name", "n1"}}},
          {"spec", {{"providerID", kProviderId}}},
          {"status",
           {{"addresses",
             {{{"type", "Hostname"}, {"address", "n1"}},
              {{"type", "InternalIP"}, {"address", "192.168.1.88"}}}},
            {"conditions",
             {{{"type", "DiskPressure"}, {"lastHeartbeatTime", "2099-01-01T00:00:00Z"}},
              {{"type", "Ready"}, {"lastHeartbeatTime", heard}}}}}}};
}
Cloud cloud(const json& of, const json& node = node_object()) {
  return {{kDescribe, described(of)}, {kNode, {.body = node}}};
}
std::string says(const Cloud& answers) {
  ShippedFencer fencer("ec2");
  return fencer.says(machine(kProviderId), answers);
}

TEST(Ec2, what_each_state_means) {
  EXPECT_EQ(says(cloud(running())), "on: state running");
  EXPECT_EQ(says(cloud(stopped())), "off: state stopped, Client.UserInitiatedShutdown");
  EXPECT_EQ(says(cloud(terminated())), "off: state terminated");
  for (const auto& [state, code] : std::map<std::string, std::string>{{"pending", "0"},
                                                                      {"shutting-down", "32"},
                                                                      {"stopping", "64"},
                                                                      {"Stopped", "80"},
                                                                      {"off", "80"}}) {
    json other = stopped();
    other["instanceState"] = {{"code", code}, {"name", state}};
    EXPECT_EQ(says(cloud(other)), "unknown: state " + state);
  }
  json upper_byte = running();
  upper_byte["instanceState"]["code"] = "272";
  EXPECT_EQ(says(cloud(upper_byte)), "on: state running");
  for (const char* code : {"64", "16", "0", "", "x"}) {
    json torn = stopped();
    torn["instanceState"]["code"] = code;
    EXPECT_EQ(says(cloud(torn)), "unknown: state stopped") << code;
  }
}

// What it held in memory goes on where it stood.
TEST(Ec2, what_may_be_hibernated_is_not_off) {
  EXPECT_EQ(says(cloud(stopped("Client.UserInitiatedHibernate"))), "unknown: stopped, hibernated");
  json by_message = stopped();
  by_message["stateReason"]["message"] = "Hibernation was initiated";
  EXPECT_EQ(says(cloud(by_message)), "unknown: stopped, hibernated");
  json by_transition = stopped();
  by_transition["reason"] = "User initiated hibernate (2026-01-30 23:54:00 GMT)";
  EXPECT_EQ(says(cloud(by_transition)), "unknown: stopped, hibernated");
  json able = stopped();
  able["hibernationOptions"]["configured"] = "true";
  EXPECT_TRUE(says(cloud(able)).starts_with("off: ")) << "it could, and was shut down";
  for (const char* code : {"Client.InstanceInitiatedShutdown", "Server.ScheduledStop"}) {
    json by_itself = stopped(code);
    EXPECT_TRUE(says(cloud(by_itself)).starts_with("off: "));
    by_itself["instanceLifecycle"] = "spot";
    EXPECT_TRUE(says(cloud(by_itself)).starts_with("unknown: stopped, and it may"));
    by_itself.erase("instanceLifecycle");
    by_itself["hibernationOptions"]["configured"] = "true";
    EXPECT_TRUE(says(cloud(by_itself)).starts_with("unknown: stopped, and it may"));
    by_itself.erase("hibernationOptions");
    EXPECT_TRUE(says(cloud(by_itself)).starts_with("unknown: stopped, and it may"));
  }
  for (const char* code : {"", "Server.SpotInstanceShutdown", "Server.InternalError", "pending"}) {
    EXPECT_EQ(says(cloud(stopped(code))),
              "unknown: stopped, and it may have been hibernated: its reason is '" +
                  std::string(code) + "'");
  }
}

TEST(Ec2, another_instance_is_a_failure) {
  for (const json& good : {running(), stopped(), terminated()}) {
    json other = good;
    other["instanceId"] = "i-0000000000abcdef0";
    EXPECT_EQ(says(cloud(other)),
              "failed: the answer is about another instance than i-1234567890abcdef0");
    json elsewhere = good;
    elsewhere["placement"]["availabilityZone"] = "eu-west-1a";
    EXPECT_EQ(says(cloud(elsewhere)),
              "failed: the instance is in zone 'eu-west-1a', the providerID says eu-west-1c");
    json renamed = node_object();
    renamed["spec"]["providerID"] = "aws:///eu-west-1c/i-0000000000abcdef0";
    EXPECT_EQ(says(cloud(good, renamed)), "failed: the Node has got another providerID meanwhile");
  }
}

// A Node keeps its providerID when another machine takes its name over.
TEST(Ec2, a_machine_that_took_over_the_nodes_name_is_told_apart_by_its_address) {
  for (const json& good : {running(), stopped()}) {
    json node = node_object();
    node["status"]["addresses"][1]["address"] = "192.168.1.89";
    EXPECT_TRUE(says(cloud(good, node)).starts_with("failed: the instance has none of the node's"));
    node["status"]["addresses"][1] = {{"type", "ExternalIP"}, {"address", "192.168.1.88"}};
    EXPECT_TRUE(says(cloud(good, node)).starts_with("failed: "));
    node["status"]["addresses"] = json::array();
    EXPECT_TRUE(says(cloud(good, node)).starts_with("failed: "));
    node["status"]["addresses"] = {{{"type", "InternalIP"}, {"address", ""}}};
    EXPECT_TRUE(says(cloud(good, node)).starts_with("failed: "));
  }
  json second = running();
  second["privateIpAddress"] = "192.168.1.7";
  EXPECT_EQ(says(cloud(second)), "on: state running") << "by another interface";
  second["networkInterfaceSet"][0] = {{"privateIpAddress", "192.168.1.8"},
                                      {"ipv6AddressesSet", {{{"ipv6Address", "2001:db8::123"}}}}};
  EXPECT_TRUE(says(cloud(second)).starts_with("failed: "));
  json six = node_object();
  six["status"]["addresses"][1]["address"] = "2001:db8::123";
  EXPECT_EQ(says(cloud(second, six)), "on: state running");
}

TEST(Ec2, a_terminated_instance_whose_node_was_heard_since_is_another_machine) {
  const auto heard = [](const std::string& at) {
    return says(cloud(terminated(), node_object(at)));
  };
  EXPECT_EQ(heard("2026-01-30T23:54:00Z"), "off: state terminated");
  EXPECT_EQ(heard("2026-01-30T23:55:00Z"), "off: state terminated") << "its own last words";
  EXPECT_EQ(heard("2026-01-30T23:55:01Z"),
            "failed: it was terminated before the kubelet reported last: the node's machine is "
            "another one");
  EXPECT_TRUE(heard("2026-01-31T00:00:00Z").starts_with("failed: "));
  EXPECT_TRUE(heard("2027-01-01T00:00:00Z").starts_with("failed: "));
  EXPECT_EQ(heard("2025-12-31T23:59:59Z"), "off: state terminated");
  for (const char* odd : {"", "yesterday", "2026-01-30T23:55:00+01:00", "2026-01-30T23:5x:00Z"}) {
    EXPECT_TRUE(heard(odd).starts_with("unknown: terminated, and it cannot")) << odd;
  }
  for (const char* reason :
       {"", "User initiated", "User initiated ()", "User initiated (2026-01-30 23:54:00 CET)",
        "User initiated (2026-01-30 23:54 GMT)", "2026-01-30 23:54:00 GMT",
        "Server.InternalError"}) {
    EXPECT_TRUE(says(cloud(terminated(reason))).starts_with("unknown: terminated")) << reason;
  }
  // Around the leap day.
  const json leap = terminated("User initiated (2028-02-29 23:59:30 GMT)");
  EXPECT_EQ(says(cloud(leap, node_object("2028-03-01T00:00:30Z"))), "off: state terminated");
  EXPECT_TRUE(says(cloud(leap, node_object("2028-03-01T00:00:31Z"))).starts_with("failed: "));
  const json year = terminated("User initiated (2027-02-28 23:59:30 GMT)");
  EXPECT_EQ(says(cloud(year, node_object("2027-03-01T00:00:30Z"))), "off: state terminated");
}

TEST(Ec2, the_provider_id_is_read_strictly) {
  for (const char* id :
       {"", "aws://", "aws:///", "aws:///eu-west-1c", "aws:///eu-west-1c/", "aws:////i-12345678",
        "aws:///i-12345678", "i-12345678", "aws:///eu-west-1c/i-1234567",
        "aws:///eu-west-1c/i-123456789", "aws:///eu-west-1c/i-1234567G",
        "aws:///eu-west-1c/I-12345678", "aws:///eu-west-1c/x/i-12345678",
        "aws:///eu-west-1c/i-12345678/", "aws://eu-west-1c/i-12345678",
        "aws:///eu-west-1c/fargate-ip-1", "gce:///eu-west-1c/i-12345678",
        "aws:///eu-west-1c/i-12345678&InstanceId.2=i-1"}) {
    ShippedFencer fencer("ec2");
    EXPECT_EQ(fencer.word(machine(id), cloud(stopped())), "failed") << id;
    EXPECT_TRUE(fencer.asked.empty()) << id;
  }
  ShippedFencer old("ec2");
  (void)old.says(machine("aws:///eu-west-1c/i-1234abcd"), {});
  EXPECT_EQ(old.asked.front(),
            "http ec2 /?Action=DescribeInstances&InstanceId.1=i-1234abcd&Version=2016-11-15");
}

TEST(Ec2, what_is_refused_says_what_to_do_and_nothing_else_is_off) {
  const auto refused_by = [](int status, const std::string& code) {
    return says({{kDescribe, {.status = status, .error = "status", .code = code}},
                 {kNode, {.body = node_object()}}});
  };
  EXPECT_EQ(refused_by(401, "AuthFailure"),
            "failed: endpoint x: HTTP 401: EC2 does not know the access key, the secret key is "
            "another's, or the clock is wrong here; see the files of endpoint ec2");
  EXPECT_EQ(refused_by(403, "UnauthorizedOperation"),
            "failed: endpoint x: HTTP 403: who the access key belongs to needs "
            "ec2:DescribeInstances; see the files of endpoint ec2");
  EXPECT_EQ(refused_by(400, "RequestExpired"),
            "failed: endpoint x: HTTP 400: the clock is wrong here, or the session token is too "
            "old; see the files of endpoint ec2");
  EXPECT_TRUE(refused_by(401, "").starts_with("failed: "));
  EXPECT_TRUE(refused_by(403, "SomethingNew").starts_with("failed: "));
  EXPECT_TRUE(refused_by(400, "InvalidInstanceID.NotFound")
                  .starts_with("unknown: endpoint x: HTTP 400: there is no instance"));
  EXPECT_EQ(refused_by(503, "RequestLimitExceeded"), "unknown: endpoint x: HTTP 503");
  EXPECT_EQ(refused_by(500, "InternalError"), "unknown: endpoint x: HTTP 500");
  EXPECT_EQ(refused_by(400, "InvalidParameterValue"), "unknown: endpoint x: HTTP 400");
  for (const char* error : {"timeout", "unreachable", "not_json", "too_large"}) {
    EXPECT_TRUE(says({{kDescribe, {.status = 0, .error = error}}, {kNode, {.body = node_object()}}})
                    .starts_with("unknown: "));
  }
  EXPECT_TRUE(
      says({{kDescribe, {.status = 0, .error = "unauthorized"}}, {kNode, {.body = node_object()}}})
          .starts_with("failed: "));
  EXPECT_TRUE(says({{kDescribe, {.status = 404}}, {kNode, {.body = node_object()}}})
                  .starts_with("unknown: "));
  EXPECT_TRUE(says({{kDescribe, described(stopped())}, {kNode, {.status = 404}}})
                  .starts_with("unknown: there is no Node"));
}

TEST(Ec2, no_instance_and_several_are_unknown) {
  const auto answered = [](const json& reservations) {
    return says(
        {{kDescribe, {.body = {{"DescribeInstancesResponse", {{"reservationSet", reservations}}}}}},
         {kNode, {.body = node_object()}}});
  };
  const json one = {{"instancesSet", {stopped()}}};
  EXPECT_TRUE(answered(json::array({one})).starts_with("off: "));
  for (const json& odd :
       std::vector<json>{"", json::array(), json::array({one, one}),
                         json::array({{{"instancesSet", {stopped(), stopped()}}}}),
                         json::array({{{"instancesSet", ""}}})}) {
    EXPECT_EQ(answered(odd), "unknown: the answer does not tell of one instance") << odd;
  }
}

TEST(Ec2, strange_answers_are_never_off) {
  expect_never_off(described(running()).body, [&](const std::string& place, const json& changed) {
    EXPECT_FALSE(
        says({{kDescribe, {.body = changed}}, {kNode, {.body = node_object()}}}).starts_with("off"))
        << place;
  });
  expect_never_off(node_object(), [&](const std::string& place, const json& changed) {
    EXPECT_FALSE(says(cloud(running(), changed)).starts_with("off")) << place;
  });
}

TEST(Ec2, each_part_of_an_off_answer_matters) {
  const std::string at = kInstance;
  expect_each_matters(
      described(stopped()).body,
      {at + "/instanceId", at + "/placement/availabilityZone", at + "/instanceState/name",
       at + "/instanceState/code", at + "/stateReason/code"},
      [&](const json& body) {
        return says({{kDescribe, {.body = body}}, {kNode, {.body = node_object()}}});
      });
  expect_each_matters(
      described(terminated()).body,
      {at + "/instanceId", at + "/placement/availabilityZone", at + "/instanceState/name",
       at + "/instanceState/code", at + "/reason"},
      [&](const json& body) {
        return says({{kDescribe, {.body = body}}, {kNode, {.body = node_object()}}});
      });
  expect_each_matters(
      node_object(),
      {"/spec/providerID", "/status/addresses/1/address", "/status/addresses/1/type"},
      [&](const json& node) { return says(cloud(stopped(), node)); });
}

TEST(Ec2, it_is_stopped_without_its_operating_system) {
  ShippedFencer fencer("ec2");
  EXPECT_EQ(fencer.word(machine(kProviderId), cloud(running())), "on");
  EXPECT_EQ(
      fencer.order(machine(kProviderId)),
      R"(post ec2 / {"Action":"StopInstances","Force":true,)"
      R"("InstanceId.1":"i-1234567890abcdef0","SkipOsShutdown":true,"Version":"2016-11-15"})");
  ShippedFencer elsewhere("ec2", {{"skip_os_shutdown", false}});
  EXPECT_EQ(elsewhere.word(machine(kProviderId), cloud(running())), "on");
  EXPECT_EQ(elsewhere.order(machine(kProviderId)),
            R"(post ec2 / {"Action":"StopInstances","Force":true,)"
            R"("InstanceId.1":"i-1234567890abcdef0","Version":"2016-11-15"})");
  json store = running();
  store["rootDeviceType"] = "instance-store";
  EXPECT_EQ(fencer.word(machine(kProviderId), cloud(store)), "on");
  EXPECT_EQ(fencer.order(machine(kProviderId)),
            "not: its root device is an instance store: EC2 can terminate it, and not stop it");
}

}  // namespace
}  // namespace moonfence::policy
