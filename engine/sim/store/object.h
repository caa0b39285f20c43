#pragma once

// What the simulated API server keeps: objects as Kubernetes writes them, in JSON, but without
// apiVersion and kind, which the resource implies. An object never changes; a write puts another
// one in its place, so whoever holds one holds what was true then.

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include <nlohmann/json.hpp>
#include <tl/expected.hpp>

namespace moonfence::sim {

using Json = nlohmann::json;
using Object = std::shared_ptr<const Json>;

// An object and its text, which is written at most once however many lists and watches send it.
class Document {
 public:
  explicit Document(Json object) : object_(std::make_shared<const Json>(std::move(object))) {}
  explicit Document(Object object) : object_(std::move(object)) {}

  [[nodiscard]] const Json& json() const { return *object_; }
  [[nodiscard]] const Object& object() const { return object_; }
  [[nodiscard]] const std::string& text() const {
    if (text_.empty()) {
      text_ = object_->dump(-1, ' ', false, Json::error_handler_t::replace);
    }
    return text_;
  }

 private:
  Object object_;
  mutable std::string text_;
};
// Shared by the store, its log and every list that is under way.
using DocumentPtr = std::shared_ptr<const Document>;

// How an API call fails: the parts of a metav1.Status.
struct ApiFault {
  int code = 500;
  std::string reason;  // "NotFound", "Conflict", "AlreadyExists", "Invalid", "Forbidden" …
  std::string message;
  std::optional<int> retry_after_seconds = std::nullopt;
  Json details = nullptr;  // null: none
};

template <class T>
using Answer = tl::expected<T, ApiFault>;

[[nodiscard]] inline tl::unexpected<ApiFault> fault(ApiFault what) {
  return tl::unexpected<ApiFault>(std::move(what));
}

// `space` is empty for what has no namespace. Resources go by their plural name.
struct Key {
  std::string resource;  // "pods"
  std::string space;
  std::string name;

  friend auto operator<=>(const Key&, const Key&) = default;
};

enum class ChangeType { Added, Modified, Deleted };

// One committed write. `version` is the store's, one counter for everything as in etcd.
struct Change {
  ChangeType type = ChangeType::Added;
  Key key;
  Object before;  // null when added
  Object after;   // of a deletion the last state, with the version of the deletion
  std::int64_t version = 0;
  std::string actor;            // who wrote: "moonfence-0", "kubelet n1", "statefulset-controller"
  DocumentPtr before_document;  // of `before` and `after`: their texts
  DocumentPtr after_document;
  bool restores = false;  // nobody wrote it: the whole store went back to where it had been
};

}  // namespace moonfence::sim
