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
  if (auto ready = keeper->begin(); !ready) {
    return failure(std::move(ready.error()).within(kPlace));
  }
  keeper->look_later();
  return keeper;
}

// What can be shown is shown: pods are fenced also with a certificate that nobody trusts.
Result<void> CertificateKeeper::begin() {
  if (!folder_.empty()) {
    auto loaded = load();
    if (loaded) {
      identity_ = std::move(loaded->identity);
      shown_ = std::move(loaded->sum);
      if (const auto fault = end_of(*identity_)) {
        tell(*fault);
      }
      return {};
    }
    if (loaded.error().kind != Error::Kind::NotFound) {
      return failure(std::move(loaded.error()));
    }
    tell(loaded.error());
  }
  auto made = make();
  if (!made) {
    return failure(std::move(made.error()));
  }
  identity_ = std::move(*made);
  return {};
}

Result<std::shared_ptr<const os::TlsIdentity>> CertificateKeeper::make() {
  return os::TlsIdentity::self_signed(names_, around_.clock.now());
}

Result<CertificateKeeper::Loaded> CertificateKeeper::load() const {
  const auto certificates = around_.files.read(folder_ + "/tls.crt", kLongest);
  if (!certificates) {
    return failure(certificates.error());
  }
  const auto key = around_.files.read(folder_ + "/tls.key", kLongest);
  if (!key) {
    return failure(key.error());
  }
  std::string sum = sha256_hex(*certificates + '\0' + *key);
  if (sum == shown_) {
    return Loaded{.identity = identity_, .sum = std::move(sum)};
  }
  auto loaded = os::TlsIdentity::from_pem(*certificates, *key);
  if (!loaded) {
    return failure(std::move(loaded.error()).within(folder_));
  }
  return Loaded{.identity = std::move(*loaded), .sum = std::move(sum)};
}

// nullopt: it has not expired.
std::optional<Error> CertificateKeeper::end_of(const os::TlsIdentity& identity) const {
  if (identity.expires() > around_.clock.now()) {
    return std::nullopt;
  }
  return Error{
      .kind = Error::Kind::Invalid,
      .text = folder_ + ": the certificate expired at " + format_rfc3339(identity.expires()),
      .hint = "renew it: what is shown stays until a new one is there"};
}

void CertificateKeeper::look_later() {
  next_look_ = around_.loop.after(kLookEvery, [this] { look(); });
}

void CertificateKeeper::look() {
  look_later();
  if (!folder_.empty()) {
    look_into_folder();
  }
  if (shown_.empty() && is_due(*identity_)) {
    if (auto made = make()) {
      take(std::move(*made), "");
    } else {
      complain(made.error());
    }
  }
}

void CertificateKeeper::look_into_folder() {
  auto loaded = load();
  if (!loaded) {
    complain(loaded.error());
  } else if (const auto fault = end_of(*loaded->identity)) {
    complain(*fault);
  } else {
    refused_.clear();
    told_.clear();
    if (loaded->identity != identity_) {
      take(std::move(loaded->identity), std::move(loaded->sum));
    }
  }
}

// Of one that it has made: near its end, or not begun yet, where the clock has gone back.
bool CertificateKeeper::is_due(const os::TlsIdentity& own) const {
  const WallTime now = around_.clock.now();
  const WallTime made = own.expires() - os::TlsIdentity::kLifetime;
  return now >= own.expires() - kRenewBefore || now < made - os::TlsIdentity::kBefore;
}

void CertificateKeeper::take(std::shared_ptr<const os::TlsIdentity> identity, std::string sum) {
  identity_ = std::move(identity);
  shown_ = std::move(sum);
  around_.log.info("serving_certificate_changed",
                   {{"expires", format_rfc3339(identity_->expires())}});
  around_.changed(identity_);
}

// The second time alone: a look may have come in the middle of a change.
void CertificateKeeper::complain(const Error& error) {
  const std::string fault = error.message();
  if (std::exchange(refused_, fault) == fault && told_ != fault) {
    tell(error);
  }
}

void CertificateKeeper::tell(const Error& error) {
  told_ = error.message();
  around_.log.warning(
      "serving_certificate_unusable",
      {{"error", told_}, {"shown", shown_.empty() ? "one that moonfence signed" : "the last one"}});
}

}  // namespace moonfence::app
