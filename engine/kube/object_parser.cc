#include "kube/object_parser.h"

#include <algorithm>
#include <cstring>
#include <optional>
#include <span>
#include <utility>

#include <nlohmann/json.hpp>
#include <simdjson.h>

#include "kube/json.h"

namespace moonfence::kube {
namespace {

using nlohmann::json;
using simdjson::dom::element_type;

// simdjson's buffers are ten times as large as the longest text so far, and are kept. Longer ones
// are rare, and cost no time that anybody would miss.
constexpr std::size_t kLongest = std::size_t{256} << 10U;

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

}  // namespace

struct ObjectParser::Parser {
  simdjson::dom::parser parser;
  std::string text;  // with the bytes behind it that simdjson may read

  // Null: it is for parse_json() to say.
  std::optional<json> parse(std::string_view given, const Branch& omitted) {
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
    return tree_of(root, omitted.inside.empty() ? nullptr : &omitted);
  }
};

ObjectParser::ObjectParser(const Omitted& omitted) {
  auto root = std::make_unique<Branch>();
  for (const auto& path : omitted) {
    root->add(path);
  }
  omitted_ = std::move(root);
}

ObjectParser::~ObjectParser() = default;

Result<json> ObjectParser::parse(std::string_view text) {
  if (text.size() > kLongest) {
    return parse_json(text);
  }
  if (!parser_) {
    parser_ = std::make_unique<Parser>();
  }
  std::optional<json> tree = parser_->parse(text, *omitted_);
  return tree ? Result<json>(*std::move(tree)) : parse_json(text);
}

}  // namespace moonfence::kube
