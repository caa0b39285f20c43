#include "app/traces/otlp_json.h"

#include <algorithm>
#include <string_view>
#include <variant>

#include "base/json_text.h"
#include "base/overloaded.h"

namespace moonfence::app {
namespace {

constexpr std::string_view kEnd = "]}]}]}";

// An unsigned number: a receiver that reads a minus refuses all that is in the request.
std::string nanoseconds(WallTime time) {
  return std::to_string(std::max(time, WallTime{}).time_since_epoch().count());
}

void append_value(std::string& out, const AttributeValue& value) {
  JsonObject object(out);
  std::visit(
      Overloaded{[&](const std::string& text) { object.set("stringValue", text); },
                 // 64 bits are text in the JSON of protocol buffers.
                 [&](std::int64_t number) { object.set("intValue", std::to_string(number)); },
                 [&](bool is) { object.value_of("boolValue") += is ? "true" : "false"; }},
      value);
  object.end();
}

void append_attributes(std::string& out, const Attributes& attributes) {
  out += '[';
  for (const auto& [key, value] : attributes) {
    if (out.back() != '[') {
      out += ',';
    }
    JsonObject attribute(out);
    attribute.set("key", key);
    append_value(attribute.value_of("value"), value);
    attribute.end();
  }
  out += ']';
}

std::string text_of(const Span& span) {
  std::string out;
  JsonObject object(out);
  object.set("traceId", span.trace_id);
  object.set("spanId", span.id);
  object.set_if_any("parentSpanId", span.parent_id);
  object.set("name", span.name);
  object.set("kind", static_cast<std::uint64_t>(span.kind));
  object.set("startTimeUnixNano", nanoseconds(span.start));
  object.set("endTimeUnixNano", nanoseconds(span.end));
  append_attributes(object.value_of("attributes"), span.attributes);
  if (span.status != Span::Status::Unset) {
    JsonObject status(object.value_of("status"));
    status.set("code", static_cast<std::uint64_t>(span.status));
    status.end();
  }
  object.end();
  return out;
}

std::string beginning(const Attributes& resource, const std::string& scope_version) {
  std::string out = R"({"resourceSpans":[{"resource":{"attributes":)";
  append_attributes(out, resource);
  out += R"(},"scopeSpans":[{"scope":)";
  JsonObject scope(out);
  scope.set("name", "moonfence");
  scope.set("version", scope_version);
  scope.end();
  out += R"(,"spans":[)";
  return out;
}

}  // namespace

OtlpRequests otlp_requests(const Attributes& resource, const std::string& scope_version,
                           std::span<const Span> spans, const OtlpLimits& limits) {
  const std::string begin = beginning(resource, scope_version);
  OtlpRequests found;
  std::vector<std::string>& requests = found.bodies;
  std::size_t in_the_last = limits.spans;
  for (const Span& span : spans) {
    const std::string text = text_of(span);
    if (begin.size() + text.size() + kEnd.size() > limits.bytes) {
      ++found.left_out;
      continue;
    }
    if (in_the_last >= limits.spans ||
        requests.back().size() + 1 + text.size() + kEnd.size() > limits.bytes) {
      requests.push_back(begin + text);
      in_the_last = 1;
    } else {
      requests.back() += ',' + text;
      ++in_the_last;
    }
  }
  for (std::string& request : requests) {
    request += kEnd;
  }
  return found;
}

}  // namespace moonfence::app
