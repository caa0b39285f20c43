#pragma once

// CertificateKeeper has the certificate that the servers show: that of a folder, read again every
// kLookEvery, or one that it makes itself and makes anew in time. A change that cannot be used is
// told, and the old one stays. On the loop's thread.

#include <chrono>
#include <functional>
#include <memory>
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
  // `names`. An error says what to do. What `around` refers to must outlive it.
  [[nodiscard]] static Result<std::unique_ptr<CertificateKeeper>> open(
      std::string folder, std::vector<std::string> names, Surroundings around);
  CertificateKeeper(const CertificateKeeper&) = delete;
  CertificateKeeper& operator=(const CertificateKeeper&) = delete;

  [[nodiscard]] const std::shared_ptr<const os::TlsIdentity>& identity() const { return identity_; }

 private:
  CertificateKeeper(std::string folder, std::vector<std::string> names, Surroundings around)
      : folder_(std::move(folder)), names_(std::move(names)), around_(std::move(around)) {}

  struct Texts {
    std::string certificates;
    std::string key;

    friend bool operator==(const Texts&, const Texts&) = default;
  };
  [[nodiscard]] Result<Texts> read() const;
  [[nodiscard]] Result<std::shared_ptr<const os::TlsIdentity>> make();
  [[nodiscard]] Result<std::shared_ptr<const os::TlsIdentity>> load();
  void look_later();
  void look();

  const std::string folder_;
  const std::vector<std::string> names_;
  const Surroundings around_;
  std::string shown_;    // SHA-256 of the texts of `identity_`
  std::string refused_;  // why the last look came to nothing, "" when it did not
  std::string told_;     // what the log has of that
  std::shared_ptr<const os::TlsIdentity> identity_;
  loop::Timer next_look_;
};

}  // namespace moonfence::app
