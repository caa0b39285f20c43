#include "app/web/status_site.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "support/golden.h"
#include "unit/app/status_fixture.h"

namespace moonfence::app {
namespace {

using testing::HasSubstr;

struct StatusSiteTest : testing::Test {
  IncidentBook book;
  StatusBoard board;
  StatusSite site{board, [] { return kTestNow; }, true};

  StatusSiteTest() {
    tell_incident(book);
    board.publish(std::make_shared<StatusSnapshot>(fencing_snapshot(book)));
  }
  [[nodiscard]] HttpAnswer get(const std::string& path,
                               const std::string& host = "localhost:8082") const {
    return site.answer({.path = path, .query = {}, .host = host});
  }
  static std::string header(const HttpAnswer& answer, const std::string& name) {
    for (const auto& [key, value] : answer.headers) {
      if (key == name) {
        return value;
      }
    }
    return {};
  }
};

TEST_F(StatusSiteTest, every_path_has_its_type) {
  for (const auto& [path, type] :
       std::map<std::string, std::string>{{"/", "text/html; charset=utf-8"},
                                          {"/reasons", "text/html; charset=utf-8"},
                                          {"/incidents/i1", "text/html; charset=utf-8"},
                                          {"/incidents/i1.json", "application/json"},
                                          {"/status.json", "application/json"},
                                          {"/style.css", "text/css; charset=utf-8"},
                                          {"/icon.svg", "image/svg+xml"}}) {
    const HttpAnswer answer = get(path);
    EXPECT_EQ(answer.status, 200) << path;
    EXPECT_EQ(answer.content_type, type) << path;
    EXPECT_FALSE(answer.body.empty()) << path;
  }
}

TEST_F(StatusSiteTest, every_answer_is_guarded_and_kept_nowhere) {
  for (const char* path : {"/", "/status.json", "/nothing", "/incidents/none", "/style.css"}) {
    const HttpAnswer answer = get(path);
    EXPECT_TRUE(header(answer, "Content-Security-Policy").starts_with("default-src 'none'; "))
        << path;
    EXPECT_EQ(header(answer, "Content-Security-Policy").find("script"), std::string::npos) << path;
    EXPECT_EQ(header(answer, "Content-Security-Policy").find("unsafe"), std::string::npos) << path;
    EXPECT_EQ(header(answer, "Cache-Control"), "no-store") << path;
    EXPECT_EQ(header(answer, "Referrer-Policy"), "no-referrer") << path;
  }
}

TEST_F(StatusSiteTest, what_is_not_there_is_not_found) {
  for (const char* path : {"/index.html", "/incidents/", "/incidents/i2", "/incidents/i1/x",
                           "/incidents/i2.json", "//", "/../etc/passwd"}) {
    EXPECT_EQ(get(path).status, 404) << path;
  }
  EXPECT_THAT(get("/incidents/i2").body, HasSubstr("href=\"../style.css\""));
}

TEST_F(StatusSiteTest, before_the_first_snapshot_it_asks_for_patience) {
  const StatusBoard empty;
  const StatusSite young(
      empty, [] { return kTestNow; }, true);
  EXPECT_EQ(young.answer({.path = "/", .query = {}, .host = "localhost"}).status, 503);
  EXPECT_EQ(young.answer({.path = "/style.css", .query = {}, .host = "localhost"}).status, 200);
}

TEST_F(StatusSiteTest, on_the_loopback_a_foreign_name_is_not_answered) {
  for (const char* host :
       {"localhost", "localhost:1", "127.0.0.1:8082", "127.8.8.8", "[::1]:8082", "[::1]"}) {
    EXPECT_EQ(get("/status.json", host).status, 200) << host;
  }
  for (const char* host : {"", "evil.example", "evil.example:8082", "127.0.0.1.evil.example",
                           "localhost.evil.example:8082", "[::2]:8082", "10.0.0.1"}) {
    EXPECT_EQ(get("/status.json", host).status, 421) << host;
  }
  const StatusSite open(
      board, [] { return kTestNow; }, false);
  EXPECT_EQ(open.answer({.path = "/", .query = {}, .host = "ops.example"}).status, 200);
}

TEST_F(StatusSiteTest, the_loopback_is_known_by_its_addresses) {
  for (const char* address : {"127.0.0.1:8082", "localhost:0", "[::1]:8082"}) {
    EXPECT_TRUE(is_loopback(address)) << address;
  }
  for (const char* address : {":8082", "0.0.0.0:8082", "[::]:8082", "10.1.2.3:8082"}) {
    EXPECT_FALSE(is_loopback(address)) << address;
  }
}

TEST_F(StatusSiteTest, the_query_says_whether_a_page_loads_itself_again) {
  const auto with = [this](const std::string& value) {
    return site.answer({.path = "/", .query = {{"refresh", value}}, .host = "localhost"}).body;
  };
  EXPECT_THAT(with("on"), HasSubstr("http-equiv=\"refresh\""));
  EXPECT_THAT(with("off"), testing::Not(HasSubstr("http-equiv=\"refresh\"")));
}

TEST_F(StatusSiteTest, the_json_has_the_documented_shape) {
  std::string text = get("/status.json").body;
  nlohmann::ordered_json document = nlohmann::ordered_json::parse(text);
  document["version"] = "VERSION";
  document["commit"] = "COMMIT";
  test::expect_golden("unit/app/golden/status.json", document.dump(2) + "\n");
}

TEST_F(StatusSiteTest, bytes_that_are_no_text_do_not_break_the_json) {
  audit::Record record = pod_record(audit::Record::Kind::Verdict, audit::Reason::PolicySkips, "x");
  record.text = "\xff<script>";
  book.hear(record, kTestNow);
  board.publish(std::make_shared<StatusSnapshot>(fencing_snapshot(book)));
  const auto document = nlohmann::json::parse(get("/status.json").body);
  EXPECT_EQ(document["incidents"]["underWay"][0]["pods"][3]["lines"][0]["text"],
            "\xEF\xBF\xBD<script>");
}

TEST_F(StatusSiteTest, an_incident_has_the_same_form_alone) {
  const auto all = nlohmann::json::parse(get("/status.json").body);
  EXPECT_EQ(nlohmann::json::parse(get("/incidents/i1.json").body), all["incidents"]["underWay"][0]);
}

}  // namespace
}  // namespace moonfence::app
