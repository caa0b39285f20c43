#pragma once

// Sha256 takes digests of texts, without an allocation each.

#include <array>
#include <string_view>

struct evp_md_ctx_st;
struct evp_md_st;

namespace moonfence {

class Sha256 {
 public:
  Sha256();
  ~Sha256();
  Sha256(const Sha256&) = delete;
  Sha256& operator=(const Sha256&) = delete;

  [[nodiscard]] std::array<unsigned char, 32> operator()(std::string_view text);

 private:
  evp_md_st* const method_;
  evp_md_ctx_st* const state_;
};

}  // namespace moonfence
