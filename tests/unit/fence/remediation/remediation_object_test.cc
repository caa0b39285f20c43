#include "fence/remediation/remediation_object.h"

#include <gtest/gtest.h>

namespace moonfence::fence {
namespace {

using nlohmann::json;

json object_of(json annotations = nullptr, json status = nullptr) {
  json object = {
      {"metadata",
       {{"name", "n1"}, {"namespace", "medik8s"}, {"uid", "u1"}, {"resourceVersion", "7"}}},
      {"spec", json::object()}};
  if (!annotations.is_null()) {
    object["metadata"]["annotations"] = std::move(annotations);
  }
  if (!status.is_null()) {
    object["status"] = std::move(status);
  }
  return object;
}

RemediationObject read(const json& object) {
  auto read = decode_remediation(object);
  EXPECT_TRUE(read);
  return read ? *read : RemediationObject{};
}

json condition(const std::string& type, const std::string& status,
               const json& since = "2026-01-01T00:00:00Z") {
  return {{"type", type},
          {"status", status},
          {"reason", "R"},
          {"message", "m"},
          {"lastTransitionTime", since}};
}

TEST(RemediationObject, its_node_is_that_of_the_annotation_and_without_one_its_name) {
  EXPECT_EQ(read(object_of()).node, NodeName("n1"));
  EXPECT_EQ(read(object_of({{"remediation.medik8s.io/node-name", "n2.example"}})).node,
            NodeName("n2.example"));
}

TEST(RemediationObject, an_annotation_that_names_no_node_is_not_replaced_by_the_name) {
  for (const json& said : {json(""), json("N1"), json("../n1"), json("n1/status"), json("n1?x"),
                           json(".n1"), json("n1-"), json("a..b"), json("n 1"), json("n\n1"),
                           json(std::string(254, 'a')), json(7), json(nullptr), json({{"a", 1}})}) {
    EXPECT_EQ(read(object_of({{"remediation.medik8s.io/node-name", said}})).node, std::nullopt)
        << said;
  }
}

TEST(RemediationObject, whatever_stands_in_the_time_out_it_is_one) {
  EXPECT_FALSE(read(object_of()).timed_out);
  for (const json& said : {json("2026-01-01T00:00:00Z"), json(""), json("soon"), json(7)}) {
    EXPECT_TRUE(read(object_of({{"remediation.medik8s.io/nhc-timed-out", said}})).timed_out)
        << said;
  }
}

TEST(RemediationObject, what_has_no_name_or_uid_is_refused) {
  for (const char* missing : {"name", "namespace", "uid"}) {
    json object = object_of();
    object["metadata"].erase(missing);
    EXPECT_FALSE(decode_remediation(object)) << missing;
  }
  EXPECT_FALSE(decode_remediation(json(7)));
  EXPECT_FALSE(decode_remediation(json::array()));
}

TEST(RemediationObject, conditions_of_any_form_are_read_without_trust) {
  for (const json& conditions : {json(7), json("x"), json::object(),
                                 json::array({7, nullptr, "x", json::object(), json::array()}),
                                 json::array({{{"type", 7}, {"status", "True"}}}),
                                 json::array({{{"type", "Processing"}, {"status", 7}}})}) {
    const RemediationObject object = read(object_of(nullptr, {{"conditions", conditions}}));
    EXPECT_FALSE(object.is_finished()) << conditions;
    EXPECT_EQ(object.status_of(kProcessing), "") << conditions;
  }
  const RemediationObject long_one = read(object_of(
      nullptr,
      {{"conditions",
        {{{"type", "Processing"}, {"status", "True"}, {"message", std::string(100'000, 'x')}}}}}));
  EXPECT_EQ(long_one.conditions.at("Processing").message, "");
}

TEST(RemediationObject, it_is_finished_when_both_say_so) {
  const auto with = [](const std::string& processing, const std::string& succeeded) {
    return read(object_of(nullptr, {{"conditions",
                                     {condition("Processing", processing),
                                      condition("Succeeded", succeeded)}}}))
        .is_finished();
  };
  EXPECT_TRUE(with("False", "True"));
  EXPECT_TRUE(with("False", "False"));
  EXPECT_FALSE(with("True", "True"));
  EXPECT_FALSE(with("False", "Unknown"));
  EXPECT_FALSE(
      read(object_of(nullptr, {{"conditions", {condition("Processing", "False")}}})).is_finished());
}

TEST(StatusPatch, a_time_changes_with_its_status_only_and_others_conditions_stay) {
  const json object =
      object_of(nullptr, {{"conditions",
                           {condition("Theirs", "True"), condition("Processing", "True"),
                            condition("Succeeded", "Unknown", "2026-01-01T00:00:00Z")}}});
  const json patch = json::parse(status_patch(
      object,
      {{.type = "Processing", .status = "True", .reason = "Now", .message = "other words"},
       {.type = "Succeeded", .status = "True", .reason = "Now", .message = "done"}},
      Uid("node-1"), WallTime(std::chrono::seconds(1767330000))));
  EXPECT_EQ(patch["metadata"], (json{{"uid", "u1"}, {"resourceVersion", "7"}}));
  EXPECT_EQ(patch["status"]["nodeUID"], "node-1");
  const json& conditions = patch["status"]["conditions"];
  ASSERT_EQ(conditions.size(), 3U);
  EXPECT_EQ(conditions[0], condition("Theirs", "True"));
  EXPECT_EQ(conditions[1]["lastTransitionTime"], "2026-01-01T00:00:00Z");
  EXPECT_EQ(conditions[1]["message"], "other words");
  EXPECT_EQ(conditions[2]["lastTransitionTime"], "2026-01-02T05:00:00Z");
}

}  // namespace
}  // namespace moonfence::fence
