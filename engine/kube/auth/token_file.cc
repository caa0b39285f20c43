#include "kube/auth/token_file.h"

#include <algorithm>
#include <string_view>
#include <utility>

#include "base/text.h"

namespace moonfence::kube {
namespace {

constexpr std::size_t kTokenLimit = 64U << 10U;

bool is_one_word(std::string_view text) {
  return std::none_of(text.begin(), text.end(), [](char c) {
    const auto byte = static_cast<unsigned char>(c);
    return byte <= 0x20 || byte == 0x7F;
  });
}

}  // namespace

TokenFile::TokenFile(loop::Loop& loop, port::Files& files, port::Log& log, std::string path,
                     std::string first)
    : loop_(loop),
      files_(files),
      log_(log),
      path_(std::move(path)),
      token_(std::move(first)),
      since_(loop.now()) {
  tick();
}

void TokenFile::tick() {
  reload();
  timer_ = loop_.after(kPeriod, [this] { tick(); });
}

void TokenFile::reload() {
  const auto text = files_.read(path_, kTokenLimit);
  if (!text) {
    reloads_.fail(log_, "token", text.error().text);
    return;
  }
  const std::string_view token = trimmed(*text);
  if (token.empty() || !is_one_word(token)) {
    reloads_.fail(log_, "token",
                  escaped(path_) + (token.empty() ? " is empty" : " holds more than one word"));
    return;
  }
  const bool changed = token != token_;
  if (changed) {
    token_ = std::string(token);
    since_ = loop_.now();
  }
  reloads_.succeed(log_, "token", changed);
}

bool TokenFile::refused(Moment asked) {
  if (since_ > asked) {
    return true;
  }
  const std::uint64_t taken = reloads_.taken;
  reload();
  return reloads_.taken != taken;
}

}  // namespace moonfence::kube
