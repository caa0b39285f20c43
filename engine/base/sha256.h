#pragma once

// SHA-256 of texts.

#include <array>
#include <span>
#include <string>
#include <string_view>

struct evp_md_ctx_st;
struct evp_md_st;

namespace moonfence {

// Without an allocation each.
class Sha256 {
 public:
  Sha256();
  ~Sha256();
  Sha256(const Sha256&) = delete;
  Sha256& operator=(const Sha256&) = delete;

  [[nodiscard]] std::array<unsigned char, 32> operator()(std::string_view text);

 protected:
  evp_md_st* const method_;
  evp_md_ctx_st* const state_;
};

// Of a text that comes in pieces.
class Sha256Stream : private Sha256 {
 public:
  Sha256Stream();

  void add(std::string_view piece);
  // Of what was added so far; more may follow.
  [[nodiscard]] std::string hex() const;
};

// In lower case.
[[nodiscard]] std::string hex_of(std::span<const unsigned char> bytes);
[[nodiscard]] std::string sha256_hex(std::string_view text);

}  // namespace moonfence
