#pragma once

// ObjectParser parses the many and long JSON texts of lists and watches: first with simdjson, which
// checks all of a text without building anything, then into a tree of that alone which the reader
// has not left out. Of a node with 50 images that is a tenth of the text. Measured: a heartbeat's
// 12 KB cost 69 thousand instructions where nlohmann's parser takes 1.33 million
// (docs/performance.md, docs/decisions/0007-simdjson.md).
//
// It understands what parse_json() understands, and nothing else: what simdjson does not take, and
// what is longer than 256 KiB, is shown to parse_json(), whose word counts.

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "base/result.h"

namespace moonfence::kube {

// Members that are left out of an object, each by the keys from the outside in. Arrays are passed
// through: what is named inside one is left out of each of its elements.
using Omitted = std::vector<std::vector<std::string_view>>;

class ObjectParser {
 public:
  // `omitted`: of the root object. Its keys must outlive the parser.
  explicit ObjectParser(const Omitted& omitted = {});
  ~ObjectParser();
  ObjectParser(const ObjectParser&) = delete;
  ObjectParser& operator=(const ObjectParser&) = delete;

  // As parse_json().
  [[nodiscard]] Result<nlohmann::json> parse(std::string_view text);

 private:
  struct Branch;
  struct Parser;

  // The omitted paths as a tree.
  std::unique_ptr<const Branch> omitted_;
  // Buffers that stay from one text to the next.
  std::unique_ptr<Parser> parser_;
};

}  // namespace moonfence::kube
