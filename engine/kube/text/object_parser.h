#pragma once

// ObjectParser parses the many and long JSON texts of lists and watches: first with simdjson, which
// checks all of a text without building anything, then into a tree of that alone which the reader
// has not left out. Of a node with 50 images that is a tenth of the text. Measured: a heartbeat's
// 12 KB cost 69 thousand instructions where nlohmann's parser takes 1.33 million
// (docs/performance.md, docs/decisions/0007-simdjson.md).
//
// It understands what parse_json() understands, and nothing else: what simdjson does not take, and
// what is longer than 256 KiB, is shown to parse_json(), whose word counts.

#include <array>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "base/result.h"

namespace moonfence::kube {

// Members that are left out of an object, each by the keys from the outside in. Arrays are passed
// through: what is named inside one is left out of each of its elements.
using Omitted = std::vector<std::vector<std::string_view>>;

// The same of objects within frames of a watch.
[[nodiscard]] Omitted within_frames(Omitted omitted);

// What a frame of a watch is about, without a tree of it. The words stand until the next text.
struct Glance {
  std::string_view type;     // "MODIFIED"
  std::string_view name;     // of its object, "" for none
  std::string_view version;  // of its object
  // SHA-256 of all that the object's tree would hold but for its version.
  std::array<unsigned char, 32> content;
};

class ObjectParser {
 public:
  // `omitted`: of the root object. Its keys must outlive the parser.
  explicit ObjectParser(const Omitted& omitted = {});
  ~ObjectParser();
  ObjectParser(const ObjectParser&) = delete;
  ObjectParser& operator=(const ObjectParser&) = delete;

  // As parse_json().
  [[nodiscard]] Result<nlohmann::json> parse(std::string_view text);
  // Nothing where only parse() can say. Allocates nothing once it has seen texts as long.
  [[nodiscard]] std::optional<Glance> glance(std::string_view frame);

 private:
  struct Branch;
  struct Parser;
  [[nodiscard]] Parser& parser_for(std::string_view text);

  // The omitted paths as a tree; the same and the version of a frame's object.
  std::unique_ptr<const Branch> omitted_;
  std::unique_ptr<const Branch> passed_over_;
  // Buffers that stay from one text to the next, but for those of long ones.
  std::unique_ptr<Parser> parser_;
};

}  // namespace moonfence::kube
