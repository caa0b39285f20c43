#pragma once

// ConfigMaps: what the engine is told by (the policies) and where it keeps what must survive it
// (its report, the last good sources, the records of its incidents). Reading changes nothing;
// everything else is meant for objects of the engine's own. save() writes only the keys it is
// given; create(), replace() and remove() are for objects that only one replica may write: each
// fails where somebody else was faster.

#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "base/names.h"
#include "kube/objects/objects.h"
#include "kube/wire/caller.h"

namespace moonfence::kube {

struct ConfigMap {
  ObjectRef ref;
  Uid uid;
  ResourceVersion resource_version;
  std::map<std::string, std::string> data;
  std::set<std::string> binary_keys;  // of binaryData, whose values nobody here reads
};

// From a watch or an answer. namespace, name and uid are required. Limit beyond what the API server
// itself accepts (1 MiB over all data).
[[nodiscard]] Result<ConfigMap> decode_config_map(const nlohmann::json& object);

// Invalid for an empty namespace.
[[nodiscard]] Result<std::string> config_map_path(const ObjectRef& ref);

// What save() writes. A key without a value is removed; keys that are not named stay as they are.
struct ConfigMapText {
  ObjectRef ref;
  Labels labels;
  std::map<std::string, std::optional<std::string>> data;
};

class ConfigMaps {
 public:
  explicit ConfigMaps(Caller& caller) : caller_(caller) {}

  // A quorum read. NotFound when it is not there.
  [[nodiscard]] CallHandle get(const ObjectRef& ref, std::function<void(Result<ConfigMap>)> done);

  // The same by a list of that name: "there is none" is an empty list, the server's own word, and
  // not a 404, which may be anybody's.
  [[nodiscard]] CallHandle find(const ObjectRef& ref,
                                std::function<void(Result<std::optional<ConfigMap>>)> done);

  // A JSON merge patch; where there is nothing to patch, the object is created, and when somebody
  // else creates it first, patched after all. Saving the same twice does no harm, so after an
  // error, also Unknown, the caller may save again.
  [[nodiscard]] CallHandle save(ConfigMapText text, std::function<void(Result<void>)> done);

  // All objects of the namespace that the selector selects, over all pages, one JSON text each: one
  // that cannot be understood must not hide the others.
  [[nodiscard]] CallHandle list(const Namespace& space, std::string label_selector,
                                std::function<void(Result<std::vector<std::string>>)> done);

  struct Written {
    Uid uid;
    ResourceVersion version;
  };
  using WrittenDone = std::function<void(Result<Written>)>;
  // Both leave at once, before what is on the lane of the lists. `may_send` is asked when the bytes
  // leave. Conflict when there is one of that name already (Error::reason AlreadyExists).
  [[nodiscard]] CallHandle create(const ConfigMapText& text, std::function<bool()> may_send,
                                  WrittenDone done);
  // Conflict when it is not what `over` says any more, NotFound when it is gone.
  [[nodiscard]] CallHandle replace(const ConfigMapText& text, const Written& over,
                                   std::function<bool()> may_send, WrittenDone done);
  // Only the very object: Conflict when another has its name.
  [[nodiscard]] CallHandle remove(const ObjectRef& ref, const Uid& uid,
                                  std::function<void(Result<void>)> done);

  // When both sides of the wire give up create() and replace().
  void limit_writes(Duration limit) { write_limit_ = limit; }

 private:
  CallHandle write(port::Method method, Result<std::string> path, std::string body,
                   const ObjectRef& ref, std::function<bool()> may_send, WrittenDone done);

  Caller& caller_;
  Duration write_limit_ = std::chrono::seconds(5);
};

}  // namespace moonfence::kube
