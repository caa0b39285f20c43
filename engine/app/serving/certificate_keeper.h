#pragma once

// CertificateKeeper has the certificate that the servers show: that of a folder, read again every
// kLookEvery, or one that it makes itself and makes anew in time. A change that cannot be used is
// told, and the old one stays. At start one that has expired is shown, and told, and where there is
// none one of its own, until there is one: a certificate that nobody renewed or made yet must not
// keep the engine from its work. On the loop's thread.

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "loop/loop.h"
#include "os/net/tls_identity.h"
#include "port/files.h"
#include "port/log.h"
#include "port/wall_clock.h"

namespace moonfence::app {

class CertificateKeeper {
 public:
  static constexpr Duration kLookEvery = std::chrono::seconds(30);
  // Before it ends, the next one is made.
  static constexpr Duration kRenewBefore = std::chrono::hours(24 * 30);

  struct Surroundings {
    loop::Loop& loop;
    port::Files& files;
    port::WallClock& clock;
    port::Log& log;
    // A new one, after the first.
    std::function<void(std::shared_ptr<const os::TlsIdentity>)> changed;
  };

  // `folder` has tls.crt and tls.key, as a mounted Secret has; "": it signs one itself, for
  // `names`. An error (what is there is no pair) says what to do. What `around` refers to must
  // outlive it.
  [[nodiscard]] static Result<std::unique_ptr<CertificateKeeper>> open(
      std::string folder, std::vector<std::string> names, Surroundings around);
  CertificateKeeper(const CertificateKeeper&) = delete;
  CertificateKeeper& operator=(const CertificateKeeper&) = delete;

  [[nodiscard]] const std::shared_ptr<const os::TlsIdentity>& identity() const { return identity_; }

 private:
  CertificateKeeper(std::string folder, std::vector<std::string> names, Surroundings around)
      : folder_(std::move(folder)), names_(std::move(names)), around_(std::move(around)) {}

  struct Loaded {
    std::shared_ptr<const os::TlsIdentity> identity;
    std::string sum;
  };
  [[nodiscard]] Result<void> begin();
  [[nodiscard]] Result<std::shared_ptr<const os::TlsIdentity>> make();
  [[nodiscard]] Result<Loaded> load() const;
  [[nodiscard]] std::optional<Error> end_of(const os::TlsIdentity& identity) const;
  [[nodiscard]] bool is_due(const os::TlsIdentity& own) const;
  void look_later();
  void look();
  void look_into_folder();
  void take(std::shared_ptr<const os::TlsIdentity> identity, std::string sum);
  void complain(const Error& error);
  void tell(const Error& error);

  const std::string folder_;
  const std::vector<std::string> names_;
  const Surroundings around_;
  std::string shown_;    // SHA-256 of the texts of `identity_`; "": it is one of its own
  std::string refused_;  // why the last look came to nothing, "" when it did not
  std::string told_;     // what the log has of that
  std::shared_ptr<const os::TlsIdentity> identity_;
  loop::Timer next_look_;
};

}  // namespace moonfence::app
