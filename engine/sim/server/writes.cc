#include "sim/server/writes.h"

#include <algorithm>
#include <array>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "base/text.h"
#include "sim/server/answers.h"
#include "sim/server/core_events.h"
#include "sim/store/fields.h"
#include "sim/store/patch.h"
#include "sim/store/refusals.h"
#include "sim/store/validation.h"

namespace moonfence::sim {
namespace {

using Part = ObjectStore::Part;

std::string_view content_type_of(const ServerRequest& request) {
  for (const port::Header& header : request.headers) {
    if (lower_cased(header.name) == "content-type") {
      return header.value;
    }
  }
  return {};
}

ApiFault unsupported(std::string message) {
  return {.code = 415, .reason = "UnsupportedMediaType", .message = std::move(message)};
}

Answer<bool> read_dry_run(std::string_view kind, const Json& wish) {
  for (const Json& each : wish) {
    const auto* text = each.get_ptr<const std::string*>();
    if (text == nullptr || *text != "All") {
      const std::string complaint = "Unsupported value: [\"" + (text == nullptr ? "" : *text) +
                                    "\"]: supported values: \"All\"";
      ApiFault out{
          .code = 422,
          .reason = "Invalid",
          .message = std::string(kind) + ".meta.k8s.io \"\" is invalid: dryRun: " + complaint,
          .details = {{"group", "meta.k8s.io"}, {"kind", kind}}};
      out.details["causes"] = {
          {{"reason", "FieldValueNotSupported"}, {"message", complaint}, {"field", "dryRun"}}};
      return fault(std::move(out));
    }
  }
  return !wish.empty();
}

Answer<bool> dry_run_of(std::string_view kind, const Target& target) {
  const std::string& text = target.value("dryRun");
  return read_dry_run(kind, text.empty() ? Json::array() : Json::array({text}));
}

// The object in the body of a POST or PUT.
Answer<Json> read_object(const Route& route, const ServerRequest& request) {
  const std::string_view type = content_type_of(request);
  if (!type.empty() && type.substr(0, type.find(';')) != "application/json") {
    return fault(
        unsupported("the body of the request was in an unknown format - accepted media types "
                    "include: application/json, application/yaml, "
                    "application/vnd.kubernetes.protobuf"));
  }
  Json object = Json::parse(request.body, nullptr, false);
  if (!object.is_object()) {
    return fault(bad_request("the object provided is unrecognized (must be of type " +
                             std::string(route.kind->kind) +
                             "): couldn't get version/kind; json parse error"));
  }
  const std::string& kind = text_field(object, {"kind"});
  if (!kind.empty() && kind != route.kind->kind) {
    return fault(bad_request(kind + " in version \"" + text_field(object, {"apiVersion"}) +
                             "\" cannot be handled as a " + std::string(route.kind->kind)));
  }
  const std::string& space = text_field(object, {"metadata", "namespace"});
  if (!space.empty() && route.kind->namespaced && space != route.space) {
    return fault(bad_request(
        "the namespace of the provided object does not match the namespace sent on the request"));
  }
  return shows_core_event(route) ? plain_event(object) : std::move(object);
}

ServerAnswer object_answer(int status, const Route& route, const Object& object) {
  return json_answer(status, typed_text(route, Document(object)) + "\n");
}

Part part_of(const Route& route) {
  if (!route.kind->has_status) {
    return Part::Whole;
  }
  return route.subresource == "status" ? Part::Status : Part::Spec;
}

// The update, unless `edit` finds a reason against it.
using Edit = std::function<std::optional<ApiFault>(Json&)>;
Answer<Object> update(ServerState& server, const Route& route, const std::string& actor,
                      bool dry_run, const Edit& edit) {
  const Object before = server.store.find(route.key());
  std::optional<ApiFault> refusal;
  auto written = server.store.update(
      route.key(),
      [&](Json& object) {
        refusal = edit(object);
        if (!refusal && route.subresource.empty()) {
          refusal = check_unchanged(*route.kind, route.name, *before, object);
        }
        if (refusal) {
          object = *before;  // what is unchanged is not written
        }
      },
      part_of(route), actor, dry_run);
  if (refusal) {
    return fault(*std::move(refusal));
  }
  return written;
}

Answer<DeleteOptions> read_delete_options(const Target& target, const ServerRequest& request) {
  DeleteOptions options;
  Json dry_run = Json::array();
  if (request.body.empty()) {
    if (target.has("dryRun")) {
      dry_run.push_back(target.value("dryRun"));
    }
    if (const std::string& grace = target.value("gracePeriodSeconds"); !grace.empty()) {
      options.grace_seconds = number_field(Json::parse(grace, nullptr, false), {});
    }
  } else {
    // What the query says does not count besides a body.
    const Json body = Json::parse(request.body, nullptr, false);
    if (!body.is_object()) {
      return fault(
          {.code = 500, .reason = "", .message = "couldn't get version/kind; json parse error"});
    }
    const std::string& kind = text_field(body, {"kind"});
    if (!kind.empty() && kind != "DeleteOptions") {
      return fault({.code = 500,
                    .reason = "",
                    .message = "no kind \"" + kind + "\" is registered for version \"" +
                               text_field(body, {"apiVersion"}) + "\""});
    }
    if (const Json* uid = find_field(body, {"preconditions", "uid"}); uid != nullptr) {
      options.uid = text_field(body, {"preconditions", "uid"});
    }
    if (find_field(body, {"preconditions", "resourceVersion"}) != nullptr) {
      options.resource_version = text_field(body, {"preconditions", "resourceVersion"});
    }
    options.grace_seconds = number_field(body, {"gracePeriodSeconds"});
    if (const Json* wish = find_field(body, {"dryRun"}); wish != nullptr && wish->is_array()) {
      dry_run = *wish;
    }
  }
  const auto dry = read_dry_run("DeleteOptions", dry_run);
  if (!dry) {
    return fault(dry.error());
  }
  options.dry_run = *dry;
  return options;
}

// Resources whose registry hands out what it has deleted; the others' clients get a Status.
bool returns_deleted(const ResourceKind& kind) {
  constexpr std::array<std::string_view, 6> kThem = {
      "pods",     "persistentvolumes", "persistentvolumeclaims", "volumeattachments",
      "csinodes", "csidrivers"};
  return std::find(kThem.begin(), kThem.end(), kind.resource) != kThem.end();
}

}  // namespace

ServerAnswer answer_create(ServerState& server, const Route& route, const Target& target,
                           const ServerRequest& request) {
  const auto dry_run = dry_run_of("CreateOptions", target);
  if (!dry_run) {
    return refusal_answer(dry_run.error());
  }
  auto object = read_object(route, request);
  if (!object) {
    return refusal_answer(object.error());
  }
  const ResourceKind& spaces = *find_kind("namespaces");
  // A world may do without namespace objects altogether.
  if (!route.space.empty() && !server.store.list_documents("namespaces", "").empty() &&
      server.store.find_document({"namespaces", "", route.space}) == nullptr) {
    return refusal_answer(not_found(spaces, route.space));
  }
  complete_new(*route.kind, *object);
  const auto created = server.store.create(std::string(route.kind->resource), route.space,
                                           *std::move(object), request.user, *dry_run);
  return created ? object_answer(201, route, *created) : refusal_answer(created.error());
}

ServerAnswer answer_replace(ServerState& server, const Route& route, const Target& target,
                            const ServerRequest& request) {
  const auto dry_run = dry_run_of("UpdateOptions", target);
  if (!dry_run) {
    return refusal_answer(dry_run.error());
  }
  auto object = read_object(route, request);
  if (!object) {
    return refusal_answer(object.error());
  }
  if (const std::string& name = text_field(*object, {"metadata", "name"}); name != route.name) {
    return refusal_answer(bad_request("the name of the object (" + name +
                                      ") does not match the name on the URL (" + route.name + ")"));
  }
  // Of what we serve, only a Lease may be created by an update.
  if (route.kind->resource == "leases" && server.store.find_document(route.key()) == nullptr) {
    const auto created =
        server.store.create("leases", route.space, *std::move(object), request.user, *dry_run);
    return created ? object_answer(201, route, *created) : refusal_answer(created.error());
  }
  const auto written = update(server, route, request.user, *dry_run, [&object](Json& stored) {
    stored = *std::move(object);
    return std::nullopt;
  });
  return written ? object_answer(200, route, *written) : refusal_answer(written.error());
}

ServerAnswer answer_patch(ServerState& server, const Route& route, const Target& target,
                          const ServerRequest& request) {
  const auto type = patch_type(content_type_of(request));
  if (!type) {
    ApiFault refusal = unsupported("415: Unsupported Media Type");
    refusal.details = Json::object();
    return refusal_answer(refusal);
  }
  const auto dry_run = dry_run_of("PatchOptions", target);
  if (!dry_run) {
    return refusal_answer(dry_run.error());
  }
  Json patch = Json::parse(request.body, nullptr, false);
  if (patch.is_discarded()) {
    return refusal_answer(bad_request("error decoding patch"));
  }
  if (shows_core_event(route) && patch.is_object()) {
    patch = plain_event(patch);
  }
  const auto written =
      update(server, route, request.user, *dry_run, [&](Json& object) -> std::optional<ApiFault> {
        const std::string uid = text_field(object, {"metadata", "uid"});
        auto refusal = apply_patch(*type, patch, object);
        return refusal ? refusal : check_same_uid(*route.kind, route.name, uid, object);
      });
  return written ? object_answer(200, route, *written) : refusal_answer(written.error());
}

ServerAnswer answer_delete(ServerState& server, const Route& route, const Target& target,
                           const ServerRequest& request) {
  const auto options = read_delete_options(target, request);
  if (!options) {
    return refusal_answer(options.error());
  }
  const auto result = server.store.remove(route.key(), *options, request.user);
  if (!result) {
    return refusal_answer(result.error());
  }
  if (result->marked_only || returns_deleted(*route.kind)) {
    return object_answer(200, route, result->object);
  }
  return json_answer(200, deleted_text(*route.kind, *result->object) + "\n");
}

}  // namespace moonfence::sim
