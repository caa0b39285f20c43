#pragma once

// ItemSplitter reads the body of a List as it arrives: each element of the top-level `items`
// becomes a text of its own, everything else is collected small and read at the end. Neither the
// list nor the parse tree of more than one item is ever in memory, so 5,000 nodes cost as much as
// one. A list counts only when its root object has closed: the transport reports truncated bodies
// as successes.

#include <cstddef>
#include <deque>
#include <optional>
#include <string>
#include <string_view>

#include "base/names.h"
#include "base/result.h"
#include "kube/text/nesting.h"

namespace moonfence::kube {

// What a List says about itself.
struct ListMeta {
  std::string kind;
  ResourceVersion
      resource_version;        // of the collection; the items' own versions mean nothing to it
  std::string continue_token;  // empty on the last page
  std::optional<std::size_t> remaining = std::nullopt;  // items on later pages, if the server says
};

class ItemSplitter {
 public:
  explicit ItemSplitter(std::size_t item_limit = 16U << 20U) : item_limit_(item_limit) {}

  // Malformed when the bytes are no List, Limit when an item or the rest is too large. After an
  // error the splitter is of no more use.
  Result<void> append(std::string_view bytes);
  // The next whole item. Pulled, so that whoever handles it may destroy the splitter's owner.
  [[nodiscard]] std::optional<std::string> next();

  [[nodiscard]] bool closed() const { return place_ == Place::AfterRoot; }
  // To be asked when the body has ended: Retryable when it was cut short, Malformed for anything
  // that is no List (Table, Status with its own error, HTML).
  [[nodiscard]] Result<ListMeta> finish() const;

 private:
  enum class Place { BeforeRoot, Rest, BetweenItems, InItem, AfterRoot };

  Result<void> take(char c);
  Result<void> take_rest(char c);
  Result<void> take_between(char c);
  Result<void> take_item(std::string_view run);
  void note_key(char c);

  std::size_t item_limit_;
  Place place_ = Place::BeforeRoot;
  Nesting nesting_;
  bool want_key_ = false;  // at depth 1, the next string is a key
  bool reading_key_ = false;
  bool items_next_ = false;  // the key just read was "items"
  bool items_seen_ = false;
  bool comma_due_ = false;  // between items: an item has ended and no comma came yet
  bool item_due_ = false;   // between items: a comma came, so an item must
  std::string key_;
  std::string item_;
  std::string rest_;  // the document with an empty `items`
  std::deque<std::string> ready_;
};

}  // namespace moonfence::kube
