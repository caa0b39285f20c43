#include "kube/wire/url.h"

#include <gtest/gtest.h>

namespace moonfence::kube {
namespace {

TEST(Url, names_that_could_leave_their_segment_are_refused) {
  for (const std::string name : {"", ".", "..", "a/b", "../x", "a%2Fb", "%", "/"}) {
    EXPECT_FALSE(path_segment(name)) << name;
    EXPECT_FALSE(node_path(NodeName(name))) << name;
    EXPECT_FALSE(pod_path({Namespace("ns"), name})) << name;
    EXPECT_FALSE(pod_path({Namespace(name), "p"})) << name;
  }
  EXPECT_EQ(path_segment("..").error().kind, Error::Kind::Invalid);
}

TEST(Url, everything_unusual_is_percent_encoded) {
  EXPECT_EQ(*path_segment("a b?c#d&e\n"), "a%20b%3Fc%23d%26e%0A");
  EXPECT_EQ(*path_segment("node-1.example_x~"), "node-1.example_x~");
  EXPECT_EQ(percent_encoded("ü"), "%C3%BC");
}

TEST(Url, a_namespaced_call_never_becomes_cluster_wide) {
  EXPECT_FALSE(pod_path({Namespace(), "p"}));
  EXPECT_EQ(*pod_path({Namespace("ns"), "p"}), "/api/v1/namespaces/ns/pods/p");
  EXPECT_EQ(*pods_path(Namespace()), "/api/v1/pods");
  EXPECT_FALSE(pods_path(Namespace("..")));
}

TEST(Url, storage_and_owners_have_their_paths) {
  EXPECT_EQ(*claims_path(Namespace("db")), "/api/v1/namespaces/db/persistentvolumeclaims");
  EXPECT_EQ(*events_path(Namespace("db")), "/api/v1/namespaces/db/events");
  EXPECT_EQ(*volume_path("pv-1"), "/api/v1/persistentvolumes/pv-1");
  EXPECT_EQ(*attachment_path("csi-1"), "/apis/storage.k8s.io/v1/volumeattachments/csi-1");
  EXPECT_EQ(*object_path("apps/v1", "replicasets", Namespace("db"), "web-1"),
            "/apis/apps/v1/namespaces/db/replicasets/web-1");
  EXPECT_EQ(*object_path("example.com/v1", "arrays", Namespace(), "a"),
            "/apis/example.com/v1/arrays/a");
  EXPECT_FALSE(object_path("apps/v1", "replicasets", Namespace(".."), "x"));
  EXPECT_EQ(*object_path("v1", "pods", Namespace("db"), "p"), "/api/v1/namespaces/db/pods/p");
  for (const std::string name : {"", "..", "a/b"}) {
    EXPECT_FALSE(claims_path(Namespace(name))) << name;
    EXPECT_FALSE(volume_path(name)) << name;
    EXPECT_FALSE(attachment_path(name)) << name;
    EXPECT_FALSE(object_path("apps/v1", "replicasets", Namespace("db"), name)) << name;
    EXPECT_FALSE(object_path("apps/" + name, "replicasets", Namespace("db"), "x")) << name;
  }
}

TEST(Url, query_values_are_encoded) {
  EXPECT_EQ(encoded_query({{"fieldSelector", "spec.nodeName=a,b"}, {"watch", "1"}}),
            "fieldSelector=spec.nodeName%3Da%2Cb&watch=1");
  EXPECT_EQ(encoded_query({}), "");
}

TEST(Url, a_query_survives_being_written) {
  const Query query = {{"a", "x&y=z%"}, {"b", ""}};
  EXPECT_EQ(decoded_query(encoded_query(query)), query);
  EXPECT_EQ(decoded_query(""), Query{});
}

TEST(Url, a_path_of_raw_text_is_told_from_one_that_was_built) {
  EXPECT_TRUE(is_built_path("/api/v1/nodes/" + *path_segment("a?b#c d")));
  for (const std::string path :
       {"", "api", "/a?b=1", "/a#b", "/a b", "/a%", "/a%2", "/a%zz", "/a\nb", "/a:b", "/a;b"}) {
    EXPECT_FALSE(is_built_path(path)) << path;
  }
}

TEST(Url, the_value_of_a_selector_adds_no_condition) {
  EXPECT_EQ(selector_value("a,spec.nodeName=b\\"), "a\\,spec.nodeName\\=b\\\\");
  EXPECT_EQ(selector_value("node-1.example"), "node-1.example");
}

}  // namespace
}  // namespace moonfence::kube
