#pragma once

// What an API server writes back: objects, lists and events with the type that the store leaves
// out, metav1.Status, HTTP dates.

#include <string>
#include <string_view>
#include <vector>

#include "base/time.h"
#include "sim/server/api_server.h"
#include "sim/server/target.h"
#include "sim/store/object_store.h"

namespace moonfence::sim {

// The text of an object as the route shows it, with its kind and apiVersion in front.
[[nodiscard]] std::string typed_text(const Route& route, const Document& document);
// One line of a watch.
[[nodiscard]] std::string event_line(std::string_view type, std::string_view object);

struct ListPage {
  std::vector<DocumentPtr> items;
  std::int64_t version = 0;
  std::string continue_token;
  std::optional<std::size_t> remaining;
  bool metadata_only = false;  // as a PartialObjectMetadataList
};
[[nodiscard]] std::string list_text(const Route& route, const ListPage& page);

[[nodiscard]] std::string status_text(const ApiFault& refusal);
// Of a delete that leaves nothing to show.
[[nodiscard]] std::string deleted_text(const ResourceKind& kind, const Json& object);

[[nodiscard]] ServerAnswer json_answer(int status, std::string body);
[[nodiscard]] ServerAnswer text_answer(int status, std::string body);
[[nodiscard]] ServerAnswer refusal_answer(const ApiFault& refusal);

// "Sun, 06 Nov 1994 08:49:37 GMT"
[[nodiscard]] std::string format_http_date(WallTime time);

}  // namespace moonfence::sim
