#include "app/serving/certificate_keeper.h"

#include <utility>

#include "base/sha256.h"

namespace moonfence::app {
namespace {

constexpr std::size_t kLongest = std::size_t{1} << 20U;
constexpr const char* kPlace = "--serving-certificate";

}  // namespace

Result<std::unique_ptr<CertificateKeeper>> CertificateKeeper::open(std::string folder,
                                                                   std::vector<std::string> names,
                                                                   Surroundings around) {
  std::unique_ptr<CertificateKeeper> keeper(
      new CertificateKeeper(std::move(folder), std::move(names), std::move(around)));
  auto first = keeper->folder_.empty() ? keeper->make() : keeper->load();
  if (!first) {
    return failure(std::move(first.error()).within(kPlace));
  }
  keeper->identity_ = std::move(*first);
  keeper->look_later();
  return keeper;
}

Result<std::shared_ptr<const os::TlsIdentity>> CertificateKeeper::make() {
  return os::TlsIdentity::self_signed(names_, around_.clock.now());
}

Result<CertificateKeeper::Texts> CertificateKeeper::read() const {
  auto certificates = around_.files.read(folder_ + "/tls.crt", kLongest);
  if (!certificates) {
    return failure(std::move(certificates.error()));
  }
  auto key = around_.files.read(folder_ + "/tls.key", kLongest);
  if (!key) {
    return failure(std::move(key.error()));
  }
  return Texts{std::move(*certificates), std::move(*key)};
}

Result<std::shared_ptr<const os::TlsIdentity>> CertificateKeeper::load() {
  const auto texts = read();
  if (!texts) {
    return failure(texts.error());
  }
  const std::string sum = sha256_hex(texts->certificates + '\0' + texts->key);
  if (sum == shown_) {
    return identity_->expires() > around_.clock.now()
               ? Result<std::shared_ptr<const os::TlsIdentity>>(identity_)
               : failure(Error::Kind::Invalid,
                         folder_ + ": the certificate expired at " +
                             format_rfc3339(identity_->expires()),
                         "renew it: it is shown until a new one is there");
  }
  auto loaded = os::TlsIdentity::from_pem(texts->certificates, texts->key, around_.clock.now());
  if (!loaded) {
    return failure(std::move(loaded.error()).within(folder_));
  }
  shown_ = sum;
  return loaded;
}

void CertificateKeeper::look_later() {
  next_look_ = around_.loop.after(kLookEvery, [this] { look(); });
}

void CertificateKeeper::look() {
  look_later();
  if (folder_.empty() && around_.clock.now() < identity_->expires() - kRenewBefore) {
    return;
  }
  auto found = folder_.empty() ? make() : load();
  if (!found) {
    // The second time alone: a look may have come in the middle of a change.
    const std::string fault = found.error().message();
    if (std::exchange(refused_, fault) == fault && told_ != fault) {
      told_ = fault;
      around_.log.warning("serving_certificate_unusable", {{"error", fault}});
    }
    return;
  }
  refused_.clear();
  told_.clear();
  if (*found != identity_) {
    identity_ = std::move(*found);
    around_.log.info("serving_certificate_changed",
                     {{"expires", format_rfc3339(identity_->expires())}});
    around_.changed(identity_);
  }
}

}  // namespace moonfence::app
