#pragma once

// Choices turns a fuzzer's bytes into decisions of a grammar. Once the bytes are used up every
// decision is the first one, so grammars list their plainest alternative first and end by
// themselves.

#include <cstddef>
#include <cstdint>
#include <string>

namespace moonfence::fuzz {

class Choices {
 public:
  Choices(const std::uint8_t* data, std::size_t size) : next_(data), end_(data + size) {}

  // From 0 to count - 1.
  std::size_t below(std::size_t count) {
    if (count <= 1) {
      return 0;
    }
    const std::size_t value = count <= 256 ? byte() : byte() * 256U + byte();
    return value % count;
  }
  // True once in `in` times; false when the bytes are used up.
  bool once_in(std::size_t in) { return !used_up() && below(in) == in - 1; }
  std::uint64_t number() {
    std::uint64_t value = 0;
    for (int i = 0; i < 8; ++i) {
      value = value << 8U | byte();
    }
    return value;
  }
  template <class List>
  const auto& of(const List& list) {
    return list[below(std::size(list))];
  }
  [[nodiscard]] bool used_up() const { return next_ == end_; }

 private:
  std::size_t byte() { return used_up() ? 0 : *next_++; }

  const std::uint8_t* next_;
  const std::uint8_t* end_;
};

}  // namespace moonfence::fuzz
