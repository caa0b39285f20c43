#pragma once

// JSON written as it is said, for what is written often and is small: an audit line, the steps of a
// record. Building a document of nlohmann's first and then dumping it took 53,000 instructions a
// line, and takes 12,000 so. The bytes are those that its dump() would have given.

#include <cstdint>
#include <string>
#include <string_view>

namespace moonfence {

// Appends the text in quotes. Bytes that are no UTF-8 become U+FFFD.
void append_quoted(std::string& out, std::string_view text);

// One object, appended to a text from `{` on; the caller ends it.
class JsonObject {
 public:
  explicit JsonObject(std::string& out) : out_(out) { out_ += '{'; }
  JsonObject(const JsonObject&) = delete;
  JsonObject& operator=(const JsonObject&) = delete;

  void set(std::string_view key, std::string_view text) { append_quoted(value_of(key), text); }
  void set(std::string_view key, std::uint64_t number) { value_of(key) += std::to_string(number); }
  void set_true(std::string_view key) { value_of(key) += "true"; }
  // Nothing when the text is empty.
  void set_if_any(std::string_view key, std::string_view text) {
    if (!text.empty()) {
      set(key, text);
    }
  }
  // Where the caller appends the key's value, before anything else.
  [[nodiscard]] std::string& value_of(std::string_view key);
  void end() { out_ += '}'; }

 private:
  std::string& out_;
  bool empty_ = true;
};

}  // namespace moonfence
