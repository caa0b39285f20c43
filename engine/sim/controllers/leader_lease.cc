#include "sim/controllers/leader_lease.h"

#include <chrono>

namespace moonfence::sim {
namespace {

constexpr const char* kSpace = "kube-system";
constexpr const char* kName = "kube-controller-manager";

}  // namespace

LeaderLease::LeaderLease(const Ground& ground) : ground_(ground) {
  (void)ground_.store.create(
      "leases", kSpace,
      {{"metadata", {{"name", kName}, {"namespace", kSpace}}},
       {"spec",
        {{"holderIdentity", "controller-manager"},
         {"leaseDurationSeconds",
          std::chrono::duration_cast<std::chrono::seconds>(kDuration).count()},
         {"renewTime", ground_.micro_stamp()}}}},
      kName, false);
  renew();  // of the one before us, when it is there already
}

void LeaderLease::renew() {
  (void)ground_.store.update(
      {.resource = "leases", .space = kSpace, .name = kName},
      [this](Json& lease) { lease["spec"]["renewTime"] = ground_.micro_stamp(); },
      ObjectStore::Part::Whole, kName);
  next_ = ground_.loop.after(kRenewal, [this] { renew(); });
}

}  // namespace moonfence::sim
