#include "audit/trail.h"

#include <vector>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

namespace moonfence::audit {
namespace {

struct FixedClock final : port::WallClock {
  WallTime now() override { return *parse_rfc3339("2026-01-02T03:04:05.000006Z"); }
};

struct Lines final : Trail::Sink {
  Result<void> append(const Record& /*record*/, WallTime /*at*/, std::string_view json) override {
    if (full) {
      return failure(Error::Kind::Limit, "no space left on device");
    }
    lines.emplace_back(json);
    return {};
  }
  std::vector<std::string> lines;
  bool full = false;
};

struct TrailTest : testing::Test {
  FixedClock clock;
  Lines lines;
  Trail trail{clock, lines};
};

Record deletion() {
  Record record;
  record.kind = Record::Kind::Intent;
  record.reason = Reason::PolicyDeletesPod;
  record.incident = IncidentId("i1");
  record.node = NodeName("n1");
  record.pod = PodRef{Namespace("db"), "web-0"};
  record.pod_uid = Uid("u");
  record.action = "delete_pod";
  record.attempt = 1;
  return record;
}

TEST_F(TrailTest, a_record_is_one_line_with_fixed_keys) {
  ASSERT_TRUE(trail.write(deletion()));
  EXPECT_EQ(lines.lines.at(0),
            R"({"schema":1,"sequence":1,"time":"2026-01-02T03:04:05.000006Z","kind":"intent",)"
            R"("reason":"policy_deletes_pod","incident":"i1","node":"n1","namespace":"db",)"
            R"("pod":"web-0","pod_uid":"u","action":"delete_pod","attempt":1})");
}

TEST_F(TrailTest, bytes_from_outside_cannot_break_a_line) {
  Record record = deletion();
  record.text = "first\nsecond \xff end";
  ASSERT_TRUE(trail.write(record));
  EXPECT_EQ(lines.lines.at(0).find('\n'), std::string::npos);
  EXPECT_EQ(nlohmann::json::parse(lines.lines.at(0))["text"], "first\nsecond \xef\xbf\xbd end");
}

TEST_F(TrailTest, a_line_that_cannot_be_written_is_an_error_and_is_counted) {
  lines.full = true;
  EXPECT_FALSE(trail.write(deletion()));
  EXPECT_EQ(trail.failures(), 1U);
  lines.full = false;
  ASSERT_TRUE(trail.write(deletion()));
  EXPECT_EQ(nlohmann::json::parse(lines.lines.at(0))["sequence"], 1);
}

}  // namespace
}  // namespace moonfence::audit
