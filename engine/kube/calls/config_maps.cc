#include "kube/calls/config_maps.h"

#include <utility>

#include <nlohmann/json.hpp>

#include "base/json_text.h"
#include "base/text.h"
#include "kube/calls/list_items.h"
#include "kube/text/json.h"
#include "kube/wire/url.h"

namespace moonfence::kube {
namespace {

using nlohmann::json;

// MaxSecretSize of the API server bounds ConfigMaps too.
constexpr std::size_t kDataLimit = 1U << 20U;
constexpr Duration kSaveTimeout = std::chrono::seconds(10);
// After the server's own limit; its answer still has to travel.
constexpr Duration kTravelTime = std::chrono::milliseconds(500);

Result<std::string> collection_path(const ObjectRef& ref) {
  if (ref.space.empty()) {
    return failure(Error::Kind::Invalid,
                   "ConfigMap \"" + escaped(ref.name, 128) + "\" has no namespace");
  }
  auto space = path_segment(ref.space.text());
  if (!space) {
    return failure(std::move(space.error()).within("namespace"));
  }
  return "/api/v1/namespaces/" + *space + "/configmaps";
}

json metadata_of(const ConfigMapText& text) {
  json metadata = json::object();
  for (const auto& [name, value] : text.labels) {
    metadata["labels"][name] = value;
  }
  return metadata;
}

std::string create_body(const ConfigMapText& text) {
  json metadata = metadata_of(text);
  metadata["namespace"] = text.ref.space.text();
  metadata["name"] = text.ref.name;
  std::string out;
  JsonObject body(out);
  body.set("apiVersion", "v1");
  JsonObject data(body.value_of("data"));
  for (const auto& [key, value] : text.data) {
    if (value) {
      data.set(key, *value);
    }
  }
  data.end();
  body.set("kind", "ConfigMap");
  body.value_of("metadata") += to_text(metadata);
  body.end();
  return out;
}

std::string patch_body(const ConfigMapText& text, const json& metadata) {
  std::string out;
  JsonObject patch(out);
  JsonObject data(patch.value_of("data"));
  for (const auto& [key, value] : text.data) {
    if (value) {
      data.set(key, *value);
    } else {
      data.value_of(key) += "null";
    }
  }
  data.end();
  patch.value_of("metadata") += to_text(metadata);
  patch.end();
  return out;
}

// Patch, and where that finds nothing, create; once around, since an object that comes and goes
// between the two is somebody's fight that we leave to the next save.
class Save final : public ApiCall {
 public:
  using Done = std::function<void(Result<void>)>;
  Save(Caller& caller, std::string collection, std::string path, ConfigMapText text, Done done)
      : caller_(caller),
        collection_(std::move(collection)),
        path_(std::move(path)),
        text_(std::move(text)),
        done_(std::move(done)) {
    patch();
  }

 private:
  void patch() {
    send(port::Method::Patch, path_, patch_body(text_, metadata_of(text_)),
         "application/merge-patch+json", [this](const Result<ApiReply>& reply) {
           if (!reply && reply.error().kind == Error::Kind::NotFound && !created_) {
             create();
             return;
           }
           finish(reply);
         });
  }

  void create() {
    created_ = true;
    send(port::Method::Post, collection_, create_body(text_), "application/json",
         [this](const Result<ApiReply>& reply) {
           if (!reply && reply.error().reason == "AlreadyExists") {
             patch();
             return;
           }
           finish(reply);
         });
  }

  void send(port::Method method, const std::string& path, std::string body,
            std::string content_type, std::function<void(const Result<ApiReply>&)> on_reply) {
    ApiRequest request;
    request.method = method;
    request.path = path;
    request.body = std::move(body);
    request.content_type = std::move(content_type);
    request.lane = port::Lane::Bulk;
    request.timeout = kSaveTimeout;
    call_ = caller_.call(std::move(request), std::move(on_reply));
  }

  void finish(const Result<ApiReply>& reply) {
    const Done done = std::move(done_);  // the callback may destroy this
    if (!reply) {
      done(failure(Error(reply.error()).within("save ConfigMap " + text_.ref.text())));
      return;
    }
    done({});
  }

  Caller& caller_;
  const std::string collection_;
  const std::string path_;
  const ConfigMapText text_;
  Done done_;
  bool created_ = false;
  CallHandle call_;
};

}  // namespace

Result<std::string> config_map_path(const ObjectRef& ref) {
  auto collection = collection_path(ref);
  if (!collection) {
    return collection;
  }
  auto segment = path_segment(ref.name);
  if (!segment) {
    return failure(std::move(segment.error()).within("ConfigMap"));
  }
  return *collection + "/" + *segment;
}

Result<ConfigMap> decode_config_map(const json& object) {
  Fields fields(object);
  if (fields.fault()) {
    return failure(Error(*fields.fault()).within("ConfigMap"));
  }
  const std::string kind = fields.string({"kind"});
  if (!kind.empty() && kind != "ConfigMap") {
    fields.refuse({"kind"}, "expected ConfigMap, found \"" + escaped(kind, 64) + "\"");
  }
  ConfigMap map;
  map.ref = ObjectRef{.space = Namespace(fields.required({"metadata", "namespace"})),
                      .name = fields.required({"metadata", "name"})};
  map.uid = Uid(fields.required({"metadata", "uid"}));
  map.resource_version = ResourceVersion(fields.string({"metadata", "resourceVersion"}));
  map.data = fields.strings({"data"});
  if (const json* binary = fields.object({"binaryData"})) {
    for (const auto& [key, value] : binary->items()) {
      map.binary_keys.insert(key);
    }
  }
  const std::string place = "ConfigMap \"" + escaped(map.ref.text(), 256) + "\"";
  if (fields.fault()) {
    return failure(Error(*fields.fault()).within(place));
  }
  std::size_t bytes = 0;
  for (const auto& [key, value] : map.data) {
    bytes += value.size();  // keys do not count (k/k ValidateConfigMap); each has 253 bytes at most
  }
  if (bytes > kDataLimit) {
    return failure(Error::Kind::Limit, place + ": data has " + std::to_string(bytes) + " of " +
                                           std::to_string(kDataLimit) + " bytes");
  }
  return map;
}

CallHandle ConfigMaps::get(const ObjectRef& ref, std::function<void(Result<ConfigMap>)> done) {
  auto path = config_map_path(ref);
  if (!path) {
    return caller_.refuse(std::move(path.error()),
                          [done = std::move(done)](const Error& error) { done(failure(error)); });
  }
  ApiRequest request;
  request.path = *std::move(path);
  return caller_.call(
      std::move(request), [done = std::move(done), ref](const Result<ApiReply>& reply) {
        if (!reply) {
          done(failure(reply.error()));
          return;
        }
        auto map = decode_config_map(reply->body);
        if (map && map->ref != ref) {
          map = failure(Error::Kind::Malformed, "the server answered with ConfigMap \"" +
                                                    escaped(map->ref.text(), 256) + "\"");
        }
        done(std::move(map));
      });
}

CallHandle ConfigMaps::save(ConfigMapText text, std::function<void(Result<void>)> done) {
  auto collection = collection_path(text.ref);
  auto path = config_map_path(text.ref);
  if (!path || !collection) {
    return caller_.refuse(path ? std::move(collection.error()) : std::move(path.error()),
                          [done = std::move(done)](const Error& error) { done(failure(error)); });
  }
  return std::make_unique<Save>(caller_, *std::move(collection), *std::move(path), std::move(text),
                                std::move(done));
}

namespace {

Result<std::optional<ConfigMap>> found_in(const json& list, const ObjectRef& ref) {
  Fields fields(list);
  const json* items = fields.array({"items"});
  if (items == nullptr || fields.fault()) {
    return failure(Error::Kind::Malformed, "the answer is no list of ConfigMaps");
  }
  for (const json& item : *items) {
    auto map = decode_config_map(item);
    if (!map) {
      return failure(std::move(map.error()));  // it may be the very one
    }
    if (map->ref.name == ref.name) {
      return std::optional(*std::move(map));
    }
  }
  return std::optional<ConfigMap>();
}

}  // namespace

CallHandle ConfigMaps::find(const ObjectRef& ref,
                            std::function<void(Result<std::optional<ConfigMap>>)> done) {
  auto path = collection_path(ref);
  if (!path) {
    return caller_.refuse(std::move(path.error()),
                          [done = std::move(done)](const Error& error) { done(failure(error)); });
  }
  ApiRequest request;
  request.path = *std::move(path);
  request.query = {{"fieldSelector", "metadata.name=" + selector_value(ref.name)}};
  return caller_.call(std::move(request), [done = std::move(done), ref](Result<ApiReply> reply) {
    done(reply ? found_in(reply->body, ref) : failure(std::move(reply.error())));
  });
}

CallHandle ConfigMaps::list(const Namespace& space, std::string label_selector,
                            std::function<void(Result<std::vector<std::string>>)> done) {
  auto path = collection_path({.space = space, .name = "*"});
  if (!path) {
    return caller_.refuse(std::move(path.error()),
                          [done = std::move(done)](const Error& error) { done(failure(error)); });
  }
  return list_items(caller_, *std::move(path), {{"labelSelector", std::move(label_selector)}},
                    ListPlan::consistent(), "ConfigMaps of namespace " + space.text(),
                    [done = std::move(done)](Result<ItemTexts> items) {
                      done(items ? Result<std::vector<std::string>>(std::move(items->texts))
                                 : failure(std::move(items.error())));
                    });
}

CallHandle ConfigMaps::create(const ConfigMapText& text, std::function<bool()> may_send,
                              WrittenDone done) {
  return write(port::Method::Post, collection_path(text.ref), create_body(text), text.ref,
               std::move(may_send), std::move(done));
}

CallHandle ConfigMaps::replace(const ConfigMapText& text, const Written& over,
                               std::function<bool()> may_send, WrittenDone done) {
  auto path = config_map_path(text.ref);
  if (path && (over.uid.empty() || over.version.empty())) {
    path = failure(Error::Kind::Invalid, "a write without a version could undo another");
  }
  json metadata = metadata_of(text);
  metadata["uid"] = over.uid.text();
  metadata["resourceVersion"] = over.version.text();
  return write(port::Method::Patch, std::move(path), patch_body(text, metadata), text.ref,
               std::move(may_send), std::move(done));
}

CallHandle ConfigMaps::write(port::Method method, Result<std::string> path, std::string body,
                             const ObjectRef& ref, std::function<bool()> may_send,
                             WrittenDone done) {
  const std::string what = "write ConfigMap " + ref.text();
  if (!path) {
    return caller_.refuse(std::move(path.error()).within(what),
                          [done = std::move(done)](const Error& error) { done(failure(error)); });
  }
  ApiRequest request;
  request.method = method;
  request.path = *std::move(path);
  request.query = {{"timeout", format_duration(write_limit_)}};
  request.body = std::move(body);
  request.content_type =
      method == port::Method::Post ? "application/json" : "application/merge-patch+json";
  request.timeout = write_limit_ + kTravelTime;
  request.may_send = std::move(may_send);
  return caller_.call(std::move(request),
                      [done = std::move(done), what](const Result<ApiReply>& reply) {
                        if (!reply) {
                          done(failure(Error(reply.error()).within(what)));
                          return;
                        }
                        auto map = decode_config_map(reply->body);
                        if (!map) {
                          done(failure(std::move(map.error()).within(what)));
                          return;
                        }
                        done(Written{.uid = map->uid, .version = map->resource_version});
                      });
}

CallHandle ConfigMaps::remove(const ObjectRef& ref, const Uid& uid,
                              std::function<void(Result<void>)> done) {
  auto path = config_map_path(ref);
  const std::string what = "delete ConfigMap " + ref.text();
  if (path && uid.empty()) {
    path = failure(Error::Kind::Invalid, "a delete without a UID could hit a replacement");
  }
  if (!path) {
    return caller_.refuse(std::move(path.error()).within(what),
                          [done = std::move(done)](const Error& error) { done(failure(error)); });
  }
  ApiRequest request;
  request.method = port::Method::Delete;
  request.path = *std::move(path);
  request.body = to_text(
      {{"apiVersion", "v1"}, {"kind", "DeleteOptions"}, {"preconditions", {{"uid", uid.text()}}}});
  request.content_type = "application/json";
  request.lane = port::Lane::Bulk;
  request.timeout = kSaveTimeout;
  return caller_.call(std::move(request),
                      [done = std::move(done), what](const Result<ApiReply>& reply) {
                        if (!reply) {
                          done(failure(Error(reply.error()).within(what)));
                          return;
                        }
                        done({});
                      });
}

}  // namespace moonfence::kube
