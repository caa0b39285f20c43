// The states are those of the reference of instances (status).

#include "unit/policy/fencers/shipped_fencer.h"

namespace moonfence::policy {
namespace {

using nlohmann::json;

constexpr const char* kInstance =
    "http gce /compute/v1/projects/example.com%3Ap/zones/europe-west1-b/instances/n1";

json instance(const std::string& status, const std::string& id = "4567890123456789012") {
  return {{"id", id},
          {"name", "n1"},
          {"status", status},
          {"creationTimestamp", "2026-11-01T00:00:00.000-07:00"}};
}

kube::Node node(const std::string& provider_id = "gce://example.com:p/europe-west1-b/n1",
                const std::string& id = "4567890123456789012") {
  return machine(provider_id, "",
                 {{"annotations", {{"container.googleapis.com/instance_id", id}}}});
}

TEST(Gce, what_each_state_means) {
  ShippedFencer fencer("gce");
  const std::map<std::string, std::string> words = {
      {"PROVISIONING", "unknown"}, {"STAGING", "unknown"},        {"RUNNING", "on"},
      {"PENDING_STOP", "unknown"}, {"STOPPING", "unknown"},       {"STOPPED", "off"},
      {"SUSPENDING", "unknown"},   {"SUSPENDED", "unknown"},      {"REPAIRING", "unknown"},
      {"TERMINATED", "off"},       {"DEPROVISIONING", "unknown"}, {"PENDING", "unknown"},
      {"terminated", "unknown"}};
  for (const auto& [status, word] : words) {
    EXPECT_EQ(fencer.says(node(), {{kInstance, {.body = instance(status)}}}),
              word + ": status " + status);
  }
}

TEST(Gce, an_instance_made_anew_under_the_name_is_a_failure) {
  ShippedFencer fencer("gce");
  EXPECT_EQ(fencer.word(node(), {{kInstance, {.body = instance("TERMINATED", "1")}}}), "failed");
  json number = instance("TERMINATED");
  number["id"] = 4567890123456789012;
  EXPECT_EQ(fencer.word(node(), {{kInstance, {.body = number}}}), "failed")
      << "it is documented as a text";
  json name = instance("TERMINATED");
  name["name"] = "n2";
  EXPECT_EQ(fencer.word(node(), {{kInstance, {.body = name}}}), "failed");
  EXPECT_EQ(fencer.word(
                node("gce://example.com:p/europe-west1-b/n2"),
                {{"http gce /compute/v1/projects/example.com%3Ap/zones/europe-west1-b/instances/n2",
                  {.body = name}}}),
            "failed")
      << "it is another node's";
  const auto bare = machine("gce://example.com:p/europe-west1-b/n1");
  EXPECT_NE(fencer.says(bare, {{kInstance, {.body = instance("TERMINATED")}}})
                .find("failed: the node lacks the annotation"),
            std::string::npos);
}

TEST(Gce, the_provider_id_is_read_strictly) {
  ShippedFencer fencer("gce");
  for (const char* id : {"", "gce://", "gce://p/z", "gce://p/z/n/", "gce://p/z/n/x", "gce:///z/n",
                         "gce://p//n", "gce://p/../n", "gce:///p/z/n", "aws://p/z/n"}) {
    EXPECT_EQ(fencer.word(node(id), {}), "failed") << id;
    EXPECT_TRUE(fencer.asked.empty()) << id;
  }
}

TEST(Gce, what_is_refused_says_what_to_do_and_nothing_else_is_off) {
  ShippedFencer fencer("gce");
  const auto says = [&fencer](const CloudAnswer& answer) {
    return fencer.says(node(), {{kInstance, answer}});
  };
  EXPECT_TRUE(says(refused(401)).starts_with("failed: "));
  EXPECT_TRUE(says({.status = 0, .error = "unauthorized"}).starts_with("failed: "));
  EXPECT_NE(says(refused(403)).find("needs compute.instances.get in project example.com:p"),
            std::string::npos);
  EXPECT_TRUE(says({.status = 404}).starts_with("unknown: "));
  EXPECT_NE(says({.status = 404}).find("or the url of endpoint gce is wrong"), std::string::npos);
  for (const int status : {400, 429, 500, 503}) {
    EXPECT_EQ(says(refused(status)), "unknown: endpoint x: HTTP " + std::to_string(status));
  }
}

TEST(Gce, strange_answers_are_never_off) {
  ShippedFencer fencer("gce");
  expect_never_off(instance("STOPPING"), [&](const std::string& place, const json& changed) {
    const std::string said = fencer.says(node(), {{kInstance, {.body = changed}}});
    EXPECT_FALSE(said.starts_with("off")) << place << ": " << said;
  });
}

TEST(Gce, each_part_of_an_off_answer_matters) {
  ShippedFencer fencer("gce");
  expect_each_matters(instance("TERMINATED"), {"/id", "/name", "/status"}, [&](const json& body) {
    return fencer.says(node(), {{kInstance, {.body = body}}});
  });
}

TEST(Gce, it_is_stopped) {
  ShippedFencer fencer("gce");
  EXPECT_EQ(fencer.word(node(), {{kInstance, {.body = instance("RUNNING")}}}), "on");
  EXPECT_EQ(fencer.order(node()),
            "post gce /compute/v1/projects/example.com%3Ap/zones/europe-west1-b/instances/n1/stop"
            "?noGracefulShutdown=true {}");
}

}  // namespace
}  // namespace moonfence::policy
