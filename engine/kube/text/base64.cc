#include "kube/text/base64.h"

#include <cstdint>

namespace moonfence::kube {
namespace {

constexpr std::string_view kAlphabet =
    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

}  // namespace

std::string base64_encoded(std::string_view bytes) {
  std::string out;
  out.reserve((bytes.size() + 2) / 3 * 4);
  for (std::size_t i = 0; i < bytes.size(); i += 3) {
    std::uint32_t group = 0;
    for (std::size_t j = 0; j < 3; ++j) {
      group <<= 8U;
      group |= i + j < bytes.size() ? static_cast<std::uint8_t>(bytes[i + j]) : 0U;
    }
    for (std::size_t j = 0; j < 4; ++j) {
      const bool padding = i + j > bytes.size();
      out += padding ? '=' : kAlphabet[(group >> (18U - 6U * j)) & 0x3FU];
    }
  }
  return out;
}

std::optional<std::string> base64_decoded(std::string_view text) {
  std::string out;
  std::uint32_t group = 0;
  std::size_t digits = 0;
  std::size_t padding = 0;
  for (const char c : text) {
    if (c == '\n' || c == '\r') {
      continue;
    }
    if (c == '=') {
      ++padding;
      continue;
    }
    const auto value = kAlphabet.find(c);
    if (value == std::string_view::npos || padding > 0) {
      return std::nullopt;
    }
    group = (group << 6U) | static_cast<std::uint32_t>(value);
    if (++digits % 4 == 0) {
      out += static_cast<char>(group >> 16U & 0xFFU);
      out += static_cast<char>(group >> 8U & 0xFFU);
      out += static_cast<char>(group & 0xFFU);
      group = 0;
    }
  }
  const std::size_t rest = digits % 4;
  if (rest == 1 || padding != (4 - rest) % 4) {
    return std::nullopt;
  }
  if (rest == 2) {
    out += static_cast<char>(group >> 4U & 0xFFU);
  } else if (rest == 3) {
    out += static_cast<char>(group >> 10U & 0xFFU);
    out += static_cast<char>(group >> 2U & 0xFFU);
  }
  return out;
}

}  // namespace moonfence::kube
