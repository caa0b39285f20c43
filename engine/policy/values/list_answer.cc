#include "policy/values/list_answer.h"

#include <algorithm>

namespace moonfence::policy {
namespace {

using nlohmann::json;

bool is_list(const json& body) {
  return body.is_object() && body.contains("items") &&
         (body["items"].is_array() || body["items"].is_null());
}

// Where a list goes on, whatever stands there.
bool goes_on(const json& list) {
  const auto more = list.find("metadata");
  if (more == list.end() || !more->is_object() || !more->contains("continue")) {
    return false;
  }
  const auto* rest = (*more)["continue"].get_ptr<const std::string*>();
  return rest == nullptr || !rest->empty();
}

// Whether an object has more than what was asked for: of a server that does not know how to leave
// it out.
bool has_more_than_metadata(const json& item) {
  return item.is_object() && (item.contains("spec") || item.contains("status"));
}

std::string ask_for_less(const Request& request) {
  return request.metadata_only ? "; ask for one namespace, or by labels"
                               : "; ask for one namespace, by labels, or for the metadata alone";
}

}  // namespace

std::string fault_of_list(const Request& request, const json& body) {
  if (!is_list(body)) {
    return request.text() + ": the answer is no list";
  }
  const json& items = body["items"];
  if (goes_on(body) || items.size() > kMostListed) {
    return request.text() + ": there are more than " + std::to_string(kMostListed) + " objects" +
           ask_for_less(request);
  }
  if (request.metadata_only && std::any_of(items.begin(), items.end(), has_more_than_metadata)) {
    return request.text() + ": the answer has more than metadata";
  }
  return {};
}

std::string too_large_list(const Request& request, std::size_t limit) {
  return request.text() + ": the objects are larger than " + std::to_string(limit >> 10U) + " KiB" +
         ask_for_less(request);
}

}  // namespace moonfence::policy
