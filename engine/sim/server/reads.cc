#include "sim/server/reads.h"

#include <algorithm>
#include <chrono>
#include <string>
#include <utility>

#include "sim/server/answers.h"
#include "sim/server/list_options.h"
#include "sim/store/fields.h"
#include "sim/store/refusals.h"

namespace moonfence::sim {
namespace {

// How long kube-apiserver waits for its watch cache, and how long a watch lives that names no time.
constexpr Duration kFreshnessWait = std::chrono::seconds(3);
constexpr Duration kShortestWatch = std::chrono::minutes(30);

std::string resource_of(const Route& route) {
  return std::string(route.kind->resource);
}

ApiFault too_large(std::int64_t version, std::int64_t current) {
  return {.code = 504,
          .reason = "Timeout",
          .message = "Timeout: Too large resource version: " + std::to_string(version) +
                     ", current: " + std::to_string(current),
          .retry_after_seconds = 1,
          .details = {{"causes",
                       {{{"reason", "ResourceVersionTooLarge"},
                         {"message", "Too large resource version"}}}}}};
}

ServerAnswer too_large_answer(ServerState& server, const Route& route, std::int64_t version) {
  ServerAnswer answer =
      refusal_answer(too_large(version, server.cache.version_of(resource_of(route))));
  answer.took = kFreshnessWait;
  return answer;
}

// The key behind which a list goes on, in the order of the store.
struct Position {
  std::string space;
  std::string name;
};

Position position_of(const Route& route, std::string_view start) {
  if (start.ends_with('\0')) {
    start.remove_suffix(1);
  }
  const auto slash = start.find('/');
  if (slash == std::string_view::npos) {
    return {.space = route.space, .name = std::string(start)};
  }
  return {.space = std::string(start.substr(0, slash)),
          .name = std::string(start.substr(slash + 1))};
}

std::string start_after(const Route& route, const Json& object) {
  std::string start;
  if (route.kind->namespaced && route.space.empty()) {
    start = text_field(object, {"metadata", "namespace"});
    start += '/';
  }
  start += text_field(object, {"metadata", "name"});
  start += '\0';
  return start;
}

bool is_behind(const Json& object, const Position& position) {
  const std::string& space = text_field(object, {"metadata", "namespace"});
  return space != position.space ? space > position.space
                                 : text_field(object, {"metadata", "name"}) > position.name;
}

ListPage make_page(const Route& route, const ListOptions& options,
                   const std::vector<DocumentPtr>& documents, std::int64_t version) {
  ListPage page{.items = {},
                .version = version,
                .continue_token = {},
                .remaining = {},
                .metadata_only = options.metadata_only};
  auto at = documents.begin();
  if (options.token) {
    const Position position = position_of(route, options.token->start);
    at = std::find_if(at, documents.end(), [&position](const DocumentPtr& document) {
      return is_behind(document->json(), position);
    });
  }
  const auto limit = static_cast<std::size_t>(options.limit);
  page.items.reserve(limit != 0 ? limit : static_cast<std::size_t>(documents.end() - at));
  for (; at != documents.end() && (limit == 0 || page.items.size() < limit); ++at) {
    if (options.selection.matches((*at)->json())) {
      page.items.push_back(*at);
    }
  }
  if (at != documents.end()) {
    page.continue_token =
        encode({.version = version, .start = start_after(route, page.items.back()->json())});
    if (options.selection.everything) {
      page.remaining = static_cast<std::size_t>(documents.end() - at);
    }
  }
  return page;
}

ServerAnswer list_at(ServerState& server, const Route& route, const ListOptions& options,
                     std::int64_t version) {
  if (version < std::max(server.compacted, server.store.log_start())) {
    return refusal_answer(expired(
        options.token
            ? "The provided continue parameter is too old to display a consistent list result. "
              "You must start a new list without the continue parameter."
            : "The resourceVersion for the provided list is too old."));
  }
  if (version > server.store.version()) {
    return too_large_answer(server, route, version);
  }
  const auto documents = server.store.list_documents_at(resource_of(route), route.space, version);
  return json_answer(200, list_text(route, make_page(route, options, documents, version)));
}

// From the watch cache, as soon as it is as new as asked for. A limit does not count there.
ServerAnswer list_from_cache(ServerState& server, const Route& route, ListOptions options) {
  const std::string resource = resource_of(route);
  const auto wait = server.cache.time_until(resource, *options.version);
  if (!wait || *wait > kFreshnessWait) {
    return too_large_answer(server, route, *options.version);
  }
  const std::int64_t version = std::max(server.cache.version_of(resource), *options.version);
  const std::int64_t state = std::max(server.cache.seen(), version);
  options.limit = 0;
  const auto documents = server.store.list_documents_at(resource, route.space,
                                                        std::max(state, server.store.log_start()));
  ServerAnswer answer =
      json_answer(200, list_text(route, make_page(route, options, documents, version)));
  answer.took = *wait;
  return answer;
}

Duration watch_length(ServerState& server, const ListOptions& options) {
  if (options.timeout_seconds.value_or(0) > 0) {
    return std::chrono::seconds(*options.timeout_seconds);
  }
  return kShortestWatch +
         std::chrono::duration_cast<Duration>(server.random.unit() * kShortestWatch);
}

}  // namespace

ServerAnswer answer_get(ServerState& server, const Route& route, const Target& target) {
  const auto version = read_version(target.value("resourceVersion"));
  if (!version) {
    return refusal_answer(version.error());
  }
  const Key key = route.key();
  DocumentPtr found;
  Duration took{};
  if (*version) {
    const auto wait = server.cache.time_until(key.resource, **version);
    if (!wait || *wait > kFreshnessWait) {
      return too_large_answer(server, route, **version);
    }
    took = *wait;
    found = server.store.find_document_at(
        key, std::max({server.cache.seen(), **version, server.store.log_start()}));
  } else {
    found = server.store.find_document(key);
  }
  ServerAnswer answer = found == nullptr ? refusal_answer(not_found(*route.kind, route.name))
                                         : json_answer(200, typed_text(route, *found) + "\n");
  answer.took = took;
  return answer;
}

ServerAnswer answer_list(ServerState& server, const Route& route, const Target& target,
                         bool metadata_only) {
  using Match = ListOptions::Match;
  auto options = read_list_options(route, target, false, server.rules.watch_list);
  if (!options) {
    return refusal_answer(options.error());
  }
  options->metadata_only = metadata_only;
  if (options->token) {
    return list_at(server, route, *options, options->token->version);
  }
  if (!options->version) {
    return list_at(server, route, *options, server.store.version());
  }
  const bool limited = options->limit > 0 && *options->version > 0;
  if (options->match == Match::Exact || (limited && options->match == Match::Unset)) {
    return list_at(server, route, *options, *options->version);
  }
  if (limited) {  // not older than: the newest state is
    return *options->version > server.store.version()
               ? too_large_answer(server, route, *options->version)
               : list_at(server, route, *options, server.store.version());
  }
  return list_from_cache(server, route, *std::move(options));
}

ServerAnswer answer_watch(ServerState& server, const Route& route, const Target& target,
                          WatchSink* sink) {
  auto options = read_list_options(route, target, true, server.rules.watch_list);
  if (!options) {
    return refusal_answer(options.error());
  }
  const std::string resource = resource_of(route);
  WatchWish wish;
  wish.route = route;
  wish.bookmarks = target.flag("allowWatchBookmarks");
  wish.bookmark_interval = server.rules.bookmark_interval;
  wish.length = watch_length(server, *options);
  const std::int64_t version = options->version.value_or(0);
  const bool initial = version == 0 || (options->initial_events && server.rules.watch_list);
  if (initial) {
    wish.from = options->version ? server.cache.seen() : server.store.version();
    wish.from = std::max(wish.from, server.store.log_start());
    wish.initial = server.store.list_documents_at(resource, route.space, wish.from);
    std::erase_if(wish.initial, [&options](const DocumentPtr& document) {
      return !options->selection.matches(document->json());
    });
    wish.marks_initial_end = options->initial_events && server.rules.watch_list;
  } else if (const std::int64_t oldest = server.cache.oldest(server.rules.history);
             version < oldest) {
    ApiFault gone = expired("too old resource version: " + std::to_string(version) + " (" +
                            std::to_string(oldest) + ")");
    if (server.draw(server.mood.gone_as_answer)) {
      return refusal_answer(gone);
    }
    wish.error = std::move(gone);
  } else {
    wish.from = version;
  }
  wish.selection = std::move(options->selection);
  ServerAnswer answer = json_answer(200, "");
  if (sink != nullptr) {
    answer.watch = server.watches.open(std::move(wish), *sink);
  }
  return answer;
}

}  // namespace moonfence::sim
