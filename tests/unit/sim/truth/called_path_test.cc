#include "sim/truth/called_path.h"

#include <gtest/gtest.h>

#include "sim/store/object.h"

namespace moonfence::sim {
namespace {

constexpr const char* kStatus = "/api/v1/nodes/n1/status";

Json evidence() {
  return {{"metadata",
           {{"uid", "uid-1"},
            {"resourceVersion", "5"},
            {"annotations", {{"moonfence.io/fencing-evidence", "{}"}}}}},
          {"status", {{"conditions", Json::array({{{"type", "FencingEvidence"}}})}}}};
}
bool tells(const Json& patch, const char* target = kStatus) {
  return tells_evidence(target, patch.dump());
}

TEST(CalledPathTest, what_is_told_of_a_node_is_one_annotation_and_one_condition) {
  EXPECT_TRUE(tells(evidence()));
  Json withdrawn = evidence();
  withdrawn["metadata"]["annotations"]["moonfence.io/fencing-evidence"] = nullptr;
  EXPECT_TRUE(tells(withdrawn));
  withdrawn.erase("status");
  EXPECT_TRUE(tells(withdrawn));
  EXPECT_FALSE(tells(evidence(), "/api/v1/nodes/n1"));
  EXPECT_FALSE(tells(evidence(), "/api/v1/namespaces/db/pods/n1/status"));
  EXPECT_FALSE(tells_evidence(kStatus, "no JSON"));
  EXPECT_FALSE(tells_evidence(kStatus, "[]"));
}

// It named the evidence, and released volumes unseen.
TEST(CalledPathTest, a_patch_that_changes_more_than_the_evidence_is_no_telling) {
  using Pointer = Json::json_pointer;
  for (const char* place :
       {"/status/volumesInUse", "/status/volumesAttached", "/status/$setElementOrder", "/spec",
        "/metadata/labels", "/metadata/annotations/other", "/metadata/finalizers"}) {
    for (const Json& value : {Json::array(), Json()}) {
      Json patch = evidence();
      patch[Pointer(place)] = value;
      EXPECT_FALSE(tells(patch)) << patch;
    }
  }
  for (const Json& condition : {Json{{"type", "Ready"}}, Json{{"$patch", "replace"}}, Json()}) {
    Json patch = evidence();
    patch["status"]["conditions"].push_back(condition);
    EXPECT_FALSE(tells(patch)) << patch;
  }
  for (const Json& value : {Json(), Json::object(), Json("FencingEvidence")}) {
    Json patch = evidence();
    patch["status"]["conditions"] = value;
    EXPECT_FALSE(tells(patch)) << patch;
  }
  Json anybody = evidence();
  anybody["metadata"].erase("uid");
  EXPECT_FALSE(tells(anybody));
}

}  // namespace
}  // namespace moonfence::sim
