#include "kube/text/pem.h"

#include "base/text.h"
#include "kube/text/base64.h"

namespace moonfence::kube {
namespace {

constexpr std::string_view kBegin = "-----BEGIN ";
constexpr std::string_view kDashes = "-----";

struct Block {
  std::string_view label;
  std::string_view body;
};

enum class Next { Found, None, CutOff };

// Takes the next block off the front of `text`.
Next take_block(std::string_view& text, Block& block) {
  const auto begin = text.find(kBegin);
  if (begin == std::string_view::npos) {
    return Next::None;
  }
  text.remove_prefix(begin + kBegin.size());
  const auto label_end = text.find(kDashes);
  constexpr std::size_t kLongestLabel = 64;
  if (label_end > kLongestLabel) {  // npos, none at all, is the largest
    return Next::CutOff;
  }
  block.label = text.substr(0, label_end);
  text.remove_prefix(label_end + kDashes.size());
  const std::string end_line = "-----END " + std::string(block.label) + "-----";
  const auto end = text.find(end_line);
  if (end == std::string_view::npos || text.substr(0, end).find(kBegin) != std::string_view::npos) {
    return Next::CutOff;
  }
  block.body = text.substr(0, end);
  text.remove_prefix(end + end_line.size());
  return Next::Found;
}

std::optional<std::string> certificate_fault(const Block& block) {
  std::string body;
  for (const char c : block.body) {
    if (c != ' ' && c != '\t') {
      body += c;
    }
  }
  const auto der = base64_decoded(body);
  if (!der || der->empty()) {
    return "holds a CERTIFICATE block that is not base64";
  }
  return std::nullopt;
}

std::optional<std::string> key_fault(const Block& block) {
  if (block.label.starts_with("ENCRYPTED") || block.body.find("ENCRYPTED") != block.body.npos) {
    return "holds an encrypted key, and nobody is there to type its passphrase";
  }
  if (trimmed(block.body).empty()) {
    return "holds an empty key";
  }
  return std::nullopt;
}

}  // namespace

std::optional<std::string> pem_fault(std::string_view text, Pem kind) {
  if (trimmed(text).empty()) {
    return "is empty";
  }
  bool found = false;
  Block block;
  while (true) {
    const Next next = take_block(text, block);
    if (next == Next::CutOff) {
      return "holds a PEM block that is cut off";
    }
    if (next == Next::None) {
      break;
    }
    std::optional<std::string> fault;
    if (kind == Pem::Certificate && block.label == "CERTIFICATE") {
      fault = certificate_fault(block);
      found = true;
    } else if (kind == Pem::PrivateKey && block.label.ends_with("PRIVATE KEY")) {
      fault = key_fault(block);
      found = true;
    }
    if (fault) {
      return fault;
    }
  }
  if (!found) {
    return kind == Pem::Certificate ? "holds no PEM block of type CERTIFICATE"
                                    : "holds no PEM block of type PRIVATE KEY";
  }
  return std::nullopt;
}

}  // namespace moonfence::kube
