#include "sim/store/object_store.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <utility>

#include "base/check.h"
#include "sim/store/deletion.h"
#include "sim/store/fields.h"
#include "sim/store/metadata.h"
#include "sim/store/refusals.h"

namespace moonfence::sim {
namespace {

// Without vowels, so that no names turn into words (k8s.io/apimachinery util/rand).
constexpr std::string_view kSuffixLetters = "bcdfghjklmnpqrstvwxz2456789";
constexpr int kSuffixLength = 5;

std::string name_of(const Json& object) {
  return text_field(object, {"metadata", "name"});
}

// Of the objects that count their generations, since their controllers report the one they saw.
bool has_generation(const ResourceKind& kind) {
  return kind.group == "apps" || kind.group == "batch" || kind.group == "csiaddons.openshift.io";
}

void count_generation(const ResourceKind& kind, const Json& before, Json& after) {
  if (!has_generation(kind)) {
    return;
  }
  const Json* old_spec = find_field(before, {"spec"});
  const Json* new_spec = find_field(after, {"spec"});
  const bool same = old_spec == new_spec ||
                    (old_spec != nullptr && new_spec != nullptr && *old_spec == *new_spec);
  const auto generation = number_field(before, {"metadata", "generation"}).value_or(1);
  after["metadata"]["generation"] = same ? generation : generation + 1;
}

// The status of a node is written with its annotations (k/k registry/core/node strategy).
void keep_but_annotations(const Json& before, Json& metadata) {
  Json annotations = metadata.value("annotations", Json());
  metadata = before;
  if (annotations.is_object()) {
    metadata["annotations"] = std::move(annotations);
  } else {
    metadata.erase("annotations");
  }
}

// Undoes what the part of an update does not reach.
void keep_the_rest(const Key& key, const Json& before, Json& after, ObjectStore::Part part) {
  using Part = ObjectStore::Part;
  if (part == Part::Whole) {
    return;
  }
  if (part == Part::Status) {
    // Hardly any edit touches more than the status: comparing is cheaper than another copy.
    auto& fields = after.get_ref<Json::object_t&>();
    std::erase_if(fields, [&before](const auto& field) {
      return field.first != "status" && !before.contains(field.first);
    });
    for (const auto& [name, value] : before.get_ref<const Json::object_t&>()) {
      if (name == "metadata" && key.resource == "nodes" && after[name] != value) {
        keep_but_annotations(value, after[name]);
      } else if (name != "status" && after[name] != value) {
        after[name] = value;
      }
    }
    return;
  }
  if (const Json* status = find_field(before, {"status"}); status != nullptr) {
    after["status"] = *status;
  } else {
    after.erase("status");
  }
}

using Documents = std::map<std::pair<std::string, std::string>, DocumentPtr>;

Change change_back(ChangeType type, const Key& key, const DocumentPtr& before,
                   const DocumentPtr& after) {
  return {.type = type,
          .key = key,
          .before = before == nullptr ? nullptr : before->object(),
          .after = after->object(),
          .actor = "etcd",
          .before_document = before,
          .after_document = after,
          .restores = true};
}

// What became of a resource's objects when what was `before` is `now`; what is gone first.
std::vector<Change> changes_back(const std::string& resource, const Documents& before,
                                 const Documents& now) {
  std::vector<Change> changes;
  const auto key_of = [&resource](const auto& name) {
    return Key{.resource = resource, .space = name.first, .name = name.second};
  };
  const auto uid_of = [](const DocumentPtr& document) {
    return text_field(document->json(), {"metadata", "uid"});
  };
  for (const auto& [name, was] : before) {
    const auto found = now.find(name);
    if (found == now.end() || uid_of(found->second) != uid_of(was)) {
      changes.push_back(change_back(ChangeType::Deleted, key_of(name), was, was));
    }
  }
  for (const auto& [name, is] : now) {
    const auto found = before.find(name);
    const bool same = found != before.end() && uid_of(found->second) == uid_of(is);
    if (!same) {
      changes.push_back(change_back(ChangeType::Added, key_of(name), nullptr, is));
    } else if (found->second != is) {
      changes.push_back(change_back(ChangeType::Modified, key_of(name), found->second, is));
    }
  }
  return changes;
}

}  // namespace

ObjectStore::ObjectStore(std::function<WallTime()> now, port::Random& uids)
    : now_(std::move(now)), uids_(uids) {
  for (const ResourceKind& kind : all_kinds()) {
    objects_.try_emplace(std::string(kind.resource));
  }
}

Answer<Object> ObjectStore::create(const std::string& resource, const std::string& space,
                                   Json object, const std::string& actor, bool dry_run) {
  const ResourceKind* kind = find_kind(resource);
  if (kind == nullptr) {
    return fault(unknown_resource());
  }
  object.erase("apiVersion");
  object.erase("kind");
  Json& metadata = object["metadata"];
  if (!metadata.is_object()) {
    metadata = Json::object();
  }
  if (const std::string& stem = text_field(object, {"metadata", "generateName"});
      name_of(object).empty() && !stem.empty()) {
    metadata["name"] = stem + new_suffix();
  }
  const Key key{.resource = resource, .space = space, .name = name_of(object)};
  if (auto refused = check_name(*kind, key.name)) {
    return fault(*std::move(refused));
  }
  if (find_document(key) != nullptr) {
    return fault(already_exists(*kind, key.name));
  }
  if (kind->namespaced) {
    metadata["namespace"] = space;
  } else {
    metadata.erase("namespace");
  }
  metadata["uid"] = new_uid();
  metadata["creationTimestamp"] = format_rfc3339(now_());
  metadata.erase("resourceVersion");
  metadata.erase("deletionTimestamp");
  metadata.erase("deletionGracePeriodSeconds");
  if (has_generation(*kind)) {
    metadata["generation"] = 1;
  }
  if (dry_run) {
    return std::make_shared<const Json>(std::move(object));
  }
  return put(key, std::move(object), actor);
}

const ObjectStore::Objects& ObjectStore::objects_of(const std::string& resource) const {
  static const Objects none;
  const auto found = objects_.find(resource);
  return found == objects_.end() ? none : found->second;
}

DocumentPtr ObjectStore::find_document(const Key& key) const {
  const Objects& objects = objects_of(key.resource);
  const auto found = objects.find(Name(key.space, key.name));
  return found == objects.end() ? nullptr : found->second;
}

Object ObjectStore::find(const Key& key) const {
  const DocumentPtr found = find_document(key);
  return found == nullptr ? nullptr : found->object();
}

std::vector<DocumentPtr> ObjectStore::list_documents(const std::string& resource,
                                                     const std::string& space) const {
  const Objects& objects = objects_of(resource);
  std::vector<DocumentPtr> out;
  out.reserve(objects.size());
  auto at = space.empty() ? objects.begin() : objects.lower_bound(Name(space, ""));
  for (; at != objects.end() && (space.empty() || at->first.first == space); ++at) {
    out.push_back(at->second);
  }
  return out;
}

std::vector<Object> ObjectStore::list(const std::string& resource, const std::string& space) const {
  std::vector<Object> out;
  const auto documents = list_documents(resource, space);
  out.reserve(documents.size());
  for (const DocumentPtr& document : documents) {
    out.push_back(document->object());
  }
  return out;
}

DocumentPtr ObjectStore::find_document_at(const Key& key, std::int64_t version) const {
  MOONFENCE_CHECK(version >= log_start_);
  DocumentPtr then = find_document(key);
  for (std::int64_t undone = version_; undone > version; --undone) {
    const Change& change = change_at(undone);
    if (change.key == key) {
      then = change.before_document;
    }
  }
  return then;
}

std::vector<DocumentPtr> ObjectStore::list_documents_at(const std::string& resource,
                                                        const std::string& space,
                                                        std::int64_t version) const {
  MOONFENCE_CHECK(version >= log_start_);
  if (version >= version_) {
    return list_documents(resource, space);
  }
  Objects then = objects_of(resource);
  for (std::int64_t undone = version_; undone > version; --undone) {
    const Change& change = change_at(undone);
    if (change.key.resource != resource) {
      continue;
    }
    const Name name(change.key.space, change.key.name);
    if (change.before_document == nullptr) {
      then.erase(name);
    } else {
      then[name] = change.before_document;
    }
  }
  std::vector<DocumentPtr> out;
  out.reserve(then.size());
  for (const auto& [name, document] : then) {
    if (space.empty() || name.first == space) {
      out.push_back(document);
    }
  }
  return out;
}

Answer<Object> ObjectStore::update(const Key& key, const std::function<void(Json&)>& edit,
                                   Part part, const std::string& actor, bool dry_run) {
  const ResourceKind* kind = find_kind(key.resource);
  const DocumentPtr before = find_document(key);
  if (kind == nullptr || before == nullptr) {
    return fault(kind == nullptr ? unknown_resource() : not_found(*kind, key.name));
  }
  Json after = before->json();
  edit(after);
  after.erase("apiVersion");
  after.erase("kind");
  if (auto refused = check_identity(*kind, key, before->json(), after)) {
    return fault(*std::move(refused));
  }
  keep_the_rest(key, before->json(), after, part);
  keep_metadata(before->json(), after);
  count_generation(*kind, before->json(), after);
  if (after == before->json()) {
    return before->object();
  }
  if (dry_run) {
    return std::make_shared<const Json>(std::move(after));
  }
  if (is_gone_with(before->json(), after)) {
    // Watchers are told the last state that was stored, which still has its finalizer.
    erase(key, before->json(), actor);
    return std::make_shared<const Json>(std::move(after));
  }
  return put(key, std::move(after), actor);
}

Answer<DeleteResult> ObjectStore::remove(const Key& key, const DeleteOptions& options,
                                         const std::string& actor) {
  const ResourceKind* kind = find_kind(key.resource);
  const DocumentPtr before = find_document(key);
  if (kind == nullptr || before == nullptr) {
    return fault(kind == nullptr ? unknown_resource() : not_found(*kind, key.name));
  }
  if (auto refused = check_preconditions(*kind, key.name, before->json(), options)) {
    return fault(*std::move(refused));
  }
  Deletion deletion = plan_deletion(*kind, before->json(), options, now_());
  DeleteResult result{.object = before->object(), .marked_only = !deletion.removes};
  if (options.dry_run) {
    if (deletion.marked) {
      result.object = std::make_shared<const Json>(*std::move(deletion.marked));
    }
    return result;
  }
  if (deletion.marked) {
    result.object = put(key, *std::move(deletion.marked), actor);
  }
  // A listener that heard of the mark may have been faster.
  const DocumentPtr left = deletion.removes ? find_document(key) : nullptr;
  if (left != nullptr) {
    result.object = erase(key, left->json(), actor);
  }
  return result;
}

void ObjectStore::listen(Listener listener) {
  listeners_.push_back(std::move(listener));
}

void ObjectStore::forget(std::int64_t version) {
  MOONFENCE_CHECK(!telling_);
  while (log_start_ < version && !log_.empty()) {
    log_.pop_front();
    ++log_start_;
  }
}

Object ObjectStore::put(const Key& key, Json object, const std::string& actor) {
  DocumentPtr& place = objects_[key.resource][Name(key.space, key.name)];
  object["metadata"]["resourceVersion"] = std::to_string(version_ + 1);
  const DocumentPtr before =
      std::exchange(place, std::make_shared<const Document>(std::move(object)));
  const DocumentPtr after = place;
  commit({.type = before == nullptr ? ChangeType::Added : ChangeType::Modified,
          .key = key,
          .before = before == nullptr ? nullptr : before->object(),
          .after = after->object(),
          .actor = actor,
          .before_document = before,
          .after_document = after});
  return after->object();
}

Object ObjectStore::erase(const Key& key, Json last, const std::string& actor) {
  Objects& objects = objects_[key.resource];
  const auto found = objects.find(Name(key.space, key.name));
  MOONFENCE_CHECK(found != objects.end());
  const DocumentPtr before = found->second;
  objects.erase(found);
  last["metadata"]["resourceVersion"] = std::to_string(version_ + 1);
  const auto after = std::make_shared<const Document>(std::move(last));
  commit({.type = ChangeType::Deleted,
          .key = key,
          .before = before->object(),
          .after = after->object(),
          .actor = actor,
          .before_document = before,
          .after_document = after});
  return after->object();
}

void ObjectStore::commit(Change change) {
  change.version = ++version_;
  log_.push_back(std::move(change));
  if (telling_) {
    return;  // told below, after what is being told
  }
  telling_ = true;
  tell_what_is_left();
  telling_ = false;
}

void ObjectStore::tell(const Change& change) {
  for (std::size_t i = 0; i < listeners_.size(); ++i) {
    listeners_[i](change);
  }
}

void ObjectStore::tell_what_is_left() {
  while (told_ < version_) {
    tell(change_at(++told_));
  }
}

void ObjectStore::restore(const StoreSnapshot& snapshot) {
  MOONFENCE_CHECK(!telling_);
  const Resources undone = std::exchange(objects_, snapshot.objects);
  version_ = log_start_ = told_ = snapshot.version;
  log_.clear();
  telling_ = true;
  for (const auto& [resource, before] : undone) {
    for (Change& change : changes_back(resource, before, objects_of(resource))) {
      const std::string& own = text_field(*change.after, {"metadata", "resourceVersion"});
      change.version = change.type == ChangeType::Deleted ? snapshot.version : std::stoll(own);
      tell(change);
    }
  }
  tell_what_is_left();
  telling_ = false;
}

std::string ObjectStore::new_uid() {
  const std::uint64_t high = uids_.next();
  const std::uint64_t low = uids_.next();
  std::array<char, 40> text{};
  // Version 4, variant 1 of RFC 4122.
  std::snprintf(text.data(), text.size(), "%08x-%04x-4%03x-%04x-%012llx",
                static_cast<unsigned>(high >> 32U), static_cast<unsigned>(high >> 16U & 0xFFFFU),
                static_cast<unsigned>(high & 0xFFFU),
                static_cast<unsigned>(low >> 48U & 0x3FFFU) | 0x8000U,
                static_cast<unsigned long long>(low & 0xFFFF'FFFF'FFFFU));
  return text.data();
}

std::string ObjectStore::new_suffix() {
  std::string suffix;
  for (int i = 0; i < kSuffixLength; ++i) {
    suffix += kSuffixLetters[uids_.next() % kSuffixLetters.size()];
  }
  return suffix;
}

}  // namespace moonfence::sim
