#pragma once

// A namespace of its own for each test, on whichever API server is under test. It stays: a
// simulated server goes with its test, and to take one away costs a real control plane a third of a
// second of a core.

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include "contract/api_under_test.h"

namespace moonfence::contract {

using namespace std::chrono_literals;

// Which event a watch gave: "ADDED a", "none" when it gave none.
inline std::string told(const std::optional<Json>& event) {
  if (!event) {
    return "none";
  }
  const Json& object = event->at("object");
  const std::string name = object.contains("metadata") ? object["metadata"].value("name", "") : "";
  return event->at("type").get<std::string>() + (name.empty() ? "" : " " + name);
}

inline std::string version_of(const Json& object) {
  return object.at("metadata").at("resourceVersion");
}
inline std::string uid_of(const Json& object) {
  return object.at("metadata").at("uid");
}

inline std::vector<std::string> names_of(const Json& list) {
  std::vector<std::string> names;
  for (const Json& item : list.at("items")) {
    names.push_back(item.at("metadata").at("name"));
  }
  // A watch cache hands its objects out in no order.
  std::sort(names.begin(), names.end());
  return names;
}

inline bool is_later(const std::string& a, const std::string& b) {
  return std::stoull(a) > std::stoull(b);
}

struct Contract : testing::Test {
  void SetUp() override {
    static int number = 0;
    space = "contract-" + std::to_string(getpid()) + "-" + std::to_string(++number);
    const Reply made = post("/api/v1/namespaces", {{"metadata", {{"name", space}}}});
    ASSERT_EQ(made.status, 201) << made.text;
  }

  Reply get(const std::string& target) { return api->send({.target = target}); }
  Reply post(const std::string& target, const Json& body) {
    return api->send({.method = port::Method::Post,
                      .target = target,
                      .body = body.dump(),
                      .content_type = "application/json"});
  }
  Reply put(const std::string& target, const Json& body) {
    return api->send({.method = port::Method::Put,
                      .target = target,
                      .body = body.dump(),
                      .content_type = "application/json"});
  }
  Reply patch(const std::string& target, const Json& body,
              const std::string& type = "merge-patch") {
    return api->send({.method = port::Method::Patch,
                      .target = target,
                      .body = body.dump(),
                      .content_type = "application/" + type + "+json"});
  }
  Reply remove(const std::string& target, const Json& options = nullptr) {
    return api->send({.method = port::Method::Delete,
                      .target = target,
                      .body = options.is_null() ? "" : options.dump(),
                      .content_type = options.is_null() ? "" : "application/json"});
  }

  // Paths in this test's namespace.
  [[nodiscard]] std::string in(const std::string& resource, const std::string& name = {}) const {
    return "/api/v1/namespaces/" + space + "/" + resource + (name.empty() ? "" : "/" + name);
  }
  [[nodiscard]] std::string leases(const std::string& name = {}) const {
    return "/apis/coordination.k8s.io/v1/namespaces/" + space + "/leases" +
           (name.empty() ? "" : "/" + name);
  }

  Json config_map(const std::string& name, const Json& labels = Json::object(),
                  const Json& data = {{"k", "v"}}) {
    const Reply made = post(in("configmaps"),
                            {{"metadata", {{"name", name}, {"labels", labels}}}, {"data", data}});
    EXPECT_EQ(made.status, 201) << made.text;
    return made.body;
  }

  // Bound to a node that nobody runs, so that it stays as it is.
  Json pod(const std::string& name, Json extra = Json::object()) {
    Json wish = {{"metadata", {{"name", name}}},
                 {"spec",
                  {{"nodeName", "contract-node"},
                   {"automountServiceAccountToken", false},
                   {"containers", {{{"name", "main"}, {"image", "none"}}}}}}};
    wish.merge_patch(extra);
    Reply made;
    // A new namespace has no service account for some milliseconds.
    for (int i = 0; i < 600; ++i) {
      made = post(in("pods"), wish);
      if (made.status != 403) {
        break;
      }
      api->pass(100ms);
    }
    EXPECT_EQ(made.status, 201) << made.text;
    return made.body;
  }

  // The version of everything, now.
  std::string now() { return version_of(get(in("configmaps")).body); }

  // A refusal in full: status, reason, and that the body is a Status which says the same.
  static void expect_refusal(const Reply& reply, int status, const std::string& reason,
                             const std::string& message) {
    EXPECT_EQ(reply.status, status) << reply.text;
    ASSERT_TRUE(reply.body.is_object()) << reply.text;
    EXPECT_EQ(reply.body.value("kind", ""), "Status");
    EXPECT_EQ(reply.body.value("apiVersion", ""), "v1");
    EXPECT_EQ(reply.body.value("status", ""), "Failure");
    EXPECT_EQ(reply.body.value("code", 0), status);
    EXPECT_EQ(reply.body.value("reason", ""), reason) << reply.text;
    EXPECT_THAT(reply.body.value("message", ""), testing::HasSubstr(message));
  }

  std::unique_ptr<ApiUnderTest> api = make_api();
  std::string space;
};

}  // namespace moonfence::contract
