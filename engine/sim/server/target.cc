#include "sim/server/target.h"

#include <charconv>

#include "base/text.h"

namespace moonfence::sim {
namespace {

// The core group serves events too; both are one storage.
const ResourceKind* find_served(std::string_view group, std::string_view resource) {
  const ResourceKind* kind = find_kind(resource);
  if (kind == nullptr || (kind->group != group && !(resource == "events" && group.empty()))) {
    return nullptr;
  }
  return kind;
}

}  // namespace

std::string percent_decoded(std::string_view text, bool is_query) {
  std::string out;
  out.reserve(text.size());
  for (std::size_t i = 0; i < text.size(); ++i) {
    unsigned value = 0;
    if (text[i] == '%' && i + 2 < text.size() &&
        std::from_chars(text.data() + i + 1, text.data() + i + 3, value, 16).ptr ==
            text.data() + i + 3) {
      out += static_cast<char>(value);
      i += 2;
    } else {
      out += is_query && text[i] == '+' ? ' ' : text[i];
    }
  }
  return out;
}

const std::string& Target::value(std::string_view name) const {
  static const std::string nothing;
  const auto found = query.find(name);
  return found == query.end() ? nothing : found->second;
}

bool Target::flag(std::string_view name) const {
  const std::string& text = value(name);
  return has(name) && text != "0" && text != "false";
}

Target parse_target(std::string_view text) {
  Target target;
  const auto mark = text.find('?');
  target.path = std::string(text.substr(0, mark));
  const auto parts = split(target.path, '/');
  target.segments.reserve(parts.size());
  for (const std::string_view segment : parts) {
    if (!segment.empty()) {
      target.segments.push_back(percent_decoded(segment, false));
    }
  }
  if (mark == std::string_view::npos) {
    return target;
  }
  for (const std::string_view pair : split(text.substr(mark + 1), '&')) {
    const auto equals = pair.find('=');
    const std::string_view value =
        equals == std::string_view::npos ? std::string_view() : pair.substr(equals + 1);
    if (!pair.empty()) {
      target.query.try_emplace(percent_decoded(pair.substr(0, equals), true),
                               percent_decoded(value, true));
    }
  }
  return target;
}

Key Route::key() const {
  return {.resource = std::string(kind->resource), .space = space, .name = name};
}

std::optional<Route> find_route(const Target& target) {
  const auto& segments = target.segments;
  const bool core = !segments.empty() && segments[0] == "api";
  const std::size_t head = core ? 2 : 3;
  if (segments.size() <= head || (!core && segments[0] != "apis")) {
    return std::nullopt;
  }
  Route route;
  const std::string group = core ? "" : segments[1];
  std::size_t at = head;
  if (core && segments[at] == "namespaces" &&
      (segments.size() <= at + 2 || segments[at + 2] == "status")) {
    route.kind = find_kind("namespaces");
  } else {
    if (segments[at] == "namespaces" && segments.size() > at + 2) {
      route.space = segments[at + 1];
      at += 2;
    }
    route.kind = find_served(group, segments[at]);
  }
  if (route.kind == nullptr || segments[head - 1] != route.kind->version ||
      segments.size() > at + 3) {
    return std::nullopt;
  }
  route.version = core ? segments[1] : group + "/" + segments[2];
  route.name = segments.size() > at + 1 ? segments[at + 1] : "";
  route.subresource = segments.size() > at + 2 ? segments[at + 2] : "";
  const bool has_place = !route.kind->namespaced || !route.space.empty() || route.name.empty();
  const bool is_served =
      route.subresource.empty() || (route.subresource == "status" && route.kind->has_status);
  if (!has_place || !is_served || (!route.kind->namespaced && !route.space.empty())) {
    return std::nullopt;
  }
  return route;
}

}  // namespace moonfence::sim
