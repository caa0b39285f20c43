#include "sim/store/refusals.h"

#include <utility>

#include "sim/store/object_store.h"

namespace moonfence::sim {
namespace {

// "pods", "volumeattachments.storage.k8s.io"
std::string qualified(std::string_view word, const ResourceKind& kind) {
  std::string text(word);
  if (!kind.group.empty()) {
    text += '.';
    text += kind.group;
  }
  return text;
}

std::string quoted(const std::string& name) {
  return " \"" + name + "\"";
}

Json details_of(std::string_view word, const ResourceKind& kind, const std::string& name) {
  Json details = {{"kind", word}};
  if (!name.empty()) {
    details["name"] = name;
  }
  if (!kind.group.empty()) {
    details["group"] = kind.group;
  }
  return details;
}

}  // namespace

ApiFault not_found(const ResourceKind& kind, const std::string& name) {
  return {.code = 404,
          .reason = "NotFound",
          .message = qualified(kind.resource, kind) + quoted(name) + " not found",
          .details = details_of(kind.resource, kind, name)};
}

ApiFault already_exists(const ResourceKind& kind, const std::string& name) {
  return {.code = 409,
          .reason = "AlreadyExists",
          .message = qualified(kind.resource, kind) + quoted(name) + " already exists",
          .details = details_of(kind.resource, kind, name)};
}

ApiFault conflict(const ResourceKind& kind, std::string_view word, const std::string& name,
                  std::string_view why) {
  ApiFault out{
      .code = 409,
      .reason = "Conflict",
      .message = "Operation cannot be fulfilled on " + qualified(word, kind) + quoted(name) + ": ",
      .details = details_of(word, kind, name)};
  out.message += why;
  return out;
}

ApiFault invalid(const ResourceKind& kind, const std::string& name, const std::string& field,
                 const std::string& cause, const std::string& what) {
  ApiFault out{.code = 422,
               .reason = "Invalid",
               .message = qualified(kind.kind, kind) + quoted(name) + " is invalid: ",
               .details = details_of(kind.kind, kind, name)};
  out.message += field;
  out.message += ": ";
  out.message += what;
  out.details["causes"] = {{{"reason", cause}, {"message", what}, {"field", field}}};
  return out;
}

ApiFault bad_request(std::string message) {
  return {.code = 400, .reason = "BadRequest", .message = std::move(message)};
}

ApiFault expired(std::string message) {
  return {.code = 410, .reason = "Expired", .message = std::move(message)};
}

ApiFault unknown_resource() {
  return {.code = 404,
          .reason = "NotFound",
          .message = "the server could not find the requested resource",
          .details = Json::object()};
}

}  // namespace moonfence::sim
