#include "sim/audit_hash.h"

#include <array>

#include <openssl/evp.h>

#include "base/check.h"

namespace moonfence::sim {
namespace {

struct ContextDeleter {
  void operator()(EVP_MD_CTX* context) const { EVP_MD_CTX_free(context); }
};
using Context = std::unique_ptr<EVP_MD_CTX, ContextDeleter>;

void update(EVP_MD_CTX* context, std::string_view text) {
  MOONFENCE_CHECK(EVP_DigestUpdate(context, text.data(), text.size()) == 1);
}

}  // namespace

struct AuditHash::State {
  Context context{EVP_MD_CTX_new()};
};

AuditHash::AuditHash() : state_(std::make_unique<State>()) {
  MOONFENCE_CHECK(state_->context != nullptr);
  MOONFENCE_CHECK(EVP_DigestInit_ex(state_->context.get(), EVP_sha256(), nullptr) == 1);
}

AuditHash::~AuditHash() = default;

void AuditHash::add(std::string_view replica, std::string_view line) {
  update(state_->context.get(), replica);
  update(state_->context.get(), " ");
  update(state_->context.get(), line);
  update(state_->context.get(), "\n");
}

std::string AuditHash::hex() const {
  const Context copy{EVP_MD_CTX_new()};
  MOONFENCE_CHECK(copy != nullptr);
  MOONFENCE_CHECK(EVP_MD_CTX_copy_ex(copy.get(), state_->context.get()) == 1);
  std::array<unsigned char, EVP_MAX_MD_SIZE> hash{};
  unsigned int size = 0;
  MOONFENCE_CHECK(EVP_DigestFinal_ex(copy.get(), hash.data(), &size) == 1);
  constexpr std::string_view kDigits = "0123456789abcdef";
  std::string text;
  for (unsigned int i = 0; i < size; ++i) {
    text += kDigits[hash[i] >> 4U];
    text += kDigits[hash[i] & 0x0FU];
  }
  return text;
}

}  // namespace moonfence::sim
