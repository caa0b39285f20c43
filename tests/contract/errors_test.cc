// How an API server refuses: codes, reasons, messages, details.

#include "contract/fixture.h"

namespace moonfence::contract {
namespace {

struct Errors : Contract {};

TEST_F(Errors, what_is_not_there_is_named) {
  const Reply reply = get(in("pods", "x"));
  expect_refusal(reply, 404, "NotFound", "pods \"x\" not found");
  EXPECT_EQ(reply.body["details"], Json({{"name", "x"}, {"kind", "pods"}}));
  EXPECT_EQ(reply.header("content-type"), "application/json");
}

TEST_F(Errors, what_is_not_there_in_a_group_is_named_with_it) {
  const Reply reply = get("/apis/storage.k8s.io/v1/volumeattachments/contract-x");
  expect_refusal(reply, 404, "NotFound",
                 "volumeattachments.storage.k8s.io \"contract-x\" not found");
  EXPECT_EQ(
      reply.body["details"],
      Json({{"name", "contract-x"}, {"group", "storage.k8s.io"}, {"kind", "volumeattachments"}}));
}

TEST_F(Errors, unknown_resource_of_a_known_group_gets_a_status_without_a_name) {
  const Reply reply = get(in("foos"));
  expect_refusal(reply, 404, "NotFound", "the server could not find the requested resource");
  EXPECT_EQ(reply.body["details"], Json::object());
}

TEST_F(Errors, unknown_group_gets_plain_text) {
  const Reply reply = get("/apis/nope.example.com/v1/foos");
  EXPECT_EQ(reply.status, 404);
  EXPECT_EQ(reply.text, "404 page not found\n");
  EXPECT_THAT(reply.header("content-type"), testing::StartsWith("text/plain"));
}

TEST_F(Errors, wrong_method_is_405) {
  expect_refusal(put(in("pods"), Json::object()), 405, "MethodNotAllowed",
                 "the server does not allow this method on the requested resource");
  expect_refusal(post(in("configmaps", "x"), Json::object()), 405, "MethodNotAllowed", "");
}

TEST_F(Errors, bad_credentials_are_401) {
  const Reply reply =
      api->send({.target = in("pods"), .headers = {{"Authorization", "Bearer wrong"}}});
  expect_refusal(reply, 401, "Unauthorized", "Unauthorized");
}

TEST_F(Errors, missing_permission_is_403_and_says_which) {
  const Reply one =
      api->send({.target = in("pods", "x"), .headers = {{"Impersonate-User", "nobody"}}});
  expect_refusal(one, 403, "Forbidden",
                 "pods \"x\" is forbidden: User \"nobody\" cannot get resource \"pods\" in API "
                 "group \"\" in the namespace \"" +
                     space + "\"");
  const Reply all = api->send({.target = "/apis/storage.k8s.io/v1/volumeattachments",
                               .headers = {{"Impersonate-User", "nobody"}}});
  expect_refusal(all, 403, "Forbidden",
                 "volumeattachments.storage.k8s.io is forbidden: User \"nobody\" cannot list "
                 "resource \"volumeattachments\" in API group \"storage.k8s.io\" at the cluster "
                 "scope");
}

TEST_F(Errors, foreign_content_type_is_415) {
  expect_refusal(api->send({.method = port::Method::Post,
                            .target = in("configmaps"),
                            .body = "x: 1",
                            .content_type = "text/plain"}),
                 415, "UnsupportedMediaType", "the body of the request was in an unknown format");
  expect_refusal(api->send({.method = port::Method::Patch,
                            .target = in("configmaps", "x"),
                            .body = "{}",
                            .content_type = "application/json"}),
                 415, "UnsupportedMediaType", "");
}

TEST_F(Errors, broken_body_is_400) {
  expect_refusal(api->send({.method = port::Method::Post,
                            .target = in("configmaps"),
                            .body = "{\"x",
                            .content_type = "application/json"}),
                 400, "BadRequest", "the object provided is unrecognized");
}

TEST_F(Errors, body_of_another_namespace_is_400) {
  expect_refusal(post(in("configmaps"), {{"metadata", {{"name", "a"}, {"namespace", "other"}}}}),
                 400, "BadRequest",
                 "the namespace of the provided object does not match the namespace sent on the "
                 "request");
}

TEST_F(Errors, body_of_another_kind_is_400) {
  expect_refusal(post(in("configmaps"),
                      {{"apiVersion", "v1"}, {"kind", "Pod"}, {"metadata", {{"name", "a"}}}}),
                 400, "BadRequest", "Pod in version \"v1\" cannot be handled as a ConfigMap");
}

TEST_F(Errors, bad_name_is_422_with_its_field) {
  const Reply reply = post(in("configmaps"), {{"metadata", {{"name", "Bad_Name"}}}});
  expect_refusal(reply, 422, "Invalid",
                 "ConfigMap \"Bad_Name\" is invalid: metadata.name: Invalid value");
  EXPECT_EQ(reply.body["details"]["kind"], "ConfigMap");
  EXPECT_EQ(reply.body["details"]["causes"][0]["field"], "metadata.name");
  EXPECT_EQ(reply.body["details"]["causes"][0]["reason"], "FieldValueInvalid");
}

TEST_F(Errors, missing_name_is_422) {
  expect_refusal(post(in("configmaps"), {{"metadata", Json::object()}}), 422, "Invalid",
                 "metadata.name: Required value: name or generateName is required");
}

TEST_F(Errors, missing_namespace_is_404) {
  const Reply reply =
      post("/api/v1/namespaces/contract-none/configmaps", {{"metadata", {{"name", "a"}}}});
  expect_refusal(reply, 404, "NotFound", "namespaces \"contract-none\" not found");
}

TEST_F(Errors, answers_carry_the_servers_date_and_an_audit_id) {
  const Reply reply = get(in("configmaps"));
  EXPECT_TRUE(parse_http_date(reply.header("date"))) << reply.header("date");
  EXPECT_EQ(reply.header("audit-id").size(), 36U);
  const Reply other = get(in("configmaps"));
  EXPECT_NE(reply.header("audit-id"), other.header("audit-id"));
}

TEST_F(Errors, health_is_plain_text) {
  for (const char* path : {"/livez", "/readyz"}) {
    const Reply reply = get(path);
    EXPECT_EQ(reply.status, 200);
    EXPECT_EQ(reply.text, "ok");
    EXPECT_THAT(reply.header("content-type"), testing::StartsWith("text/plain"));
  }
  EXPECT_EQ(get("/version").body.value("major", ""), "1");
}

}  // namespace
}  // namespace moonfence::contract
