#pragma once

// A seed's Plan: the default world or one around it, with faults drawn for it alone, so that some
// runs are calm and some are cruel. Every concern draws from a stream of its own: another draw in
// one does not shift the others. The last part of every run is calm, for the checks of liveness.

#include <cstdint>
#include <map>
#include <string>

#include "port/random.h"
#include "sim/ground/plan.h"

namespace moonfence::sim {

// From here on every second world asks its machines: what older seeds are known for stays as it is.
constexpr std::uint64_t kFirstThatDetects = 1'000'000;
// From this one on a person's word is demanded before anything is deleted.
constexpr std::uint64_t kFirstWithProof = 2'000'000;
// In this million a fencer's word is demanded: machines have BMCs, honest, slow, dead and faulty
// ones. In the second quarter of it a binding says `actOn: off`; in the third some BMCs lie.
constexpr std::uint64_t kFirstWithFencers = 3'000'000;
constexpr std::uint64_t kFirstThatActOnOff = 3'250'000;
constexpr std::uint64_t kFirstThatLie = 3'500'000;
// In the last quarter no BMC lies, and the storage can refuse machines; in its second half some of
// that lies.
constexpr std::uint64_t kFirstThatIsolate = 3'750'000;
constexpr std::uint64_t kFirstWhoseStorageLies = 3'875'000;
// In the next million none lies either, and what they say is told to others.
constexpr std::uint64_t kFirstThatPublish = 4'000'000;
constexpr std::uint64_t kLastWithFencers = 4'999'999;
[[nodiscard]] Plan draw(std::uint64_t seed);

// 5 nodes, 20 pods, 10 volumes, one node that fails, 120 virtual seconds, no faults.
[[nodiscard]] Plan default_world();
// One line: "5 nodes, 20 pods, 10 volumes, 1 engine, 1 server, 120s".
[[nodiscard]] std::string describe(const Plan& plan);

// The ConfigMap's data: `moonfence.yaml` and the policies it names. Drawn policies declare what
// they do in a comment that sim/truth/reach reads.
[[nodiscard]] std::map<std::string, std::string> default_policies();
[[nodiscard]] std::map<std::string, std::string> draw_policies(port::Random& random);
// An edit of them: other modes, other scopes, a policy more or less, or a mistake.
[[nodiscard]] std::map<std::string, std::string> draw_edit(port::Random& random);

}  // namespace moonfence::sim
