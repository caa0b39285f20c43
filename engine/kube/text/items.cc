#include "kube/text/items.h"

#include <nlohmann/json.hpp>

#include "base/text.h"
#include "kube/text/json.h"
#include "kube/text/status.h"

namespace moonfence::kube {
namespace {

// kind, apiVersion and metadata; a continue token is about 200 bytes.
constexpr std::size_t kRestLimit = 1U << 20U;

// Inside the root object and its array.
constexpr int kItemsDepth = 2;

bool is_space(char c) {
  return c == ' ' || c == '\t' || c == '\r' || c == '\n';
}

Failure not_a_list(std::string_view what) {
  return failure(Error::Kind::Malformed, "not a list: " + std::string(what));
}

}  // namespace

Result<void> ItemSplitter::append(std::string_view bytes) {
  while (!bytes.empty()) {
    // Nearly all bytes of a list lie in its items: those are taken in runs.
    const bool in_item = place_ == Place::InItem;
    const std::size_t used = in_item ? nesting_.follow(bytes, kItemsDepth) : 1;
    auto taken = in_item ? take_item(bytes.substr(0, used)) : take(bytes.front());
    if (!taken) {
      return taken;
    }
    bytes.remove_prefix(used);
  }
  return {};
}

std::optional<std::string> ItemSplitter::next() {
  if (ready_.empty()) {
    return std::nullopt;
  }
  std::string item = std::move(ready_.front());
  ready_.pop_front();
  return item;
}

Result<void> ItemSplitter::take(char c) {
  switch (place_) {
    case Place::BeforeRoot:
      if (c == '{') {
        place_ = Place::Rest;
        return take_rest(c);
      }
      return is_space(c) ? Result<void>() : not_a_list("it does not begin with '{'");
    case Place::Rest:
      return take_rest(c);
    case Place::BetweenItems:
      return take_between(c);
    case Place::InItem:
      return take_item({&c, nesting_.follow({&c, 1}, kItemsDepth)});
    case Place::AfterRoot:
      return is_space(c) ? Result<void>() : not_a_list("something follows its end");
  }
  return {};
}

// `run` was followed already and ends with the item or with the bytes at hand.
Result<void> ItemSplitter::take_item(std::string_view run) {
  item_ += run;
  if (item_.size() > item_limit_) {
    return failure(Error::Kind::Limit,
                   "list item larger than " + std::to_string(item_limit_) + " bytes");
  }
  if (nesting_.depth == kItemsDepth && !nesting_.in_string) {
    ready_.push_back(std::move(item_));
    item_.clear();
    place_ = Place::BetweenItems;
    comma_due_ = true;
  }
  return {};
}

Result<void> ItemSplitter::take_rest(char c) {
  if (rest_.size() >= kRestLimit) {
    return failure(Error::Kind::Limit,
                   "list with more than " + std::to_string(kRestLimit) + " bytes beside its items");
  }
  rest_ += c;
  const bool was_in_string = nesting_.in_string;
  if (items_next_ && !nesting_.in_string && nesting_.depth == 1 && !is_space(c) && c != ':') {
    items_next_ = false;
    if (c == '[') {
      if (items_seen_) {
        return not_a_list("two fields named items");
      }
      items_seen_ = true;
      nesting_.depth = 2;
      comma_due_ = item_due_ = false;
      place_ = Place::BetweenItems;
      return {};
    }
    items_seen_ = c == 'n';  // null is an empty list; the parser checks the spelling
  }
  nesting_.follow({&c, 1}, 0);
  if (!was_in_string && !nesting_.in_string && nesting_.depth == 1 && (c == '{' || c == ',')) {
    want_key_ = true;
  }
  note_key(c);
  if (nesting_.depth == 0) {
    place_ = Place::AfterRoot;
  }
  return {};
}

void ItemSplitter::note_key(char c) {
  if (reading_key_) {
    if (nesting_.in_string) {
      key_ += c;
      return;
    }
    reading_key_ = false;
    items_next_ = key_ == "items";
  } else if (want_key_ && nesting_.in_string) {
    want_key_ = false;
    reading_key_ = true;
    key_.clear();
  }
}

Result<void> ItemSplitter::take_between(char c) {
  if (is_space(c)) {
    return {};
  }
  if (c == ',' && comma_due_) {
    comma_due_ = false;
    item_due_ = true;
    return {};
  }
  if (c == '{' && !comma_due_) {
    item_due_ = false;
    place_ = Place::InItem;
    return take(c);
  }
  if (c == ']' && !item_due_) {
    rest_ += c;
    nesting_.depth = 1;
    place_ = Place::Rest;
    return {};
  }
  return not_a_list("its items are not objects separated by commas");
}

Result<ListMeta> ItemSplitter::finish() const {
  if (!closed()) {
    return failure(Error::Kind::Retryable, "the list ended in the middle");
  }
  const auto root = parse_json(rest_);
  if (!root) {
    return failure(Error(root.error()).within("list"));
  }
  Fields fields(*root);
  ListMeta meta;
  meta.kind = fields.string({"kind"});
  if (meta.kind == "Status") {
    return failure(error_from_status(*root).within("a Status instead of a list"));
  }
  if (!meta.kind.ends_with("List") || !items_seen_) {
    return not_a_list("kind \"" + escaped(meta.kind, 64) + "\"" +
                      (items_seen_ ? "" : " without items"));
  }
  meta.resource_version = ResourceVersion(fields.string({"metadata", "resourceVersion"}));
  meta.continue_token = fields.string({"metadata", "continue"});
  const std::int64_t remaining = fields.integer({"metadata", "remainingItemCount"}, -1);
  if (remaining >= 0) {
    meta.remaining = static_cast<std::size_t>(remaining);
  }
  if (fields.fault()) {
    return failure(Error(*fields.fault()).within("list"));
  }
  return meta;
}

}  // namespace moonfence::kube
