#pragma once

// Html is text of the status page under construction. What stands in the source is markup; what
// comes as a value at run time is text and is escaped, without exception: names, and the words of
// policies and API servers, come from outside.

#include <concepts>
#include <cstddef>
#include <string>
#include <string_view>

namespace moonfence::app {

// A literal, taken as it is. Nothing that is known only at run time can become one.
class Markup {
 public:
  consteval Markup() = default;
  template <std::size_t N>
  // NOLINTNEXTLINE(google-explicit-constructor): a literal is meant to become markup by itself
  consteval Markup(const char (&literal)[N]) : text_(literal, N - 1) {}
  [[nodiscard]] constexpr std::string_view text() const { return text_; }

 private:
  std::string_view text_;
};

class Html {
 public:
  Html& operator<<(Markup markup) {
    text_ += markup.text();
    return *this;
  }
  template <class Text>
  requires std::same_as<Text, std::string> || std::same_as<Text, std::string_view> Html& operator<<(
      const Text& text) {
    escape(text);
    return *this;
  }
  template <std::integral Number>
  requires(!std::same_as<Number, bool> && !std::same_as<Number, char>) Html& operator<<(
      Number number) {
    text_ += std::to_string(number);
    return *this;
  }
  Html& operator<<(const Html& part) {
    text_ += part.text_;
    return *this;
  }

  [[nodiscard]] bool empty() const { return text_.empty(); }
  [[nodiscard]] const std::string& text() const { return text_; }

 private:
  // For text and for attributes in quotes. Bytes that are no UTF-8, control characters and those
  // that turn the direction of writing become U+FFFD.
  void escape(std::string_view text);

  std::string text_;
};

}  // namespace moonfence::app
