#pragma once

// Identifiers are types, not strings: a node's name cannot be passed where a pod's UID is wanted.
// They compare and order by their text; none of them is checked for syntax here (kube/wire/url.h
// refuses what cannot stand in a path).

#include <compare>
#include <ostream>
#include <string>
#include <utility>

namespace moonfence {

template <class Tag>
class Name {
 public:
  Name() = default;
  explicit Name(std::string text) : text_(std::move(text)) {}

  [[nodiscard]] const std::string& text() const { return text_; }
  [[nodiscard]] bool empty() const { return text_.empty(); }

  friend auto operator<=>(const Name&, const Name&) = default;
  friend std::ostream& operator<<(std::ostream& out, const Name& name) { return out << name.text_; }

 private:
  std::string text_;
};

using NodeName = Name<struct NodeNameTag>;
using Namespace = Name<struct NamespaceTag>;
using Uid = Name<struct UidTag>;
// Opaque to us but for one rule: within a resource it can be compared for equality.
using ResourceVersion = Name<struct ResourceVersionTag>;
using IncidentId = Name<struct IncidentIdTag>;

// Where a namespaced object lives. Two objects may follow one another under one such name; the Uid
// tells them apart.
struct ObjectRef {
  Namespace space;
  std::string name;

  friend auto operator<=>(const ObjectRef&, const ObjectRef&) = default;
  // "namespace/name", as kubectl prints it.
  [[nodiscard]] std::string text() const { return space.text() + "/" + name; }
};
using PodRef = ObjectRef;

}  // namespace moonfence
