#pragma once

// What a policy asks to be read for it (`fetch`, `source.plan`): one GET of a vendor's endpoint,
// one object of the Kubernetes API, or all objects of a kind. A fencer also says what is to be sent
// so that a machine is switched off or refused by its storage. Policies make requests; the engine
// checks them against its configuration, performs them and hands the answers over in the next
// round.

#include <cstddef>
#include <map>
#include <string>

namespace moonfence::policy {

struct Request {
  enum class Kind {
    Http,      // fence.http(endpoint, path)
    Object,    // fence.get(apiVersion, resource, namespace, name)
    List,      // fence.list(apiVersion, resource, namespace, options)
    Post,      // fence.post(endpoint, path, body)
    Create,    // fence.create(apiVersion, resource, namespace, object)
    Annotate,  // fence.annotate(apiVersion, resource, namespace, name, uid, annotations)
  };
  Kind kind = Kind::Http;
  // Of Http and Post. The path is built: each part that a policy gave is escaped, and so is the
  // query.
  std::string endpoint;
  std::string path;
  std::string body = {};  // of Post, Create and Annotate (the annotations): JSON
  bool tries = false;     // by fence.try: that it failed is an answer too
  // Of Object, List, Create and Annotate; never secrets. `space` is "" for a resource that has no
  // namespace, and for a list of all namespaces. A list has no name.
  std::string api_version;
  std::string resource;
  std::string space;
  std::string name;
  std::string uid = {};  // of Annotate: another object of that name is left alone
  // Of List: a label selector, "" for all objects; and of each object its metadata alone.
  std::string labels = {};
  bool metadata_only = false;

  // "http vendor /v2/nodes", "get example.com/v1 volumes storage/pvc-1", "list v1 pods db",
  // "list-metadata v1 pods labels: app=db": equal for equal requests; what fixtures call it by.
  [[nodiscard]] std::string text() const;
  // It is for doing something, and only a fencer makes it.
  [[nodiscard]] bool is_order() const {
    return kind == Kind::Post || kind == Kind::Create || kind == Kind::Annotate;
  }
  // Of these the one that changes Kubernetes' objects: "group/version/resource" of it, else "".
  [[nodiscard]] std::string written_kind() const {
    return kind == Kind::Create || kind == Kind::Annotate ? api_version + "/" + resource : "";
  }

  friend bool operator==(const Request&, const Request&) = default;
};

// More objects than this are no answer to fence.list, for nobody judges by a part of them.
inline constexpr std::size_t kMostListed = 1000;

// By the name that the policy will find the answer under. Empty: it has enough.
using Requests = std::map<std::string, Request>;

}  // namespace moonfence::policy
