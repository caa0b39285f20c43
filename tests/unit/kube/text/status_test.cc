#include "kube/text/status.h"

#include <algorithm>
#include <fstream>
#include <map>
#include <vector>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

namespace moonfence::kube {
namespace {

using nlohmann::json;
using namespace std::chrono_literals;
using Kind = Error::Kind;

json status(int code, const std::string& reason) {
  return {{"kind", "Status"},
          {"code", code},
          {"reason", reason},
          {"message", "m"},
          {"details", {{"name", "x"}}}};
}

port::HttpHead head(int code, std::string type = "application/json") {
  return {.status = code, .headers = {{"content-type", std::move(type)}}};
}

TEST(Status, the_reason_decides) {
  struct Row {
    int code;
    std::string reason;
    Kind kind;
  };
  const std::vector<Row> table = {{400, "BadRequest", Kind::Invalid},
                                  {401, "Unauthorized", Kind::Unauthorized},
                                  {403, "Forbidden", Kind::Forbidden},
                                  {404, "NotFound", Kind::NotFound},
                                  {405, "MethodNotAllowed", Kind::Invalid},
                                  {406, "NotAcceptable", Kind::Invalid},
                                  {409, "AlreadyExists", Kind::Conflict},
                                  {409, "Conflict", Kind::Conflict},
                                  {410, "Gone", Kind::Gone},
                                  {410, "Expired", Kind::Gone},
                                  {413, "RequestEntityTooLarge", Kind::Invalid},
                                  {415, "UnsupportedMediaType", Kind::Invalid},
                                  {422, "Invalid", Kind::Invalid},
                                  {429, "TooManyRequests", Kind::Retryable},
                                  {500, "InternalError", Kind::Retryable},
                                  {500, "ServerTimeout", Kind::Retryable},
                                  {503, "ServiceUnavailable", Kind::Retryable},
                                  {504, "Timeout", Kind::Retryable},
                                  {403, "", Kind::Forbidden},
                                  {410, "", Kind::Gone},
                                  {418, "Teapot", Kind::Invalid},
                                  {599, "New", Kind::Retryable}};
  for (const Row& row : table) {
    const Error error = error_from_status(status(row.code, row.reason));
    EXPECT_EQ(error.kind, row.kind) << row.code << row.reason;
    EXPECT_EQ(error.reason, row.reason);
    EXPECT_EQ(error.http_status, row.code);
  }
}

TEST(Status, a_404_that_names_no_object_is_not_the_absence_of_one) {
  const Error plain = error_from_reply(head(404, "text/plain"), "404 page not found");
  EXPECT_EQ(plain.kind, Kind::Invalid);
  json unnamed = status(404, "NotFound");
  unnamed.erase("details");
  EXPECT_EQ(error_from_status(unnamed).kind, Kind::Invalid);
  EXPECT_EQ(error_from_status(status(404, "NotFound")).kind, Kind::NotFound);
}

TEST(Status, a_version_ahead_of_the_server_is_recognised) {
  json ahead = status(504, "Timeout");
  ahead["details"]["causes"] = json::array({{{"reason", "ResourceVersionTooLarge"}}});
  ahead["details"]["retryAfterSeconds"] = 1;
  EXPECT_TRUE(is_too_large_version(error_from_status(ahead)));
  EXPECT_EQ(error_from_status(ahead).retry_after, 1s);
  EXPECT_FALSE(is_too_large_version(error_from_status(status(504, "Timeout"))));
}

TEST(Status, retry_after_comes_from_header_or_details_and_is_bounded) {
  port::HttpHead answer = head(429);
  answer.headers.push_back({"retry-after", "32"});
  EXPECT_EQ(error_from_reply(answer, "").retry_after, 32s);
  answer.headers.back().value = "99999999999";
  EXPECT_EQ(error_from_reply(answer, "").retry_after, 300s);
  answer.headers.back().value = "Sun, 06 Nov 1994 08:49:37 GMT";
  EXPECT_EQ(error_from_reply(answer, "").retry_after, std::nullopt);
  answer.headers.back().value = "-1";
  EXPECT_EQ(error_from_reply(answer, "").retry_after, std::nullopt);
}

TEST(Status, an_error_page_is_cut_and_cannot_forge_a_line) {
  const Error error =
      error_from_reply(head(503, "text/html"), "<b>\n\x1b[2J" + std::string(4U << 20U, 'x'));
  EXPECT_EQ(error.kind, Kind::Retryable);
  EXPECT_LT(error.text.size(), 2200U);
  EXPECT_EQ(error.text.find('\n'), std::string::npos);
  EXPECT_EQ(error.text.find('\x1b'), std::string::npos);
}

TEST(Status, a_403_says_what_to_grant) {
  json refused = status(403, "Forbidden");
  refused["message"] =
      R"(volumeattachments.storage.k8s.io "x" is forbidden: User "u" cannot delete resource "volumeattachments" in API group "storage.k8s.io" at the cluster scope)";
  EXPECT_EQ(error_from_status(refused).hint,
            "give the daemon's service account the verb delete on volumeattachments in API group "
            "\"storage.k8s.io\"");
  EXPECT_FALSE(error_from_status(status(403, "Forbidden")).hint.empty());
}

TEST(Status, what_our_own_admission_policies_refuse_begins_with_their_word) {
  const auto answered = [](const std::string& message, int code = 403,
                           const std::string& reason = "Forbidden") {
    json refused = status(code, reason);
    refused["message"] = "pods \"" + std::string(kNotLeader) +
                         "\" is forbidden: ValidatingAdmissionPolicy 'moonfence-deletions' with "
                         "binding 'moonfence-deletions' denied request: " +
                         message;
    return error_from_status(refused);
  };
  const Error denied = answered("moonfence-not-leader: this replica does not hold the Lease");
  EXPECT_TRUE(is_denied_as(kNotLeader, denied));
  EXPECT_FALSE(is_denied_as(kNoUid, denied));
  EXPECT_EQ(denied.hint, "an admission policy refused it");
  EXPECT_TRUE(is_denied_as(kNoUid, answered("moonfence-no-uid: by UID only", 422, "Invalid")));
  // Names that users give, and what only looks like a refusal.
  EXPECT_FALSE(is_denied_as(kNotLeader, answered("no")));
  EXPECT_FALSE(is_denied_as(
      kNotLeader, answered(R"(User "system:serviceaccount:moonfence-not-leader:x" cannot)")));
  EXPECT_FALSE(is_denied_as(kNotLeader, answered("moonfence-not-leader: no", 409, "Conflict")));
  EXPECT_FALSE(is_denied_as(kNotLeader, answered("moonfence-not-leader: no", 500, "")));
}

TEST(Status, a_refusal_by_admission_is_no_missing_right) {
  const auto answered = [](const std::string& message, int code = 403,
                           const std::string& reason = "Forbidden") {
    json refused = status(code, reason);
    refused["message"] = "nodes \"n1\" is forbidden: " + message;
    return error_from_status(refused);
  };
  const Error hook = answered(R"(admission webhook "a.example.com" denied the request: no)");
  EXPECT_TRUE(is_denied_by_admission(hook));
  EXPECT_EQ(hook.hint, "an admission webhook refused it");
  EXPECT_TRUE(is_denied_by_admission(
      answered(R"(admission webhook "a" denied the request without explanation)", 422, "Invalid")));
  EXPECT_TRUE(is_denied_by_admission(
      answered(R"(admission webhook "a" denied the request: no)", 409, "Conflict")));
  EXPECT_TRUE(is_denied_by_admission(
      answered("ValidatingAdmissionPolicy 'a' with binding 'b' denied request: no")));
  EXPECT_FALSE(is_denied_by_admission(
      answered(R"(User "m" cannot patch resource "nodes/status" in API group "")")));
  EXPECT_FALSE(is_denied_by_admission(
      answered(R"(admission webhook "a" denied the request: no)", 500, "InternalError")));
}

TEST(Status, the_shipped_admission_policies_say_these_words) {
  for (const char* path :
       {"/deploy/overlays/enforce/admission.yaml", "/deploy/flat/enforce.yaml"}) {
    std::ifstream file(std::string(MOONFENCE_SOURCE_DIR) + path);
    std::map<std::string, std::vector<std::string>> messages;  // by policy
    std::string policy;
    for (std::string line; std::getline(file, line);) {
      const auto message = line.find("message: ");
      if (line.starts_with("  name: ")) {
        policy = line.substr(8);
      } else if (message != std::string::npos) {
        std::string text = line.substr(message + 9);
        std::erase(text, '\'');
        std::erase(text, '"');
        messages[policy].push_back(text.substr(0, text.find(": ")));
      }
    }
    const auto count = [&messages](const std::string& in, std::string_view word) {
      return std::count(messages[in].begin(), messages[in].end(), word);
    };
    EXPECT_EQ(count("moonfence-deletions", kNoUid), 1) << path;
    EXPECT_EQ(count("moonfence-leader", kNotLeader), 1) << path;
  }
}

TEST(Status, wrong_types_in_a_status_do_no_harm) {
  const json odd = {{"kind", "Status"}, {"code", "x"}, {"reason", 5}, {"details", "y"}};
  EXPECT_EQ(error_from_status(odd, 409).kind, Kind::Conflict);
  EXPECT_EQ(error_from_status(json::array()).kind, Kind::Malformed);
}

}  // namespace
}  // namespace moonfence::kube
