#include "cluster/endpoints/xml.h"

#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include <expat.h>
#include <nlohmann/json.hpp>

#include "base/check.h"
#include "base/text.h"

namespace moonfence::cluster {
namespace {

using nlohmann::json;

bool is_list(std::string_view name) {
  return name == "item" || name == "member";
}

class Reader {
 public:
  Reader() : parser_(XML_ParserCreate("UTF-8")) {
    MOONFENCE_CHECK(parser_ != nullptr);
    XML_SetUserData(parser_.get(), this);
    XML_SetElementHandler(
        parser_.get(), [](void* self, const char* name, const char**) { of(self).begin(name); },
        [](void* self, const char*) { of(self).end(); });
    XML_SetCharacterDataHandler(parser_.get(), [](void* self, const char* text, int length) {
      of(self).add({text, static_cast<std::size_t>(length)});
    });
    XML_SetStartDoctypeDeclHandler(
        parser_.get(), [](void* self, const char*, const char*, const char*, int) {
          of(self).refuse(Error::Kind::Malformed, "it has a DOCTYPE, which is not read");
        });
  }
  Reader(const Reader&) = delete;
  Reader& operator=(const Reader&) = delete;

  Result<json> read(std::string_view text) {
    if (text.size() > std::size_t{std::numeric_limits<int>::max()}) {
      return failure(Error::Kind::Limit, "XML: too much of it");
    }
    const XML_Status status =
        XML_Parse(parser_.get(), text.data(), static_cast<int>(text.size()), XML_TRUE);
    if (fault_) {
      return failure(*std::move(fault_));
    }
    if (status != XML_STATUS_OK) {
      return failure(Error::Kind::Malformed,
                     "XML: line " + std::to_string(XML_GetCurrentLineNumber(parser_.get())) + ": " +
                         XML_ErrorString(XML_GetErrorCode(parser_.get())));
    }
    return std::move(root_);
  }

 private:
  struct Element {
    std::string name;
    json value;  // null: there is no element in it
    std::string text;
  };

  static Reader& of(void* self) { return *static_cast<Reader*>(self); }

  // Handlers may be called once more after it; the first fault stays.
  void refuse(Error::Kind kind, const std::string& why) {
    if (!fault_) {
      fault_ = Error{.kind = kind, .text = "XML: " + why};
      XML_StopParser(parser_.get(), XML_FALSE);
    }
  }

  void begin(const char* name) {
    if (fault_) {
      return;
    }
    if (open_.size() >= kXmlDepth || ++elements_ > kXmlElements) {
      refuse(Error::Kind::Limit, "it is too deep, or has too many elements");
      return;
    }
    if (!open_.empty() && !trimmed(std::exchange(open_.back().text, {})).empty()) {
      refuse(Error::Kind::Malformed, "text beside elements");
      return;
    }
    open_.push_back({.name = name, .value = nullptr, .text = {}});
  }

  void add(std::string_view text) {
    if (!fault_ && !open_.empty()) {
      open_.back().text += text;
    }
  }

  void end() {
    if (fault_ || open_.empty()) {
      return;
    }
    Element element = std::move(open_.back());
    open_.pop_back();
    if (element.value.is_null()) {
      element.value = std::move(element.text);
    } else if (!trimmed(element.text).empty()) {
      refuse(Error::Kind::Malformed, "text beside elements");
      return;
    }
    if (open_.empty()) {
      root_ = json{{element.name, std::move(element.value)}};
      return;
    }
    json& parent = open_.back().value;
    const bool fits =
        parent.is_null() ||
        (is_list(element.name) ? parent.is_array()
                               : parent.is_object() && !parent.contains(element.name));
    if (!fits) {
      refuse(Error::Kind::Malformed, "an element twice, or beside a list");
    } else if (is_list(element.name)) {
      parent.push_back(std::move(element.value));
    } else {
      parent[element.name] = std::move(element.value);
    }
  }

  struct Free {
    void operator()(XML_Parser parser) const { XML_ParserFree(parser); }
  };
  std::unique_ptr<std::remove_pointer_t<XML_Parser>, Free> parser_;
  std::vector<Element> open_;
  std::size_t elements_ = 0;
  json root_;
  std::optional<Error> fault_;
};

}  // namespace

Result<json> parse_xml(std::string_view text) {
  return Reader().read(text);
}

}  // namespace moonfence::cluster
