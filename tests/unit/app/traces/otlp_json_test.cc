#include "app/traces/otlp_json.h"

#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

namespace moonfence::app {
namespace {

using namespace std::chrono_literals;

Span span_of(const std::string& name) {
  return {
      .trace_id = "5b8efff798038103d269b633813fc60c",
      .id = "eee19b7ec3c1b174",
      .parent_id = "eee19b7ec3c1b173",
      .name = name,
      .kind = Span::Kind::Client,
      .start = WallTime(1'544'712'660'300'000'001ns),
      .end = WallTime(1'544'712'660'300'000'002ns),
      .status = Span::Status::Error,
      .attributes = {{"text", std::string("a\"b")}, {"number", std::int64_t{200}}, {"is", true}}};
}

// Its form is that of opentelemetry-proto's examples/trace.json.
TEST(OtlpJson, a_request_is_what_otlp_wants) {
  const auto requests =
      otlp_requests({{"service.name", std::string("moonfence")}}, "1.2", std::vector{span_of("x")})
          .bodies;
  ASSERT_EQ(requests.size(), 1U);
  EXPECT_EQ(nlohmann::json::parse(requests[0]), nlohmann::json::parse(R"({
    "resourceSpans": [{
      "resource": {"attributes": [{"key": "service.name", "value": {"stringValue": "moonfence"}}]},
      "scopeSpans": [{
        "scope": {"name": "moonfence", "version": "1.2"},
        "spans": [{
          "traceId": "5b8efff798038103d269b633813fc60c",
          "spanId": "eee19b7ec3c1b174",
          "parentSpanId": "eee19b7ec3c1b173",
          "name": "x",
          "kind": 3,
          "startTimeUnixNano": "1544712660300000001",
          "endTimeUnixNano": "1544712660300000002",
          "attributes": [
            {"key": "text", "value": {"stringValue": "a\"b"}},
            {"key": "number", "value": {"intValue": "200"}},
            {"key": "is", "value": {"boolValue": true}}],
          "status": {"code": 2}}]}]}]})"));
}

TEST(OtlpJson, a_root_has_no_parent_and_what_is_well_no_status) {
  Span root = span_of("incident");
  root.parent_id.clear();
  root.status = Span::Status::Unset;
  const auto requests = otlp_requests({}, "1", std::vector{root}).bodies;
  const auto told =
      nlohmann::json::parse(requests.at(0))["resourceSpans"][0]["scopeSpans"][0]["spans"][0];
  EXPECT_FALSE(told.contains("parentSpanId"));
  EXPECT_FALSE(told.contains("status"));
}

TEST(OtlpJson, requests_are_bounded_by_spans_and_by_bytes) {
  const std::vector<Span> spans(10, span_of("x"));
  const auto sizes = [&spans](const OtlpLimits& limits) {
    std::vector<std::size_t> found;
    for (const std::string& request : otlp_requests({}, "1", spans, limits).bodies) {
      EXPECT_LE(request.size(), limits.bytes);
      found.push_back(
          nlohmann::json::parse(request)["resourceSpans"][0]["scopeSpans"][0]["spans"].size());
    }
    return found;
  };
  EXPECT_EQ(sizes({}), (std::vector<std::size_t>{10}));
  EXPECT_EQ(sizes({.spans = 4}), (std::vector<std::size_t>{4, 4, 2}));
  const std::size_t two = otlp_requests({}, "1", std::vector(2, span_of("x"))).bodies.at(0).size();
  EXPECT_EQ(sizes({.bytes = two}), (std::vector<std::size_t>{2, 2, 2, 2, 2}));
  EXPECT_EQ(sizes({.bytes = two - 1}), std::vector<std::size_t>(10, 1));
  EXPECT_EQ(sizes({.bytes = 100}), std::vector<std::size_t>{});
  EXPECT_EQ(otlp_requests({}, "1", spans, {.bytes = 100}).left_out, 10U) << "each is too large";
}

// They are unsigned: a receiver refuses a request with a minus in it, and all that is in there.
TEST(OtlpJson, a_time_before_1970_is_1970) {
  Span old = span_of("x");
  old.start = WallTime(-1ns);
  old.end = WallTime::min();
  const auto requests = otlp_requests({}, "1", std::vector{old}).bodies;
  const auto told =
      nlohmann::json::parse(requests.at(0))["resourceSpans"][0]["scopeSpans"][0]["spans"][0];
  EXPECT_EQ(told["startTimeUnixNano"], "0");
  EXPECT_EQ(told["endTimeUnixNano"], "0");
}

TEST(OtlpJson, nothing_is_no_request) {
  EXPECT_TRUE(otlp_requests({}, "1", {}).bodies.empty());
}

}  // namespace
}  // namespace moonfence::app
