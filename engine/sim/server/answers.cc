#include "sim/server/answers.h"

#include <array>
#include <chrono>
#include <cstdio>
#include <utility>

#include "sim/server/core_events.h"
#include "sim/store/fields.h"

namespace moonfence::sim {
namespace {

constexpr std::string_view kJson = "application/json";

Json status_head(std::string_view outcome) {
  return {
      {"kind", "Status"}, {"apiVersion", "v1"}, {"metadata", Json::object()}, {"status", outcome}};
}

std::string dumped(const Json& json) {
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

void append_head(std::string& out, std::string_view kind, std::string_view suffix,
                 std::string_view version) {
  out += R"({"kind":")";
  out += kind;
  out += suffix;
  out += R"(","apiVersion":")";
  out += version;
  out += R"(",)";
}

}  // namespace

std::string typed_text(const Route& route, const Document& document) {
  const std::string converted = shows_core_event(route) ? dumped(core_event(document.json())) : "";
  const std::string_view object = converted.empty() ? document.text() : converted;
  std::string out;
  out.reserve(object.size() + 80);
  append_head(out, route.kind->kind, "", route.version);
  out += object.substr(1);  // without its brace; there always is metadata
  return out;
}

std::string event_line(std::string_view type, std::string_view object) {
  std::string out;
  out.reserve(object.size() + 40);
  out += R"({"type":")";
  out += type;
  out += R"(","object":)";
  out += object;
  out += "}\n";
  return out;
}

std::string list_text(const Route& route, const ListPage& page) {
  std::size_t size = 200;
  for (const DocumentPtr& item : page.items) {
    size += item->text().size() + 1;
  }
  std::string out;
  out.reserve(size);
  if (page.metadata_only) {
    append_head(out, "PartialObjectMetadata", "List", "meta.k8s.io/v1");
  } else {
    append_head(out, route.kind->kind, "List", route.version);
  }
  Json metadata = {{"resourceVersion", std::to_string(page.version)}};
  if (!page.continue_token.empty()) {
    metadata["continue"] = page.continue_token;
  }
  if (page.remaining) {
    metadata["remainingItemCount"] = *page.remaining;
  }
  out += R"("metadata":)";
  out += dumped(metadata);
  out += R"(,"items":[)";
  bool first = true;
  for (const DocumentPtr& item : page.items) {
    if (!std::exchange(first, false)) {
      out += ',';
    }
    out += page.metadata_only        ? dumped({{"metadata", item->json().at("metadata")}})
           : shows_core_event(route) ? dumped(core_event(item->json()))
                                     : item->text();
  }
  out += "]}\n";
  return out;
}

std::string status_text(const ApiFault& refusal) {
  Json status = status_head("Failure");
  status["message"] = refusal.message;
  if (!refusal.reason.empty()) {
    status["reason"] = refusal.reason;
  }
  if (!refusal.details.is_null()) {
    status["details"] = refusal.details;
  }
  if (refusal.retry_after_seconds) {
    status["details"]["retryAfterSeconds"] = *refusal.retry_after_seconds;
  }
  status["code"] = refusal.code;
  return dumped(status);
}

std::string deleted_text(const ResourceKind& kind, const Json& object) {
  Json status = status_head("Success");
  status["details"] = {{"name", text_field(object, {"metadata", "name"})},
                       {"kind", kind.resource},
                       {"uid", text_field(object, {"metadata", "uid"})}};
  if (!kind.group.empty()) {
    status["details"]["group"] = kind.group;
  }
  return dumped(status);
}

ServerAnswer json_answer(int status, std::string body) {
  ServerAnswer answer;
  answer.status = status;
  answer.headers = {{"content-type", std::string(kJson)}};
  answer.body = std::move(body);
  return answer;
}

ServerAnswer text_answer(int status, std::string body) {
  ServerAnswer answer;
  answer.status = status;
  answer.headers = {{"content-type", "text/plain; charset=utf-8"}};
  answer.body = std::move(body);
  return answer;
}

ServerAnswer refusal_answer(const ApiFault& refusal) {
  ServerAnswer answer = json_answer(refusal.code, status_text(refusal));
  if (refusal.retry_after_seconds) {
    answer.headers.push_back({"retry-after", std::to_string(*refusal.retry_after_seconds)});
  }
  return answer;
}

std::string format_http_date(WallTime time) {
  constexpr std::array<const char*, 7> kDays = {"Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat"};
  constexpr std::array<const char*, 12> kMonths = {"Jan", "Feb", "Mar", "Apr", "May", "Jun",
                                                   "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"};
  const auto days = std::chrono::floor<std::chrono::days>(time);
  const std::chrono::year_month_day date(days);
  const std::chrono::hh_mm_ss clock(std::chrono::floor<std::chrono::seconds>(time - days));
  std::array<char, 64> text{};
  std::snprintf(text.data(), text.size(), "%s, %02u %s %04d %02d:%02d:%02d GMT",
                kDays.at(std::chrono::weekday(days).c_encoding()),
                static_cast<unsigned>(date.day()),
                kMonths.at(static_cast<unsigned>(date.month()) - 1), static_cast<int>(date.year()),
                static_cast<int>(clock.hours().count()), static_cast<int>(clock.minutes().count()),
                static_cast<int>(clock.seconds().count()));
  return text.data();
}

}  // namespace moonfence::sim
