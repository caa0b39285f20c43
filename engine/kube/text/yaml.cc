#include "kube/text/yaml.h"

#include <algorithm>
#include <exception>
#include <set>
#include <sstream>

#include <yaml-cpp/anchor.h>
#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/exceptions.h>
#include <yaml-cpp/parser.h>

#include "base/text.h"

namespace moonfence::kube {
namespace {

// Thrown through the parser to stop it; caught in parse_yaml().
struct Refused : std::exception {
  Refused(Error::Kind kind_given, const YAML::Mark& mark, const std::string& why)
      : error{.kind = kind_given,
              .text = "line " + std::to_string(mark.line + 1) + ": " + why,
              .hint = {}} {}
  Error error;
};

class TreeBuilder final : public YAML::EventHandler {
 public:
  TreeBuilder(Yaml& root, const YamlLimits& limits) : root_(root), limits_(limits) {}

  void OnDocumentStart(const YAML::Mark& mark) override { began_ = mark; }
  void OnDocumentEnd() override {}

  void OnNull(const YAML::Mark& mark, YAML::anchor_t anchor) override {
    check_plain(mark, "?", anchor);
    add(mark, Yaml::Kind::Null);
  }
  void OnAlias(const YAML::Mark& mark, YAML::anchor_t /*anchor*/) override {
    throw Refused(Error::Kind::Malformed, mark, "aliases are not accepted; write the value out");
  }
  void OnScalar(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                const std::string& value) override {
    check_plain(mark, tag, anchor);
    if (!open_.empty() && open_.back().node->kind == Yaml::Kind::Map && !open_.back().has_key) {
      open_key(mark, value);
      return;
    }
    Yaml& scalar = add(mark, Yaml::Kind::Scalar);
    scalar.text = value;
    scalar.quoted = tag != "?";
  }
  void OnSequenceStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                       YAML::EmitterStyle::value /*style*/) override {
    check_plain(mark, tag, anchor);
    open(mark, Yaml::Kind::Sequence);
  }
  void OnSequenceEnd() override { open_.pop_back(); }
  void OnMapStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                  YAML::EmitterStyle::value /*style*/) override {
    check_plain(mark, tag, anchor);
    open(mark, Yaml::Kind::Map);
  }
  void OnMapEnd() override { open_.pop_back(); }

  [[nodiscard]] const YAML::Mark& began() const { return began_; }  // where the document stands

 private:
  // A collection that is being read. Only the innermost grows, so the pointers stay good.
  struct Open {
    Yaml* node;
    bool has_key = false;
    std::set<std::string> keys = {};
  };

  // "?" and "!" are the parser's words for no tag, on a plain and on a quoted value.
  void check_plain(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor) const {
    if (!limits_.plain) {
      return;
    }
    if (anchor != YAML::NullAnchor) {
      throw Refused(Error::Kind::Malformed, mark, "anchors are not accepted; write the value out");
    }
    if (!tag.empty() && tag != "?" && tag != "!") {
      throw Refused(Error::Kind::Malformed, mark,
                    "tags such as '" + escaped(tag, 64) + "' are not accepted");
    }
  }

  void open_key(const YAML::Mark& mark, const std::string& key) {
    Open& map = open_.back();
    if (!map.keys.insert(key).second) {
      throw Refused(Error::Kind::Malformed, mark, "key '" + escaped(key, 64) + "' is given twice");
    }
    map.node->keys.push_back(key);
    map.node->key_lines.push_back(mark.line + 1);
    map.node->items.emplace_back();
    map.has_key = true;
    count(mark);
  }

  void count(const YAML::Mark& mark) {
    if (++values_ > limits_.values) {
      throw Refused(Error::Kind::Limit, mark,
                    "more than " + std::to_string(limits_.values) + " values");
    }
  }

  Yaml& add(const YAML::Mark& mark, Yaml::Kind kind) {
    count(mark);
    Yaml* place = &root_;
    if (!open_.empty()) {
      Open& parent = open_.back();
      if (parent.node->kind == Yaml::Kind::Sequence) {
        place = &parent.node->items.emplace_back();
      } else if (parent.has_key) {
        place = &parent.node->items.back();
        parent.has_key = false;
      } else {
        throw Refused(Error::Kind::Malformed, mark, "a key must be a plain word");
      }
    }
    place->kind = kind;
    place->line = mark.line + 1;
    return *place;
  }

  void open(const YAML::Mark& mark, Yaml::Kind kind) {
    if (open_.size() >= limits_.depth) {
      throw Refused(Error::Kind::Limit, mark,
                    "nested deeper than " + std::to_string(limits_.depth) + " levels");
    }
    Yaml& node = add(mark, kind);
    open_.push_back(Open{.node = &node});
  }

  Yaml& root_;
  const YamlLimits& limits_;
  std::vector<Open> open_;
  std::size_t values_ = 0;
  YAML::Mark began_;
};

Result<Yaml> parse_documents(std::string_view text, const YamlLimits& limits) {
  std::istringstream stream{std::string(text)};
  YAML::Parser parser(stream);
  Yaml first;
  TreeBuilder builder(first, limits);
  if (!parser.HandleNextDocument(builder)) {
    return Yaml{};
  }
  YAML::Mark before = builder.began();
  while (true) {
    Yaml next;
    TreeBuilder rest(next, limits);
    if (!parser.HandleNextDocument(rest)) {
      return first;
    }
    if (next.kind != Yaml::Kind::Null) {
      return failure(Error::Kind::Malformed, "holds more than one YAML document");
    }
    // At a "," or "]" outside of brackets the parser yields empty documents for ever.
    if (rest.began().pos == before.pos) {
      return failure(Error::Kind::Malformed, "line " + std::to_string(before.line + 1) +
                                                 ": what stands here begins no value");
    }
    before = rest.began();
  }
}

}  // namespace

const Yaml* Yaml::find(std::string_view key) const {
  const auto found = std::find(keys.begin(), keys.end(), key);
  if (found == keys.end()) {
    return nullptr;
  }
  const Yaml& value = items[static_cast<std::size_t>(found - keys.begin())];
  return value.kind == Kind::Null ? nullptr : &value;
}

Result<Yaml> parse_yaml(std::string_view text, const YamlLimits& limits) {
  if (text.size() > limits.bytes) {
    return failure(Error::Kind::Limit, "larger than " + std::to_string(limits.bytes) + " bytes");
  }
  // The parser would guess UTF-16 or UTF-32 from these.
  if (text.find('\0') != std::string_view::npos || text.starts_with("\xFF\xFE") ||
      text.starts_with("\xFE\xFF")) {
    return failure(Error::Kind::Malformed, "is not UTF-8 text");
  }
  try {
    return parse_documents(text, limits);
  } catch (const Refused& refused) {
    return failure(refused.error);
  } catch (const YAML::Exception& fault) {
    return failure(Error::Kind::Malformed, "line " + std::to_string(fault.mark.line + 1) +
                                               ": not YAML: " + escaped(fault.msg, 200));
  } catch (const std::exception& fault) {
    return failure(Error::Kind::Malformed, "not YAML: " + escaped(fault.what(), 200));
  }
}

}  // namespace moonfence::kube
