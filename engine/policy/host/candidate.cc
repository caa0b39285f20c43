#include "policy/host/candidate.h"

#include "base/sha256.h"
#include "kube/text/json.h"

namespace moonfence::policy {

using nlohmann::json;

std::string Candidate::digest() const {
  return sha256_hex(kube::to_text({source, settings}));
}

std::string Candidate::key() const {
  return sha256_hex(
      kube::to_text({name, source, settings, test ? json(*test) : json(), json(fixtures)}));
}

}  // namespace moonfence::policy
