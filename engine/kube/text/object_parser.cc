#include "kube/text/object_parser.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <optional>
#include <span>
#include <utility>

#include <nlohmann/json.hpp>
#include <simdjson.h>

#include "base/sha256.h"
#include "kube/text/json.h"

namespace moonfence::kube {
namespace {

using nlohmann::json;
using simdjson::dom::element_type;

// simdjson's buffers are ten times as large as the longest text so far, and are kept. Longer ones
// are rare, and cost no time that anybody would miss.
constexpr std::size_t kLongest = std::size_t{256} << 10U;
// simdjson needs some 14 bytes for each byte of a text. A long text is rare: a node with a thousand
// volumes, an item of a list.
constexpr std::size_t kKept = std::size_t{64} << 10U;

}  // namespace

// Below one key; `inside` is empty where the whole value is omitted.
struct ObjectParser::Branch {
  std::string_view key;
  std::vector<Branch> inside;

  void add(std::span<const std::string_view> path) {
    if (path.empty()) {
      return;
    }
    auto found = std::find_if(inside.begin(), inside.end(),
                              [&path](const Branch& each) { return each.key == path.front(); });
    if (found == inside.end()) {
      found = inside.insert(found, Branch{.key = path.front(), .inside = {}});
    }
    found->add(path.subspan(1));
  }

  [[nodiscard]] const Branch* find(std::string_view wanted) const {
    for (const Branch& each : inside) {
      if (each.key == wanted) {
        return &each;
      }
    }
    return nullptr;
  }
};

namespace {

// `omitted`: null where nothing is. The depth is bounded by the parser (kJsonDepthLimit).
template <class Branch>
json tree_of(simdjson::dom::element value, const Branch* omitted) {
  switch (value.type()) {
    case element_type::OBJECT: {
      json tree = json::object();
      for (const auto& [key, member] : simdjson::dom::object(value)) {
        const Branch* const part = omitted == nullptr ? nullptr : omitted->find(key);
        if (part == nullptr || !part->inside.empty()) {
          // Of two equal keys the last one counts.
          tree[std::string(key)] = tree_of(member, part);
        }
      }
      return tree;
    }
    case element_type::ARRAY: {
      json tree = json::array();
      for (const simdjson::dom::element each : simdjson::dom::array(value)) {
        tree.push_back(tree_of(each, omitted));
      }
      return tree;
    }
    case element_type::STRING:
      return std::string(std::string_view(value));
    case element_type::INT64: {
      const auto number = std::int64_t(value);
      return number < 0 ? json(number) : json(static_cast<std::uint64_t>(number));
    }
    case element_type::UINT64:
      return std::uint64_t(value);
    case element_type::DOUBLE:
      return double(value);
    case element_type::BOOL:
      return bool(value);
    case element_type::NULL_VALUE:
      return nullptr;
  }
  return nullptr;
}

// Everything that tree_of() would make, in an order and with marks that leave no doubt.
template <class Branch>
void append_content(std::string& out, simdjson::dom::element value, const Branch* omitted) {
  const auto append_text = [&out](std::string_view text) {
    const std::size_t size = text.size();
    out.append(reinterpret_cast<const char*>(&size), sizeof size).append(text);
  };
  const auto append_bits = [&out](char mark, auto number) {
    out.append(1, mark).append(reinterpret_cast<const char*>(&number), sizeof number);
  };
  switch (value.type()) {
    case element_type::OBJECT:
      out += '{';
      for (const auto& [key, member] : simdjson::dom::object(value)) {
        const Branch* const part = omitted == nullptr ? nullptr : omitted->find(key);
        if (part == nullptr || !part->inside.empty()) {
          out += ':';
          append_text(key);
          append_content(out, member, part);
        }
      }
      out += '}';
      return;
    case element_type::ARRAY:
      out += '[';
      for (const simdjson::dom::element each : simdjson::dom::array(value)) {
        append_content(out, each, omitted);
      }
      out += ']';
      return;
    case element_type::STRING:
      out += '"';
      append_text(std::string_view(value));
      return;
    case element_type::INT64:
      append_bits('i', std::int64_t(value));
      return;
    case element_type::UINT64:
      append_bits('u', std::uint64_t(value));
      return;
    case element_type::DOUBLE:
      append_bits('d', double(value));
      return;
    case element_type::BOOL:
      out += bool(value) ? 't' : 'f';
      return;
    case element_type::NULL_VALUE:
      out += 'n';
      return;
  }
}

// Null: it is no object, or has no such member. Of two equal keys the last one counts.
std::optional<simdjson::dom::element> member_of(std::optional<simdjson::dom::element> value,
                                                std::string_view wanted) {
  std::optional<simdjson::dom::element> found;
  if (value && value->is_object()) {
    for (const auto& [key, member] : simdjson::dom::object(*value)) {
      if (key == wanted) {
        found = member;
      }
    }
  }
  return found;
}

// "" for what is no string.
std::string_view word_of(std::optional<simdjson::dom::element> value) {
  return value && value->is_string() ? std::string_view(*value) : std::string_view();
}

}  // namespace

struct ObjectParser::Parser {
  simdjson::dom::parser parser;
  std::string text;     // with the bytes behind it that simdjson may read
  std::string content;  // of a glance
  Sha256 sha256;

  // Null: it is for parse_json() to say.
  std::optional<simdjson::dom::element> read(std::string_view given) {
    const std::size_t room = given.size() + simdjson::SIMDJSON_PADDING;
    if (text.size() < room) {
      text.resize(room);
    }
    std::memcpy(text.data(), given.data(), given.size());
    std::memset(text.data() + given.size(), 0, simdjson::SIMDJSON_PADDING);
    if (parser.capacity() < given.size() &&
        parser.allocate(room, kJsonDepthLimit) != simdjson::SUCCESS) {
      return std::nullopt;
    }
    simdjson::dom::element root;
    if (parser.parse(text.data(), given.size(), /*realloc_if_needed=*/false).get(root) !=
        simdjson::SUCCESS) {
      return std::nullopt;
    }
    return root;
  }
};

Omitted within_frames(Omitted omitted) {
  for (auto& path : omitted) {
    path.insert(path.begin(), "object");
  }
  return omitted;
}

ObjectParser::ObjectParser(const Omitted& omitted) {
  auto root = std::make_unique<Branch>();
  for (const auto& path : omitted) {
    root->add(path);
  }
  auto passed_over = std::make_unique<Branch>(*root);
  constexpr std::array<std::string_view, 3> kVersion = {"object", "metadata", "resourceVersion"};
  passed_over->add(kVersion);
  omitted_ = std::move(root);
  passed_over_ = std::move(passed_over);
}

ObjectParser::~ObjectParser() = default;

ObjectParser::Parser& ObjectParser::parser_for(std::string_view text) {
  if (!parser_ || (text.size() <= kKept && parser_->parser.capacity() > kKept)) {
    parser_ = std::make_unique<Parser>();
  }
  return *parser_;
}

Result<json> ObjectParser::parse(std::string_view text) {
  if (text.size() > kLongest) {
    return parse_json(text);
  }
  const auto root = parser_for(text).read(text);
  if (!root) {
    return parse_json(text);
  }
  json tree = tree_of(*root, omitted_->inside.empty() ? nullptr : omitted_.get());
  if (text.size() > kKept) {
    parser_.reset();
  }
  return tree;
}

std::optional<Glance> ObjectParser::glance(std::string_view frame) {
  if (frame.size() > kLongest) {
    return std::nullopt;
  }
  const auto root = parser_for(frame).read(frame);
  const auto object = member_of(root, "object");
  const auto metadata = member_of(object, "metadata");
  Glance glance = {.type = word_of(member_of(root, "type")),
                   .name = word_of(member_of(metadata, "name")),
                   .version = word_of(member_of(metadata, "resourceVersion")),
                   .content = {}};
  if (glance.type.empty() || glance.version.empty()) {
    return std::nullopt;
  }
  parser_->content.clear();
  append_content(parser_->content, *object, passed_over_->find("object"));
  glance.content = parser_->sha256(parser_->content);
  return glance;
}

}  // namespace moonfence::kube
